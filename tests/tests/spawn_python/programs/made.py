"""Notes how this process was made. Imported by every program of these tests; leaves nothing behind in it."""
with open("/proc/self/environ") as file:
    note = dict(entry.partition("=")[::2] for entry in file.read().split("\0")).get("MADE")
if note:
    with open("/proc/self/maps") as maps, open(note, "a") as file:
        file.write("zygote\n" if "libheadwater-zygote" in maps.read() else "exec\n")
