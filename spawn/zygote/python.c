/* A Python interpreter that imports modules, stops, and then becomes an interpreter with each process's arguments.
 *
 * It does what the interpreter's own main() does, by the same public functions, so a program finds none of it on
 * its stack. Where that can't be faithful, the process execs the interpreter. */
#include "zygote.h"

#include "python.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

/* More than PyConfig takes in any version: 3.14 has some 550. */
#define CONFIG_BYTES 16384
#define MINOR_MIN 8
#define MINOR_MAX 15

struct python hwsp_py;

/* Variables that make an interpreter report its start, or act at its end. */
static const char *const refused_variables[] = {"PYTHONINSPECT", "PYTHONVERBOSE", "PYTHONPROFILEIMPORTTIME",
	"PYTHONTRACEMALLOC", "PYTHONPERFSUPPORT", "PYTHONDUMPREFS", "PYTHONDEBUG", "PYTHONMALLOCSTATS"};

/* The interpreter as it is in the zygote. */
static struct {
	object *become; /* the function of python_code.c */
	struct stat directory;
	/* The actions of signals before the interpreter was started, and since. */
	struct sigaction inherited[HWSP_SIGNALS + 1], stopped[HWSP_SIGNALS + 1];
} zygote;

static bool find_functions(void)
{
#define FIND(result, name, arguments) \
	*(void **)&hwsp_py.name = dlsym(RTLD_DEFAULT, #name); \
	if (!hwsp_py.name) \
		return false;
	PYTHON_FUNCTIONS(FIND)
#undef FIND
	hwsp_py.interrupt = dlsym(RTLD_DEFAULT, "PyExc_KeyboardInterrupt");
	hwsp_py.none = dlsym(RTLD_DEFAULT, "_Py_NoneStruct");
	const char *version = hwsp_py.Py_GetVersion();
	hwsp_py.minor = !strncmp(version, "3.", 2) ? atoi(version + 2) : 0;
	return hwsp_py.interrupt && hwsp_py.none && hwsp_py.minor >= MINOR_MIN && hwsp_py.minor <= MINOR_MAX;
}

static void read_signals(struct sigaction *actions)
{
	for (int number = 1; number <= HWSP_SIGNALS; number++)
		sigaction(number, NULL, &actions[number]);
}

/* As Py_BytesMain() starts an interpreter. */
static bool start_interpreter(int argc, char **argv)
{
	_Alignas(16) static char config[CONFIG_BYTES];

	hwsp_py.PyPreConfig_InitPythonConfig(config);
	if (hwsp_py.PyStatus_Exception(hwsp_py.Py_PreInitializeFromBytesArgs(config, argc, argv)))
		return false;
	memset(config, 0, sizeof config);
	hwsp_py.PyConfig_InitPythonConfig(config);
	bool started = !hwsp_py.PyStatus_Exception(hwsp_py.PyConfig_SetBytesArgv(config, argc, argv)) &&
		!hwsp_py.PyStatus_Exception(hwsp_py.Py_InitializeFromConfig(config));
	hwsp_py.PyConfig_Clear(config);
	return started;
}

/* Returns NULL, or why processes could not be faithful. `ctype`: the variable LC_CTYPE before the start, or NULL. */
static const char *import(const char *names, const char *ctype)
{
	const char *const texts[] = {hwsp_python_code, hwsp_python_children, hwsp_python_random};
	object *space = hwsp_py.PyDict_New(), *draws = hwsp_python_draws();
	object *prepare = NULL, *done = NULL;
	bool good = space && draws && !hwsp_py.PyDict_SetItemString(space, "draws", draws) &&
		!hwsp_py.PyDict_SetItemString(space, "__builtins__", hwsp_py.PyEval_GetBuiltins());

	for (size_t i = 0; good && i < sizeof texts / sizeof texts[0]; i++) {
		object *code = hwsp_py.Py_CompileString(texts[i], "<headwater>", FILE_INPUT);
		good = code && hwsp_py.PyEval_EvalCode(code, space, space);
	}
	if (good) {
		prepare = hwsp_py.PyDict_GetItemString(space, "prepare");
		zygote.become = hwsp_py.PyDict_GetItemString(space, "become");
	}
	if (prepare && zygote.become)
		done = hwsp_py.PyObject_CallFunction(prepare, "sIy", names, hwsp_draws_count(), ctype);
	if (!done) {
		hwsp_py.PyErr_Clear();
		return "the interpreter could not run its zygote's code";
	}
	return done == hwsp_py.none ? NULL : hwsp_py.PyUnicode_AsUTF8(done);
}

/* Opens closed standard files while the interpreter starts, so that it finds their encodings. Returns them as bits. */
static unsigned open_files(void)
{
	unsigned opened = 0;
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) == fd)
			opened |= 1u << fd;
	return opened;
}

static void close_files(unsigned opened)
{
	for (int fd = 0; fd <= 2; fd++)
		if (opened >> fd & 1)
			close(fd);
}

/* Becomes the interpreter itself, for what a zygote can't do. */
static void exec_interpreter(void)
{
	const char *path = (const char *)getauxval(AT_EXECFN);
	char linked[4096];

	for (int number = 1; number <= HWSP_SIGNALS; number++) {
		struct sigaction now, plain = {.sa_handler = SIG_DFL};
		if (zygote.inherited[number].sa_handler == SIG_DFL && sigaction(number, NULL, &now) == 0 &&
			now.sa_handler == SIG_IGN)
			sigaction(number, &plain, NULL);
	}
	if (!path || path[0] != '/') {
		hwsp_read_link("/proc/self/exe", linked, sizeof linked);
		path = linked;
	}
	execv(path, hwsp_zygote.argv);
	_exit(127);
}

/* True if the variable contains a directory's name that depends on where the interpreter is started. */
static bool is_relative(const char *list)
{
	for (bool any = list && *list; any;) {
		if (*list != '/')
			return true;
		list += strcspn(list, ":");
		any = *list++ == ':';
	}
	return false;
}

/* Signals whose action has changed since the stop: exec would have shown it to the interpreter. The interpreter
 * sets some itself, and gets the others as a list, those that are ignored now as negative numbers. */
static object *changed_signals(void)
{
	object *list = hwsp_py.PyList_New(0);

	for (int number = 1; list && number <= HWSP_SIGNALS; number++) {
		const struct sigaction *before = &zygote.stopped[number];
		struct sigaction now;
		if (sigaction(number, NULL, &now) || now.sa_handler == before->sa_handler)
			continue;
		if (number == SIGPIPE || number == SIGXFSZ)
			sigaction(number, before, NULL);
		else
			hwsp_py.PyList_Append(list,
				hwsp_py.PyLong_FromLong(now.sa_handler == SIG_IGN ? -number : number));
	}
	return list;
}

/* A list of the strings: as text, or as bytes. */
static object *list_of(const char *first, char *const *strings, object *(*make)(const char *))
{
	object *list = hwsp_py.PyList_New(0);
	if (list && first)
		hwsp_py.PyList_Append(list, make(first));
	for (; list && *strings; strings++) {
		object *string = make(*strings);
		if (!string || hwsp_py.PyList_Append(list, string))
			return NULL;
	}
	return list;
}

/* The first entry of sys.argv. */
static const char *first_argument(const struct hwsp_python *read)
{
	switch (read->kind) {
	case HWSP_PYTHON_COMMAND:
		return "-c";
	case HWSP_PYTHON_MODULE:
		return "-m";
	default:
		return read->what ? read->what : "";
	}
}

/* The entry that precedes sys.path, as _PyPathConfig_ComputeSysPath0() finds it. NULL: none. */
static const char *first_path(const struct hwsp_python *read, char *path)
{
	if (read->kind == HWSP_PYTHON_MODULE)
		return getcwd(path, PATH_MAX);
	if (read->kind == HWSP_PYTHON_ARCHIVE)
		return hwsp_python_whole(read->what, path);
	if (read->kind == HWSP_PYTHON_COMMAND || !read->what)
		return "";
	if (!realpath(read->what, path))
		return "";
	char *slash = strrchr(path, '/');
	slash[slash == path] = 0;
	return path;
}

/* True if the file has a module __main__ in it. */
static bool is_archive(const char *name)
{
	char path[PATH_MAX];
	object *text = hwsp_py.PyUnicode_DecodeFSDefault(hwsp_python_whole(name, path));
	object *importer = text ? hwsp_py.PyImport_GetImporter(text) : NULL;

	hwsp_py.PyErr_Clear();
	return importer && importer != hwsp_py.none;
}

/* The interpreter takes on arguments, environment and standard files of the process. False: only exec can. */
static bool become_interpreter(const struct hwsp_python *read)
{
	static const char *const kinds[] = {"command", "module", "file", "archive", "input"};
	char path[PATH_MAX];
	const char *first = first_path(read, path);
	object *argv_list = list_of(NULL, hwsp_zygote.argv, hwsp_py.PyUnicode_DecodeFSDefault);
	object *arguments = list_of(first_argument(read), read->rest, hwsp_py.PyUnicode_DecodeFSDefault);
	object *variables = list_of(NULL, environ, hwsp_py.PyBytes_FromString);
	object *name = hwsp_py.PyUnicode_DecodeFSDefault(read->what ? read->what : "");
	object *entry = first ? hwsp_py.PyUnicode_DecodeFSDefault(first) : hwsp_py.none;
	object *signals = changed_signals(), *done = NULL;

	if (argv_list && arguments && variables && name && entry && signals)
		done = hwsp_py.PyObject_CallFunction(zygote.become, "sOOOOOO", kinds[read->kind], name, argv_list,
			arguments, variables, entry, signals);
	if (!done)
		hwsp_py.PyErr_Clear();
	return done == hwsp_py.none;
}

/* Differences in what the interpreter would read, if it were started now. */
static bool is_as_at_start(void)
{
	struct stat directory;
	return !is_relative(getenv("PYTHONPATH")) ||
		(stat(".", &directory) == 0 && directory.st_dev == zygote.directory.st_dev &&
			directory.st_ino == zygote.directory.st_ino);
}

/* A file python3 may be a script that starts an interpreter, as version managers install it. */
static void refuse_program(void)
{
	char program[96];

	hwsp_read_link("/proc/self/exe", program, sizeof program);
	hwsp_zygote_refuse(HWSP_UNFAITHFUL, "what runs is %s, no Python of version 3.8 to 3.15", program);
}

int hwsp_python_main(int argc, char **argv)
{
	const char *reason = NULL;
	struct hwsp_python read;

	for (size_t i = 0; i < sizeof refused_variables / sizeof refused_variables[0] && !reason; i++)
		if (getenv(refused_variables[i]) && *getenv(refused_variables[i]))
			reason = refused_variables[i];
	if (reason)
		hwsp_zygote_refuse(HWSP_UNFAITHFUL, "the environment has %s, which is for one interpreter", reason);
	if (!find_functions())
		refuse_program();
	const char *given = getenv(HWSP_IMPORTS_VARIABLE);
	char *names = strdup(given ? given : ""), *ctype = getenv("LC_CTYPE");
	ctype = ctype ? strdup(ctype) : NULL;
	unsetenv(HWSP_IMPORTS_VARIABLE);
	read_signals(zygote.inherited);
	if (!names || stat(".", &zygote.directory))
		hwsp_zygote_refuse(HWSP_UNFAITHFUL, "%s", strerror(errno));
	unsigned opened = open_files();
	hwsp_draws_begin();
	if (!hwsp_python_read(argv, &read) || read.kind != HWSP_PYTHON_INPUT || read.what ||
		!start_interpreter(argc, argv))
		hwsp_zygote_refuse(HWSP_UNFAITHFUL, "the interpreter does not start with these options");
	reason = import(names, ctype);
	if (reason)
		hwsp_zygote_refuse(reason[0] == '?' || reason[0] == '-' ? HWSP_LEAVES_OUT : HWSP_UNFAITHFUL, "%s",
			reason);
	hwsp_draws_end();
	free(names);
	free(ctype);
	fflush(NULL);
	close_files(opened);
	read_signals(zygote.stopped);
	hwsp_zygote.before_fork = hwsp_py.PyOS_BeforeFork;
	hwsp_zygote.after_fork = hwsp_py.PyOS_AfterFork_Parent;
	hwsp_zygote_serve();
	if (!is_as_at_start() || !hwsp_python_read(hwsp_zygote.argv, &read) || !hwsp_python_can_run(&read))
		exec_interpreter();
	hwsp_py.PyOS_AfterFork_Child();
	if (read.kind == HWSP_PYTHON_FILE && is_archive(read.what))
		read.kind = HWSP_PYTHON_ARCHIVE;
	if (!become_interpreter(&read))
		exec_interpreter();
	return hwsp_python_end(hwsp_python_run(&read));
}
