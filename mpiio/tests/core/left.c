/* Patterns that were left: few of them are counted one by one, and of many short ones a part is examined, which stands for
 * all. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/left.h"
#include "real.h"

#define BYTES ((size_t)HWIO_LEFT_BYTES_MIN)
#define FEW 50
#define MANY 100000UL
/* So many operations the sum may differ by. */
#define ERROR_MAX 500
/* Of MANY operations, so many may be examined. */
#define EXAMINED_MAX (MANY / 100)

static size_t examined;

static ssize_t count_examined(pid_t process, const struct iovec *here, unsigned long here_count,
	const struct iovec *there, unsigned long there_count, unsigned long flags)
{
	char *to = here->iov_base;
	(void)process;
	(void)here_count;
	(void)flags;
	for (unsigned long i = 0; i < there_count; i++, to += sizeof(uint64_t))
		memcpy(to, there[i].iov_base, there[i].iov_len);
	examined++;
	return (ssize_t)here->iov_len;
}

static uint64_t operations(enum hwio_left why)
{
	struct hwio_left_sum sum;
	hwio_left_sum(HWIO_READ_SCATTER, why, &sum);
	assert(sum.bytes == sum.operations * BYTES);
	return sum.operations;
}

int main(void)
{
	char path[] = "/tmp/headwater-test-XXXXXX", *memory = calloc(1, BYTES);
	int file = mkstemp(path);
	assert(file >= 0 && unlink(path) == 0 && memory);
	hwio_libc.process_vm_readv = count_examined;
	hwio_mode = HWIO_AUTO;
	for (int i = 0; i < FEW; i++) {
		hwio_left_read(file, memory, (ssize_t)BYTES, HWIO_LEFT_SMALL);
		hwio_left_forwarded(HWIO_READ_SCATTER, memory, BYTES);
	}
	assert(operations(HWIO_LEFT_SMALL) == FEW && examined == FEW);
	/* Smaller ones aren't counted. */
	hwio_left_read(file, memory, (ssize_t)BYTES - 1, HWIO_LEFT_SMALL);
	hwio_left_forwarded(HWIO_READ_SCATTER, memory, BYTES - 1);
	assert(operations(HWIO_LEFT_SMALL) == FEW && examined == FEW);
	/* What is changed in between is another reason. */
	hwio_left_read(file, memory, (ssize_t)BYTES, HWIO_LEFT_SMALL);
	memory[0] = 1;
	hwio_left_forwarded(HWIO_READ_SCATTER, memory, BYTES);
	assert(operations(HWIO_LEFT_SMALL) == FEW && operations(HWIO_LEFT_CHANGED) == 1);
	examined = 0;
	for (size_t i = 0; i < MANY; i++) {
		hwio_left_read(file, memory, (ssize_t)BYTES, HWIO_LEFT_SMALL);
		hwio_left_forwarded(HWIO_READ_SCATTER, memory, BYTES);
	}
	uint64_t counted = operations(HWIO_LEFT_SMALL) - FEW;
	assert(counted > MANY - ERROR_MAX && counted < MANY + ERROR_MAX);
	assert(operations(HWIO_LEFT_CHANGED) == 1 && examined < EXAMINED_MAX);
	free(memory);
	close(file);
	return 0;
}
