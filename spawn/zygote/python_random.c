/* Random numbers in processes of one interpreter: which module draws some as it is imported, and what each process
 * does about it. It runs in the namespace of python_code.c. `draws` returns what draws.c has recorded since its
 * last call, or an empty string. */
#include "zygote.h"

#include "python.h"

const char hwsp_python_random[] =
	/* Modules that draw numbers as they are imported, and the statement that each process executes then. An empty
	 * text: nothing, since the module reseeds itself, or has used them up: scipy.stats for examples in its
	 * documentation, joblib for the name of a semaphore that it has removed, JAX for its delay between attempts,
	 * and psutil has read its own /proc; filelock and Arrow detect a fork by their PID. A user's table adds to it. */
	"table = {\n"
	"    'random': '',\n"
	"    'multiprocessing.process': \"\"\"\n"
	"config = module.current_process()._config\n"
	"config['authkey'] = module.AuthenticationString(posix.urandom(32))\n"
	"\"\"\",\n"
	"    'numpy.random.mtrand': 'module._rand.seed()',\n"
	"    'scipy.stats._new_distributions': '',\n"
	"    'psutil._pslinux': '',\n"
	"    'filelock._core._fork': '',\n"
	"    'pyarrow.lib': '',\n"
	"    'sympy.core.random': 'module.rng.seed()\\nmodule._assumptions_rng.seed()',\n"
	"    'sympy.core.symbol': 'dummy = module.Dummy\\ndummy._prng.seed()\\n'\n"
	"        'dummy._base_dummy_index = dummy._prng.randint(10**6, 9 * 10**6)',\n"
	"    'joblib._multiprocessing_helpers': '',\n"
	"    'jax._src.clusters.k8s_cluster': '',\n"
	"    'torch._C': \"\"\"\n"
	"torch = sys.modules['torch']\n"
	"torch.default_generator.seed()\n"
	"for device in (torch.cuda, getattr(torch, 'xpu', None)):\n"
	"    if device and device.is_initialized():\n"
	"        device.seed_all()\n"
	"\"\"\",\n"
	"}\n"
	"\n"
	/* A table is lines "MODULE: STATEMENT". An indented line belongs to the one before. */
	"def read_table(text):\n"
	"    name = None\n"
	"    for line in text.split('\\n'):\n"
	"        if not line.strip() or line.lstrip().startswith('#'):\n"
	"            continue\n"
	"        if not line[0].isspace():\n"
	"            name, _, line = line.partition(':')\n"
	"            name = name.strip()\n"
	"            table[name] = line.strip()\n"
	"        elif name:\n"
	"            table[name] = (table[name] or 'if True:') + '\\n' + line\n"
	"    for name, text in table.items():\n"
	"        table[name] = compile(text, '<how ' + name + ' is reseeded>', 'exec')\n"
	"\n"
	/* Generators that modules share: which state shows a draw from it, or a seeding. */
	"def of_numpy(module):\n"
	"    name, key, *rest = module.get_state()\n"
	"    return (name, key.tobytes(), *rest)\n"
	"\n"
	"shared = {\n"
	"    'random': lambda module: module.getstate(),\n"
	"    'numpy.random': of_numpy,\n"
	"    'torch': lambda module: module.default_generator.get_state(),\n"
	"}\n"
	"states = {}\n"
	/* The modules that are being imported, the innermost last, and which have done what. */
	"importing = []\n"
	"drew = []\n"
	"\n"
	"def note(what):\n"
	"    if importing[-1] not in table:\n"
	"        drew.append((importing[-1], what))\n"
	"\n"
	"def check():\n"
	"    what = draws()\n"
	"    if what:\n"
	"        note(what)\n"
	"    for name, state in shared.items():\n"
	"        module = sys.modules.get(name)\n"
	"        spec = getattr(module, '__spec__', None)\n"
	"        if spec is None or getattr(spec, '_initializing', False):\n"
	"            continue\n"
	"        try:\n"
	"            now = state(module)\n"
	"        except Exception:\n"
	"            now = None\n"
	"        if name in states:\n"
	"            before = states[name]\n"
	"            same = getattr(before, 'equal', before.__eq__)\n"
	"            if now is None or same(now) is not True:\n"
	"                note(name)\n"
	"        states[name] = now\n"
	"    draws()\n"
	"\n"
	"def load(spec):\n"
	"    check()\n"
	"    importing.append(spec.name)\n"
	"    try:\n"
	"        return import_one(spec)\n"
	"    finally:\n"
	"        check()\n"
	"        importing.pop()\n"
	"\n"
	/* Returns None, or why it can't be imported here. */
	"def import_watched(name):\n"
	"    importing[:] = [name]\n"
	"    try:\n"
	"        check()\n"
	"        __import__(name)\n"
	"        check()\n"
	"    except BaseException as error:\n"
	"        missing = isinstance(error, ModuleNotFoundError) and (name + '.').startswith(str(error.name) + '.')\n"
	"        return '%s%s\\n%s: %s' % ('?' if missing else '-', name, type(error).__name__, error)\n"
	"    if drew:\n"
	"        owner, what = drew[0]\n"
	"        does = 'reads its PID' if what == 'getpid' else 'draws random numbers'\n"
	"        return '-%s\\n%s %s as it is imported (%s)' % (name, owner, does, what)\n"
	"\n"
	"def import_all(names):\n"
	"    global import_one\n"
	"    machinery = sys.modules['_frozen_importlib']\n"
	"    import_one = machinery._load_unlocked\n"
	"    machinery._load_unlocked = load\n"
	"    draws()\n"
	"    try:\n"
	"        for name in names:\n"
	"            refusal = import_watched(name)\n"
	"            if refusal:\n"
	"                return refusal\n"
	"    finally:\n"
	"        machinery._load_unlocked = import_one\n"
	"\n"
	/* The interpreter's draws at its start: the seed of hashes, except for those of a known generator. */
	"def began_plainly(count):\n"
	"    if not {'random', 'multiprocessing.process'}.isdisjoint(sys.modules):\n"
	"        return True\n"
	"    fixed = posix.environ.get(b'PYTHONHASHSEED', b'random') not in (b'', b'random')\n"
	"    return count == int(sys.flags.ignore_environment or not fixed)\n"
	"\n"
	"def reseed():\n"
	"    for name, code in table.items():\n"
	"        module = sys.modules.get(name)\n"
	"        if module is not None:\n"
	"            exec(code, {'module': module, 'sys': sys, 'posix': posix})\n";

/* PyMethodDef. */
static struct {
	const char *name;
	object *(*call)(object *, object *);
	int flags;
	const char *text;
} draws;
#define WITHOUT_ARGUMENTS 4 /* METH_NOARGS */

static object *take_draws(object *self, object *nothing)
{
	const char *what = hwsp_draws_take();

	(void)self, (void)nothing;
	return hwsp_py.PyUnicode_DecodeFSDefault(what ? what : "");
}

object *hwsp_python_draws(void)
{
	draws.name = "draws";
	draws.call = take_draws;
	draws.flags = WITHOUT_ARGUMENTS;
	return hwsp_py.PyCFunction_NewEx(&draws, NULL, NULL);
}
