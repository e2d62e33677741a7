"""Imports all modules, calls all of their functions, and prints how long that took.

    python3 driver.py MODULES [--mpi]

Seconds of start-up (from exec to the first line here: the interpreter and what it imports by itself),
import (libraries are loaded and all symbols resolved) and visit (all functions are run), and the sum of
what the functions return. With --mpi the slowest process counts, and the first one prints.
"""

import time

begun = time.clock_gettime(time.CLOCK_BOOTTIME)

import importlib
import os
import sys


def started():
    """When this process was started, in seconds since the machine was."""
    with open("/proc/self/stat") as stat:
        ticks = int(stat.read().rpartition(")")[2].split()[19])
    return ticks / os.sysconf("SC_CLK_TCK")


def main():
    startup = begun - started()
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    begin = time.monotonic()
    modules = [importlib.import_module(f"module{number}") for number in range(int(sys.argv[1]))]
    imported = time.monotonic()
    checksum = sum(module.visit() for module in modules) % 2**64
    visited = time.monotonic()
    times = [startup, imported - begin, visited - imported]
    if "--mpi" in sys.argv:
        from mpi4py import MPI

        times = [MPI.COMM_WORLD.reduce(seconds, op=MPI.MAX) for seconds in times]
        if MPI.COMM_WORLD.Get_rank():
            return
    startup, imported, visit = times
    print(f"startup {startup:.3f} import {imported:.3f} visit {visit:.3f} checksum {checksum:016x}")


main()
