/* Uses the thread-local storage of the libraries it is linked with and of those in its arguments, in this thread, in
 * others, and in one with the smallest possible stack in steps of a page. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sum(void);

static void *run(void *function)
{
	int (*sum_of)(void) = (int (*)(void))function;
	int first = sum_of();
	printf("%d %d\n", first, sum_of());
	return NULL;
}

static void in_both(void *function)
{
	pthread_t thread;
	run(function);
	pthread_create(&thread, NULL, run, function);
	pthread_join(thread, NULL);
}

static void *nothing(void *unused)
{
	return unused;
}

static void in_small_stacks(void)
{
	for (size_t kib = 16; kib <= 128; kib += 4) {
		pthread_attr_t attributes;
		pthread_t thread;
		int error;
		pthread_attr_init(&attributes);
		pthread_attr_setstacksize(&attributes, kib << 10);
		error = pthread_create(&thread, &attributes, nothing, NULL);
		printf("%zu KiB: %s\n", kib, strerror(error));
		if (!error)
			pthread_join(thread, NULL);
	}
}

int main(int argc, char **argv)
{
	const char *tunables = getenv("GLIBC_TUNABLES");
	printf("GLIBC_TUNABLES %s\n", tunables ? tunables : "unset");
	in_both(dlsym(RTLD_DEFAULT, "sum"));
	in_small_stacks();
	for (int i = 1; i < argc; i++) {
		void *library = dlopen(argv[i], RTLD_NOW);
		if (!library) {
			printf("%s\n", dlerror());
			return 1;
		}
		in_both(dlsym(library, "sum"));
	}
	return sum() < 0;
}
