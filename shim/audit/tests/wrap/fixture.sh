#!/bin/sh
# Makes the tree that the programs of this directory use: fixture.sh DIR (which must not exist).
# PROGRAM, if set, is copied into DIR/bin as `program` and `suid`.
set -eu
top=$1
mkdir -p "$top/bin" "$top/lib/deep/deeper" "$top/empty" "$top/closed"
printf 'plain\n' > "$top/plain"
printf 'x%.0s' $(seq 1 5000) > "$top/lib/large"
: > "$top/lib/nothing"
printf 'hidden\n' > "$top/closed/inside"
printf 'unreadable\n' > "$top/lib/unreadable"
chmod 0200 "$top/lib/unreadable"
printf 'private\n' > "$top/lib/private"
chmod 0600 "$top/lib/private"
ln "$top/plain" "$top/lib/hardlink"
ln -s plain "$top/link"
ln -s ../link "$top/lib/chain"
ln -s "$top/lib" "$top/absolute"
ln -s nowhere "$top/dangling"
ln -s loop "$top/loop"
ln -s lib/deep "$top/directory"
ln -s plain/ "$top/demands"
mkfifo "$top/lib/fifo"
for name in one two three four five six; do : > "$top/lib/deep/$name"; done
printf '#!/bin/sh\necho "script $0 $*"\n' > "$top/bin/script"
printf '#! /bin/sh  -e\t\necho "argument $0 $*"\n' > "$top/bin/argument"
printf '#!%s/bin/script two  words\necho never\n' "$top" > "$top/bin/nested"
printf '#!%s/bin/absent\n' "$top" > "$top/bin/orphan"
printf '#!/\n' > "$top/bin/rootshell"
printf 'echo "no line $0 $*"\n' > "$top/bin/plainscript"
printf '#!/bin/sh\necho forbidden\n' > "$top/bin/forbidden"
chmod 0755 "$top/bin/script" "$top/bin/argument" "$top/bin/nested" "$top/bin/orphan" "$top/bin/rootshell" \
	"$top/bin/plainscript"
chmod 0644 "$top/bin/forbidden"
if [ -n "${PROGRAM:-}" ]; then
	cp "$PROGRAM" "$top/bin/program"
	chmod 0755 "$top/bin/program"
	cp "$PROGRAM" "$top/bin/suid"
	chmod 4755 "$top/bin/suid"
	ln -s program "$top/bin/alias"
	printf '#!%s/bin/program -argument\n' "$top" > "$top/bin/interpreted"
	chmod 0755 "$top/bin/interpreted"
fi
touch -d '2001-02-03 04:05:06.789012345 UTC' "$top/plain" "$top/lib" "$top/lib/deep"
chmod 0711 "$top/closed"
