/* The plugin of Flux's job shell: `flux run -o headwater[=on|off|job|OPTIONS|FILE]` (docs/operate/flux.md).
 *
 * The first shell of a job starts `headwater front`, the rendezvous of the job's nodes, which ends with that shell. The
 * others get the job from Flux's key-value store, from the namespace that the job's owner alone can read. Each host's
 * first shell starts `headwater node`. Each task's command gets `headwater exec` before it.
 *
 * What `flux batch` and `flux alloc` start is a job like others, and all that its instance starts is served with it: its
 * shells find themselves in a session. Every callback returns 0: on any failure the job runs as without the plugin. */
#define _GNU_SOURCE
#include <headwater-launch.h>

#include <stdbool.h>

#include "parse.h"
#include "shell.h"

#define EXPORT __attribute__((visibility("default")))

/* The setting of a batch job whose own session there isn't, for the jobs of its instance. */
#define SETTING_VARIABLE "FLUX_HEADWATER"
#define ENTRY "headwater"
/* How the reason begins if there is nothing to serve. */
#define OFF "off: "
#define COMMAND "/usr/bin/headwater"
#define STORE_S_MAX 10.0
/* FLUX_KVS_WAITCREATE (flux_kvs_lookup(3)). */
#define WAIT_UNTIL_CREATED 8
/* FLUX_SHELL_WARN and FLUX_SHELL_DEBUG (flux_shell_log(3)). */
enum { WARNING = 4, DEBUGGING = 6 };

static struct {
	flux_shell_t *shell;
	int rank, size, tasks;
	const char *command, *setting;
	/* The session's file, instead of `session`. */
	const char *file;
	struct headwater_session session;
	struct headwater_node node;
	/* This shell is in a session, with all that it starts. */
	bool is_inside;
	/* The setting is the site's, not the user's. */
	bool is_default;
} job = {.session = {.front = {.link = -1}}, .node = {.link = -1}};

/* Only the first shell's reach the user. */
static void complain(const char *what, const char *why)
{
	flux_shell_log("headwater", job.rank == 0 ? WARNING : DEBUGGING, __FILE__, __LINE__,
		"%s%s%s; the program runs without Headwater", what, *what ? ": " : "", why);
}

/* ---- the first shell ---- */

/* Returns the job's variables, as `environ` has them; NULL if memory is short. */
static char **variables_of_job(void)
{
	char *text = NULL, *rest, *name, **list = NULL;
	size_t count = 0;

	if (flux_shell_get_environ(job.shell, &text) != 0)
		return NULL;
	rest = text;
	list = calloc(hwfl_names_max(text) + 1, sizeof(*list));
	while (list && (name = hwfl_next_name(&rest))) {
		const char *value = flux_shell_getenv(job.shell, name);

		if (value && asprintf(&list[count], "%s=%s", name, value) > 0)
			count++;
		else
			list[count] = NULL;
	}
	free(text);
	return list;
}

/* Changes the entry that the other shells, if any, read: NULL removes it. Returns whether that is done. */
static bool publish(const char *text)
{
	flux_kvs_txn_t *changes = job.size > 1 ? flux_kvs_txn_create() : NULL;
	flux_future_t *future = NULL;
	bool is_done = changes &&
		(text ? flux_kvs_txn_put(changes, 0, ENTRY, text) : flux_kvs_txn_unlink(changes, 0, ENTRY)) == 0;

	if (is_done)
		future = flux_kvs_commit(flux_shell_get_flux(job.shell), NULL, 0, changes);
	is_done = future && flux_future_wait_for(future, STORE_S_MAX) == 0 && flux_future_get(future, NULL) == 0;
	flux_future_destroy(future);
	flux_kvs_txn_destroy(changes);
	return is_done || job.size == 1;
}

static void begin_session(const char *options, char *program, bool is_batch)
{
	char *arguments[] = {program, NULL}, **own = environ, **variables = variables_of_job();
	int status;

	if (variables)
		environ = variables;
	status = headwater_session_begin(&job.session, job.command, options, arguments);
	environ = own;
	for (char **variable = variables; variable && *variable; variable++)
		free(*variable);
	free(variables);
	if (status != 0 && is_batch)
		flux_shell_setenvf(job.shell, 1, SETTING_VARIABLE, "%s", job.setting);
	else if (status != 0 && !(job.is_default && strncmp(job.session.why, OFF, strlen(OFF)) == 0))
		complain("", job.session.why);
	/* Also without a session: the other shells wait for it. */
	if (!publish(job.session.job ? job.session.job : "none") && job.session.job)
		complain("the key-value store", strerror(errno));
}

/* ---- all shells ---- */

/* Returns the setting of the command line, of the batch job around, or of the site, in memory that stays. */
static const char *chosen_setting(const char *of_site)
{
	const char *outer = flux_shell_getenv(job.shell, SETTING_VARIABLE);
	char *json = NULL;

	if (flux_shell_getopt(job.shell, "headwater", &json) > 0)
		return hwfl_text_of(json);
	job.is_default = !outer;
	return outer ? strdup(outer) : of_site;
}

/* Gives the session the job's text, which the first shell has; "none" without a session. */
static void take_job(const char *text)
{
	job.session.command = job.command;
	job.session.job = strdup(text);
	if (job.session.job && !headwater_take_job_(&job.session)) {
		free(job.session.job);
		job.session.job = NULL;
	}
}

static void fetch_job(void)
{
	flux_t *flux = flux_shell_get_flux(job.shell);
	flux_future_t *future = flux_kvs_lookup(flux, NULL, WAIT_UNTIL_CREATED, ENTRY);
	const char *text = NULL;

	if (future && flux_future_wait_for(future, STORE_S_MAX) == 0 && flux_kvs_lookup_get(future, &text) == 0 && text)
		take_job(text);
	else
		complain("the key-value store", strerror(errno));
	flux_future_destroy(future);
}

/* Begins this host's part. Several brokers, so several shells, may be on one host. */
static void begin_node(void)
{
	struct hwfl_place place = {.number = (unsigned)job.rank, .hosts = (unsigned)job.size, .is_first = true};
	const char **names = calloc((size_t)job.size, sizeof(*names));

	for (int rank = 0; names && rank < job.size; rank++)
		if (flux_shell_rank_info_unpack(job.shell, rank, "{s:s}", "name", &names[rank]) != 0)
			names[rank] = NULL;
	if (names)
		hwfl_place_of(names, (unsigned)job.size, (unsigned)job.rank, &place);
	free(names);
	if (place.is_first &&
		headwater_begin_or_join_(&job.node, job.command, job.session.job, place.number, place.hosts, 1) != 0)
		complain("the node agent", job.node.why);
}

/* Returns the job's program, in new memory; of what begins an instance of Flux the broker, which `flux` becomes. */
static char *program_of_job(bool *is_batch)
{
	const char *program = NULL, *argument = NULL, *directory = getenv("FLUX_EXEC_PATH");
	char *broker = NULL;

	/* A command of one word has no second one. */
	flux_shell_info_unpack(job.shell, "{s:{s:[{s:[s,s]}]}}", "jobspec", "tasks", "command", &program, &argument);
	if (!program)
		flux_shell_info_unpack(job.shell, "{s:{s:[{s:[s]}]}}", "jobspec", "tasks", "command", &program);
	*is_batch = program && argument && hwfl_is_command(program, "flux") && strcmp(argument, "broker") == 0;
	if (*is_batch && asprintf(&broker, "%s/flux-broker", directory ? directory : "") < 0)
		broker = NULL;
	return broker || !program ? broker : strdup(program);
}

static int at_init(flux_plugin_t *plugin, const char *topic, flux_plugin_arg_t *args, void *data)
{
	const char *options = job.setting ? hwfl_options_of(job.setting) : NULL;
	bool is_batch = false;
	char *program;

	(void)plugin, (void)topic, (void)args, (void)data;
	if (job.is_inside || !options || job.rank != 0)
		return 0;
	program = program_of_job(&is_batch);
	if (program && !hwfl_is_command(program, "headwater"))
		begin_session(options, program, is_batch);
	else
		publish("none");
	free(program);
	return 0;
}

static int after_init(flux_plugin_t *plugin, const char *topic, flux_plugin_arg_t *args, void *data)
{
	(void)plugin, (void)topic, (void)args, (void)data;
	if (job.is_inside || !job.setting || !hwfl_options_of(job.setting))
		return 0;
	if (job.rank != 0)
		fetch_job();
	if (job.session.job)
		begin_node();
	return 0;
}

/* ---- tasks ---- */

static void set_number(flux_cmd_t *command, const char *name, int number)
{
	flux_cmd_setenvf(command, 1, name, "%d", number);
}

/* Sets the variables of the session that this shell is in: those of the job are from where it was submitted. */
static void describe(flux_cmd_t *command, int rank)
{
	static const char *const names[] = {"HEADWATER_SESSION", "HEADWATER_TABLE", "HEADWATER_MOUNT", "LD_AUDIT"};
	size_t count = getenv("HEADWATER_TABLE") ? 4 : 3;

	/* LD_AUDIT may have libraries of the user's. */
	for (size_t n = 0; n < count; n++)
		if (getenv(names[n]))
			flux_cmd_setenvf(command, n < 3, names[n], "%s", getenv(names[n]));
	set_number(command, "HEADWATER_NODE", job.rank);
	set_number(command, "HEADWATER_NODES", job.size);
	set_number(command, "HEADWATER_RANK", rank);
	set_number(command, "HEADWATER_RANKS", job.tasks);
}

/* Puts `headwater exec` before the task's command. */
static void serve(flux_cmd_t *command)
{
	char *none[] = {NULL};
	const char *of_file[] = {job.command, "exec", "--job", job.file, "--", NULL};
	char **of_session = job.file ? NULL : headwater_session_arguments(&job.session, none);
	const char *const *prefix = job.file ? of_file : (const char *const *)of_session;

	for (int at = 0; prefix && prefix[at]; at++)
		if (flux_cmd_argv_insert(command, at, prefix[at]) != 0)
			complain("the task's command", strerror(errno));
	free(of_session);
}

static int at_task(flux_plugin_t *plugin, const char *topic, flux_plugin_arg_t *args, void *data)
{
	flux_shell_task_t *task = flux_shell_current_task(job.shell);
	flux_cmd_t *command = task ? flux_shell_task_cmd(task) : NULL;
	int rank = 0;

	(void)plugin, (void)topic, (void)args, (void)data;
	if (!command)
		return 0;
	if (job.is_inside && flux_shell_task_info_unpack(task, "{s:i}", "rank", &rank) == 0)
		describe(command, rank);
	else if ((job.file || job.session.job) && strchr(job.command, '/') && access(job.command, X_OK) != 0)
		complain(job.command, strerror(errno));
	else if (job.file || job.session.job)
		serve(command);
	return 0;
}

static int at_exit(flux_plugin_t *plugin, const char *topic, flux_plugin_arg_t *args, void *data)
{
	(void)plugin, (void)topic, (void)args, (void)data;
	/* Programs on other nodes may still run. */
	headwater_node_leave(&job.node);
	if (job.rank != 0 || !job.session.job)
		return 0;
	publish(NULL);
	headwater_session_end(&job.session);
	return 0;
}

static bool has_all_functions(void)
{
	return flux_plugin_set_name && flux_plugin_add_handler && flux_plugin_conf_unpack && flux_plugin_get_shell &&
		flux_shell_get_flux && flux_shell_getopt && flux_shell_getenv && flux_shell_get_environ &&
		flux_shell_setenvf && flux_shell_info_unpack && flux_shell_rank_info_unpack &&
		flux_shell_current_task && flux_shell_task_cmd && flux_shell_task_info_unpack && flux_shell_log &&
		flux_cmd_argv_insert && flux_cmd_setenvf && flux_future_wait_for && flux_future_get &&
		flux_kvs_txn_create && flux_kvs_txn_destroy && flux_kvs_txn_put && flux_kvs_txn_unlink &&
		flux_kvs_commit && flux_kvs_lookup && flux_kvs_lookup_get && flux_future_destroy;
}

EXPORT int flux_plugin_init(flux_plugin_t *plugin)
{
	const char *of_site = "off";

	if (!has_all_functions()) {
		fputs("headwater: this Flux lacks functions that the plugin needs; jobs run without Headwater\n",
			stderr);
		return 0;
	}
	job.command = COMMAND;
	flux_plugin_conf_unpack(plugin, "{s?s s?s}", "command", &job.command, "default", &of_site);
	job.shell = flux_plugin_get_shell(plugin);
	if (!job.shell ||
		flux_shell_info_unpack(job.shell, "{s:i s:i s:i}", "rank", &job.rank, "size", &job.size, "ntasks",
			&job.tasks) != 0)
		return 0;
	if (flux_shell_getenv(job.shell, "HEADWATER_BINARY"))
		job.command = strdup(flux_shell_getenv(job.shell, "HEADWATER_BINARY"));
	job.setting = chosen_setting(of_site);
	job.is_inside = getenv("HEADWATER_SESSION") != NULL;
	job.file = job.setting && *job.setting == '/' ? job.setting : NULL;
	if (!job.setting)
		complain("-o headwater", "it is neither on, off, a session's file nor options of `headwater start`");
	flux_plugin_set_name(plugin, "headwater");
	flux_plugin_add_handler(plugin, "shell.init", at_init, NULL);
	flux_plugin_add_handler(plugin, "shell.post-init", after_init, NULL);
	flux_plugin_add_handler(plugin, "task.init", at_task, NULL);
	flux_plugin_add_handler(plugin, "shell.exit", at_exit, NULL);
	return 0;
}
