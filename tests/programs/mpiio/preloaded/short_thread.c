/* A library that starts a thread as it is loaded, as transports of MPIs do; the thread ends at once. */
#include <pthread.h>

static void *end(void *nothing)
{
	return nothing;
}

__attribute__((constructor)) static void start(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, end, NULL) == 0)
		pthread_detach(thread);
}
