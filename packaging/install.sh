#!/bin/sh
# Copies Headwater from the directory of this file to a prefix, and writes the prefix into the files that name it.
set -eu

usage() {
	cat <<EOF
Usage: $0 [--prefix DIR]

Copies Headwater to DIR [default: /usr/local]: bin, include, lib, share.
EOF
}

prefix=/usr/local
while [ $# -gt 0 ]; do
	case $1 in
	--prefix=*) prefix=${1#*=} ;;
	--prefix)
		[ $# -gt 1 ] || { usage >&2; exit 2; }
		prefix=$2
		shift
		;;
	-h | --help) usage; exit 0 ;;
	*) printf '%s: unknown argument %s\n' "$0" "$1" >&2; usage >&2; exit 2 ;;
	esac
	shift
done
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$prefix"
prefix=$(cd "$prefix" && pwd)
if [ "$here" = "$prefix" ]; then
	printf '%s: %s is where it lies already\n' "$0" "$prefix" >&2
	exit 2
fi
# Units, configuration files and sed would have to quote other characters.
case $prefix in
*[!A-Za-z0-9_./+~@:-]*)
	named=/usr
	printf 'note: units, plugins and the module file name /usr, not %s: change them by hand\n' "$prefix"
	;;
*) named=$prefix ;;
esac

# A running program's file can't be written, but another file can take its name.
(cd "$here" && find bin include lib share -type f) | while read -r file; do
	mkdir -p "$prefix/${file%/*}"
	partial=$prefix/$file.partial-$$
	trap 'rm -f "$partial"' EXIT
	case $file in
	lib/systemd/* | share/headwater/* | share/modulefiles/*)
		sed "s,\([=\"]\|optional \)/usr/\(bin/headwater\|lib/slurm\|lib/headwater\),\1$named/\2,g" "$here/$file" >"$partial"
		chmod 644 "$partial"
		;;
	*) cp -p "$here/$file" "$partial" ;;
	esac
	mv -f "$partial" "$prefix/$file"
done

printf 'installed: %s/bin/headwater\n' "$prefix"
case $(id -u):$prefix in
0:/usr | 0:/usr/local) ;;
0:*) printf 'systemd finds the units after: systemctl link %s/lib/systemd/system/headwater-serve.service\n' "$prefix" ;;
esac
