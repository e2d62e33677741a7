/* Requests as bytes. Numbers are in the machine's own order: both ends are on it. Lists of strings that are the same
 * as the process's before are not repeated.
 *
 * Whatever the bytes are, decoding reads nothing outside of them. */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void put(struct hwsp_bytes *bytes, const void *data, size_t length)
{
	if (bytes->failed)
		return;
	if (length > bytes->capacity - bytes->length) {
		size_t capacity = 2 * (bytes->capacity + length) + 4096;
		char *grown = realloc(bytes->data, capacity);
		if (!grown) {
			bytes->failed = true;
			return;
		}
		bytes->data = grown;
		bytes->capacity = capacity;
	}
	if (length)
		memcpy(bytes->data + bytes->length, data, length);
	bytes->length += length;
}

static void put_u32(struct hwsp_bytes *bytes, uint32_t number)
{
	put(bytes, &number, sizeof number);
}

/* Length with its zero byte, and the string; 0 for NULL. */
static void put_string(struct hwsp_bytes *bytes, const char *string)
{
	size_t length = string ? strlen(string) + 1 : 0;
	put_u32(bytes, (uint32_t)length);
	put(bytes, string, length);
}

#define SAME UINT32_MAX

static void put_list(struct hwsp_bytes *bytes, char *const *list, bool same)
{
	uint32_t count = 0;
	if (same) {
		put_u32(bytes, SAME);
		return;
	}
	while (list && list[count])
		count++;
	put_u32(bytes, count);
	for (uint32_t i = 0; i < count; i++)
		put_string(bytes, list[i]);
}

static void put_process(struct hwsp_bytes *bytes, const struct pspawn_process *process,
	const struct pspawn_process *before)
{
	put_list(bytes, process->argv, before && before->argv == process->argv);
	put_list(bytes, process->envp, before && before->envp == process->envp);
	put_u32(bytes, process->mask ? (uint32_t)process->mask_size : 0);
	put(bytes, process->mask, process->mask ? process->mask_size : 0);
	put_string(bytes, process->cwd);
	put_u32(bytes, (uint32_t)process->file_action_count);
	for (size_t i = 0; i < process->file_action_count; i++) {
		struct pspawn_file_action action = process->file_actions[i];
		const char *path = action.path;
		action.path = NULL;
		put(bytes, &action, sizeof action);
		put_string(bytes, path);
	}
}

void hwsp_encode(struct hwsp_bytes *bytes, const struct hwsp_inherited *inherited,
	const struct pspawn_process *processes, uint32_t count, const struct pspawn_options *options)
{
	struct pspawn_options plain = *options;
	plain.limits = NULL;
	put(bytes, inherited, sizeof *inherited);
	put(bytes, &plain, sizeof plain);
	put(bytes, options->limits, options->limit_count * sizeof *options->limits);
	for (uint32_t i = 0; i < count; i++)
		put_process(bytes, &processes[i], i ? &processes[i - 1] : NULL);
}

/* Bytes that are read; after an error `at` is NULL. */
struct reader {
	const char *at, *end;
	bool no_memory;
	struct hwsp_block *block;
};
/* Memory that was allocated for a request. */
struct hwsp_block {
	struct hwsp_block *next;
	_Alignas(16) char data[];
};

static const char *read_bytes(struct reader *reader, size_t length)
{
	const char *at = reader->at;
	if (!at || length > (size_t)(reader->end - at)) {
		reader->at = NULL;
		return NULL;
	}
	reader->at = at + length;
	return at;
}

static uint32_t take_u32(struct reader *reader)
{
	uint32_t number = 0;
	const char *at = read_bytes(reader, sizeof number);
	if (at)
		memcpy(&number, at, sizeof number);
	return number;
}

static char *take_string(struct reader *reader)
{
	uint32_t length = take_u32(reader);
	const char *string = length ? read_bytes(reader, length) : NULL;
	if (string && (string[length - 1] || memchr(string, 0, length - 1)))
		reader->at = string = NULL;
	return (char *)string;
}

static void *take_zeros(size_t bytes)
{
	return calloc(1, bytes);
}
struct hwsp_memory hwsp_memory = {take_zeros, free};

static void *allocate(struct reader *reader, size_t count, size_t size)
{
	struct hwsp_block *block = hwsp_memory.take(sizeof *block + count * size);
	if (!block) {
		reader->no_memory = true;
		reader->at = NULL;
		return NULL;
	}
	block->next = reader->block;
	reader->block = block;
	return block->data;
}

static char *const *take_list(struct reader *reader, char *const *before)
{
	uint32_t count = take_u32(reader);
	if (count == SAME) {
		if (!before)
			reader->at = NULL;
		return before;
	}
	/* A string takes four bytes at least. */
	if (!reader->at || count > (size_t)(reader->end - reader->at) / 4) {
		reader->at = NULL;
		return NULL;
	}
	char **list = allocate(reader, (size_t)count + 1, sizeof *list);
	for (uint32_t i = 0; list && i < count; i++) {
		list[i] = take_string(reader);
		if (!list[i]) {
			reader->at = NULL;
			return NULL;
		}
	}
	return list;
}

static void take_actions(struct reader *reader, struct pspawn_process *process)
{
	uint32_t count = take_u32(reader);
	if (!reader->at || count > (size_t)(reader->end - reader->at) / sizeof *process->file_actions) {
		reader->at = NULL;
		return;
	}
	struct pspawn_file_action *actions = count ? allocate(reader, count, sizeof *actions) : NULL;
	for (uint32_t i = 0; reader->at && i < count; i++) {
		const char *action = read_bytes(reader, sizeof *actions);
		if (action)
			memcpy(&actions[i], action, sizeof *actions);
		actions[i].path = take_string(reader);
		if (actions[i].kind == PSPAWN_OPEN && !actions[i].path)
			reader->at = NULL;
	}
	process->file_actions = actions;
	process->file_action_count = count;
}

static void take_process(struct reader *reader, struct pspawn_process *process, const struct pspawn_process *before)
{
	process->argv = take_list(reader, before ? before->argv : NULL);
	process->envp = take_list(reader, before ? before->envp : NULL);
	process->mask_size = take_u32(reader);
	const char *mask = process->mask_size ? read_bytes(reader, process->mask_size) : NULL;
	if (mask) {
		cpu_set_t *aligned = allocate(reader, 1,
			process->mask_size < sizeof *aligned ? sizeof *aligned : process->mask_size);
		if (aligned)
			memcpy(aligned, mask, process->mask_size);
		process->mask = aligned;
	}
	process->cwd = take_string(reader);
	take_actions(reader, process);
}

int hwsp_decode(const char *data, size_t length, uint32_t count, struct hwsp_request *request)
{
	struct reader reader = {.at = data, .end = data + length};
	const char *inherited = read_bytes(&reader, sizeof request->inherited);
	const char *options = read_bytes(&reader, sizeof request->options);

	memset(request, 0, sizeof *request);
	/* A process has four numbers at least, of four bytes each. */
	if (!options || count > length / 16)
		return EINVAL;
	memcpy(&request->inherited, inherited, sizeof request->inherited);
	memcpy(&request->options, options, sizeof request->options);
	size_t limits = request->options.limit_count;
	if (request->inherited.fd_count > HWSP_FDS_MAX || limits > RLIM_NLIMITS)
		return EINVAL;
	const char *limit = read_bytes(&reader, limits * sizeof *request->options.limits);
	struct pspawn_limit *own_limits = limits ? allocate(&reader, limits, sizeof *own_limits) : NULL;
	if (own_limits && limit)
		memcpy(own_limits, limit, limits * sizeof *own_limits);
	request->options.limits = own_limits;
	request->count = count;
	request->processes = allocate(&reader, (size_t)count + 1, sizeof *request->processes);
	for (uint32_t i = 0; reader.at && i < count; i++)
		take_process(&reader, &request->processes[i], i ? &request->processes[i - 1] : NULL);
	request->memory = reader.block;
	bool whole = reader.at == reader.end;
	if (!whole)
		hwsp_request_free(request);
	return whole ? 0 : reader.no_memory ? ENOMEM : EINVAL;
}

void hwsp_request_free(struct hwsp_request *request)
{
	struct hwsp_block *block = request->memory;
	while (block) {
		struct hwsp_block *next = block->next;
		hwsp_memory.release(block);
		block = next;
	}
	memset(request, 0, sizeof *request);
}
