/* waiting PROGRAM COUNT: starts the program so often, one after another, by children that wait for a byte of their
 * parent's before they exec; or, with CLOSE_ALL, that close all descriptors but the first three. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../older.h"

int main(int argc, char **argv)
{
	for (int i = 0; argc == 3 && i < atoi(argv[2]); i++) {
		char byte, number[16];
		int ends[2], status;
		if (pipe(ends))
			return 1;
		snprintf(number, sizeof number, "%d", i);
		pid_t pid = fork();
		if (pid == 0) {
#ifdef CLOSE_ALL
			close_range(3, ~0u, 0);
			(void)byte;
#else
			if (read(ends[0], &byte, 1) != 1)
				_exit(98);
			close(ends[0]);
			close(ends[1]);
#endif
			execl(argv[1], argv[1], number, (char *)NULL);
			_exit(97);
		}
		if (write(ends[1], "", 1) != 1 || waitpid(pid, &status, 0) != pid || status)
			return 1;
		close(ends[0]);
		close(ends[1]);
	}
	return waitpid(-1, NULL, 0) == -1 ? 0 : 2;
}
