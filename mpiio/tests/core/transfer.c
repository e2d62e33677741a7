/* The states of a transfer: what each event makes of each of them, and that an impossible event ends the process. */
#include "transfer/transfer.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "random.h"

#define NEVER (-1)
#define STATES (HWIO_TRANSFER_DONE + 1)
#define EVENTS (HWIO_TRANSFER_ENDS + 1)

static const int expected[STATES][EVENTS] = {
	[HWIO_TRANSFER_OFFERED] = {HWIO_TRANSFER_NOTIFIED, HWIO_TRANSFER_LATE, HWIO_TRANSFER_DONE},
	[HWIO_TRANSFER_PENDING] = {HWIO_TRANSFER_NOTIFIED, NEVER, HWIO_TRANSFER_DONE},
	[HWIO_TRANSFER_NOTIFIED] = {HWIO_TRANSFER_NOTIFIED, NEVER, HWIO_TRANSFER_DONE},
	[HWIO_TRANSFER_LATE] = {HWIO_TRANSFER_LATE, NEVER, HWIO_TRANSFER_DONE},
	[HWIO_TRANSFER_DONE] = {NEVER, NEVER, NEVER},
};

static bool dies(struct hwio_transfer *one, enum hwio_transfer_event event)
{
	int status = 0;
	pid_t child = fork();
	if (child == 0) {
		close(STDERR_FILENO);
		hwio_transfer_note(one, event);
		_exit(0);
	}
	return waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

int main(void)
{
	for (int state = 0; state < STATES; state++)
		for (int event = 0; event < EVENTS; event++) {
			struct hwio_transfer *one = hwio_transfer_make((enum hwio_transfer_state)state, 7, 1, NULL, 0);
			CHECK(one && one->id == 7 && one->world_rank == 1);
			if (expected[state][event] == NEVER) {
				CHECK(dies(one, (enum hwio_transfer_event)event));
			} else {
				hwio_transfer_note(one, (enum hwio_transfer_event)event);
				CHECK((int)one->state == expected[state][event]);
			}
			free(one);
		}
	struct hwio_transfer *list = NULL, *first = hwio_transfer_make(HWIO_TRANSFER_OFFERED, 1, 0, NULL, 0),
			     *second = hwio_transfer_make(HWIO_TRANSFER_OFFERED, 2, 0, NULL, 0);
	hwio_transfer_link(&list, first);
	hwio_transfer_link(&list, second);
	CHECK(list == second && second->next == first && !first->next);
	hwio_transfer_unlink(&list, first);
	CHECK(list == second && !second->next);
	hwio_transfer_unlink(&list, first);
	hwio_transfer_unlink(&list, second);
	CHECK(!list);
	free(first);
	free(second);
	return 0;
}
