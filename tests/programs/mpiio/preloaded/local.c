/* A plugin that is loaded with RTLD_LOCAL, the library that it needs, and the program. Before glibc 2.36 the library alone
 * has arc4random_buf, and before 2.34 the plugin alone brings librt. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#if defined(IS_DRAWING)

void arc4random_buf(void *buffer, size_t bytes);
void arc4random_buf(void *buffer, size_t bytes)
{
	memset(buffer, 1, bytes);
}

#elif defined(IS_PLUGIN)

void arc4random_buf(void *buffer, size_t bytes);
void run(void);

void run(void)
{
	static const char zeros[64];
	char drawn[sizeof zeros] = {0};
	struct sigevent event = {.sigev_notify = SIGEV_NONE};
	timer_t timer;

	arc4random_buf(drawn, sizeof drawn);
	puts(memcmp(drawn, zeros, sizeof drawn) == 0                         ? "not drawn"
			: timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ? "not timed"
									     : "drawn, timed");
}

#else

int main(int count, char **arguments)
{
	void *plugin = count > 1 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	void (*run)(void) = NULL;

	if (plugin)
		*(void **)&run = dlsym(plugin, "run");
	if (!run) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	run();
	return 0;
}

#endif
