/* Uses the thread-local storage of the libraries it is linked with and of those it is told to open,
 * in this thread and in others. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

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

int main(int argc, char **argv)
{
	in_both(dlsym(RTLD_DEFAULT, "sum"));
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
