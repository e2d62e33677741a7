"""Iscatter of what rank 0 has read, and Igather of what it writes: `later.py DIRECTORY`. Rank 0 prints checksums."""

import sys

from mpi4py import MPI

PART = 300000
ROUNDS = 6

world = MPI.COMM_WORLD
directory = sys.argv[1]
everything = bytearray(PART * world.size) if world.rank == 0 else None
mine = bytearray(PART)
if world.rank == 0:
    with open(directory + "/in", "wb") as file:
        file.write(bytes((at * 7 + at // 251) & 255 for at in range(PART * world.size)))
for step in range(ROUNDS):
    if world.rank == 0:
        with open(directory + "/in", "rb", buffering=0) as file:
            file.readinto(everything)
    world.Iscatter([everything, MPI.BYTE] if world.rank == 0 else None, [mine, MPI.BYTE]).Wait()
    sums = world.gather(sum(mine[::97]))
    mine[:1000] = bytes([step + world.rank]) * 1000
    request = world.Igather([mine, MPI.BYTE], [everything, MPI.BYTE] if world.rank == 0 else None)
    while not request.Test():
        pass
    if world.rank == 0:
        print(step, sums)
        with open(directory + "/out", "wb", buffering=0) as file:
            file.write(everything)
