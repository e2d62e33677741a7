/* A zygote's reader of requests over bytes in memory: AddressSanitizer sees the first byte that is read beyond them. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define EDIT_BYTES 5
#define PROCESSES 3

static volatile unsigned sink;

static void read_string(const char *string)
{
	sink += string ? (unsigned)strlen(string) : 0;
}

static void read_list(char *const *list)
{
	for (; list && *list; list++)
		read_string(*list);
}

static void read_all(const struct hwsp_request *request)
{
	for (uint32_t i = 0; i < request->count; i++) {
		const struct pspawn_process *process = &request->processes[i];
		read_list(process->argv);
		read_list(process->envp);
		read_string(process->cwd);
		for (size_t at = 0; process->mask && at < process->mask_size; at++)
			sink += ((const unsigned char *)process->mask)[at];
		for (size_t number = 0; number < process->file_action_count; number++)
			read_string(process->file_actions[number].path);
	}
	for (size_t i = 0; i < request->options.limit_count; i++)
		sink += (unsigned)request->options.limits[i].limit.rlim_cur;
}

/* A request that is right, of processes of several kinds. */
static struct hwsp_bytes encoded(void)
{
	static char *const arguments[] = {"program", "two words", NULL}, *const variables[] = {"A=1", NULL};
	static const struct pspawn_file_action actions[] = {{.kind = PSPAWN_OPEN, .fd = 1, .path = "/dev/null"}};
	static const struct pspawn_limit limits[] = {{RLIMIT_NOFILE, {100, 200}}};
	static struct hwsp_inherited inherited;
	struct pspawn_options options = {.size = sizeof options, .limits = limits, .limit_count = 1};
	static cpu_set_t mask;
	const struct pspawn_process processes[PROCESSES] = {
		{.argv = arguments, .envp = variables},
		{.argv = arguments, .envp = variables, .mask = &mask, .mask_size = sizeof mask, .cwd = "/"},
		{.argv = variables, .envp = variables, .file_actions = actions, .file_action_count = 1},
	};
	struct hwsp_bytes bytes = {0};

	hwsp_encode(&bytes, &inherited, processes, PROCESSES, &options);
	return bytes;
}

/* Decodes these bytes, or a request with these edits: an offset, counted from its end, and three bytes to write there.
 * Returns 1 if it was decoded. */
int fuzz_spawn_request(const void *data, size_t length, uint32_t count, int well_formed)
{
	const unsigned char *edit = data;
	struct hwsp_bytes bytes = {0};
	struct hwsp_request request;

	if (well_formed) {
		bytes = encoded();
		count = PROCESSES;
		for (; length >= EDIT_BYTES; length -= EDIT_BYTES, edit += EDIT_BYTES) {
			size_t at = (size_t)(edit[0] | edit[1] << 8) % (bytes.length - 2);
			memcpy(bytes.data + bytes.length - 3 - at, edit + 2, 3);
		}
	}
	/* In memory of their own length. */
	size_t own = well_formed ? bytes.length : length;
	char *copy = malloc(own ? own : 1);
	memcpy(copy, well_formed ? bytes.data : data, own);
	int understood = hwsp_decode(copy, own, count, &request) == 0;
	if (understood) {
		read_all(&request);
		hwsp_request_free(&request);
	}
	free(copy);
	free(bytes.data);
	return understood;
}
