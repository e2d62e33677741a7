/*
 * Coverage of code that gcc compiled, in the form that libFuzzer reads.
 *
 * gcc calls a function at each edge (__sanitizer_cov_trace_pc, which the linker wraps); libFuzzer reads counters, as
 * clang puts them beside the code. An edge's counter is chosen by its address.
 */
#include <stdint.h>

#define COUNTERS 4096

struct pc_entry {
	uintptr_t pc, flags;
};

static uint8_t counters[COUNTERS];
static struct pc_entry pcs[COUNTERS];

void __sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *end);
void __sanitizer_cov_pcs_init(const struct pc_entry *start, const struct pc_entry *end);
void __wrap___sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_cmpf(float left, float right);
void __sanitizer_cov_trace_cmpd(double left, double right);

__attribute__((constructor)) static void announce(void)
{
	__sanitizer_cov_8bit_counters_init(counters, counters + COUNTERS);
	__sanitizer_cov_pcs_init(pcs, pcs + COUNTERS);
}

void __wrap___sanitizer_cov_trace_pc(void)
{
	uintptr_t pc = (uintptr_t)__builtin_return_address(0);

	counters[(pc ^ pc >> 12) % COUNTERS]++;
}

/* libFuzzer supports comparisons of integers only. */
void __sanitizer_cov_trace_cmpf(float left, float right)
{
	(void)left;
	(void)right;
}

void __sanitizer_cov_trace_cmpd(double left, double right)
{
	(void)left;
	(void)right;
}
