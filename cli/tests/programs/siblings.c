/* Two processes of a node, as the ranks of a message-passing program are: siblings FILE. They share
 * memory by FILE, which is new, and by System V; rank 0 reads the other's memory and traces it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

struct meeting {
	volatile int ready[2], done[2];
	volatile pid_t pid[2];
	char *volatile text[2];
};

static void wait_for(volatile int *flag)
{
	for (int i = 0; i < 2000 && !*flag; i++)
		usleep(5000);
}

static void say(const char *what, int ok)
{
	printf("%s %s\n", what, ok ? "works" : strerror(errno));
}

int main(int argc, char **argv)
{
	int rank = atoi(getenv("HEADWATER_RANK")), other = !rank;
	const char *path = argc > 1 ? argv[1] : "";
	char text[16] = "", mine[16];

	snprintf(mine, sizeof(mine), "rank %d", rank);
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, 4096))
		return 1;
	struct meeting *meeting = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (meeting == MAP_FAILED)
		return 1;
	/* Allows any process of this user to inspect this one, even where only ancestors may by default. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	int segment = shmget(ftok(path, 1), 4096, IPC_CREAT | 0600);
	int *shared = shmat(segment, NULL, 0);
	meeting->pid[rank] = getpid();
	meeting->text[rank] = mine;
	if (shared != (void *)-1)
		__atomic_fetch_add(shared, 1, __ATOMIC_SEQ_CST);
	__sync_synchronize();
	meeting->ready[rank] = 1;
	wait_for(&meeting->ready[other]);
	if (rank == 0) {
		struct iovec local = {text, sizeof(text)}, remote = {meeting->text[other], sizeof(mine)};
		ssize_t bytes = process_vm_readv(meeting->pid[other], &local, 1, &remote, 1, 0);
		say("process_vm_readv", bytes == sizeof(mine) && !strcmp(text, "rank 1"));
		int traced = !ptrace(PTRACE_ATTACH, meeting->pid[other], 0, 0);
		if (traced) {
			waitpid(meeting->pid[other], NULL, __WALL);
			ptrace(PTRACE_DETACH, meeting->pid[other], 0, 0);
		}
		say("ptrace", traced);
		say("shmat", shared != (void *)-1 && *shared == 2);
		say("kill", !kill(meeting->pid[other], 0));
	}
	meeting->done[rank] = 1;
	wait_for(&meeting->done[other]);
	if (rank == 0)
		shmctl(segment, IPC_RMID, NULL);
	return 0;
}
