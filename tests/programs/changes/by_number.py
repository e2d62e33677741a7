"""Changes files by system calls of number, through the C library's syscall(), and reports what is there before and after:
python3 by_number.py DIRECTORY SIGNALS"""
import ctypes
import os
import stat
import sys

HERE = -100
CREATE = os.O_CREAT | os.O_RDWR | os.O_TRUNC
# The numbers of x86-64, and of processors with the kernel's common table.
NUMBERS = {
    "openat": (257, 56), "openat2": (437, 437), "mkdirat": (258, 34), "mknodat": (259, 33), "symlinkat": (266, 36),
    "linkat": (265, 37), "unlinkat": (263, 35), "renameat2": (316, 276), "truncate": (76, 45), "fchmodat": (268, 53),
    "utimensat": (280, 88), "setxattr": (188, 5), "fchmod": (91, 52),
}
libc = ctypes.CDLL(None, use_errno=True)
os.chdir(sys.argv[1])
report = open(os.path.join(sys.argv[2], "report.0"), "w")


def call(name, *arguments):
    number = NUMBERS[name][os.uname().machine != "x86_64"]
    result = libc.syscall(ctypes.c_long(number), *(a if isinstance(a, (bytes, ctypes.Array)) else ctypes.c_long(a) for a in arguments))
    return result if result >= 0 else -ctypes.get_errno()


def seen(path):
    try:
        found = os.lstat(path)
        content = open(path).read() if stat.S_ISREG(found.st_mode) else os.path.islink(path) and os.readlink(path)
        return oct(found.st_mode), found.st_nlink * (not stat.S_ISDIR(found.st_mode)), found.st_mtime == 6, content
    except OSError as error:
        return error.strerror


def change(path, name, *arguments):
    before = seen(path)
    result = call(name, *arguments)
    if name.startswith("open"):
        os.write(result, name.encode())
        os.close(result)
        result = 0
    print(name, path, before, result, seen(path), sorted(os.listdir(".")), file=report)


def how(flags, mode):
    return (ctypes.c_uint64 * 3)(flags, mode, 0)


change("new", "openat2", HERE, b"new", how(CREATE, 0o640), 24)
change("made", "openat", HERE, b"made", CREATE, 0o600)
change("shortened", "openat2", HERE, b"shortened", how(os.O_WRONLY | os.O_TRUNC, 0), 24)
change("written", "openat", HERE, b"written", os.O_WRONLY)
change("directory", "mkdirat", HERE, b"directory", 0o750)
change("node", "mknodat", HERE, b"node", stat.S_IFREG | 0o600, 0)
change("link", "symlinkat", b"written", HERE, b"link")
change("linked", "linkat", HERE, b"linked", HERE, b"second", 0)
change("removed", "unlinkat", HERE, b"removed", 0)
change("renamed", "renameat2", HERE, b"renamed", HERE, b"moved", 0)
change("moved", "truncate", b"moved", 3)
change("mode", "fchmodat", HERE, b"mode", 0o600)
change("times", "utimensat", HERE, b"times", (ctypes.c_long * 4)(5, 0, 6, 0), 0)
copy = os.open("by descriptor", os.O_RDONLY)
change("by descriptor", "fchmod", copy, 0o600)
# By the C library's function, with a flag that only a file's owner may use.
print(seen("unnoted"), file=report)
unnoted = os.open("unnoted", os.O_WRONLY | os.O_TRUNC | os.O_NOATIME)
os.write(unnoted, b"now")
print(seen("unnoted"), file=report)
report.close()
