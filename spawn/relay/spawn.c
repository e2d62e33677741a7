/* posix_spawn(). Its arguments can be sent to a zygote, except for the list of file actions, which only the C
 * library can read. So each action is recorded when it is added to a list. */
#include "relay.h"

#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A list as its owner fills it. */
struct noted {
	const posix_spawn_file_actions_t *list; /* where it lies is its name */
	bool unknown;                           /* it has an action that can't be expressed */
	size_t count;
	struct pspawn_file_action *actions;
	struct noted *next;
};
static struct noted *all;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static struct noted *find_file_actions(const posix_spawn_file_actions_t *list)
{
	struct noted *noted = all;
	while (noted && noted->list != list)
		noted = noted->next;
	return noted;
}

static void forget(const posix_spawn_file_actions_t *list)
{
	pthread_mutex_lock(&guard);
	for (struct noted **at = &all; *at; at = &(*at)->next) {
		struct noted *noted = *at;
		if (noted->list != list)
			continue;
		*at = noted->next;
		for (size_t i = 0; i < noted->count; i++)
			free((void *)noted->actions[i].path);
		free(noted->actions);
		free(noted);
		break;
	}
	pthread_mutex_unlock(&guard);
}

/* `action` is NULL if it can't be expressed. */
static void note_file_action(const posix_spawn_file_actions_t *list, const struct pspawn_file_action *action)
{
	pthread_mutex_lock(&guard);
	struct noted *noted = find_file_actions(list);
	struct pspawn_file_action *grown = noted && action ? realloc(noted->actions, (noted->count + 1) * sizeof *grown)
							   : NULL;
	if (grown) {
		noted->actions = grown;
		grown[noted->count] = *action;
		if (action->path)
			grown[noted->count].path = strdup(action->path);
		noted->unknown |= action->path && !grown[noted->count].path;
		noted->count++;
	} else if (noted) {
		noted->unknown = true;
	}
	pthread_mutex_unlock(&guard);
}

EXPORT int posix_spawn_file_actions_init(posix_spawn_file_actions_t *list)
{
	int error = ORIGINAL(posix_spawn_file_actions_init)(list);
	forget(list);
	struct noted *noted = error ? NULL : calloc(1, sizeof *noted);
	if (noted) {
		pthread_mutex_lock(&guard);
		*noted = (struct noted){.list = list, .next = all};
		all = noted;
		pthread_mutex_unlock(&guard);
	}
	return error;
}

EXPORT int posix_spawn_file_actions_destroy(posix_spawn_file_actions_t *list)
{
	forget(list);
	return ORIGINAL(posix_spawn_file_actions_destroy)(list);
}

EXPORT int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *list, int fd, const char *path, int flags,
	mode_t mode)
{
	int error = ORIGINAL(posix_spawn_file_actions_addopen)(list, fd, path, flags, mode);
	if (!error)
		note_file_action(list,
			&(struct pspawn_file_action){
				.kind = PSPAWN_OPEN, .fd = fd, .path = path, .flags = flags, .mode = mode});
	return error;
}

EXPORT int posix_spawn_file_actions_addclose(posix_spawn_file_actions_t *list, int fd)
{
	int error = ORIGINAL(posix_spawn_file_actions_addclose)(list, fd);
	if (!error)
		note_file_action(list, &(struct pspawn_file_action){.kind = PSPAWN_CLOSE, .fd = fd});
	return error;
}

EXPORT int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *list, int from, int fd)
{
	int error = ORIGINAL(posix_spawn_file_actions_adddup2)(list, from, fd);
	if (!error)
		note_file_action(list, &(struct pspawn_file_action){.kind = PSPAWN_DUP2, .fd = fd, .from = from});
	return error;
}

EXPORT int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t *list, const char *path)
{
	note_file_action(list, NULL);
	return ORIGINAL(posix_spawn_file_actions_addchdir_np)(list, path);
}

EXPORT int posix_spawn_file_actions_addfchdir_np(posix_spawn_file_actions_t *list, int fd)
{
	note_file_action(list, NULL);
	return ORIGINAL(posix_spawn_file_actions_addfchdir_np)(list, fd);
}

EXPORT int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *list, int fd)
{
	note_file_action(list, NULL);
	return ORIGINAL(posix_spawn_file_actions_addclosefrom_np)(list, fd);
}

EXPORT int posix_spawn_file_actions_addtcsetpgrp_np(posix_spawn_file_actions_t *list, int fd)
{
	note_file_action(list, NULL);
	return ORIGINAL(posix_spawn_file_actions_addtcsetpgrp_np)(list, fd);
}

/* The attributes as options; false if options can't express them. */
static bool translate(const posix_spawnattr_t *attributes, struct pspawn_options *options)
{
	const short known = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
		POSIX_SPAWN_SETSID | POSIX_SPAWN_USEVFORK | POSIX_SPAWN_RESETIDS;
	short flags = 0;

	if (!attributes)
		return true;
	if (posix_spawnattr_getflags(attributes, &flags) || flags & ~known)
		return false;
	if (flags & POSIX_SPAWN_RESETIDS && (getuid() != geteuid() || getgid() != getegid()))
		return false;
	options->flags = (flags & POSIX_SPAWN_SETPGROUP ? PSPAWN_SETPGROUP : 0) |
		(flags & POSIX_SPAWN_SETSIGMASK ? PSPAWN_SETSIGMASK : 0) |
		(flags & POSIX_SPAWN_SETSIGDEF ? PSPAWN_SETSIGDEF : 0) |
		(flags & POSIX_SPAWN_SETSID ? PSPAWN_SETSID : 0);
	return posix_spawnattr_getpgroup(attributes, &options->pgroup) == 0 &&
		posix_spawnattr_getsigmask(attributes, &options->signal_mask) == 0 &&
		posix_spawnattr_getsigdefault(attributes, &options->signal_default) == 0;
}

/* Has a zygote make the process. False if nothing has happened. */
static bool by_zygote(pid_t *pid, const char *path, const posix_spawn_file_actions_t *list,
	const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	struct pspawn_options options = {.size = sizeof options};
	struct pspawn_process process = {.argv = argv, .envp = envp};
	bool known = translate(attributes, &options);
	pid_t made = -1;

	pthread_mutex_lock(&guard);
	struct noted *noted = list ? find_file_actions(list) : NULL;
	known = known && (!list || (noted && !noted->unknown));
	if (known && noted) {
		process.file_actions = noted->actions;
		process.file_action_count = noted->count;
	}
	if (known && path && argv && argv[0] && envp)
		made = hwsp_relay_spawn(path, &process, &options);
	pthread_mutex_unlock(&guard);
	if (made > 0 && pid)
		*pid = made;
	return made > 0;
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *list,
	const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	int error = errno;
	bool made = by_zygote(pid, path, list, attributes, argv, envp);
	errno = error;
	return made ? 0 : ORIGINAL(posix_spawn)(pid, path, list, attributes, argv, envp);
}

EXPORT int posix_spawnp(pid_t *pid, const char *name, const posix_spawn_file_actions_t *list,
	const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	struct hwsp_program program;
	int error = errno;
	bool made = false;
	if (hwsp_program(name, &program) == 0) {
		made = by_zygote(pid, program.script ? program.script : program.path, list, attributes, argv, envp);
		hwsp_program_free(&program);
	}
	errno = error;
	return made ? 0 : ORIGINAL(posix_spawnp)(pid, name, list, attributes, argv, envp);
}
