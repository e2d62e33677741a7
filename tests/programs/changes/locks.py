"""locks.py DIRECTORY: prints what each call about locks does to a file, alone, beside other descriptors and processes."""

import errno
import fcntl
import os
import signal
import struct
import subprocess
import sys
import time

PATH = os.path.join(sys.argv[1], "file")
F_OFD_SETLK = 37
START = "import errno, fcntl, os, struct, sys\npath = sys.argv[1]\nF_OFD_SETLK = 37\n"
TOOLS = '''
def result_of(call, *arguments):
    try:
        call(*arguments)
        return "ok"
    except OSError as error:
        return errno.errorcode[error.errno]

def part(fd, kind, start, length, command=fcntl.F_SETLK):
    lock = struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0)
    return struct.unpack("hhqqi4x", fcntl.fcntl(fd, command, lock))
'''
exec(TOOLS)
NOW = fcntl.LOCK_NB


def other(code):
    """Returns what another process prints."""
    command = [sys.executable, "-c", START + TOOLS + "fd = os.open(path, os.O_RDWR)\n" + code, PATH]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def free_bytes(numbers):
    code = "print(*(result_of(part, fd, fcntl.F_WRLCK, number, 1) for number in %r))"
    return other(code % (numbers,))


def whole_files(first, second):
    print("exclusive", result_of(fcntl.flock, first, fcntl.LOCK_EX | NOW))
    print("another descriptor", result_of(fcntl.flock, second, fcntl.LOCK_EX | NOW))
    print("another process", other("print(result_of(fcntl.flock, fd, fcntl.LOCK_SH | fcntl.LOCK_NB))"))
    print("of another kind", other("print(result_of(fcntl.lockf, fd, fcntl.LOCK_EX | fcntl.LOCK_NB))"))
    print("shared", [result_of(fcntl.flock, fd, fcntl.LOCK_SH | NOW) for fd in (first, second)])
    print("exclusive again", result_of(fcntl.flock, first, fcntl.LOCK_EX | NOW))
    print("given back", result_of(fcntl.flock, second, fcntl.LOCK_UN), result_of(fcntl.flock, first, fcntl.LOCK_EX | NOW))
    duplicate = os.dup(first)
    os.close(first)
    print("a duplicate has it", result_of(fcntl.flock, second, fcntl.LOCK_EX | NOW))
    child = os.fork()
    if child == 0:
        signal.pause()
    os.close(duplicate)
    print("a child has it", result_of(fcntl.flock, second, fcntl.LOCK_EX | NOW))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print("nothing has it", result_of(fcntl.flock, second, fcntl.LOCK_EX | NOW))
    fcntl.flock(second, fcntl.LOCK_UN)


def parts(fd, reader, writer):
    print("not open for it", result_of(part, reader, fcntl.F_WRLCK, 0, 1), result_of(part, writer, fcntl.F_RDLCK, 0, 1))
    print("two parts", [result_of(part, fd, fcntl.F_WRLCK, start, 10) for start in (10, 40)])
    print("free", free_bytes([0, 9, 10, 19, 20, 39, 40, 49, 50]))
    print("found", other("print([part(fd, fcntl.F_RDLCK, start, 0, fcntl.F_GETLK)[:4] for start in (0, 25, 60)])"))
    print("by", other("print(part(fd, fcntl.F_WRLCK, 0, 0, fcntl.F_GETLK)[4] == os.getppid())"))
    part(fd, fcntl.F_UNLCK, 12, 3)
    print("free", free_bytes([10, 11, 12, 14, 15, 19]))
    print("of a description", result_of(part, reader, fcntl.F_RDLCK, 12, 1, F_OFD_SETLK), free_bytes([12, 13]))
    print("not twice", result_of(part, reader, fcntl.F_RDLCK, 10, 1, F_OFD_SETLK))
    part(reader, fcntl.F_UNLCK, 0, 0, F_OFD_SETLK)
    os.close(fd)
    print("closed", free_bytes([10, 12, 40]))


def waits(reader, writer):
    def alarm(*_):
        raise InterruptedError

    signal.signal(signal.SIGALRM, alarm)
    code = "fcntl.lockf(fd, fcntl.LOCK_EX); fcntl.flock(fd, fcntl.LOCK_EX); print('has both', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", START + "fd = os.open(path, os.O_RDWR)\n" + code, PATH]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    print(holder.stdout.readline().strip())
    for name, call, fd in (("whole", fcntl.flock, reader), ("part", fcntl.lockf, writer)):
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            call(fd, fcntl.LOCK_EX)
            print(name, "has it")
        except InterruptedError:
            print(name, "interrupted")
    code = "fcntl.flock(fd, fcntl.LOCK_EX)"
    waiting = subprocess.Popen([sys.executable, "-c", START + "fd = os.open(path, os.O_RDWR)\n" + code, PATH])
    time.sleep(0.1)
    waiting.kill()
    print("killed", waiting.wait())
    holder.stdin.close()
    fcntl.flock(reader, fcntl.LOCK_EX)
    fcntl.lockf(writer, fcntl.LOCK_EX)
    print("at its end", holder.wait())
    fcntl.flock(reader, fcntl.LOCK_UN)
    fcntl.lockf(writer, fcntl.LOCK_UN)


def circles(fd):
    part(fd, fcntl.F_WRLCK, 0, 1)
    code = "part(fd, fcntl.F_WRLCK, 1, 1); print('ready', flush=True); part(fd, fcntl.F_WRLCK, 0, 1, fcntl.F_SETLKW)"
    command = [sys.executable, "-c", START + TOOLS + "fd = os.open(path, os.O_RDWR)\n" + code, PATH]
    second = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    second.stdout.readline()
    time.sleep(0.1)
    print("a circle", result_of(part, fd, fcntl.F_WRLCK, 1, 1, fcntl.F_SETLKW))
    part(fd, fcntl.F_UNLCK, 0, 0)
    print("resolved", second.wait())


def files_without_a_name():
    removed, renamed = (os.open(PATH + end, os.O_RDWR | os.O_CREAT, 0o644) for end in (".removed", ".old"))
    os.unlink(PATH + ".removed")
    os.rename(PATH + ".old", PATH)
    print("removed", result_of(fcntl.flock, removed, fcntl.LOCK_EX), result_of(fcntl.lockf, removed, fcntl.LOCK_EX))
    print("renamed", result_of(fcntl.flock, renamed, fcntl.LOCK_EX))
    print("by its new name", other("print(result_of(fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB))"))


with open(PATH, "w") as file:
    file.write("x" * 100)
first, second, third = (os.open(PATH, os.O_RDWR) for _ in range(3))
reader, writer = os.open(PATH, os.O_RDONLY), os.open(PATH, os.O_WRONLY)
whole_files(first, second)
parts(second, reader, writer)
waits(reader, writer)
circles(third)
files_without_a_name()
