// A library that throws what its users catch.
#include <stdexcept>
#include <string>

struct Special : std::runtime_error {
	using std::runtime_error::runtime_error;
};

extern "C" void throw_special(const char *what)
{
	throw Special(std::string("special ") + what);
}

extern "C" void pass_through(void (*function)())
{
	struct Guard {
		~Guard() { destroyed++; }
		int &destroyed;
	};
	static int destroyed;
	Guard guard{destroyed};
	function();
}
