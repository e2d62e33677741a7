"""Looks for changes again and again, until all have been seen or a minute has passed; prints those that have."""

import os
import sys
import time

directory = sys.argv[1]


def at(name):
    return os.path.join(directory, name)


def read(name):
    with open(at(name)) as file:
        return file.read()


def new_names():
    """A directory in which names come, each of which is then opened."""
    names = os.listdir(at("inbox"))
    return names and all(read("inbox/" + name) == name for name in names)


def many_files():
    """Each is examined in each turn."""
    grown = [name for name in range(60) if os.stat(at("many/%d" % name)).st_size == 9]
    return len(grown) == 60


CHANGES = {
    "made": lambda: os.path.exists(at("made")),
    "renamed": lambda: read("renamed") == "here",
    "rewritten": lambda: read("rewritten") == "as is now",
    "replaced": lambda: read("replaced") == "another",
    "grown": lambda: os.stat(at("grown")).st_size == 9,
    "removed": lambda: not os.path.exists(at("removed")),
    "names": new_names,
    "many": many_files,
    "link": lambda: os.readlink(at("link")) == "grown",
}


def is_seen(change):
    try:
        return bool(CHANGES[change]())
    except FileNotFoundError:
        return False


before = [change for change in CHANGES if is_seen(change)]
open(sys.argv[2] + os.environ.get("HEADWATER_NODE", "0"), "w").close()
seen, end = set(before), time.monotonic() + 60
while len(seen) < len(CHANGES) and time.monotonic() < end:
    time.sleep(0.1)
    seen.update(change for change in CHANGES if change not in seen and is_seen(change))
print(before, sorted(seen))
