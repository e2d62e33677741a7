/* Memory limits of control groups, of both versions. Page cache counts as used there, but is released when memory
 * is needed. */
#include "memory/available.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/engine.h"
#include "real.h"

#define TEXT_BYTES 8192

struct version {
	/* Prefix of a group's path in /proc/self/cgroup. */
	const char *mark;
	const char *mounted;
	const char *limit, *used;
	const char *files[2];
};

static const struct version versions[] = {
	{"\n0::/", "/sys/fs/cgroup", "memory.max", "memory.current", {"\ninactive_file ", "\nactive_file "}},
	{":memory:/", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
		{"\ntotal_inactive_file ", "\ntotal_active_file "}},
};

/* Reads the beginning of a file into `text`, after a newline. */
static bool read_text(const char *path, char text[TEXT_BYTES])
{
	int descriptor = hwio_libc.open(path, O_RDONLY | O_CLOEXEC, 0);
	text[0] = '\n';
	ssize_t bytes = descriptor < 0 ? -1 : hwio_libc.read(descriptor, text + 1, TEXT_BYTES - 2);
	if (descriptor >= 0)
		hwio_libc.close(descriptor);
	text[bytes > 0 ? bytes + 1 : 1] = 0;
	return bytes > 0;
}

static uint64_t number_after(const char *text, const char *mark)
{
	const char *found = strstr(text, mark);
	return found ? strtoull(found + strlen(mark), NULL, 10) : 0;
}

/* Returns what the group's limit leaves; UINT64_MAX without a limit. */
static uint64_t left_in(const struct version *version, const char *group)
{
	char path[HWIO_PATH_BYTES_MAX + 64], text[TEXT_BYTES];
	snprintf(path, sizeof(path), "%s%s/%s", version->mounted, group, version->limit);
	if (!read_text(path, text) || text[1] < '0' || text[1] > '9')
		return UINT64_MAX;
	uint64_t limit = strtoull(text + 1, NULL, 10);
	snprintf(path, sizeof(path), "%s%s/%s", version->mounted, group, version->used);
	uint64_t used = read_text(path, text) ? strtoull(text + 1, NULL, 10) : limit;
	snprintf(path, sizeof(path), "%s%s/memory.stat", version->mounted, group);
	uint64_t files = read_text(path, text)
		? number_after(text, version->files[0]) + number_after(text, version->files[1])
		: 0;
	used -= files < used ? files : used;
	return used < limit ? limit - used : 0;
}

/* Returns the least that the group and its ancestors leave. */
static uint64_t left_up_from(const struct version *version, const char *groups)
{
	char group[HWIO_PATH_BYTES_MAX];
	const char *begin = strstr(groups, version->mark);
	uint64_t least = UINT64_MAX;
	if (!begin)
		return least;
	begin += strlen(version->mark) - 1;
	size_t bytes = strcspn(begin, "\n");
	if (bytes >= sizeof(group))
		return least;
	memcpy(group, begin, bytes);
	group[bytes] = 0;
	for (char *end; (end = strrchr(group, '/')); *end = 0) {
		uint64_t left = left_in(version, group);
		least = left < least ? left : least;
	}
	return least;
}

uint64_t hwio_available_bytes(void)
{
	char text[TEXT_BYTES];
	uint64_t least = read_text("/proc/meminfo", text) ? number_after(text, "\nMemAvailable:") * 1024 : 0;
	if (!read_text("/proc/self/cgroup", text))
		return least;
	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++) {
		uint64_t left = left_up_from(&versions[i], text);
		least = left < least ? left : least;
	}
	return least;
}
