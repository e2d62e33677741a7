/* Random numbers by each method of a C program. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Not in every C library. */
extern uint32_t arc4random(void) __attribute__((weak));

uint64_t by_getrandom(void)
{
	uint64_t value;
	return getrandom(&value, sizeof value, 0) == sizeof value ? value : 0;
}

uint64_t by_getentropy(void)
{
	uint64_t value;
	return getentropy(&value, sizeof value) == 0 ? value : 0;
}

uint64_t by_syscall(void)
{
	uint64_t value;
	return syscall(SYS_getrandom, &value, sizeof value, 0) == sizeof value ? value : 0;
}

uint64_t by_arc4random(void)
{
	return arc4random ? (uint64_t)arc4random() << 32 | arc4random() : by_getrandom();
}

uint64_t by_open(void)
{
	uint64_t value = 0;
	int fd = open("/dev/urandom", O_RDONLY);
	if (fd < 0 || read(fd, &value, sizeof value) != sizeof value)
		value = 0;
	close(fd);
	return value;
}

uint64_t by_fopen(void)
{
	uint64_t value = 0;
	FILE *file = fopen("/dev/urandom", "r");
	if (!file || fread(&value, sizeof value, 1, file) != 1)
		value = 0;
	if (file)
		fclose(file);
	return value;
}

static unsigned clock_value(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned)now.tv_nsec;
}

uint64_t by_srand(void)
{
	srand(clock_value());
	return (uint64_t)rand() << 31 | (uint64_t)rand();
}

uint64_t by_srand48(void)
{
	srand48((long)clock_value());
	return (uint64_t)lrand48() << 31 | (uint64_t)lrand48();
}

/* The same in every process. */
uint64_t by_fixed_seed(void)
{
	srand(5);
	return (uint64_t)rand();
}

uint64_t without_seed(void)
{
	return (uint64_t)rand();
}
