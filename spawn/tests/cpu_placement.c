/* sources: core/cpu_placement.c core/system.c */
/* Placement of processes on machines of many kinds. Functions of this test interpose on the C library's, and report
 * domains and processors in place of the kernel. Each machine is a process, since it is read once. */
#include "core/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "random.h"

#define DOMAINS 256
#define MACHINES 200
#define LIST_BYTES 6000

/* The machine: the list of each domain, or "" for none, and where this process may run. */
static char lists[DOMAINS][LIST_BYTES];
static cpu_set_t allowed;

int open(const char *path, int flags, ...)
{
	int domain;
	CHECK(sscanf(path, "/sys/devices/system/node/node%d/cpulist", &domain) == 1, "%s", path);
	CHECK(domain >= 0 && domain < DOMAINS && (flags & O_ACCMODE) == O_RDONLY, "%d", domain);
	size_t bytes = strlen(lists[domain]);
	int fd = bytes ? memfd_create("domain", MFD_CLOEXEC) : -1;
	CHECK(fd < 0 || (write(fd, lists[domain], bytes) == (ssize_t)bytes && lseek(fd, 0, SEEK_SET) == 0), "%s", path);
	return fd;
}

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
	CHECK(!pid && bytes == sizeof allowed, "%zu", bytes);
	*set = allowed;
	return 0;
}

static void allow(unsigned first, unsigned last)
{
	CPU_ZERO(&allowed);
	for (unsigned core = first; core <= last; core++)
		CPU_SET(core, &allowed);
}

static struct hwsp_cpu_placement placement_of(enum pspawn_numa numa, unsigned number)
{
	const struct pspawn_process process = {0};
	struct pspawn_options options = {.numa = numa, .first = number / 2};
	struct hwsp_cpu_placement placement;
	memset(&placement, 0x55, sizeof placement);
	CHECK(hwsp_place_process(&process, &options, number - options.first, &placement) == 0, "%u", number);
	return placement;
}

/* Process `number` has `count` processors from `core` on, and prefers the memory of `domain`. */
static void expect(enum pspawn_numa numa, unsigned number, unsigned core, int count, int domain)
{
	struct hwsp_cpu_placement placement = placement_of(numa, number);
	CHECK(placement.bound && CPU_COUNT(&placement.mask) == count && placement.domain == domain,
		"%d: %d, %d of domain %d", numa, (int)number, CPU_COUNT(&placement.mask), placement.domain);
	for (int i = 0; i < count; i++)
		CHECK(CPU_ISSET(core + (unsigned)i, &placement.mask), "process %u has not core %u", number,
			core + (unsigned)i);
}

static void two_domains(void)
{
	const unsigned spread[] = {0, 4, 1, 5, 2, 6, 3, 7, 0};
	strcpy(lists[0], "0-3\n");
	strcpy(lists[1], "4-7\n");
	allow(0, 7);
	for (unsigned i = 0; i < 20; i++)
		expect(PSPAWN_NUMA_FILL, i, i % 8, 1, i % 8 / 4);
	for (unsigned i = 0; i < sizeof spread / sizeof spread[0]; i++)
		expect(PSPAWN_NUMA_SPREAD, i, spread[i], 1, (int)spread[i] / 4);
	for (unsigned i = 0; i < 5; i++)
		expect(PSPAWN_NUMA_DOMAIN, i, i % 2 * 4, 4, (int)i % 2);
	CHECK(!placement_of(PSPAWN_NUMA_NONE, 3).bound && placement_of(PSPAWN_NUMA_NONE, 3).domain == -1, "%s",
		"unbound");
}

/* Domains of memory alone, numbers left out, and one where this process may not run. */
static void gaps(void)
{
	strcpy(lists[0], "0-1,8\n");
	strcpy(lists[1], "\n");
	strcpy(lists[3], "2-5\n");
	strcpy(lists[255], "6,7");
	allow(1, 4);
	CPU_SET(8, &allowed);
	const unsigned fill[] = {1, 8, 2, 3, 4};
	for (unsigned i = 0; i < 10; i++)
		expect(PSPAWN_NUMA_FILL, i, fill[i % 5], 1, i % 5 < 2 ? 0 : 3);
	expect(PSPAWN_NUMA_SPREAD, 3, 3, 1, 3);
	expect(PSPAWN_NUMA_SPREAD, 4, 1, 1, 0);
	expect(PSPAWN_NUMA_DOMAIN, 1, 2, 3, 3);
	allow(7, 7);
	expect(PSPAWN_NUMA_SPREAD, 5, 7, 1, 255);
	/* Where no domain is. */
	allow(100, 101);
	CHECK(!placement_of(PSPAWN_NUMA_FILL, 0).bound && !placement_of(PSPAWN_NUMA_SPREAD, 0).bound, "%s", "unbound");
}

static void no_domains(void)
{
	allow(2, 4);
	for (unsigned i = 0; i < 9; i++)
		expect(PSPAWN_NUMA_FILL, i, 2 + i % 3, 1, -1);
	expect(PSPAWN_NUMA_DOMAIN, 1, 2, 3, -1);
}

static void very_many(void)
{
	for (unsigned i = 0; i < DOMAINS; i++)
		snprintf(lists[i], LIST_BYTES, "%u-%u\n", 4 * i, 4 * i + 3);
	allow(0, CPU_SETSIZE - 1);
	for (unsigned i = 0; i < CPU_SETSIZE; i++) {
		expect(PSPAWN_NUMA_FILL, i, i, 1, (int)i / 4);
		expect(PSPAWN_NUMA_SPREAD, i, 4 * (i % DOMAINS) + i / DOMAINS, 1, (int)i % DOMAINS);
		expect(PSPAWN_NUMA_DOMAIN, i, 4 * (i % DOMAINS), 4, (int)i % DOMAINS);
	}
}

/* Lists that the kernel would not write: more processors than a set has, backwards, cut off, too long, no list. */
static void strange_lists(void)
{
	const char *const strange[] = {
		"5-3\n", "x\n", "-4\n", "2-\n", "1000-99999999999999999999\n", "4096,1,\n", "0--9\n"};
	for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++)
		strcpy(lists[10 + i], strange[i]);
	memset(lists[30], '7', LIST_BYTES - 1);
	for (int i = 0; i + 2 < LIST_BYTES; i += 2)
		memcpy(lists[31] + i, "9,", 2);
	allow(0, CPU_SETSIZE - 1);
	for (unsigned i = 0; i < 2 * CPU_SETSIZE; i++)
		for (enum pspawn_numa numa = PSPAWN_NUMA_FILL; numa <= PSPAWN_NUMA_DOMAIN; numa++)
			placement_of(numa, i);
	expect(PSPAWN_NUMA_SPREAD, 0, 1000, 1, 14);
}

static void random_machine(void)
{
	for (int i = 0; i < DOMAINS; i++) {
		size_t at = 0;
		for (uint64_t parts = random_word() % 4; parts && random_word() % 2; parts--)
			at += (size_t)snprintf(lists[i] + at, 64, "%u%c%u%c", (unsigned)(random_word() % 1100),
				random_word() % 2 ? '-' : ',', (unsigned)(random_word() % 1100),
				random_word() % 4 ? ',' : '\n');
	}
	allow(0, 0);
	for (int i = 0; i < 40; i++)
		CPU_SET(random_word() % CPU_SETSIZE, &allowed);
	for (unsigned i = 0; i < 300; i++)
		for (enum pspawn_numa numa = PSPAWN_NUMA_FILL; numa <= PSPAWN_NUMA_DOMAIN; numa++) {
			struct hwsp_cpu_placement placement = placement_of(numa, i);
			cpu_set_t both;
			CPU_AND(&both, &allowed, &placement.mask);
			CHECK(!placement.bound || (CPU_COUNT(&placement.mask) && CPU_EQUAL(&both, &placement.mask)),
				"%u leaves its cores", i);
			CHECK(!placement.bound || numa == PSPAWN_NUMA_DOMAIN || CPU_COUNT(&both) == 1,
				"%u has several cores", i);
			CHECK(placement.domain >= -1 && placement.domain < DOMAINS, "%d", placement.domain);
		}
}

/* A mask of any size, in memory of its own, precedes all else. */
static void masks(void)
{
	allow(0, 3);
	for (size_t bytes = 0; bytes < 2 * sizeof(cpu_set_t); bytes += 1 + bytes / 7) {
		unsigned char *mask = calloc(1, bytes ? bytes : 1);
		struct pspawn_process process = {.mask = (cpu_set_t *)mask, .mask_size = bytes};
		const struct pspawn_options options = {.numa = PSPAWN_NUMA_FILL};
		struct hwsp_cpu_placement placement;
		CHECK(hwsp_place_process(&process, &options, 0, &placement) == EINVAL, "%zu: none", bytes);
		if (bytes && bytes <= sizeof(cpu_set_t)) {
			mask[bytes - 1] = 0x81;
			CHECK(hwsp_place_process(&process, &options, 0, &placement) == 0 && placement.bound, "%zu",
				bytes);
			CHECK(CPU_COUNT(&placement.mask) == 2 && CPU_ISSET(8 * bytes - 1, &placement.mask) &&
					placement.domain == -1,
				"%zu", bytes);
		}
		free(mask);
	}
}

static void on_a_machine(void (*test)(void))
{
	int status;
	/* Numbers continue from machine to machine. */
	random_word();
	pid_t pid = fork();
	if (pid == 0) {
		test();
		exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "%x", (unsigned)status);
}

int main(void)
{
	void (*const tests[])(void) = {two_domains, gaps, no_domains, very_many, strange_lists, masks};
	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
		on_a_machine(tests[i]);
	for (int i = 0; i < MACHINES; i++)
		on_a_machine(random_machine);
	return 0;
}
