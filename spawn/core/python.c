/* The arguments of a Python interpreter, as it reads them itself (Python/getopt.c and Python/initconfig.c of 3.8 to
 * 3.15): its options, and then what it runs. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Options without a value that change nothing before the program but the interpreter's settings. */
#define PLAIN "bBEIOPqRsStu"
/* Of -X, those that are the same for a process whether it has read them itself or not. */
static const char *const settings[] = {"dev", "utf8", "faulthandler", "frozen_modules", "pycache_prefix",
	"no_debug_ranges", "int_max_str_digits", "warn_default_encoding", "cpu_count", "gil"};

static bool is_setting(const char *value)
{
	size_t length = strcspn(value, "=");
	for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
		if (strlen(settings[i]) == length && !memcmp(settings[i], value, length))
			return true;
	return false;
}

/* The rest of an option's argument, or else the next argument. */
static const char *take_value(struct hwsp_python_options *options)
{
	const char *value = options->at;

	if (!*value)
		value = *options->word ? *options->word++ : NULL;
	options->at = "";
	return value;
}

/* The next option: its letter, 0 behind the last, -1 for one with which a zygote can't be used. */
static int next_option(struct hwsp_python_options *options, const char **value)
{
	*value = NULL;
	if (!*options->at) {
		const char *word = *options->word;
		if (!word || word[0] != '-' || !word[1])
			return 0;
		options->word++;
		if (!strcmp(word, "--"))
			return 0;
		options->at = word + 1;
	}
	int letter = *options->at++;
	if (strchr(PLAIN, letter))
		return letter;
	if (!strchr("cmWX", letter))
		return -1;
	*value = take_value(options);
	return *value && (letter != 'X' || is_setting(*value)) ? letter : -1;
}

/* True if a shell that has the environment would find `path` by this name. */
static bool is_found(const char *name, const char *path, char *const *envp)
{
	char found[4096];

	for (; *envp; envp++) {
		if (strncmp(*envp, "PATH=", 5))
			continue;
		for (const char *list = *envp + 5;; list++) {
			int length = (int)strcspn(list, ":");
			int wrote = snprintf(found, sizeof found, "%.*s/%s", length, list, name);
			if (length && wrote > 0 && (size_t)wrote < sizeof found && access(found, X_OK) == 0)
				return !strcmp(found, path);
			list += length;
			if (!*list)
				return false;
		}
	}
	return false;
}

bool hwsp_python_read(char *const *argv, struct hwsp_python *read)
{
	if (!argv[0])
		return false;
	struct hwsp_python_options options = {.word = argv + 1, .at = ""};
	const char *value;
	int letter = next_option(&options, &value);

	while (letter > 0 && letter != 'c' && letter != 'm')
		letter = next_option(&options, &value);
	*read = (struct hwsp_python){.kind = HWSP_PYTHON_INPUT, .rest = options.word};
	if (letter == 'c' || letter == 'm') {
		read->kind = letter == 'c' ? HWSP_PYTHON_COMMAND : HWSP_PYTHON_MODULE;
		read->what = value;
	} else if (*options.word) {
		read->kind = strcmp(*options.word, "-") ? HWSP_PYTHON_FILE : HWSP_PYTHON_INPUT;
		read->what = *options.word;
		read->rest = options.word + 1;
	}
	return letter >= 0;
}

/* True if `name`, seen from the directory `cwd`, is `path`. */
static bool is_below(const char *cwd, const char *name, const char *path)
{
	size_t length = strcmp(cwd, "/") ? strlen(cwd) : 0;

	while (!strncmp(name, "./", 2))
		name += 2;
	return !strncmp(path, cwd, length) && path[length] == '/' && !strcmp(path + length + 1, name);
}

/* The interpreter derives its libraries' path from its name. */
static bool has_name(const char *zygote, const char *name, char *const *envp, const char *cwd)
{
	if (!strchr(name, '/'))
		return !strcmp(zygote, name) || is_found(name, zygote, envp);
	return name[0] == '/' ? !strcmp(zygote, name) : cwd && is_below(cwd, name, zygote);
}

bool hwsp_python_alike(char *const *zygote, char *const *argv, char *const *envp, const char *cwd)
{
	if (!argv[0] || !zygote[0])
		return false;
	struct hwsp_python_options left = {.word = zygote + 1, .at = ""}, right = {.word = argv + 1, .at = ""};
	const char *left_value, *right_value;

	if (!has_name(zygote[0], argv[0], envp, cwd))
		return false;
	for (;;) {
		int ours = next_option(&left, &left_value), theirs = next_option(&right, &right_value);
		if (ours < 0 || theirs < 0)
			return false;
		if (theirs == 'c' || theirs == 'm')
			theirs = 0;
		if (ours != theirs)
			return false;
		if (!ours)
			return true;
		if ((left_value || right_value) && (!left_value || !right_value || strcmp(left_value, right_value)))
			return false;
	}
}
