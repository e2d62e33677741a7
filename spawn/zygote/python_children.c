/*
 * What a process from a zygote starts: another of the same interpreter begins as this one did, by words before its own
 * arguments. A line of the table of reseeding that begins with ">" has these words, with tabs between. It runs in the
 * namespace of python_code.c.
 *
 * The module subprocess, multiprocessing, and what is built on them start processes by two functions of the interpreter's,
 * which get the files to try and the arguments. All else that they get stays as it is. If anything is unusual, the
 * interpreter is started as ever.
 */
#include "python.h"

const char hwsp_python_children[] =
	"def without_words(text):\n"
	"    global words\n"
	"    lines = text.split('\\n')\n"
	"    chosen = [line[1:].split('\\t') for line in lines if line.startswith('>')]\n"
	"    words = chosen[0] if chosen else []\n"
	"    return '\\n'.join(line for line in lines if not line.startswith('>'))\n"
	"\n"
	"def serve_children():\n"
	"    own = sys.executable and sys.executable.encode(sys.getfilesystemencoding(), 'surrogateescape')\n"
	"    if not words or not own:\n"
	"        return\n"
	"    program = words[0].encode(sys.getfilesystemencoding(), 'surrogateescape')\n"
	"    module = __import__('_posixsubprocess')\n"
	"    start = module.fork_exec\n"
	"\n"
	"    def is_own(word):\n"
	"        return word == (sys.executable if isinstance(word, str) else own)\n"
	"\n"
	/* Of multiprocessing: it needs no imports, which a process takes long to end with, and others wait for its end. */
	"    def is_tracker(arguments):\n"
	"        return any('multiprocessing.resource_tracker' in str(word) for word in arguments)\n"
	"\n"
	/* The first file that can be executed is the one that is. */
	"    def is_interpreter(arguments, files):\n"
	"        found = next((file for file in files if posix.access(file, posix.X_OK)), None)\n"
	"        if is_tracker(arguments) or not posix.access(words[0], posix.X_OK):\n"
	"            return False\n"
	"        return is_own(found) and is_own(arguments[0])\n"
	"\n"
	"    def is_served(arguments, files):\n"
	"        try:\n"
	"            return is_interpreter(arguments, files)\n"
	"        except Exception:\n"
	"            return False\n"
	"\n"
	"    def fork_exec(arguments, files, *others):\n"
	"        if is_served(arguments, files):\n"
	"            arguments, files = [*words, *arguments], (program,)\n"
	"        return start(arguments, files, *others)\n"
	"\n"
	/* What subprocess prefers, always from 3.13 on. */
	"    def posix_spawn(path, arguments, *others, **named):\n"
	"        if is_served(arguments, [path]):\n"
	"            path, arguments = program, [*words, *arguments]\n"
	"        return spawn(path, arguments, *others, **named)\n"
	"\n"
	"    module.fork_exec = fork_exec\n"
	"    known = sys.modules.get('subprocess')\n"
	"    if getattr(known, '_fork_exec', None) is start:\n"
	"        known._fork_exec = fork_exec\n"
	"    known = sys.modules.get('os')\n"
	"    spawn = getattr(known, 'posix_spawn', None)\n"
	"    if spawn:\n"
	"        known.posix_spawn = posix_spawn\n"
	"\n";
