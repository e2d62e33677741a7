/* Executes programs without the audit library, where it can't be loaded.
 *
 * ld.so complains on standard error of a library that it can't load. That happens to a program that outlives the
 * session, runs as another user or among other mounts, is confined, or is built for another processor. The programs
 * that such a program executes don't get the library, either. */
#include "wrap.h"

#include <stdlib.h>

#include "path.h"
#include "sys.h"

#define NAME "LD_AUDIT="

/* Finds the beginning and end of this library's element in the list; NULL if there is none. */
static const char *element(const char *libraries, const char **end)
{
	const char *begin = libraries, *at;
	while (begin) {
		const char *next = strchr(begin, ':');
		*end = next ? next : begin + strlen(begin);
		for (at = begin; at < *end; at++)
			if ((at == begin || at[-1] == '/') && hwa_after(at, HWA_LIBRARY) == *end)
				return begin;
		begin = next ? next + 1 : NULL;
	}
	return NULL;
}

bool hwa_is_audited_by(const char *libraries)
{
	const char *end;
	return element(libraries, &end) != NULL;
}

static bool opens(const char *path)
{
	long fd = hwa_sys(__NR_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bool is_passed_on = !hwa_only_by_capability(fd);
	hwa_sys(__NR_close, fd);
	return is_passed_on;
}

bool hwa_library_opens(const char *libraries)
{
	const char *end, *begin = element(libraries, &end);
	if (!begin || !*end)
		return begin && opens(begin);
	HWA_PATH_APART(path);
	return hwa_copy(&path, begin, (size_t)(end - begin)) && opens(path.at);
}

size_t hwa_bare_variable(const char *libraries, char *out)
{
	const char *end, *begin = element(libraries, &end);
	size_t bytes = sizeof NAME - 1, before = begin ? (size_t)(begin - libraries) : strlen(libraries);
	const char *after = begin && *end ? end + 1 : "";
	memcpy(out, NAME, bytes);
	before -= before > 0 && begin && !*after;
	memcpy(out + bytes, libraries, before);
	bytes += before;
	memcpy(out + bytes, after, strlen(after) + 1);
	return bytes + strlen(after);
}

size_t hwa_count_strings(char *const list[])
{
	size_t number = 0;
	while (list && list[number])
		number++;
	return number;
}

size_t hwa_bare_slots(char *const envp[], const char *libraries)
{
	return hwa_count_strings(envp) + 1 + (sizeof NAME + strlen(libraries)) / sizeof(char *) + 1;
}

char **hwa_bare(char *const envp[], const char *libraries, char **slots)
{
	char *text = (char *)(slots + hwa_count_strings(envp) + 1), **out = slots;
	bool any = hwa_bare_variable(libraries, text) > sizeof NAME - 1;
	for (; *envp; envp++) {
		if (!hwa_after(*envp, NAME))
			*out++ = *envp;
		else if (any)
			*out++ = text;
	}
	*out = NULL;
	return slots;
}

void hwa_bare_here(struct hwa_namespace *ns, const char *libraries)
{
	HWA_PATH_APART(text);
	bool fits = sizeof NAME + strlen(libraries) <= text.room;
	if (fits && hwa_bare_variable(libraries, text.at) > sizeof NAME - 1 && LIBC(setenv))
		LIBC(setenv)("LD_AUDIT", text.at + sizeof NAME - 1, 1);
	else if (LIBC(unsetenv))
		LIBC(unsetenv)("LD_AUDIT");
}
