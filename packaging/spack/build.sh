#!/bin/sh
# Makes a Spack repository of the archives in the directory ARCHIVES. The recipe installs an archive: its libraries have
# to serve each MPI and glibc of a site, and checksums are known only when the archives are.
set -eu
archives=$1 version=$2 repository=$3
mkdir -p "$repository/packages/headwater"
printf 'repo:\n  namespace: headwater\n  api: v2.0\n' >"$repository/repo.yaml"
for archive in "$archives"/headwater-"$version"-*.tar.xz; do
	architecture=${archive##*/headwater-"$version"-}
	printf '    "%s": "%s",\n' "${architecture%.tar.xz}" "$(sha256sum "$archive" | cut -d' ' -f1)"
done | sed -e '/@CHECKSUMS@/{r /dev/stdin' -e 'd;}' -e "s/@VERSION@/$version/g" "$(dirname "$0")/package.py" \
	>"$repository/packages/headwater/package.py"
