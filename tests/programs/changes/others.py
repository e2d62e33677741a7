"""others.py TREE SIGNALS: two processes change what the other one has open or has looked for. Each writes what it sees
to SIGNALS/report.N, where N is its node."""

import os
import sys
import time

tree, signals = sys.argv[1], sys.argv[2]
node = int(os.environ["HEADWATER_NODE"])
report = open(os.path.join(signals, "report.%d" % node), "w")
step = 0
os.chdir(tree)


def meet():
    """Returns when the other process calls it, too."""
    global step
    step += 1
    open(os.path.join(signals, "%d.%d" % (step, node)), "w").close()
    while not os.path.exists(os.path.join(signals, "%d.%d" % (step, 1 - node))):
        time.sleep(0.001)


def write(name, text="new"):
    with open(name, "w") as file:
        file.write(text)


def note(*what):
    print(*what, file=report, flush=True)


def result(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return error.strerror


def replace(name):
    write(name + ".next", "other")
    os.rename(name + ".next", name)


# What node 0 has open, in a state, and what node 1 does to its name.
CHANGES = {
    "renamed": lambda name: os.rename(name, name + ".1"),
    "replaced": replace,
    "removed": os.unlink,
    "moved": lambda name: os.rename(os.path.dirname(name), os.path.dirname(name) + ".1"),
    "rotated": lambda name: (os.rename(name, name + ".1"), write(name)),
}
for state in "unread", "read", "appended", "written":
    for change in CHANGES:
        name = os.path.join(state, change, "file")
        if node == 0:
            os.makedirs(os.path.dirname(name), exist_ok=True)
            if state == "written":
                write(name, "as it was\n" * 800)
        meet()
        if node == 0:
            fd = os.open(name, os.O_RDWR | os.O_APPEND if state == "appended" else os.O_RDONLY)
            if state == "read":
                os.pread(fd, 100, 0)
            if state == "appended":
                os.write(fd, b"before\n")
        meet()
        if node == 1:
            CHANGES[change](name)
        meet()
        if node == 0:
            if state == "appended":
                note(name, "write", result(os.write, fd, b"after\n"), "truncate", result(os.ftruncate, fd, 8010))
            size, text = result(lambda: os.fstat(fd).st_size), result(os.pread, fd, 20000, 0)
            note(name, size, len(text), text[-12:])
            os.close(fd)
        meet()
        for root, _, names in sorted(os.walk(os.path.join(state, change + ".1" if change == "moved" else change))):
            for found in sorted(names):
                text = open(os.path.join(root, found)).read()
                note(root, found, len(text), text[-12:])

# What node 0 has looked for below a directory with which node 1 does something, and makes then.
DIRECTORIES = {
    "rmdir": lambda name: result(os.rmdir, name),
    "rename over": lambda name: result(os.rename, "empty", name),
    "rename": lambda name: (os.rename(name, name + ".away"), os.rename(name + ".away", name)),
}
for what, change in DIRECTORIES.items():
    directory = os.path.join("directories", what)
    wanted, listed = os.path.join(directory, "wanted"), os.path.join(directory, "sub")
    note(what, os.path.exists(wanted), os.listdir(listed), os.path.getsize(os.path.join(directory, "kept")))
    meet()
    if node == 1:
        change(directory)
        write(wanted)
        write(os.path.join(listed, "another"))
        write(os.path.join(directory, "kept"), "is longer now")
    meet()
    note(what, os.path.exists(wanted), sorted(os.listdir(listed)), os.path.getsize(os.path.join(directory, "kept")))
    meet()

# A name that node 1 gives to a file, and node 0 to another one.
note(open("given").read())
meet()
if node == 1:
    os.rename("given", "name")
meet()
note(open("name").read())
meet()
if node == 0:
    os.rename("name", "taken")
    write("name", "another file")
meet()
note(open("name").read(), open("taken").read())
