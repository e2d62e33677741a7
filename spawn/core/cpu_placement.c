/* Chooses the processors of processes, and the memory domain. */
#include "internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOMAINS_MAX 256

/* The machine's memory domains that have processors; they don't change while a program runs. */
static struct {
	int count;
	int numbers[DOMAINS_MAX];
	cpu_set_t cores[DOMAINS_MAX];
} machine;
static pthread_once_t read_machine = PTHREAD_ONCE_INIT;

/* Adds the processors of a list such as "0-3,8". */
static void add_list(const char *list, cpu_set_t *set)
{
	while (*list >= '0' && *list <= '9') {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (; first <= last && first < CPU_SETSIZE; first++)
			CPU_SET(first, set);
		list = *end == ',' ? end + 1 : end;
	}
}

static void find_domains(void)
{
	for (int number = 0; number < DOMAINS_MAX; number++) {
		char path[64], list[4096];
		snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", number);
		if (hwsp_read_text(path, list, sizeof list) <= 0)
			continue;
		add_list(list, &machine.cores[machine.count]);
		if (CPU_COUNT(&machine.cores[machine.count]))
			machine.numbers[machine.count++] = number;
	}
	/* A kernel without domains has one. */
	if (!machine.count)
		memset(&machine.cores[machine.count++], 0xff, sizeof machine.cores[0]);
}

/* The processors of a domain that the caller may use. */
static void usable(int domain, const cpu_set_t *allowed, cpu_set_t *set)
{
	CPU_AND(set, allowed, &machine.cores[domain]);
}

/* The set's processor with this number, counted from 0. */
static int nth(const cpu_set_t *set, unsigned number)
{
	for (int core = 0; core < CPU_SETSIZE; core++)
		if (CPU_ISSET(core, set) && number-- == 0)
			return core;
	return -1;
}

static void bind_to(struct hwsp_cpu_placement *placement, const cpu_set_t *set, int domain)
{
	placement->bound = true;
	placement->mask = *set;
	/* With one domain there is nothing to prefer. */
	placement->domain = machine.count > 1 ? machine.numbers[domain] : -1;
}

static void bind_core(struct hwsp_cpu_placement *placement, const cpu_set_t *set, unsigned number, int domain)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(nth(set, number), &one);
	bind_to(placement, &one, domain);
}

/* One core each, in the domains' order; more processes than cores begin again. */
static void fill_cores(const cpu_set_t *allowed, unsigned number, struct hwsp_cpu_placement *placement)
{
	cpu_set_t set;
	number %= (unsigned)CPU_COUNT(allowed);
	for (int domain = 0; domain < machine.count; domain++) {
		usable(domain, allowed, &set);
		unsigned cores = (unsigned)CPU_COUNT(&set);
		if (number < cores) {
			bind_core(placement, &set, number, domain);
			return;
		}
		number -= cores;
	}
}

/* The domains in turn, each core of one or the whole. */
static void spread_over_domains(const cpu_set_t *allowed, unsigned number, bool whole,
	struct hwsp_cpu_placement *placement)
{
	cpu_set_t set;
	unsigned domains = 0, turn = 0;
	for (int domain = 0; domain < machine.count; domain++) {
		usable(domain, allowed, &set);
		domains += CPU_COUNT(&set) > 0;
	}
	if (!domains)
		return;
	for (int domain = 0; domain < machine.count; domain++) {
		usable(domain, allowed, &set);
		if (!CPU_COUNT(&set) || turn++ != number % domains)
			continue;
		if (whole)
			bind_to(placement, &set, domain);
		else
			bind_core(placement, &set, number / domains % (unsigned)CPU_COUNT(&set), domain);
		return;
	}
}

int hwsp_place_process(const struct pspawn_process *process, const struct pspawn_options *options, unsigned number,
	struct hwsp_cpu_placement *placement)
{
	cpu_set_t allowed;

	memset(placement, 0, sizeof *placement);
	placement->domain = -1;
	if (process->mask) {
		size_t size = process->mask_size < HWSP_MASK_BYTES ? process->mask_size : HWSP_MASK_BYTES;
		memcpy(&placement->mask, process->mask, size);
		placement->bound = true;
		return CPU_COUNT(&placement->mask) ? 0 : EINVAL;
	}
	if (options->numa == PSPAWN_NUMA_NONE)
		return 0;
	if (sched_getaffinity(0, sizeof allowed, &allowed))
		return errno;
	pthread_once(&read_machine, find_domains);
	number += options->first;
	if (options->numa == PSPAWN_NUMA_FILL)
		fill_cores(&allowed, number, placement);
	else
		spread_over_domains(&allowed, number, options->numa == PSPAWN_NUMA_DOMAIN, placement);
	return 0;
}
