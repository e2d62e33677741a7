"""model.py TREE SIGNALS SEED STEPS KEEPS: three processes change a tree at random, one at a time. After each step all
look at the whole tree and, if KEEPS is 1, at what they have kept open. Each writes what it sees to SIGNALS/report.N,
where N is its node."""

import hashlib
import os
import random
import shutil
import stat
import sys
import time

tree, signals, seed, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
node, nodes = int(os.environ["HEADWATER_NODE"]), 3
report = open(os.path.join(signals, "report.%d" % node), "w")
# The processes draw the same numbers.
drawn = random.Random(seed)
os.chdir(tree)
met = 0
FILES = ["a", "b", "c", "d/a", "d/b", "d/e/a", "d/e/c", "f/x", "f/y"]
DIRECTORIES = ["d", "d/e", "f", "g", "g/h"]
kept, writers = {}, {}


def meet():
    """Returns when all processes call it."""
    global met
    met += 1
    open(os.path.join(signals, "%d.%d" % (met, node)), "w").close()
    for other in range(nodes):
        while not os.path.exists(os.path.join(signals, "%d.%d" % (met, other))):
            time.sleep(0.0005)


def write(name, how, text, at=None):
    with open(name, how) as file:
        if at is not None:
            file.seek(at)
        file.write(text)


def writer(name, flags):
    key = (name, flags)
    if key not in writers:
        writers[key] = os.open(name, os.O_RDWR | os.O_CREAT | flags, 0o644)
    return writers[key]


def replace(name, text):
    write(name + ".next", "wb", text)
    os.rename(name + ".next", name)


# What is done to one file or another, or to one directory or another, with a number and a text.
CHANGES = {
    "write": lambda one, other, number, text: write(one, "wb", text),
    "overwrite": lambda one, other, number, text: write(one, "r+b", text[:20], number % 50),
    "append": lambda one, other, number, text: write(one, "ab", text[:30]),
    "truncate": lambda one, other, number, text: os.truncate(one, number % 200),
    "unlink": lambda one, other, number, text: os.unlink(one),
    "rename": lambda one, other, number, text: os.rename(one, other),
    "replace": lambda one, other, number, text: replace(one, text),
    "link": lambda one, other, number, text: os.link(one, other),
    "symlink": lambda one, other, number, text: os.symlink(os.path.abspath(other), one),
    "chmod": lambda one, other, number, text: os.chmod(one, 0o600 + number % 64),
    "set": lambda one, other, number, text: os.setxattr(one, "user.number", str(number).encode()),
    "write on": lambda one, other, number, text: os.pwrite(writer(one, 0), text[:40], number % 100),
    "append on": lambda one, other, number, text: os.write(writer(one, os.O_APPEND), text[:40]),
}
OF_DIRECTORIES = {
    "mkdir": lambda one, other: os.mkdir(one),
    "rmdir": lambda one, other: os.rmdir(one),
    "rename directory": lambda one, other: os.rename(one, other),
    "remove tree": lambda one, other: shutil.rmtree(one),
}


def result(call, *arguments):
    try:
        call(*arguments)
        return "done"
    except OSError as error:
        return error.strerror


def digest(text):
    return hashlib.sha1(text).hexdigest()[:8]


def seen(path):
    """Returns what a name leads to."""
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return "link", os.path.relpath(os.readlink(path), tree)
        if stat.S_ISDIR(status.st_mode):
            return "directory", oct(status.st_mode)
        with open(path, "rb") as file:
            text = file.read()
        return oct(status.st_mode), status.st_nlink, status.st_size, digest(text), len(os.listxattr(path))
    except OSError as error:
        return error.strerror


def look():
    found = [os.path.join(place, name) for place, below, files in os.walk(".") for name in below + files]
    lines = ["%s %s" % (path, seen(path)) for path in sorted(found)]
    lines += ["%s %s" % (path, seen(path)) for path in FILES + DIRECTORIES]
    for name, fd in sorted(kept.items()):
        text = os.pread(fd, 1 << 20, 0)
        lines.append("open %s %s %s %s" % (name, os.fstat(fd).st_size, len(text), digest(text)))
    return lines


look()
for step in range(steps):
    who, one, other = drawn.randrange(nodes), drawn.choice(FILES), drawn.choice(FILES)
    directory, another = drawn.choice(DIRECTORIES), drawn.choice(DIRECTORIES)
    number = drawn.randrange(1000)
    text = ("%d-%d;" % (step, number)).encode() * drawn.choice([1, 5, 50])
    change = drawn.choice([*CHANGES, "write", "write", "mkdir", "mkdir", *OF_DIRECTORIES])
    keeps = drawn.choice(FILES) if drawn.random() < 0.15 else None
    meet()
    done = None
    if node == who and change in CHANGES:
        done = result(CHANGES[change], one, other, number, text)
    elif node == who:
        done = result(OF_DIRECTORIES[change], directory, another)
    meet()
    # For two ticks of its clock, a kernel shows a directory that another node has removed.
    time.sleep(0.02)
    if keeps and sys.argv[5] == "1" and os.path.isfile(keeps):
        kept[keeps] = os.open(keeps, os.O_RDONLY)
    print(step, who, change, one, other, directory, another, *([done] if done else []), file=report)
    print(*look(), sep="\n", file=report, flush=True)
