/* sources: parse.c */
/* The plugin in a job shell that is made of what its manual pages say, with a script in place of `headwater`: what it
 * starts, and what it puts before tasks. tests/tests/launchers/flux.rs runs it in Flux. */
#define _GNU_SOURCE
#include "check.h"
#include "../headwater-flux.c"

#include <stdarg.h>

#define WORDS_MAX 16
#define SESSION "0123456789abcdef"

/* Notes its arguments and variables in a file. A setting with "wrong" in it fails. */
static const char script[] =
	"#!/bin/sh\n"
	"echo \"$* SHARED=$HEADWATER_SHARED NODE=$HEADWATER_TOOL_NODE/$HEADWATER_TOOL_NODES\" >>%s\n"
	"case \"$1 $*\" in\n"
	"*wrong*) echo 'failed: a wrong option';;\n"
	"*nothing*) echo 'off: nothing to serve';;\n"
	"front*) echo '{\"session\":\"" SESSION "0000\",\"store\":\"/st\"}'; exec cat;;\n"
	"node*) read -r job && echo /socket;;\n"
	"esac\n";

/* What the job is, and what the plugin does with it. */
static struct {
	int rank, size;
	const char *command, *of_site, *option, *outer, *words[2], *hosts[2];
	char *entry, *json, log[1024], *inserted[WORDS_MAX], set[1024], noted[2048];
	struct {
		const char *topic;
		flux_plugin_f handler;
	} handlers[4];
	int handler_count;
	/* When the shell began. */
	bool had_outer;
} flux;
static char notes[128], command_file[128];

int flux_plugin_set_name(flux_plugin_t *plugin, const char *name)
{
	CHECK(!plugin && strcmp(name, "headwater") == 0, "%s", name);
	return 0;
}

int flux_plugin_add_handler(flux_plugin_t *plugin, const char *topic, flux_plugin_f handler, void *data)
{
	CHECK(!plugin && !data && flux.handler_count < 4, "%s", topic);
	flux.handlers[flux.handler_count].topic = topic;
	flux.handlers[flux.handler_count++].handler = handler;
	return 0;
}

int flux_plugin_conf_unpack(flux_plugin_t *plugin, const char *format, ...)
{
	va_list list;

	(void)plugin;
	va_start(list, format);
	va_arg(list, char *);
	*va_arg(list, const char **) = flux.command;
	va_arg(list, char *);
	if (flux.of_site)
		*va_arg(list, const char **) = flux.of_site;
	va_end(list);
	return 0;
}

flux_shell_t *flux_plugin_get_shell(flux_plugin_t *plugin)
{
	(void)plugin;
	return (flux_shell_t *)&flux;
}

flux_t *flux_shell_get_flux(flux_shell_t *shell)
{
	return (flux_t *)shell;
}

int flux_shell_getopt(flux_shell_t *shell, const char *name, char **json)
{
	(void)shell;
	CHECK(strcmp(name, "headwater") == 0, "%s", name);
	if (flux.option)
		*json = flux.json = strdup(flux.option);
	return flux.option != NULL;
}

const char *flux_shell_getenv(flux_shell_t *shell, const char *name)
{
	(void)shell;
	if (strcmp(name, "FLUX_HEADWATER") == 0)
		return flux.outer;
	return strcmp(name, "HEADWATER_SHARED") == 0 ? "/of/job" : strcmp(name, "PATH") == 0 ? "/bin:/usr/bin" : NULL;
}

int flux_shell_get_environ(flux_shell_t *shell, char **json)
{
	(void)shell;
	*json = strdup("{\"HEADWATER_SHARED\":\"/of/job\",\"PATH\":\"/bin:/usr/bin\"}");
	return 0;
}

/* Appends a line to a text. */
static void append(char *text, size_t size, const char *format, va_list list)
{
	size_t used = strlen(text);

	vsnprintf(text + used, size - used, format, list);
	used = strlen(text);
	snprintf(text + used, size - used, "\n");
}

int flux_shell_setenvf(flux_shell_t *shell, int overwrite, const char *name, const char *format, ...)
{
	va_list list;

	(void)shell;
	CHECK(overwrite && strcmp(name, "FLUX_HEADWATER") == 0, "%s", name);
	va_start(list, format);
	append(flux.set, sizeof(flux.set), format, list);
	va_end(list);
	return 0;
}

int flux_shell_info_unpack(flux_shell_t *shell, const char *format, ...)
{
	const bool is_numbers = strcmp(format, "{s:i s:i s:i}") == 0;
	const int numbers[] = {flux.rank, flux.size, 2 * flux.size};
	va_list list;
	int result = 0;

	(void)shell;
	va_start(list, format);
	if (is_numbers) {
		for (int n = 0; n < 3; n++) {
			va_arg(list, char *);
			*va_arg(list, int *) = numbers[n];
		}
	} else {
		for (int n = 0; n < 3; n++)
			va_arg(list, char *);
		result = strstr(format, "s,s") && !flux.words[1] ? -1 : 0;
		for (int n = 0; result == 0 && n < (strstr(format, "s,s") ? 2 : 1); n++)
			*va_arg(list, const char **) = flux.words[n];
	}
	va_end(list);
	return result;
}

int flux_shell_rank_info_unpack(flux_shell_t *shell, int shell_rank, const char *format, ...)
{
	va_list list;

	(void)shell;
	va_start(list, format);
	va_arg(list, char *);
	*va_arg(list, const char **) = flux.hosts[shell_rank];
	va_end(list);
	return 0;
}

flux_shell_task_t *flux_shell_current_task(flux_shell_t *shell)
{
	return (flux_shell_task_t *)shell;
}

flux_cmd_t *flux_shell_task_cmd(flux_shell_task_t *task)
{
	return (flux_cmd_t *)task;
}

int flux_shell_task_info_unpack(flux_shell_task_t *task, const char *format, ...)
{
	va_list list;

	(void)task;
	va_start(list, format);
	va_arg(list, char *);
	*va_arg(list, int *) = 3;
	va_end(list);
	return 0;
}

void flux_shell_log(const char *component, int level, const char *file, int line, const char *format, ...)
{
	va_list list;

	(void)component, (void)level, (void)file, (void)line;
	va_start(list, format);
	append(flux.log, sizeof(flux.log), format, list);
	va_end(list);
}

int flux_cmd_argv_insert(flux_cmd_t *command, int at, const char *argument)
{
	(void)command;
	CHECK(at < WORDS_MAX - 1 && !flux.inserted[at], "word %d", at);
	flux.inserted[at] = strdup(argument);
	return 0;
}

int flux_cmd_setenvf(flux_cmd_t *command, int overwrite, const char *name, const char *format, ...)
{
	size_t used = strlen(flux.set);
	va_list list;

	(void)command, (void)overwrite;
	snprintf(flux.set + used, sizeof(flux.set) - used, "%s=", name);
	va_start(list, format);
	append(flux.set, sizeof(flux.set), format, list);
	va_end(list);
	return 0;
}

int flux_future_wait_for(flux_future_t *future, double timeout_s)
{
	return future && timeout_s > 0 ? 0 : -1;
}

int flux_future_get(flux_future_t *future, const void **result)
{
	CHECK(future && !result, "a result");
	return 0;
}

void flux_future_destroy(flux_future_t *future)
{
	(void)future;
}

flux_kvs_txn_t *flux_kvs_txn_create(void)
{
	return (flux_kvs_txn_t *)&flux;
}

void flux_kvs_txn_destroy(flux_kvs_txn_t *changes)
{
	(void)changes;
}

int flux_kvs_txn_put(flux_kvs_txn_t *changes, int flags, const char *key, const char *value)
{
	CHECK(changes && flags == 0 && strcmp(key, "headwater") == 0, "%s", key);
	free(flux.entry);
	flux.entry = strdup(value);
	return 0;
}

int flux_kvs_txn_unlink(flux_kvs_txn_t *changes, int flags, const char *key)
{
	CHECK(changes && flags == 0 && strcmp(key, "headwater") == 0, "%s", key);
	free(flux.entry);
	flux.entry = NULL;
	return 0;
}

flux_future_t *flux_kvs_commit(flux_t *handle, const char *name_space, int flags, flux_kvs_txn_t *changes)
{
	CHECK(handle && !name_space && flags == 0 && changes, "a commit");
	return (flux_future_t *)&flux;
}

flux_future_t *flux_kvs_lookup(flux_t *handle, const char *name_space, int flags, const char *key)
{
	CHECK(handle && !name_space && flags == 8 && strcmp(key, "headwater") == 0, "%s", key);
	return flux.entry ? (flux_future_t *)&flux : NULL;
}

int flux_kvs_lookup_get(flux_future_t *future, const char **value)
{
	CHECK(future, "a look-up");
	*value = flux.entry;
	return 0;
}

static void call(const char *topic)
{
	for (int n = 0; n < flux.handler_count; n++)
		if (strcmp(flux.handlers[n].topic, topic) == 0)
			CHECK(flux.handlers[n].handler(NULL, topic, NULL, NULL) == 0, "%s", topic);
}

/* Releases what a shell keeps until its end. */
static void forget(void)
{
	if (!flux.json && flux.had_outer)
		free((char *)job.setting);
	free(flux.json);
	flux.json = NULL;
	flux.had_outer = false;
	/* The first shell's session has an end of its own. */
	if (job.session.front.link < 0) {
		free(job.session.job);
		free(job.session.store);
	}
	job = (__typeof__(job)){.session = {.front = {.link = -1}}, .node = {.link = -1}};
}

/* Begins a shell of the job, up to its first task. Returns the words that are put before the task's command. */
static const char *begin(int rank, const char *option)
{
	static char words[1024];
	FILE *file;

	forget();
	flux.had_outer = flux.outer != NULL;
	flux.rank = rank;
	flux.option = option;
	flux.handler_count = 0;
	flux.log[0] = flux.set[0] = flux.noted[0] = words[0] = '\0';
	memset(flux.inserted, 0, sizeof(flux.inserted));
	unlink(notes);
	CHECK(flux_plugin_init(NULL) == 0, "the plugin's start");
	call("shell.init");
	call("shell.post-init");
	call("task.init");
	for (int n = 0; flux.inserted[n]; n++) {
		strcat(strcat(words, *words ? " " : ""), flux.inserted[n]);
		free(flux.inserted[n]);
	}
	file = fopen(notes, "re");
	if (file) {
		flux.noted[fread(flux.noted, 1, sizeof(flux.noted) - 1, file)] = '\0';
		fclose(file);
	}
	return words;
}

static void sessions(void)
{
	char expected[512];
	const char *words = begin(0, "\"shared=/sw\"");

	snprintf(expected, sizeof(expected), "%s exec --job " SESSION " --store /st --", command_file);
	CHECK(strcmp(words, expected) == 0 && !*flux.log, "%s %s", words, flux.log);
	CHECK(strcmp(flux.noted,
		      "front --options shared=/sw -- /sw/app SHARED=/of/job NODE=/\n"
		      "node --has-owner --joins - SHARED= NODE=0/2\n") == 0,
		"%s", flux.noted);
	CHECK(flux.entry && strstr(flux.entry, SESSION), "%s", flux.entry);
	struct headwater_session first = job.session;
	/* Another shell gets it from the store. */
	words = begin(1, "\"shared=/sw\"");
	CHECK(strcmp(words, expected) == 0 && !*flux.log, "%s %s", words, flux.log);
	CHECK(strcmp(flux.noted, "node --has-owner --joins - SHARED= NODE=1/2\n") == 0, "%s", flux.noted);
	call("shell.exit");
	CHECK(flux.entry, "only the first shell removes it");
	/* On a host that another shell has begun. */
	flux.hosts[1] = flux.hosts[0];
	words = begin(1, "\"shared=/sw\"");
	CHECK(strcmp(words, expected) == 0 && !*flux.noted, "%s %s", words, flux.noted);
	flux.hosts[1] = "b";
	begin(0, "\"shared=/sw\"");
	call("shell.exit");
	CHECK(!flux.entry, "%s", flux.entry);
	headwater_session_end(&first);
}

/* Returns what the C library reports of a command that can't be executed. An emulator of processors starts it by fork, and
 * lets posix_spawn succeed. */
static const char *unspawned(void)
{
	char *arguments[] = {"/nonexistent/headwater", NULL};
	pid_t pid;

	if (posix_spawn(&pid, arguments[0], NULL, NULL, arguments, environ) != 0)
		return "No such file";
	waitpid(pid, NULL, 0);
	return "has ended";
}

static void settings(void)
{
	char expected[512];

	CHECK(!*begin(0, NULL) && !flux.noted[0] && !*flux.log, "off by default: %s", flux.log);
	CHECK(!*begin(0, "\"off\"") && !flux.noted[0], "off: %s", flux.noted);
	CHECK(!*begin(0, "{\"a\":1}") && strstr(flux.log, "neither on, off"), "%s", flux.log);
	CHECK(!*begin(0, "\"wrong\"") && strstr(flux.log, "a wrong option; the program runs without"), "%s", flux.log);
	CHECK(flux.entry && strcmp(flux.entry, "none") == 0, "the others don't wait");
	CHECK(!*begin(1, "\"wrong\"") && !*flux.log, "%s", flux.log);
	CHECK(!*begin(0, "\"nothing\"") && strstr(flux.log, "nothing to serve"), "%s", flux.log);
	flux.of_site = "nothing";
	CHECK(!*begin(0, NULL) && !*flux.log && *flux.noted, "the site's is silent: %s", flux.log);
	flux.of_site = NULL;
	flux.outer = "on";
	CHECK(*begin(0, NULL) && strstr(flux.noted, "front --options  -- "), "the batch job's: %s", flux.noted);
	call("shell.exit");
	forget();
	flux.outer = NULL;
	snprintf(expected, sizeof(expected), "%s exec --job /home/me/file --", command_file);
	CHECK(strcmp(begin(1, "\"/home/me/file\""), expected) == 0 && !*flux.noted, "a file: %s", flux.noted);
	flux.words[0] = "/opt/bin/headwater";
	CHECK(!*begin(0, "1") && !*flux.noted, "served already: %s", flux.noted);
	flux.words[0] = "/sw/app";
	flux.command = "/nonexistent/headwater";
	CHECK(!*begin(0, "1") && strstr(flux.log, unspawned()), "%s", flux.log);
	CHECK(!*begin(0, "\"/home/me/file\"") && strstr(flux.log, "No such file"), "%s", flux.log);
	flux.command = command_file;
}

static void instances(void)
{
	flux.words[0] = "/opt/bin/flux";
	flux.words[1] = "broker";
	setenv("FLUX_EXEC_PATH", "/opt/libexec", 1);
	CHECK(*begin(0, "1") && strstr(flux.noted, "-- /opt/libexec/flux-broker "), "%s", flux.noted);
	call("shell.exit");
	/* Nothing to serve: its jobs have the setting. */
	CHECK(!*begin(0, "\"nothing\"") && !*flux.log && strcmp(flux.set, "nothing\n") == 0, "%s %s", flux.log,
		flux.set);
	flux.words[1] = NULL;
	flux.words[0] = "/sw/app";
	/* In a session. */
	setenv("HEADWATER_SESSION", SESSION, 1);
	setenv("HEADWATER_TABLE", "/t", 1);
	setenv("LD_AUDIT", "", 1);
	CHECK(!*begin(1, "1") && !*flux.noted, "%s", flux.noted);
	CHECK(strcmp(flux.set,
		      "HEADWATER_SESSION=" SESSION "\nHEADWATER_TABLE=/t\nLD_AUDIT=\nHEADWATER_NODE=1\n"
		      "HEADWATER_NODES=2\nHEADWATER_RANK=3\nHEADWATER_RANKS=4\n") == 0,
		"%s", flux.set);
}

int main(void)
{
	FILE *file;

	make_work_directory();
	snprintf(notes, sizeof(notes), "%s/notes", work_directory);
	snprintf(command_file, sizeof(command_file), "%s/headwater", work_directory);
	file = fopen(command_file, "we");
	CHECK(file && fprintf(file, script, notes) > 0 && fclose(file) == 0 && chmod(command_file, 0700) == 0,
		"a script");
	flux.command = command_file;
	flux.size = 2;
	flux.words[0] = "/sw/app";
	flux.hosts[0] = "a";
	flux.hosts[1] = "b";
	sessions();
	settings();
	instances();
	forget();
	free(flux.entry);
	return 0;
}
