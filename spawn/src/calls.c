/* The calls of the paper, and those that don't wait, in terms of pspawn_many(). */
#include "context.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

EXPORT pid_t pspawn(pspawn_context_t *ctx, char *argv[])
{
	pid_t pid;
	return pspawn_n(&pid, ctx, 1, argv) == 1 ? pid : -1;
}

EXPORT int pspawn_n(pid_t *pids, pspawn_context_t *ctx, int nspawn, char *argv[])
{
	if (nspawn < 0) {
		errno = EINVAL;
		return -1;
	}
	if (!nspawn)
		return 0;
	struct pspawn_process *processes = calloc((size_t)nspawn, sizeof *processes);
	if (!processes)
		return -1;
	for (int i = 0; i < nspawn; i++)
		processes[i].argv = argv;
	int started = pspawn_many(ctx, processes, (unsigned)nspawn, NULL, pids, NULL);
	int error = errno;
	free(processes);
	errno = error;
	return started;
}

/* The list after this one. */
static char *const *next_list(char *const *list)
{
	while (*list)
		list++;
	return list + 1;
}

static struct pspawn_process *separate(char *const argv[], char *const envp[], unsigned count, unsigned clen,
	cpu_set_t *const masks[], int flags)
{
	struct pspawn_process *processes = calloc(count, sizeof *processes);
	for (unsigned i = 0; processes && i < count; i++) {
		processes[i].argv = argv;
		processes[i].envp = envp;
		processes[i].mask = masks ? masks[i] : NULL;
		processes[i].mask_size = clen;
		/* There may be nothing behind the last. */
		if (i + 1 == count)
			break;
		if (!(flags & PSPAWN_SAME_ARGV))
			argv = next_list(argv);
		if (envp && !(flags & PSPAWN_SAME_ENVP))
			envp = next_list(envp);
	}
	return processes;
}

/* Spawns without waiting if `batch` isn't NULL. */
static int vector(const char *filename, char *const argv[], char *const envp[], unsigned count, unsigned clen,
	cpu_set_t *const masks[], int flags, pid_t pids[], pspawn_batch_t **batch)
{
	struct pspawn_context_options options = {.size = sizeof options, .envp = flags & PSPAWN_BY_EXEC ? NULL : envp};
	pspawn_context_t context;
	bool zygote = !(flags & PSPAWN_BY_EXEC) && (count >= HWSP_ZYGOTE_PAYS || flags & PSPAWN_BY_ZYGOTE);

	if (count > INT_MAX || (flags & PSPAWN_BY_EXEC && flags & PSPAWN_BY_ZYGOTE)) {
		errno = EINVAL;
		return -1;
	}
	if (!count && !batch)
		return 0;
	options.mechanism = zygote ? PSPAWN_AUTO : PSPAWN_VFORK;
	options.mask = masks && count ? masks[0] : NULL;
	options.mask_size = clen;
	struct pspawn_process *processes = separate(argv, envp, count, clen, masks, flags);
	if ((count && !processes) || pspawn_context_create_with(&context, filename, &options)) {
		int error = errno;
		free(processes);
		errno = error;
		return -1;
	}
	int result = batch ? pspawn_many_begin(&context, processes, count, NULL, batch)
			   : pspawn_many(&context, processes, count, NULL, pids, NULL);
	int error = errno;
	free(processes);
	if (batch && result >= 0)
		hwsp_batch_own(*batch, &context);
	else
		pspawn_context_destroy(&context);
	errno = error;
	return result;
}

EXPORT int pspawn_vector(const char *filename, char *const argv[], char *const envp[], unsigned nspawns, unsigned clen,
	cpu_set_t *const masks[], int flags, pid_t pids[])
{
	return vector(filename, argv, envp, nspawns, clen, masks, flags, pids, NULL);
}

EXPORT int ipspawn_vector(const char *filename, char *const argv[], char *const envp[], unsigned nspawns, unsigned clen,
	cpu_set_t *const masks[], int flags, pspawn_batch_t **batch)
{
	return vector(filename, argv, envp, nspawns, clen, masks, flags, NULL, batch);
}

EXPORT int pspawn_stop(int *argc, char ***argv)
{
	/* In a zygote the function of its own library precedes this one. */
	(void)argc, (void)argv;
	return 0;
}
