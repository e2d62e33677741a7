"""`copy.py DIRECTORY`: copies this Python and its library, as a site installs it."""

import os
import shutil
import sys
import sysconfig

to = sys.argv[1]
unused = shutil.ignore_patterns("*-packages", "config-*", "ensurepip", "idlelib", "lib2to3", "test", "tests", "tkinter")
for library in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}:
    copy = os.path.join(to, os.path.relpath(library, sys.base_prefix))
    shutil.copytree(library, copy, ignore=unused, ignore_dangling_symlinks=True)
os.mkdir(os.path.join(to, "bin"))
shutil.copy(os.path.realpath(sys.executable), os.path.join(to, "bin/python3"))
