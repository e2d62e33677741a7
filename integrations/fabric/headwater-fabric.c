/* The program that carries a daemon's links over libfabric, which a statically linked program can't load. A process
 * of its own keeps the library's threads and hooks out of the daemon. It sees only encrypted data.
 *
 * `headwater-fabric [PROVIDER]` serves the process at the other end of the socket on standard input, and ends
 * with it. `headwater-fabric --list` prints the usable providers. */
#define _GNU_SOURCE
#include "carrier.h"
#include "fabric.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int count, char **arguments)
{
	if (count == 2 && strcmp(arguments[1], "--list") == 0)
		return hwfab_list() ? EXIT_SUCCESS : EXIT_FAILURE;
	/* If the owner is gone already, its socket is closed. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	return hwfab_carry(STDIN_FILENO, count == 2 ? arguments[1] : NULL) ? EXIT_SUCCESS : EXIT_FAILURE;
}
