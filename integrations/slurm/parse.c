/* Parsing of the plugin's inputs; see parse.h. All inputs may be malformed. */
#include "parse.h"

#include <stdio.h>
#include <string.h>

#define FIELDS_MAX 12
/* Prefix of an answer that also configures the I/O library. */
#define IO_FIELDS 6
#define AUDIT_LIBRARY "libheadwater-audit.so"
#define BINARY "/usr/bin/headwater"

static bool is_number(const char *text)
{
	size_t digits = strspn(text, "0123456789");

	return digits > 0 && digits < 10 && !text[digits];
}

static bool is_session(const char *text)
{
	return strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16;
}

/* Reads how the process is served. */
static bool parse_served(const char *const field[], size_t count, struct hwsl_answer *answer)
{
	if (count == 2 && strcmp(field[0], "alone") == 0) {
		*answer = (struct hwsl_answer){.kind = HWSL_ANSWER_ALONE, .why = field[1]};
		return true;
	}
	if (count < 4 || !is_session(field[1]) || !is_number(field[2]) || !is_number(field[3]))
		return false;
	*answer = (struct hwsl_answer){.session = field[1], .node = field[2], .nodes = field[3]};
	if (count == 6 && strcmp(field[0], "audit") == 0) {
		answer->kind = HWSL_ANSWER_AUDIT;
		answer->table = field[4];
		answer->library = field[5];
		return field[4][0] == '/' && field[5][0] == '/';
	}
	if (count == 4) {
		answer->kind = HWSL_ANSWER_PLAIN;
		return strcmp(field[0], "plain") == 0;
	}
	answer->kind = HWSL_ANSWER_ENTER;
	answer->supervisor = field[4];
	return count == 5 && strcmp(field[0], "enter") == 0 && field[4][0] == '/';
}

bool hwsl_parse_answer(const char *bytes, size_t size, struct hwsl_answer *answer)
{
	const char *field[FIELDS_MAX];
	size_t count = 0, io = 0;

	for (size_t at = 0; at < size; at += strlen(field[count++]) + 1) {
		if (count == FIELDS_MAX || !memchr(bytes + at, '\0', size - at))
			return false;
		field[count] = bytes + at;
	}
	if (count > IO_FIELDS && strcmp(field[0], "io") == 0 && field[1][0] == '/')
		io = IO_FIELDS;
	if (!parse_served(field + io, count - io, answer))
		return false;
	if (io) {
		answer->io.library = field[1];
		answer->io.everywhere = field[2];
		answer->io.how = field[3];
		answer->io.profile = field[4];
		answer->io.report = field[5];
	}
	return true;
}

static bool is_own(const char *library, size_t bytes)
{
	size_t own = strlen(AUDIT_LIBRARY);

	return bytes >= own && memcmp(library + bytes - own, AUDIT_LIBRARY, own) == 0;
}

bool hwsl_join_audit(char *out, size_t size, const char *library, const char *users)
{
	size_t used = strlen(library);

	if (used >= size)
		return false;
	memcpy(out, library, used);
	for (const char *next = users ? users : ""; *next;) {
		size_t bytes = strcspn(next, ":");

		if (bytes > 0 && !is_own(next, bytes)) {
			if (bytes + 1 >= size - used)
				return false;
			out[used++] = ':';
			memcpy(out + used, next, bytes);
			used += bytes;
		}
		next += bytes + (next[bytes] == ':');
	}
	out[used] = '\0';
	return true;
}

/* Returns whether one of the paths in a list is a file of this name. */
static bool has_file(const char *list, const char *name)
{
	for (const char *next = list; *next;) {
		size_t bytes = strcspn(next, ": "), own = strlen(name);

		if (bytes >= own && memcmp(next + bytes - own, name, own) == 0 &&
			(bytes == own || next[bytes - own - 1] == '/'))
			return true;
		next += bytes + (next[bytes] != '\0');
	}
	return false;
}

bool hwsl_join_preload(char *out, size_t size, const char *library, const char *users)
{
	const char *name = strrchr(library, '/');
	bool is_there = users && has_file(users, name ? name + 1 : library);
	const char *between = users && *users ? ":" : "";
	int bytes = snprintf(out, size, "%s%s%s", users ? users : "", is_there ? "" : between, is_there ? "" : library);

	return bytes >= 0 && (size_t)bytes < size;
}

const char *hwsl_parse_site(int count, char *const arguments[], struct hwsl_site *site)
{
	const char *unknown = NULL;

	*site = (struct hwsl_site){.binary = BINARY};
	for (int n = 0; n < count; n++) {
		if (strncmp(arguments[n], "headwater=", 10) == 0)
			site->binary = arguments[n] + 10;
		else if (strncmp(arguments[n], "default=", 8) == 0)
			site->setting = arguments[n] + 8;
		else if (!unknown)
			unknown = arguments[n];
	}
	return unknown;
}

const char *hwsl_options_of(const char *setting)
{
	if (!setting || strcmp(setting, "off") == 0)
		return NULL;
	return strcmp(setting, "on") == 0 ? "" : setting;
}

bool hwsl_has_name(const char *variable, const char *name)
{
	size_t bytes = strlen(name);

	if (bytes > 0 && name[bytes - 1] == '*')
		return strncmp(variable, name, bytes - 1) == 0;
	return strncmp(variable, name, bytes) == 0 && variable[bytes] == '=';
}

bool hwsl_is_welcome(const char *line, size_t size)
{
	static const char refused[] = "\"refused\"";
	size_t bytes = sizeof(refused) - 1;

	if (size < 3 || line[0] != '{' || line[size - 1] != '\n')
		return false;
	for (size_t at = 0; at + bytes <= size; at++) {
		if (memcmp(line + at, refused, bytes) == 0)
			return false;
	}
	return true;
}
