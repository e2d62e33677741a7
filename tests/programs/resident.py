"""resident.py FILE BLOCK…: waits, without reading, until the kernel has these blocks of 1 MiB of a file in memory, and
prints how many bytes of the file it has."""

import ctypes
import mmap
import os
import sys
import time

BLOCK = 1 << 20

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]

fd = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(fd).st_size
start = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
pages = ctypes.create_string_buffer(size // mmap.PAGESIZE)


def resident(first, length):
    """Returns how many bytes of a part are in memory."""
    if libc.mincore(start + first, length, pages) != 0:
        raise OSError(ctypes.get_errno(), "mincore")
    return sum(page & 1 for page in pages.raw[: length // mmap.PAGESIZE]) * mmap.PAGESIZE


deadline = time.monotonic() + 60
while any(resident(int(block) * BLOCK, BLOCK) < BLOCK for block in sys.argv[2:]):
    if time.monotonic() > deadline:
        sys.exit("not all is in memory: %d bytes" % resident(0, size))
    time.sleep(0.01)
print(resident(0, size))
