"""Prints its rank, and waits for signals: it counts SIGUSR1, and ends with 7 at SIGTERM."""
import os
import signal
import sys
import time

count = 0


def report(*values):
    os.write(1, (" ".join(map(str, values)) + "\n").encode())


def note(*_):
    global count
    count += 1
    report("usr1", os.environ["HEADWATER_RANK"], count)


def end(*_):
    report("term", os.environ["HEADWATER_RANK"], count)
    os._exit(7)


signal.signal(signal.SIGUSR1, note)
signal.signal(signal.SIGTERM, end)
report("rank", os.environ["HEADWATER_RANK"], os.getpid(), os.getppid())
end_file = sys.argv[1]
while not os.path.exists(end_file):
    time.sleep(0.01)
