/* The Slurm plugin: `srun --headwater[=on|off|job|OPTIONS]` (spank(8); docs/operate/slurm.md).
 *
 * srun starts `headwater front`, the rendezvous of the step's nodes, which ends with srun. A variable of the step
 * carries the job file to the nodes. Each node's slurmstepd removes it and starts `headwater node` as the user.
 * Each task asks it for the node's daemon, just before it becomes the program.
 *
 * Every callback returns 0: on any failure the job runs as without the plugin. */
#define _GNU_SOURCE
#include <stdint.h>

#include <slurm/spank.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node.h"
#include "process.h"
#include "parse.h"

#define EXPORT __attribute__((visibility("default")))

/* Prefix of variables that are part of every step, regardless of `--export`. */
#define SETTING_VARIABLE "SLURM_HEADWATER"
#define JOB_VARIABLE "SLURM_HEADWATER_JOB"
/* Output of the processes, in place of an answer. */
#define FAILED "failed: "
#define OFF "off: "

/* The front end examines the program, on the shared file system. */
#define FRONT_MS_MAX 30000
#define NODE_MS_MAX 10000
#define ANSWER_MS_MAX 60000
#define ENTER_MS_MAX 20000
#define REPORT_MS_MAX 6000
/* How long after it has closed its descriptors a process may be in its control group. */
#define GONE_US 2000
#define SWEEP_MS_MAX 5000
/* Step numbers from here on stand for batch scripts and other special steps. */
#define SPECIAL_STEPS 0xfffffff0u
/* A group that has no rights. */
#define NO_GROUP 65534

#pragma GCC visibility push(default)
SPANK_PLUGIN(headwater, 1)
#pragma GCC visibility pop

static struct hwsl_site site;
/* The option on the command line. */
static char *chosen;
/* In srun: the front end. */
static struct hwsl_process front = {.input = -1, .output = -1};
/* In slurmstepd: the socket of the node agent, or an empty string. */
static char node_socket[PATH_MAX];
/* The node agent detects slurmstepd's death by this descriptor. */
static int node_lifeline = -1;

static int choose(int value, const char *argument, int is_remote)
{
	(void)value;
	if (!is_remote) {
		free(chosen);
		chosen = strdup(argument ? argument : "on");
	}
	return 0;
}

static struct spank_option option = {"headwater", "[on|off|job|OPTIONS]",
	"have Headwater read the program's files once, and serve them on each node; "
	"OPTIONS: those of `headwater start`, such as shared=DIR,via=audit",
	2, 0, choose};

/* ---- variables ---- */

extern char **environ;

/* Returns a new list of variables, without those of these names, and with further ones; NULL if memory is short. */
static char **changed(char **variables, const char *const *without, char *const *with, size_t with_count)
{
	size_t count = 0, kept = 0;

	while (variables && variables[count])
		count++;
	char **list = calloc(count + with_count + 1, sizeof(*list));
	if (!list)
		return NULL;
	for (size_t n = 0; n < count; n++) {
		const char *const *name = without;

		while (*name && !hwsl_has_name(variables[n], *name))
			name++;
		if (!*name)
			list[kept++] = variables[n];
	}
	for (size_t n = 0; n < with_count; n++)
		list[kept++] = with[n];
	return list;
}

static uint32_t number_of(spank_t spank, spank_item_t item)
{
	uint32_t number = 0;

	return spank_get_item(spank, item, &number) == ESPANK_SUCCESS ? number : 0;
}

static struct hwsl_user user_of(spank_t spank)
{
	struct hwsl_user user = {.uid = geteuid(), .gid = getegid()};

	if (spank_get_item(spank, S_JOB_UID, &user.uid) == ESPANK_SUCCESS &&
		spank_get_item(spank, S_JOB_GID, &user.gid) != ESPANK_SUCCESS)
		user.gid = NO_GROUP;
	/* slurmstepd and srun take the user's groups along with the identity. */
	user.has_groups = geteuid() == user.uid;
	return user;
}

/* ---- srun, salloc, sbatch ---- */

static void cut_line(char *text)
{
	text[strcspn(text, "\n")] = '\0';
}

/* Reports why there is no front end. */
static void report_failure(const char *output, bool is_wanted)
{
	if (strncmp(output, FAILED, strlen(FAILED)) == 0)
		slurm_error("headwater: %s; the job runs without it", output + strlen(FAILED));
	else if (strncmp(output, OFF, strlen(OFF)) != 0)
		slurm_error("headwater: %s does not answer; the job runs without it", site.binary);
	else if (is_wanted)
		slurm_info("headwater: %s; the job runs without it", output + strlen(OFF));
}

/* Returns the program, or a file of programs, which the front end reads. */
static const char *program_of(spank_t spank)
{
	char **arguments = NULL;
	int count = 0;

	return spank_get_item(spank, S_JOB_ARGV, &count, &arguments) == ESPANK_SUCCESS && count > 0 ? arguments[0]
												    : NULL;
}

/* Returns whether `headwater run` serves the program already, by its own command before the program. */
static bool is_served(const char *program)
{
	const char *name = program ? strrchr(program, '/') : NULL;

	return strcmp(name ? name + 1 : program ? program : "", "headwater") == 0;
}

static void open_front(spank_t spank, const char *program, const char *options, bool is_wanted)
{
	static const char *const loaders[] = {"LD_*", "GLIBC_TUNABLES", NULL};
	struct hwsl_user user = user_of(spank);
	char *text, *list = NULL, **variables;

	text = malloc(HWSL_JOB_BYTES_MAX);
	variables = changed(environ, loaders, NULL, 0);
	if (text && variables && asprintf(&list, "--options=%s", options) > 0) {
		const char *arguments[] = {site.binary, "front", list, "--", program, NULL};

		if (!hwsl_start_process(&front, arguments, variables, &user, true))
			slurm_error("headwater: %s can't be started: %m; the job runs without it", site.binary);
		else if (hwsl_read_text(front.output, text, HWSL_JOB_BYTES_MAX, true, FRONT_MS_MAX) && text[0] == '{') {
			cut_line(text);
			setenv(JOB_VARIABLE, text, 1);
		} else {
			cut_line(text);
			report_failure(text, is_wanted);
			close(front.input);
			front.input = -1;
			hwsl_end_process(&front, true);
		}
	}
	free(list);
	free(variables);
	free(text);
}

EXPORT int slurm_spank_init(spank_t spank, int count, char *arguments[])
{
	const char *unknown = hwsl_parse_site(count, arguments, &site);
	spank_context_t context = spank_context();

	if (unknown && context == S_CTX_LOCAL)
		slurm_error("headwater: plugstack.conf: %s is neither headwater=FILE nor default=SETTING", unknown);
	if (context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR || context == S_CTX_REMOTE)
		spank_option_register(spank, &option);
	return 0;
}

EXPORT int slurm_spank_init_post_opt(spank_t spank, int count, char *arguments[])
{
	(void)spank, (void)count, (void)arguments;
	/* Each srun of the allocation finds it. */
	if (spank_context() == S_CTX_ALLOCATOR && chosen)
		setenv(SETTING_VARIABLE, chosen, 1);
	return 0;
}

EXPORT int slurm_spank_local_user_init(spank_t spank, int count, char *arguments[])
{
	const char *setting = chosen ? chosen : getenv(SETTING_VARIABLE);
	const char *options = hwsl_options_of(setting ? setting : site.setting), *program = program_of(spank);

	(void)count, (void)arguments;
	/* The components of a heterogeneous step have one front end. */
	if (front.input >= 0)
		return 0;
	unsetenv(JOB_VARIABLE);
	if (options && number_of(spank, S_JOB_STEPID) < SPECIAL_STEPS && !is_served(program))
		open_front(spank, program, options, setting != NULL);
	return 0;
}

/* ---- slurmstepd ---- */

/* Only the step's first node reports; the others write to their logs. */
static void complain(spank_t spank, const char *what, const char *why)
{
	if (number_of(spank, S_JOB_NODEID) == 0)
		slurm_error("headwater: %s: %s; the program runs without it", what, why);
	else
		slurm_info("headwater: %s: %s; the program runs without it", what, why);
}

/* Returns the step's variables, without the job file and the loader's variables, and with the node's number. */
static char **node_variables(spank_t spank)
{
	static const char *const without[] = {JOB_VARIABLE, "LD_*", "GLIBC_TUNABLES", "SLURM_JOB_ID", "SLURM_STEP_ID",
		"SLURM_STEP_NUM_NODES", "SLURM_STEP_NUM_TASKS", "SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID", NULL};
	static char texts[7][48];
	char *with[7], **variables = NULL;
	uint32_t first = 0;

	spank_get_item(spank, S_JOB_LOCAL_TO_GLOBAL_ID, (uint32_t)0, &first);
	const uint32_t numbers[7] = {number_of(spank, S_JOB_ID), number_of(spank, S_JOB_STEPID),
		number_of(spank, S_JOB_NNODES), number_of(spank, S_JOB_TOTAL_TASK_COUNT),
		number_of(spank, S_JOB_NODEID), first, 0};
	for (int n = 0; n < 7; n++) {
		snprintf(texts[n], sizeof(texts[n]), "%s=%u", without[n + 3], numbers[n]);
		with[n] = texts[n];
	}
	spank_get_item(spank, S_JOB_ENV, &variables);
	return changed(variables, without, with, 7);
}

static void start_node(spank_t spank, const char *job)
{
	const char *arguments[] = {site.binary, "node", "--has-owner", "--joins", "-", NULL};
	char output[PATH_MAX] = "", **variables = node_variables(spank);
	struct hwsl_user user = user_of(spank);
	struct hwsl_process node;

	if (!variables)
		return;
	if (hwsl_start_process(&node, arguments, variables, &user, false)) {
		hwsl_write_all(node.input, job, strlen(job));
		hwsl_write_all(node.input, "\n", 1);
		bool is_late = !hwsl_read_text(node.output, output, sizeof(output), false, NODE_MS_MAX);
		node_lifeline = node.input;
		hwsl_end_process(&node, is_late);
		cut_line(output);
		if (output[0] == '/')
			strcpy(node_socket, output);
		else
			complain(spank, "the node agent can't be reached", output[0] ? output : "no answer");
	} else {
		complain(spank, site.binary, strerror(errno));
	}
	free(variables);
}

EXPORT int slurm_spank_user_init(spank_t spank, int count, char *arguments[])
{
	char *job = malloc(HWSL_JOB_BYTES_MAX);

	(void)count, (void)arguments;
	if (job && spank_getenv(spank, JOB_VARIABLE, job, HWSL_JOB_BYTES_MAX) == ESPANK_SUCCESS) {
		start_node(spank, job);
		explicit_bzero(job, HWSL_JOB_BYTES_MAX);
	}
	spank_unsetenv(spank, JOB_VARIABLE);
	free(job);
	return 0;
}

static void audit(spank_t spank, const struct hwsl_answer *answer)
{
	static char users[PATH_MAX], joined[2 * PATH_MAX];

	if (spank_getenv(spank, "LD_AUDIT", users, sizeof(users)) != ESPANK_SUCCESS)
		users[0] = '\0';
	if (!hwsl_join_audit(joined, sizeof(joined), answer->library, users))
		return;
	spank_setenv(spank, "HEADWATER_TABLE", answer->table, 1);
	spank_setenv(spank, "LD_AUDIT", joined, 1);
}

/* Sets the variables of the I/O library. */
static void preload(spank_t spank, const struct hwsl_answer *answer)
{
	static char users[PATH_MAX], joined[2 * PATH_MAX];

	if (spank_getenv(spank, "LD_PRELOAD", users, sizeof(users)) != ESPANK_SUCCESS)
		users[0] = '\0';
	if (!answer->io.library || !hwsl_join_preload(joined, sizeof(joined), answer->io.library, users))
		return;
	spank_setenv(spank, "LD_PRELOAD", joined, 1);
	spank_setenv(spank, "HEADWATER_IO", answer->io.how, 1);
	if (strcmp(answer->io.everywhere, "yes") == 0)
		spank_setenv(spank, "HEADWATER_IO_EVERYWHERE", "yes", 1);
	if (answer->io.profile[0])
		spank_setenv(spank, "HEADWATER_IO_PROFILE", answer->io.profile, 1);
	if (answer->io.report[0])
		spank_setenv(spank, "HEADWATER_IO_REPORT", answer->io.report, 1);
}

static void set_number(spank_t spank, const char *name, uint32_t number)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", number);
	spank_setenv(spank, name, text, 1);
}

static void attach(spank_t spank, const struct hwsl_answer *answer, bool reports)
{
	const char *what;

	preload(spank, answer);
	if (answer->kind == HWSL_ANSWER_ALONE) {
		if (reports)
			complain(spank, "the node agent does not serve this node", answer->why);
		return;
	}
	if (answer->kind == HWSL_ANSWER_ENTER && !hwsl_enter_namespaces(answer->supervisor, ENTER_MS_MAX, &what)) {
		if (reports)
			complain(spank, what, strerror(errno));
		return;
	}
	spank_setenv(spank, "HEADWATER_SESSION", answer->session, 1);
	spank_setenv(spank, "HEADWATER_NODE", answer->node, 1);
	spank_setenv(spank, "HEADWATER_NODES", answer->nodes, 1);
	set_number(spank, "HEADWATER_RANK", number_of(spank, S_TASK_GLOBAL_ID));
	set_number(spank, "HEADWATER_RANKS", number_of(spank, S_JOB_TOTAL_TASK_COUNT));
	if (answer->kind == HWSL_ANSWER_AUDIT)
		audit(spank, answer);
}

EXPORT int slurm_spank_task_init(spank_t spank, int count, char *arguments[])
{
	/* Static memory: the task executes a program soon. */
	static char bytes[HWSL_ANSWER_BYTES_MAX];
	bool reports = number_of(spank, S_TASK_ID) == 0;
	struct hwsl_answer answer;

	(void)count, (void)arguments;
	if (!node_socket[0])
		return 0;
	long size = hwsl_ask_node(node_socket, bytes, sizeof(bytes), ANSWER_MS_MAX);
	if (size >= 0 && hwsl_parse_answer(bytes, (size_t)size, &answer))
		attach(spank, &answer, reports);
	else if (reports)
		complain(spank, "the node agent does not answer", size < 0 ? strerror(errno) : "it has ended");
	return 0;
}

/* ---- ends ---- */

/* Returns whether Slurm kills all processes of this step's control group once its tasks have ended. Of version 1 these
 * are the tasks' own, of version 2 also what slurmstepd has started. */
static bool is_killed_with_tasks(void)
{
	char text[4096];
	int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
	ssize_t size = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	if (fd >= 0)
		close(fd);
	text[size > 0 ? size : 0] = '\0';
	const char *group = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
	return group && strstr(group, "/step_");
}

/* Ends the node agent with the node's last task. Killed, it would report nothing, and Slurm waits a second for
 * processes that it has killed. */
EXPORT int slurm_spank_task_exit(spank_t spank, int count, char *arguments[])
{
	static uint32_t ended;

	(void)count, (void)arguments;
	if (++ended != number_of(spank, S_JOB_LOCAL_TASK_COUNT) || node_lifeline < 0 || !is_killed_with_tasks())
		return 0;
	hwsl_write_all(node_lifeline, "leave\n", 6);
	if (hwsl_await_no_reader(node_lifeline, REPORT_MS_MAX))
		usleep(GONE_US);
	close(node_lifeline);
	node_lifeline = -1;
	return 0;
}

/* Removes leftovers of the user's dead sessions in the store, or in the default directories. */
static void sweep(spank_t spank, const char *store)
{
	static char path[] = "PATH=/usr/bin:/bin";
	const char *arguments[] = {site.binary, "sweep", store ? "--store" : NULL, store, NULL};
	char *variables[] = {path, NULL}, output[16];
	struct hwsl_user user = user_of(spank);
	struct hwsl_process process;

	if (hwsl_start_process(&process, arguments, variables, &user, false)) {
		close(process.input);
		hwsl_end_process(&process,
			!hwsl_read_text(process.output, output, sizeof(output), false, SWEEP_MS_MAX));
	}
}

/* Shortens the path to its parent directory. Returns false if there is none. */
static bool go_up(char *path)
{
	char *last = strrchr(path, '/');

	if (!last || last == path)
		return false;
	*last = '\0';
	return true;
}

EXPORT int slurm_spank_exit(spank_t spank, int count, char *arguments[])
{
	char output[16];

	(void)count, (void)arguments;
	if (node_lifeline >= 0)
		hwsl_write_all(node_lifeline, "\n", 1);
	if (front.input >= 0) {
		hwsl_write_all(front.input, "\n", 1);
		/* It closes its output at the start, unless it has a summary to write. */
		hwsl_read_text(front.output, output, sizeof(output), false, REPORT_MS_MAX);
		close(front.output);
	}
	/* STORE/headwater-UID/SESSION/join. If the step's processes were killed, no other process removes it. */
	if (spank_context() == S_CTX_REMOTE && go_up(node_socket) && access(node_socket, F_OK) == 0 &&
		go_up(node_socket) && go_up(node_socket))
		sweep(spank, node_socket);
	return 0;
}

EXPORT int slurm_spank_job_epilog(spank_t spank, int count, char *arguments[])
{
	/* `init` is not called for it. */
	hwsl_parse_site(count, arguments, &site);
	sweep(spank, NULL);
	return 0;
}
