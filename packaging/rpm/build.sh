#!/bin/sh
# Makes a package for RHEL, SLES, Fedora and their relatives of the file tree STAGED.
set -eu
staged=$1 version=$2 architecture=$3 out=$4
command -v rpmbuild >/dev/null || { echo 'rpmbuild is missing: install the package rpm'; exit 1; }
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
rpmbuild -bb --quiet --target "$architecture-linux" --define "_topdir $top" --define "version $version" \
	--define "staged $staged" "$(dirname "$0")/headwater.spec"
mv "$top/RPMS/$architecture/"*.rpm "$out"
