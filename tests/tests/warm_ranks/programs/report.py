"""Writes this process's observations of itself, as one line, or into a file."""
import json
import os
import resource
import stat
import sys


def descriptor(number):
    found = os.fstat(number)
    return [stat.S_IFMT(found.st_mode), os.get_inheritable(number)]


def descriptors():
    numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    found = {}
    for number in sorted(numbers):
        try:
            found[number] = descriptor(number)
        except OSError:
            pass  # The listing's own.
    return found


def status():
    wanted = "Umask Uid Gid Groups CapInh CapPrm CapEff CapBnd NoNewPrivs Seccomp SigBlk SigIgn SigCgt Threads".split()
    lines = [line.split(":", 1) for line in open("/proc/self/status")]
    found = {name: value.strip() for name, value in lines if name in wanted}
    # glibc's posix_spawn leaves its own two signals ignored.
    found["SigIgn"] = int(found["SigIgn"], 16) & ~(3 << 31)
    return found


report = {
    "argv": sys.argv,
    "read": sys.stdin.read(),
    "executable": sys.executable,
    "path": sys.path,
    "flags": str(sys.flags),
    "environ": dict(os.environ),
    "cmdline": open("/proc/self/cmdline").read(),
    "start": sorted(open("/proc/self/environ").read().split("\0")),
    "exe": os.readlink("/proc/self/exe"),
    "comm": open("/proc/self/comm").read(),
    "cwd": os.getcwd(),
    "descriptors": descriptors(),
    "limits": [resource.getrlimit(number) for number in range(16)],
    "processors": sorted(os.sched_getaffinity(0)),
    "nice": os.nice(0),
    "status": status(),
    "cgroup": open("/proc/self/cgroup").read(),
    "adjustment": open("/proc/self/oom_score_adj").read(),
    "main": sorted(name for name in globals() if not name.startswith("_")),
}
line = json.dumps(report, sort_keys=True) + "\n"
os.write(1, line.encode())
