/* The actions of a Python interpreter after its start, as Py_RunMain() has them (Modules/main.c of 3.8 to 3.14). */
#include "zygote.h"

#include "python.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static int run_command(const char *code)
{
	struct compiler_flags flags = {IGNORE_COOKIE, hwsp_py.minor};
	object *text = hwsp_py.PyUnicode_DecodeFSDefault(code);

	if (!text || hwsp_py.PySys_Audit("cpython.run_command", "O", text) < 0)
		return fail();
	return status_of(hwsp_py.PyRun_SimpleStringFlags(hwsp_py.PyUnicode_AsUTF8(text), &flags));
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
		/* Later versions store the text for tracebacks, by a function of their own. */
		return hwsp_py.minor < 13;
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
