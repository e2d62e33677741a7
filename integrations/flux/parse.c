#include "parse.h"

#include <stdlib.h>
#include <string.h>

const char *hwfl_options_of(const char *setting)
{
	if (*setting == '/' || strcmp(setting, "off") == 0)
		return NULL;
	return strcmp(setting, "on") == 0 ? "" : setting;
}

const char *hwfl_text_of(char *json)
{
	size_t bytes = strlen(json);

	if (strcmp(json, "true") == 0 || strcmp(json, "1") == 0)
		return "on";
	if (strcmp(json, "false") == 0 || strcmp(json, "0") == 0)
		return "off";
	if (bytes < 3 || json[0] != '"' || json[bytes - 1] != '"' || strchr(json, '\\'))
		return NULL;
	json[bytes - 1] = '\0';
	return json + 1;
}

bool hwfl_is_command(const char *program, const char *name)
{
	const char *last = strrchr(program, '/');

	return strcmp(last ? last + 1 : program, name) == 0;
}

size_t hwfl_names_max(const char *json)
{
	size_t count = 0;

	for (; *json; json++)
		count += *json == ':';
	return count;
}

/* Returns the end of the JSON string that begins at the quotation mark `at`: its closing mark, or the text's end. */
static char *string_end(char *at)
{
	for (at++; *at && *at != '"'; at++)
		if (*at == '\\' && at[1])
			at++;
	return at;
}

char *hwfl_next_name(char **rest)
{
	for (;;) {
		char *name = strchr(*rest, '"'), *end, *value;

		if (!name)
			return NULL;
		end = string_end(name);
		value = *end ? strchr(end + 1, '"') : NULL;
		if (!value)
			return NULL;
		value = string_end(value);
		*rest = *value ? value + 1 : value;
		*end = '\0';
		if (name[1] && !strchr(name + 1, '\\'))
			return name + 1;
	}
}

static int by_name(const void *left, const void *right)
{
	return strcmp(*(const char *const *)left, *(const char *const *)right);
}

void hwfl_place_of(const char *const *names, unsigned count, unsigned rank, struct hwfl_place *place)
{
	const char **sorted = malloc(count * sizeof(*sorted));
	unsigned hosts = 0, number = 0;
	bool is_known = sorted && rank < count, is_first = true;

	for (unsigned n = 0; is_known && n < count; n++) {
		is_known = names[n] != NULL;
		sorted[n] = names[n];
		is_first = is_first && (n >= rank || !names[n] || strcmp(names[n], names[rank]) != 0);
	}
	if (is_known) {
		qsort(sorted, count, sizeof(*sorted), by_name);
		for (unsigned n = 0; n < count; n++) {
			hosts += n == 0 || strcmp(sorted[n], sorted[n - 1]) != 0;
			if (strcmp(sorted[n], names[rank]) == 0)
				number = hosts - 1;
		}
		/* Where each shell has a host of its own, the job's order is kept. */
		*place = (struct hwfl_place){hosts == count ? rank : number, hosts, is_first};
	}
	free(sorted);
}
