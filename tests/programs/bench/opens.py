"""Times Python's open, as tree.c does what programs do: opens.py LIST DIR...

LIST contains paths of files below each DIR, a line for each. A line for each DIR:
open DIR 0 NANOSECONDS 0.
"""
import sys
import time

names = open(sys.argv[1]).read().splitlines()
for directory, root in enumerate(sys.argv[2:]):
    paths = [f"{root}/{name}" for name in names]
    began = time.perf_counter_ns()
    for path in paths:
        with open(path, "rb") as file:
            file.read()
    print("open", directory, 0, time.perf_counter_ns() - began, 0)
