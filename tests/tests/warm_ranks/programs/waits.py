"""Prints its rank, and waits for signals: it counts SIGUSR1, and ends with 7 at SIGTERM."""
import os
import signal
import sys
import time

count = 0


def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def note(*_):
    global count
    count += 1
    say("usr1", os.environ["HEADWATER_RANK"], count)


def end(*_):
    say("term", os.environ["HEADWATER_RANK"], count)
    os._exit(7)


signal.signal(signal.SIGUSR1, note)
signal.signal(signal.SIGTERM, end)
say("rank", os.environ["HEADWATER_RANK"], os.getpid(), os.getppid())
end_file = sys.argv[1]
while not os.path.exists(end_file):
    time.sleep(0.01)
