/* What <headwater.h> calls: threads may switch the interception of their calls off, and ask what is served.
 *
 * The header finds these functions by getauxval, so a program needs no symbol of the library's. A thread is known by its
 * thread pointer: that takes no system call, and the thread of a forked child has it, too. A thread that has ended may
 * have left its count to another one with the same pointer, so system calls then tell them apart. */
#include "wrap.h"

#include "headwater/calls.h"
#include "sys.h"

#define THREADS_MAX 256

unsigned hwa_shifted;

static uintptr_t threads[THREADS_MAX]; /* their pointers; 0 is unused */
static struct {
	long count;
	long task, process;
} shifts[THREADS_MAX];

/* Returns the number of this thread's entry; THREADS_MAX if it has none. */
static unsigned entry_of(uintptr_t thread)
{
	unsigned number = 0;
	while (number < THREADS_MAX && __atomic_load_n(&threads[number], __ATOMIC_RELAXED) != thread)
		number++;
	return number;
}

/* Returns the count of an entry with this thread's pointer, 0 if another thread has left it. */
static long count_of(unsigned number)
{
	long task = hwa_sys(__NR_gettid), process = hwa_sys(__NR_getpid);
	bool is_forked = task == process && process != shifts[number].process;
	return shifts[number].task == task || is_forked ? shifts[number].count : 0;
}

bool hwa_is_shifted_off(void)
{
	unsigned number = entry_of(hwa_thread_pointer());
	return number < THREADS_MAX && shifts[number].count < 0 && count_of(number) < 0;
}

static unsigned claim(uintptr_t thread)
{
	for (unsigned number = 0; number < THREADS_MAX; number++) {
		uintptr_t unused = 0;
		if (__atomic_compare_exchange_n(&threads[number], &unused, thread, false, __ATOMIC_RELAXED,
			    __ATOMIC_RELAXED)) {
			shifts[number].count = 0;
			__atomic_fetch_add(&hwa_shifted, 1, __ATOMIC_RELAXED);
			return number;
		}
	}
	return THREADS_MAX;
}

static long shift(long by)
{
	uintptr_t thread = hwa_thread_pointer();
	unsigned number = entry_of(thread);
	long count = by + (number < THREADS_MAX ? count_of(number) : 0);
	if (number == THREADS_MAX && count != 0 && (number = claim(thread)) == THREADS_MAX)
		return LONG_MIN;
	if (count != 0) {
		shifts[number].task = hwa_sys(__NR_gettid);
		shifts[number].process = hwa_sys(__NR_getpid);
		shifts[number].count = count;
	} else if (number < THREADS_MAX) {
		__atomic_store_n(&threads[number], 0, __ATOMIC_RELAXED);
		__atomic_fetch_sub(&hwa_shifted, 1, __ATOMIC_RELAXED);
	}
	return count;
}

static int serves(const char *path)
{
	if (!path)
		return hwa_in_use();
	HWA_FOUND(found);
	return hwa_resolve(AT_FDCWD, path, HW_WANT_ATTR, &found) == HWA_KNOWN;
}

const struct headwater_calls hwa_calls = {.version = 1, .shift = shift, .serves = serves};
