#!/bin/sh
# Makes a wheel of the installation tree DIST. `wheel pack` writes the list of files and the archive, the same bytes for
# the same files. Installers put bin and lib below the environment, where the command finds its libraries beside it.
set -eu
dist=$1 version=$2 architecture=$3 out=$4
/usr/bin/python3 -c 'import wheel' || { echo 'wheel is missing: install the package python3-wheel'; exit 1; }
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
name=headwater-$version
data=$top/$name/$name.data info=$top/$name/$name.dist-info
mkdir -p "$data/scripts" "$data/data/lib" "$data/data/share" "$info/licenses" "$info/sboms"
cp "$dist/bin/headwater" "$data/scripts"
# Not what root installs for a machine: units, the plugins of Slurm and Flux, the module file. And not headwater-fabric:
# a wheel for all systems may not contain what needs libfabric.
cp -r "$dist/include" "$data/data"
cp -r "$dist/lib/headwater" "$dist"/lib/libheadwater-*.so "$data/data/lib"
cp -r "$dist/share/man" "$dist/share/bash-completion" "$dist/share/fish" "$dist/share/zsh" "$data/data/share"
cp "$dist/share/doc/headwater/LICENSE" "$dist/share/doc/headwater/THIRD-PARTY-LICENSES" "$info/licenses"
cp "$dist/share/doc/headwater/headwater.cdx.json" "$info/sboms"
cat >"$info/WHEEL" <<EOF
Wheel-Version: 1.0
Generator: headwater ($version)
Root-Is-Purelib: false
Tag: py3-none-manylinux_2_28_$architecture
EOF
cat >"$info/METADATA" <<EOF
Metadata-Version: 2.4
Name: headwater
Version: $version
Summary: Starts parallel programs without a storm of file requests
License-Expression: Apache-2.0
License-File: LICENSE
License-File: THIRD-PARTY-LICENSES
Keywords: HPC,MPI,startup
Classifier: Environment :: Console
Classifier: Operating System :: POSIX :: Linux
Classifier: Topic :: System :: Distributed Computing
Requires-Python: >=3.6
Description-Content-Type: text/markdown

The processes of a job search for and read the same libraries, modules and small files. Headwater reads each of them
once from the shared file system, sends it down trees of per-node daemons, and each process finds it in node-local
memory under its original path:

    headwater run -- srun -N 2048 python3 train.py

This wheel holds the command, its libraries and manual pages. It needs nothing of Python; \`headwater doctor\` tells
what the machine lacks.
EOF
chmod -R u=rwX,go=rX "$top/$name"
(cd "$top" && /usr/bin/python3 -m wheel pack --dest-dir "$top" "$name")
mv "$top"/*.whl "$out"
