/* Starting `headwater` from srun or slurmstepd, without their threads, privileges and descriptors. */
#ifndef HEADWATER_SLURM_PROCESS_H
#define HEADWATER_SLURM_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The longest job: the kernel's limit of a variable. */
#define HWSL_JOB_BYTES_MAX 131072

/* The credentials of a process. */
struct hwsl_user {
	uid_t uid;
	gid_t gid;
	bool has_groups; /* this process has the user's further groups */
};

/* A process, and pipes to its standard input and from its standard output. */
struct hwsl_process {
	pid_t pid;
	int input, output;
};

/* Starts a program with these arguments and variables, as this user, in the directory `/` unless `stays_here`.
 * Its standard error is this process's, it inherits nothing else, and no signal is blocked or ignored. On
 * failure errno is set. */
bool hwsl_start_process(struct hwsl_process *process, const char *const *arguments, char *const *variables,
	const struct hwsl_user *user, bool stays_here);

/* Writes all bytes. A closed pipe is not an error. */
void hwsl_write_all(int fd, const char *bytes, size_t size);

/* Waits until no process reads the pipe any more. False if it timed out. */
bool hwsl_await_no_reader(int fd, int timeout_ms);

/* Reads until the end, the first newline if `is_line`, or the time-out, and ends the text with a zero byte. False
 * if it timed out or has no room. */
bool hwsl_read_text(int fd, char *text, size_t size, bool is_line, int timeout_ms);

/* Closes the pipe from the process, and waits for it; kills it if `is_late`. */
void hwsl_end_process(struct hwsl_process *process, bool is_late);

#endif
