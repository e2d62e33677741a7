/* The interpreter's own functions, which every CPython from 3.8 on has: no header of one version is needed. */
#ifndef HEADWATER_ZYGOTE_PYTHON_H
#define HEADWATER_ZYGOTE_PYTHON_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct object object;

/* PyStatus, as PEP 587 fixes it. */
struct status {
	int kind;
	const char *function, *message;
	int exit_code;
};

/* PyCompilerFlags. */
struct compiler_flags {
	int flags, feature_version;
};
#define IGNORE_COOKIE 0x800 /* PyCF_IGNORE_COOKIE */
#define FILE_INPUT 257      /* Py_file_input */

/* X(result, name, arguments) */
#define PYTHON_FUNCTIONS(X) \
	X(void, PyPreConfig_InitPythonConfig, (void *)) \
	X(struct status, Py_PreInitializeFromBytesArgs, (const void *, ssize_t, char **)) \
	X(void, PyConfig_InitPythonConfig, (void *)) \
	X(struct status, PyConfig_SetBytesArgv, (void *, ssize_t, char *const *)) \
	X(struct status, Py_InitializeFromConfig, (const void *)) \
	X(void, PyConfig_Clear, (void *)) \
	X(int, PyStatus_Exception, (struct status)) \
	X(const char *, Py_GetVersion, (void)) \
	X(void, PyOS_BeforeFork, (void)) \
	X(void, PyOS_AfterFork_Parent, (void)) \
	X(void, PyOS_AfterFork_Child, (void)) \
	X(object *, Py_CompileString, (const char *, const char *, int)) \
	X(object *, Py_CompileStringExFlags, (const char *, const char *, int, struct compiler_flags *, int)) \
	X(object *, PyEval_EvalCode, (object *, object *, object *)) \
	X(object *, PyEval_GetBuiltins, (void)) \
	X(object *, PyDict_New, (void)) \
	X(int, PyDict_SetItemString, (object *, const char *, object *)) \
	X(object *, PyDict_GetItemString, (object *, const char *)) \
	X(object *, PyList_New, (ssize_t)) \
	X(int, PyList_Append, (object *, object *)) \
	X(int, PyList_Insert, (object *, ssize_t, object *)) \
	X(object *, PyBytes_FromString, (const char *)) \
	X(object *, PyLong_FromLong, (long)) \
	X(long, PyLong_AsLong, (object *)) \
	X(object *, PyUnicode_DecodeFSDefault, (const char *)) \
	X(const char *, PyUnicode_AsUTF8, (object *)) \
	X(object *, PyCFunction_NewEx, (void *, object *, object *)) \
	X(object *, PyObject_CallFunction, (object *, const char *, ...)) \
	X(object *, PyObject_GetAttrString, (object *, const char *)) \
	X(int, PyObject_HasAttrString, (object *, const char *)) \
	X(object *, PyImport_AddModule, (const char *)) \
	X(object *, PyImport_ImportModule, (const char *)) \
	X(object *, PyImport_GetImporter, (object *)) \
	X(object *, PyModule_GetDict, (object *)) \
	X(object *, PySys_GetObject, (const char *)) \
	X(int, PySys_Audit, (const char *, const char *, ...)) \
	X(int, PyRun_SimpleStringFlags, (const char *, struct compiler_flags *)) \
	X(int, PyRun_AnyFileExFlags, (FILE *, const char *, int, struct compiler_flags *)) \
	X(int, Py_MakePendingCalls, (void)) \
	X(object *, PyErr_Occurred, (void)) \
	X(void, PyErr_Print, (void)) \
	X(void, PyErr_Clear, (void)) \
	X(int, Py_FinalizeEx, (void)) \
	X(void, Py_DecRef, (object *))

#define AS_MEMBER(result, name, arguments) result(*name) arguments;
struct python {
	PYTHON_FUNCTIONS(AS_MEMBER)
	object **interrupt; /* PyExc_KeyboardInterrupt */
	object *none;
	int minor; /* of its version, 3.minor */
};
#undef AS_MEMBER
extern struct python hwsp_py;

/* python_run.c: what the interpreter does after it has started. */

struct hwsp_python;
/* False if only the interpreter itself can do it. */
bool hwsp_python_can_run(const struct hwsp_python *read);
/* Runs it, and returns the process's status. */
int hwsp_python_run(const struct hwsp_python *read);
/* Since 3.9 a program's file has its whole name, for which there is room in `path`. */
const char *hwsp_python_whole(const char *name, char *path);
/* Ends the interpreter, and returns what its main() would. */
int hwsp_python_end(int status);

/* python_code.c */
extern const char hwsp_python_code[];

/* python_children.c */
extern const char hwsp_python_children[];

/* python_random.c */
extern const char hwsp_python_random[];
/* A function of Python: returns what has been drawn since its last call, or an empty string. NULL: no memory. */
object *hwsp_python_draws(void);

#endif
