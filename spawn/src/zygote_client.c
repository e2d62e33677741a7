/* A zygote as its owner sees it: it starts it, sends requests, and detects its end. */
#include "../core/internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *ended_early(const struct hwsp_start *start)
{
	switch (start->options->stop) {
	case PSPAWN_STOP_LOAD:
		return "it ended before it was loaded";
	case PSPAWN_STOP_PYTHON:
		return "it ended during its imports: name none that only a process of its own can do, as MPI's";
	default:
		return "it ended before main";
	}
}

#define LIBRARY "libheadwater-zygote.so"
#define START_MS_MAX 10000
#define RESULTS_BYTES (HWSP_RESULTS * sizeof(struct hwsp_result))

static ino_t identity_of(int fd)
{
	struct stat file;
	return fstat(fd, &file) == 0 && S_ISSOCK(file.st_mode) ? file.st_ino : 0;
}

/* Finds the library that makes a program a zygote. */
static bool find_library(const char *given, char path[PATH_MAX])
{
	Dl_info self;
	const char *named = given ? given : getenv("HEADWATER_ZYGOTE_LIBRARY");

	if (named)
		return snprintf(path, PATH_MAX, "%s", named) < PATH_MAX && access(path, R_OK) == 0;
	if (!dladdr((void *)find_library, &self) || !self.dli_fname)
		return false;
	const char *slash = strrchr(self.dli_fname, '/');
	int directory = slash ? (int)(slash - self.dli_fname) : 0;
	const char *folders[] = {"", "/../lib"};
	for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
		if (snprintf(path, PATH_MAX, "%.*s%s/%s", directory, self.dli_fname, folders[i], LIBRARY) < PATH_MAX &&
			access(path, R_OK) == 0)
			return true;
	return false;
}

/* The started path: a script's own, but an interpreter's, which stops before it runs a program. */
static char *started_path(const struct hwsp_start *start)
{
	const struct hwsp_program *program = start->program;
	return start->options->stop == PSPAWN_STOP_PYTHON ? program->path : hwsp_program_name(program);
}

/* The name of the program's processes in the kernel: a script's own, whichever interpreter runs it. */
static const char *known_as(const struct hwsp_start *start)
{
	const char *name = hwsp_program_name(start->program), *slash = strrchr(name, '/');
	return slash ? slash + 1 : name;
}

/* The zygote's environment: the caller's, with variables that make it a zygote. It removes them before other code
 * reads the environment. */
struct environment {
	char preload[PATH_MAX + 4096];
	char socket[64];
	char *imports; /* to free() */
	char **list;   /* to free() */
};

static int make_environment(struct environment *made, const struct hwsp_start *start, int socket)
{
	char library[PATH_MAX];
	const char *before = "";
	size_t count = 0, filled = 0;

	if (!find_library(start->options->zygote_library, library))
		return ELIBACC;
	while (start->envp[count])
		count++;
	made->list = calloc(count + 4, sizeof *made->list);
	if (!made->list)
		return ENOMEM;
	for (size_t i = 0; i < count; i++) {
		if (!strncmp(start->envp[i], "LD_PRELOAD=", 11))
			before = start->envp[i] + 11;
		else
			made->list[filled++] = start->envp[i];
	}
	int length = snprintf(made->preload, sizeof made->preload, "LD_PRELOAD=%s%s%s", library, *before ? ":" : "",
		before);
	if (length < 0 || (size_t)length >= sizeof made->preload || strpbrk(library, ": "))
		return ENAMETOOLONG;
	snprintf(made->socket, sizeof made->socket, HWSP_ZYGOTE_VARIABLE "=%d %d %.15s", socket, start->options->stop,
		known_as(start));
	made->list[filled++] = made->preload;
	made->list[filled++] = made->socket;
	if (start->options->imports) {
		if (asprintf(&made->imports, HWSP_IMPORTS_VARIABLE "=%s", start->options->imports) < 0) {
			made->imports = NULL;
			return ENOMEM;
		}
		made->list[filled++] = made->imports;
	}
	return 0;
}

/* The zygote's arguments. The kernel adds a script's interpreter to them. */
static char **make_arguments(const struct hwsp_start *start)
{
	static char *const none[] = {NULL};
	char *const *given = start->options->argv ? start->options->argv : none;
	const struct hwsp_program *program = start->program;
	size_t count = 0, filled = 0;

	while (given[count])
		count++;
	char **arguments = calloc(count + 3, sizeof *arguments);
	if (!arguments)
		return NULL;
	bool interpreter = program->script && start->options->stop == PSPAWN_STOP_PYTHON;
	arguments[filled++] = given[0] && !interpreter ? given[0] : started_path(start);
	if (interpreter && program->argument)
		arguments[filled++] = program->argument;
	for (size_t i = 1; i < count; i++)
		arguments[filled++] = given[i];
	return arguments;
}

/* Waits for the first message, which brings the memory for results. */
static int receive_hello(struct hwsp_zygote *zygote, const struct hwsp_start *start, char reason[HWSP_REASON_BYTES])
{
	unsigned ms_max = start->options->start_ms_max;
	struct pollfd ready = {.fd = zygote->socket, .events = POLLIN};
	long end = hwsp_now_ms() + (ms_max ? ms_max : START_MS_MAX);
	struct hwsp_hello hello;
	size_t received = 0;
	int polled, error;

	do {
		long left = end - hwsp_now_ms();
		polled = poll(&ready, 1, left > 0 ? (int)left : 0);
	} while (polled < 0 && errno == EINTR);
	if (polled <= 0) {
		snprintf(reason, HWSP_REASON_BYTES, "%s within %u ms",
			start->options->stop == PSPAWN_STOP_LOAD ? "it was not loaded" : "its constructors did not end",
			ms_max ? ms_max : START_MS_MAX);
		return ETIMEDOUT;
	}
	error = hwsp_receive(zygote->socket, &hello, sizeof hello, &received, NULL, NULL);
	if (error || received != sizeof hello || hello.version != HWSP_SPAWN_VERSION) {
		snprintf(reason, HWSP_REASON_BYTES, "%s",
			received ? "the zygote's library is of another version" : ended_early(start));
		return ECHILD;
	}
	hello.reason[HWSP_REASON_BYTES - 1] = hello.early[HWSP_REASON_BYTES - 1] = 0;
	if (hello.refused)
		snprintf(reason, HWSP_REASON_BYTES, "%s", hello.reason);
	memcpy(zygote->early, hello.early, sizeof zygote->early);
	if (!hello.counted)
		zygote->cores = 0;
	switch (hello.refused) {
	case HWSP_STOPPED:
	case HWSP_DOUBTFUL:
		return 0;
	case HWSP_LEAVES_OUT:
		return ENOPKG;
	default:
		return ENOTSUP;
	}
}

/* A file in memory with room for so many bytes, mapped. */
static int shared_memory(size_t bytes, void **memory)
{
	int fd = memfd_create("headwater-spawn", MFD_CLOEXEC);
	if (fd < 0)
		return -1;
	*memory = ftruncate(fd, (off_t)bytes) ? MAP_FAILED
					      : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*memory == MAP_FAILED) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Execs the zygote with its end of the socket, in a process group of its own. */
static int launch(struct hwsp_zygote *zygote, const struct hwsp_start *start, int end)
{
	struct environment environment = {0};
	/* High, where no program expects a descriptor of its own. */
	int boundary = zygote->boundary;
	const struct pspawn_file_action actions[] = {{.kind = PSPAWN_DUP2, .from = end, .fd = boundary}};
	struct pspawn_options options = {.size = sizeof options, .flags = PSPAWN_SETPGROUP};
	struct pspawn_process process = {.file_actions = actions, .file_action_count = 1};
	struct hwsp_result result;
	int error = make_environment(&environment, start, boundary), tried_error;

	process.argv = zygote->arguments = make_arguments(start);
	process.envp = environment.list;
	if (!process.argv)
		error = ENOMEM;
	process.mask = start->cores;
	process.mask_size = sizeof *start->cores;
	if (!error) {
		hwsp_direct(PSPAWN_VFORK, started_path(start), &process, 1, &options, &result, &tried_error);
		/* A process's processors that aren't there are that process's error. */
		if (result.error == EINVAL && process.mask) {
			process.mask = NULL;
			hwsp_direct(PSPAWN_VFORK, started_path(start), &process, 1, &options, &result, &tried_error);
		}
		zygote->cores = (unsigned)CPU_COUNT(process.mask ? process.mask : &start->inherited->affinity);
		zygote->pid = result.pid > 0 ? result.pid : 0;
		error = result.error;
	}
	free(environment.imports);
	free(environment.list);
	return error;
}

int hwsp_boundary(const struct hwsp_inherited *inherited)
{
	rlim_t limit = inherited->limits[RLIMIT_NOFILE].rlim_cur;
	return (int)(limit < HWSP_BOUNDARY_MAX ? limit : HWSP_BOUNDARY_MAX) - HWSP_PRIVATE_FDS;
}

int hwsp_zygote_start(struct hwsp_zygote *zygote, const struct hwsp_start *start, char reason[HWSP_REASON_BYTES])
{
	int ends[2], error;
	void *memory = NULL;

	*zygote = HWSP_NO_ZYGOTE;
	*reason = 0;
	zygote->boundary = hwsp_boundary(start->inherited);
	if (zygote->boundary <= 3 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
		snprintf(reason, HWSP_REASON_BYTES, "no more files may be open");
		return EMFILE;
	}
	zygote->socket = hwsp_move_high(ends[0]);
	zygote->identity = identity_of(zygote->socket);
	zygote->owner = getpid();
	zygote->key = start->key;
	zygote->stopped_ms_max = start->options->stopped_ms_max;
	error = launch(zygote, start, ends[1]);
	close(ends[1]);
	if (error) {
		snprintf(reason, HWSP_REASON_BYTES, error == ELIBACC ? "%s is not there" : "%s",
			error == ELIBACC ? LIBRARY : strerror(error));
	} else {
		bool is_hidden = hwsp_children_hide(zygote->pid);
		zygote->began = hwsp_began(zygote->pid);
		int fd = is_hidden ? shared_memory(RESULTS_BYTES, &memory) : -1;
		zygote->results = fd >= 0 ? memory : NULL;
		error = !is_hidden ? ENOSPC : fd < 0 ? errno : hwsp_send(zygote->socket, "", 1, fd);
		if (fd >= 0)
			close(fd);
		if (error == EPIPE)
			snprintf(reason, HWSP_REASON_BYTES, "%s", ended_early(start));
		error = error ? error : receive_hello(zygote, start, reason);
		if (!error &&
			(!hwsp_watch_begin(&zygote->watch, zygote->pid, start, zygote->boundary, reason) || *reason))
			error = ENOTSUP;
		error = error ? error : hwsp_send(zygote->socket, "", 1, -1);
	}
	if (error)
		hwsp_zygote_end(zygote);
	return error;
}

void hwsp_zygote_end(struct hwsp_zygote *zygote)
{
	bool own = zygote->owner == getpid();

	hwsp_watch_end(&zygote->watch);
	free(zygote->arguments);
	if (zygote->results)
		munmap(zygote->results, RESULTS_BYTES);
	if (zygote->socket >= 0 && identity_of(zygote->socket) == zygote->identity)
		close(zygote->socket);
	if (own && zygote->pid > 0) {
		hwsp_kill_child(zygote->pid);
		if (hwsp_reap_killed(zygote->pid))
			hwsp_children_show(zygote->pid);
	}
	*zygote = HWSP_NO_ZYGOTE;
}

bool hwsp_zygote_lives(const struct hwsp_zygote *zygote)
{
	char byte;

	if (zygote->pid <= 0 || zygote->owner != getpid() || identity_of(zygote->socket) != zygote->identity)
		return false;
	return recv(zygote->socket, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* The descriptors of a request, in the order of `hwsp_head`. Those from `first_own` on are to be closed. */
struct attached {
	int fds[HWSP_FDS_MAX + 8];
	uint32_t count, first_own;
};

static int attach_descriptors(struct attached *attached, struct hwsp_head *head, struct hwsp_bytes *body,
	const struct hwsp_inherited *inherited, const struct hwsp_origin *origin, const struct pspawn_options *options,
	struct hwsp_pending_request *pending)
{
	int ends[2];
	void *memory;

	memcpy(attached->fds, origin ? origin->fds : inherited->fds, inherited->fd_count * sizeof inherited->fds[0]);
	attached->count = attached->first_own = inherited->fd_count;
	int cwd = origin ? fcntl(origin->cwd, F_DUPFD_CLOEXEC, 0) : open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (cwd < 0)
		return errno;
	attached->fds[attached->count++] = cwd;
	if (head->flags & HWSP_OWN_RESULTS) {
		pending->mapped = pending->count * sizeof *pending->results;
		int fd = shared_memory(pending->mapped, &memory);
		if (fd < 0) {
			pending->mapped = 0;
			return errno;
		}
		pending->results = memory;
		attached->fds[attached->count++] = fd;
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
			return errno;
		pending->socket = ends[0];
		pending->identity = identity_of(ends[0]);
		pending->own = true;
		attached->fds[attached->count++] = ends[1];
	}
	if (head->flags & HWSP_IN_FILE) {
		int fd = shared_memory(body->length, &memory);
		if (fd < 0)
			return errno;
		memcpy(memory, body->data, body->length);
		munmap(memory, body->length);
		attached->fds[attached->count++] = fd;
	}
	if (head->flags & HWSP_WITH_CGROUP) {
		int fd = fcntl(options->cgroup, F_DUPFD_CLOEXEC, 0);
		if (fd < 0)
			return errno;
		attached->fds[attached->count++] = fd;
	}
	return 0;
}

/* Sends the request. A zygote that serves another request may receive it late. */
static int send_request(const struct hwsp_zygote *zygote, const struct hwsp_pending_request *pending,
	const struct hwsp_head *head, const struct hwsp_bytes *body, const struct attached *attached)
{
	struct hwsp_pending_request socket = *pending;
	size_t inside = head->flags & HWSP_IN_FILE ? 0 : body->length;
	int error;

	socket.socket = zygote->socket;
	while ((error = hwsp_send_parts(MSG_DONTWAIT, zygote->socket, head, sizeof *head, body->data, inside,
			attached->fds, attached->count)) == EAGAIN)
		if (!hwsp_zygote_await(&socket, POLLOUT))
			return EPIPE;
	return error;
}

int hwsp_zygote_send_request(struct hwsp_zygote *zygote, const struct hwsp_inherited *inherited,
	const struct hwsp_origin *origin, const struct pspawn_process *processes, uint32_t count,
	const struct pspawn_options *options, bool apart, struct hwsp_pending_request *pending)
{
	struct hwsp_bytes body = {0};
	struct hwsp_head head = {.version = HWSP_SPAWN_VERSION, .count = count, .fds = inherited->fd_count};
	struct attached attached;
	int error;

	*pending = (struct hwsp_pending_request){.zygote = zygote->pid,
		.began = zygote->began,
		.stopped_ms_max = zygote->stopped_ms_max,
		.answer_ms_max = zygote->answer_ms_max,
		.socket = zygote->socket,
		.identity = zygote->identity,
		.count = count,
		.results = zygote->results};
	hwsp_encode(&body, inherited, processes, count, options);
	head.bytes = body.length;
	head.flags = (apart || count > HWSP_RESULTS ? HWSP_OWN_RESULTS : 0) |
		(body.length > HWSP_INLINE_MAX ? HWSP_IN_FILE : 0) |
		(options->flags & PSPAWN_SETCGROUP ? HWSP_WITH_CGROUP : 0);
	if (body.failed) {
		free(body.data);
		return ENOMEM;
	}
	memset(pending->results, 0, (head.flags & HWSP_OWN_RESULTS ? 0 : count) * sizeof *pending->results);
	error = attach_descriptors(&attached, &head, &body, inherited, origin, options, pending);
	if (!error)
		error = send_request(zygote, pending, &head, &body, &attached);
	while (attached.count > attached.first_own)
		close(attached.fds[--attached.count]);
	pending->body = body.data;
	pending->body_bytes = body.length;
	if (error)
		hwsp_pending_request_free(pending);
	return error;
}

uint32_t hwsp_zygote_receive_reply(struct hwsp_pending_request *pending, int *error)
{
	struct hwsp_answer answer;
	size_t received = 0;
	/* Between the call that began and the one that ends, the program may have closed descriptors that it did not
	 * open. */
	int failed = identity_of(pending->socket) != pending->identity ? EBADF
		: !hwsp_zygote_await(pending, POLLIN)
		? EPIPE
		: hwsp_receive(pending->socket, &answer, sizeof answer, &received, NULL, NULL);

	if (!failed && received == sizeof answer && answer.tried <= pending->count) {
		*error = (int)answer.error;
		return answer.tried;
	}
	/* The zygote has ended. What it has made before is known nevertheless. */
	uint32_t made = pending->count;
	while (made && !pending->results[made - 1].pid && !pending->results[made - 1].error)
		made--;
	*error = EPIPE;
	return made;
}

void hwsp_pending_request_free(struct hwsp_pending_request *pending)
{
	if (pending->mapped)
		munmap(pending->results, pending->mapped);
	if (pending->own && identity_of(pending->socket) == pending->identity)
		close(pending->socket);
	free(pending->body);
	*pending = (struct hwsp_pending_request){.socket = -1};
}
