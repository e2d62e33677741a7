/* An OpenMP program. Its status is 0 if there are as many threads as it may use processors, or else 1; and 2 more if
 * it was forked from a zygote. */
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	static char maps[1 << 20];
	cpu_set_t allowed;
	int threads = 0;
	FILE *file = fopen("/proc/self/maps", "r");

	if (!file || !fread(maps, 1, sizeof maps - 1, file) || sched_getaffinity(0, sizeof allowed, &allowed))
		return 99;
#pragma omp parallel
	{
#pragma omp atomic
		threads++;
	}
	return (threads != CPU_COUNT(&allowed)) + (strstr(maps, "/libheadwater-zygote.so") ? 2 : 0);
}
