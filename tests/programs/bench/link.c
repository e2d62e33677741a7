/* What it costs at least to pass a file on: one process sends it by sendfile, another receives it into a mapped file.
 * link FILE COPY: prints the seconds that this takes. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PIECE (1 << 20)

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void send_file(const char *path, const struct sockaddr *address, socklen_t length)
{
	int file = open(path, O_RDONLY), to = socket(AF_INET, SOCK_STREAM, 0);
	if (file < 0 || to < 0 || connect(to, address, length))
		err(1, "%s", path);
	off_t end = lseek(file, 0, SEEK_END), at = 0;
	while (at < end)
		if (sendfile(to, file, &at, end - at) <= 0)
			err(1, "sendfile");
	_exit(0);
}

int main(int count, char **args)
{
	if (count != 3)
		errx(2, "usage: link FILE COPY");
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
		getsockname(listener, (struct sockaddr *)&address, &length))
		err(1, "loopback");
	int file = open(args[1], O_RDONLY), copy = open(args[2], O_RDWR | O_CREAT | O_TRUNC, 0600);
	off_t size = lseek(file, 0, SEEK_END);
	if (copy < 0 || ftruncate(copy, size))
		err(1, "%s", args[2]);
	double begun = now();
	pid_t sender = fork();
	if (sender == 0)
		send_file(args[1], (struct sockaddr *)&address, length);
	int from = accept(listener, NULL, NULL);
	char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, copy, 0);
	if (sender < 0 || from < 0 || bytes == MAP_FAILED)
		err(1, "%s", args[2]);
	for (off_t at = 0; at < size;) {
		ssize_t received = recv(from, bytes + at, size - at < PIECE ? size - at : PIECE, 0);
		if (received <= 0)
			err(1, "recv");
		at += received;
	}
	waitpid(sender, NULL, 0);
	printf("%f\n", now() - begun);
	return 0;
}
