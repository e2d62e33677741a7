"""Prints what the modules named by its arguments have drawn, as they were imported and since."""
import importlib
import os
import sys

lines = []
for name in sys.argv[1:]:
    warm = name in sys.modules
    module = importlib.import_module(name)
    lines.append(f"{name} {'warm' if warm else 'own'} {module.first!r} {module.value!r}\n")
os.write(1, "".join(lines).encode())
