// A library whose generator is seeded as most C++ programs do it.
#include <cstdint>
#include <random>

extern "C" std::uint64_t by_random_device()
{
	std::mt19937_64 generator{std::random_device{}()};
	return generator();
}
