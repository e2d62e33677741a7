/* Timeouts of a zygote. While it works it has no time limit; once a signal or a debugger has stopped it, it has one. A
 * zygote that is abandoned is killed before its work is done otherwise, so that nothing is done twice. */
#include "../core/internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Interval of the checks. */
#define CHECK_MS_MAX 250
#define STOPPED_MS_MAX 10000
/* A process that was killed ends at once, unless the kernel waits for a device: then it runs no more either. */
#define END_MS_MAX 5000

/* Reads a process's state, as a letter. Returns its start time, which distinguishes it from a later process with
 * the same PID; 0 if unknown. */
static uint64_t read_process_state(pid_t pid, char *state)
{
	char path[64], text[1024];
	unsigned long long began = 0;

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	hwsp_read_text(path, text, sizeof text);
	/* The name before it may contain anything. Of 22 fields the second is the name, and the last is the start time. */
	const char *at = strrchr(text, ')');
	if (!at ||
		sscanf(at + 1, " %c%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", state,
			&began) != 2)
		return 0;
	return began;
}

uint64_t hwsp_began(pid_t pid)
{
	char state;
	return read_process_state(pid, &state);
}

static bool is_stopped(const struct hwsp_pending_request *pending)
{
	char state = 0;
	return pending->began && read_process_state(pending->zygote, &state) == pending->began &&
		(state == 'T' || state == 't');
}

/* Kills the zygote and sees it end. False if that can't be done. */
static bool kill_zygote(const struct hwsp_pending_request *pending)
{
	int zygote = (int)syscall(SYS_pidfd_open, pending->zygote, 0);
	if (zygote < 0)
		return false;
	/* It may have ended since, and its PID be another's. */
	bool is_it = pending->began && hwsp_began(pending->zygote) == pending->began;
	if (is_it)
		syscall(SYS_pidfd_send_signal, zygote, SIGKILL, NULL, 0);
	struct pollfd ended = {.fd = zygote, .events = POLLIN};
	long end = hwsp_now_ms() + END_MS_MAX, left;
	/* The descriptor reports the end also while a debugger withholds it from the parent. */
	while (is_it && (left = end - hwsp_now_ms()) > 0 && poll(&ended, 1, (int)left) < 0 && errno == EINTR)
		;
	close(zygote);
	return true;
}

bool hwsp_zygote_await(const struct hwsp_pending_request *pending, short events)
{
	struct pollfd ready = {.fd = pending->socket, .events = events};
	long stopped_ms_max = pending->stopped_ms_max ? (long)pending->stopped_ms_max : STOPPED_MS_MAX;
	long check_ms = stopped_ms_max / 4 + 1 < CHECK_MS_MAX ? stopped_ms_max / 4 + 1 : CHECK_MS_MAX;
	/* Counted in checks: a caller that was stopped together with the zygote starts anew when both continue. */
	long began = hwsp_now_ms(), next = began + check_ms, stopped_ms = 0;

	for (;;) {
		long now = hwsp_now_ms();
		int polled = poll(&ready, 1, next > now ? (int)(next - now) : 0);
		if (polled > 0 || (polled < 0 && errno != EINTR))
			return true;
		if (polled < 0)
			continue;
		now = hwsp_now_ms();
		next = now + check_ms;
		stopped_ms = is_stopped(pending) ? stopped_ms + check_ms : 0;
		bool is_late = pending->answer_ms_max && now - began >= (long)pending->answer_ms_max;
		if ((is_late || stopped_ms > stopped_ms_max) && kill_zygote(pending))
			return false;
	}
}

bool hwsp_reap_killed(pid_t pid)
{
	/* Another waiter may have reaped it, and its PID may belong to another process. */
	if (syscall(SYS_wait4, pid, NULL, WNOHANG | __WALL, NULL) != 0)
		return true;
	int process = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd ended = {.fd = process, .events = POLLIN};
	if (process < 0) {
		hwsp_reap(pid);
		return true;
	}
	while (poll(&ended, 1, -1) < 0 && errno == EINTR)
		;
	close(process);
	/* While a debugger traces it, its status can't be taken. */
	return syscall(SYS_wait4, pid, NULL, WNOHANG | __WALL, NULL) != 0;
}
