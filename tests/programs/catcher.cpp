// Catches what libthrower.so throws: linked, and opened again by its path.
#include <cstdio>
#include <dlfcn.h>
#include <stdexcept>

extern "C" void throw_special(const char *what);
extern "C" void pass_through(void (*function)());

static void throw_own()
{
	throw std::logic_error("own");
}

int main(int, char **argv)
{
	try {
		throw_special("linked");
	} catch (const std::runtime_error &error) {
		std::printf("caught %s\n", error.what());
	}
	try {
		pass_through(throw_own);
	} catch (const std::logic_error &error) {
		std::printf("caught %s\n", error.what());
	}
	void *library = dlopen(argv[1], RTLD_NOW);
	if (!library) {
		std::printf("%s\n", dlerror());
		return 1;
	}
	auto function = reinterpret_cast<void (*)(const char *)>(dlsym(library, "throw_special"));
	try {
		function("opened");
	} catch (const std::exception &error) {
		std::printf("caught %s\n", error.what());
	}
	return 0;
}
