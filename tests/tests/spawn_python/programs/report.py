import sys
modules = sorted(sys.modules)
import made, os, signal, threading, time, warnings

main = sys.modules["__main__"]
special = [name for name in vars(main) if name.startswith("__")]


def show(name, *values):
    print(name, "=", ascii(values))


show("arguments", sys.argv, getattr(sys, "orig_argv", None))
show("path", sys.path)
show("flags", sys.flags, sys.warnoptions, sys._xoptions, sys.dont_write_bytecode, sys.pycache_prefix)
show("modules", modules)
show("main", special, __name__, __doc__, getattr(main, "__file__", None), getattr(main, "__cached__", None))
show("loader", type(__loader__), __loader__ if isinstance(__loader__, type) else None)
show("spec", __spec__ and (__spec__.name, __spec__.origin), __package__, type(__builtins__))
show("environment", sorted(os.environ.items()))
with open("/proc/self/environ", "rb") as file:
    entries = file.read().split(b"\0")[:-1]
show("same in /proc", sorted(dict(entry.split(b"=", 1) for entry in entries)) == sorted(os.environ._data))
for name in ("stdin", "stdout", "stderr"):
    stream = getattr(sys, name)
    show(name, stream is getattr(sys, f"__{name}__"), repr(stream))
    if stream:
        show("text", stream.encoding, stream.errors, stream.line_buffering, stream.write_through, stream.newlines)
        buffer = stream.buffer
        show("file", stream.isatty(), stream.mode, stream.name, stream.fileno(), type(buffer).__name__, buffer.name)
        show("raw", getattr(buffer, "raw", buffer).closefd, getattr(buffer, "raw", buffer).mode)
show("paths", sys.executable, sys.prefix, sys.exec_prefix, sys.base_prefix, sys._base_executable)
show("handlers", [(int(number), str(signal.getsignal(number))) for number in signal.valid_signals()])
wanted = ("Name", "Umask", "Sig", "ShdPnd", "Threads")
with open("/proc/self/status") as file:
    show("status", [line for line in file if line.startswith(wanted) and not line.startswith("SigQ")])
with open("/proc/self/cmdline") as file:
    show("command line", file.read())
thread = threading.main_thread()
show("threads", thread is threading.current_thread(), thread.native_id == os.getpid(), threading.enumerate() == [thread])
show("descriptors", sorted(os.listdir("/proc/self/fd")))
show("settings", sys.getfilesystemencoding(), sys.getrecursionlimit(), sys.getswitchinterval(), time.tzname)
show("hooks", len(sys.path_hooks), [type(finder).__name__ for finder in sys.meta_path])
show("hooks' own", sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__, warnings.filters)
frame, names = sys._getframe(), []
while frame:
    names.append((frame.f_code.co_filename, frame.f_code.co_name))
    frame = frame.f_back
show("stack", names)
show("left", [hasattr(sys, name) for name in ("last_type", "last_value", "ps1", "__interactivehook__")])
