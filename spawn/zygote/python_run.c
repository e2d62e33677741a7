/* The actions of a Python interpreter after its start, as Py_RunMain() has them (Modules/main.c of 3.8 to 3.15). */
#include "zygote.h"

#include "python.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first versions, 3.N, that ignore a declaration of its encoding in the text after -c, keep it, and remove its
 * indentation. */
#define IGNORES_COOKIE_MIN 10
#define KEEPS_TEXT_MIN 13
#define DEDENTS_MIN 14
/* What tracebacks call that text. */
#define COMMAND_NAME "<string>"

/* Set if the program ended by an interrupt that it did not catch. */
static bool interrupted;

/* True if the last exception that was printed is an interrupt. */
static bool was_interrupt(void)
{
	return hwsp_py.PySys_GetObject("last_type") == *hwsp_py.interrupt;
}

/* Prints the exception, or ends the process if it is SystemExit. */
static int fail(void)
{
	interrupted = hwsp_py.PyErr_Occurred() == *hwsp_py.interrupt;
	hwsp_py.PyErr_Print();
	return 1;
}

/* The status of a program that has ended. */
static int status_of(int failed)
{
	interrupted = failed && was_interrupt();
	return failed != 0;
}

/* Keeps the text of `code`, of which tracebacks show lines. Returns false if that raised an exception. */
static bool keep_text(object *code, object *text)
{
	object *name = hwsp_py.PyUnicode_DecodeFSDefault(COMMAND_NAME);
	object *module = hwsp_py.PyImport_ImportModule("linecache");
	object *keep = module ? hwsp_py.PyObject_GetAttrString(module, "_register_code") : NULL;

	if (!name || !keep)
		return false;
	/* In 3.13.0 it is kept by its name. */
	object *key = hwsp_py.PyObject_HasAttrString(module, "_interactive_cache") ? code : name;
	return hwsp_py.PyObject_CallFunction(keep, "OOO", key, text, name);
}

/* As _PyRun_SimpleStringFlagsWithName() runs a text since 3.13 (Python/pythonrun.c), which is not exported. */
static int run_kept(object *text, struct compiler_flags *flags)
{
	object *module = hwsp_py.PyImport_AddModule("__main__");
	object *space = module ? hwsp_py.PyModule_GetDict(module) : NULL;
	object *code = space
		? hwsp_py.Py_CompileStringExFlags(hwsp_py.PyUnicode_AsUTF8(text), COMMAND_NAME, FILE_INPUT, flags, -1)
		: NULL;

	if (!code || !keep_text(code, text) || hwsp_py.PySys_Audit("exec", "O", code) < 0 ||
		!hwsp_py.PyEval_EvalCode(code, space, space))
		return fail();
	return 0;
}

static int run_command(const char *code)
{
	struct compiler_flags flags = {hwsp_py.minor >= IGNORES_COOKIE_MIN ? IGNORE_COOKIE : 0, hwsp_py.minor};
	/* The interpreter ends the text with a line's end. */
	char *line;
	object *text = asprintf(&line, "%s\n", code) < 0 ? NULL : hwsp_py.PyUnicode_DecodeFSDefault(line);

	if (!text || hwsp_py.PySys_Audit("cpython.run_command", "O", text) < 0)
		return fail();
	free(line);
	if (hwsp_py.minor >= KEEPS_TEXT_MIN)
		return run_kept(text, &flags);
	return status_of(hwsp_py.PyRun_SimpleStringFlags(hwsp_py.PyUnicode_AsUTF8(text), &flags));
}

/* True if each line that has something begins with blanks, which the interpreter removes since 3.14. */
static bool is_indented(const char *code)
{
	while (*code) {
		size_t blanks = strspn(code, " \t"), length = strcspn(code, "\n");
		if (blanks == 0 && length > 0)
			return false;
		code += length + (code[length] == '\n');
	}
	return true;
}

/* As runpy runs it; `as_argument` is false for the __main__ of a directory or an archive. */
static int run_module(const char *name, bool as_argument)
{
	object *text = hwsp_py.PyUnicode_DecodeFSDefault(name);

	if (!text || hwsp_py.PySys_Audit("cpython.run_module", "O", text) < 0)
		return fail();
	object *runpy = hwsp_py.PyImport_ImportModule("runpy");
	object *run = runpy ? hwsp_py.PyObject_GetAttrString(runpy, "_run_module_as_main") : NULL;
	object *done = run ? hwsp_py.PyObject_CallFunction(run, "Oi", text, (int)as_argument) : NULL;
	if (!done)
		return fail();
	hwsp_py.Py_DecRef(done);
	return 0;
}

const char *hwsp_python_whole(const char *name, char *path)
{
	size_t length;
	if (name[0] == '/' || hwsp_py.minor < 9 || !getcwd(path, PATH_MAX))
		return name;
	length = strlen(path);
	if (length + strlen(name) + 2 > PATH_MAX)
		return name;
	path[length] = '/';
	strcpy(path + length + 1, name);
	return path;
}

static int run_file(const char *given)
{
	struct compiler_flags flags = {0, hwsp_py.minor};
	char path[PATH_MAX];
	const char *name = hwsp_python_whole(given, path);
	object *text = hwsp_py.PyUnicode_DecodeFSDefault(name);

	if (!text || hwsp_py.PySys_Audit("cpython.run_file", "O", text) < 0)
		return fail();
	FILE *file = fopen(name, "rbe");
	if (!file) {
		/* It was there a moment ago. */
		fprintf(stderr, "%s: can't open file '%s': [Errno %d] %s\n", hwsp_zygote.argv[0], name, errno,
			strerror(errno));
		return 2;
	}
	if (hwsp_py.Py_MakePendingCalls() == -1) {
		fclose(file);
		return fail();
	}
	return status_of(hwsp_py.PyRun_AnyFileExFlags(file, name, 1, &flags));
}

static int run_input(void)
{
	struct compiler_flags flags = {0, hwsp_py.minor};

	if (hwsp_py.PySys_Audit("cpython.run_stdin", NULL) < 0)
		return fail();
	return status_of(hwsp_py.PyRun_AnyFileExFlags(stdin, "<stdin>", 0, &flags));
}

bool hwsp_python_can_run(const struct hwsp_python *read)
{
	struct stat file;

	if (fstat(0, &file) == 0 && S_ISDIR(file.st_mode))
		return false;
	switch (read->kind) {
	case HWSP_PYTHON_COMMAND:
		return hwsp_py.minor < DEDENTS_MIN || !is_indented(read->what);
	case HWSP_PYTHON_MODULE:
		return true;
	case HWSP_PYTHON_FILE:
	case HWSP_PYTHON_ARCHIVE:
		return access(read->what, R_OK) == 0;
	case HWSP_PYTHON_INPUT:
		return !isatty(0);
	}
	return false;
}

int hwsp_python_run(const struct hwsp_python *read)
{
	switch (read->kind) {
	case HWSP_PYTHON_COMMAND:
		return run_command(read->what);
	case HWSP_PYTHON_MODULE:
		return run_module(read->what, true);
	case HWSP_PYTHON_FILE:
		return run_file(read->what);
	case HWSP_PYTHON_ARCHIVE:
		return run_module("__main__", false);
	case HWSP_PYTHON_INPUT:
		return run_input();
	}
	return 1;
}

int hwsp_python_end(int status)
{
	/* A program may request the prompt. */
	if (getenv("PYTHONINSPECT") && isatty(0)) {
		struct compiler_flags flags = {0, hwsp_py.minor};
		status = hwsp_py.PyRun_AnyFileExFlags(stdin, "<stdin>", 0, &flags) != 0;
	}
	if (hwsp_py.Py_FinalizeEx() < 0)
		status = 120;
	if (interrupted) {
		signal(SIGINT, SIG_DFL);
		kill(getpid(), SIGINT);
		status = 128 + SIGINT;
	}
	return status;
}
