# Uses an installed command as a job does: two nodes, each with its own store, list and read a directory.
# `use COMMAND` checks the result and the counters, `left DIRECTORY…` that files are gone.

fail() {
	printf '%s\n' "$1"
	exit 1
}

use() {
	command=$1
	mkdir -p /srv/data
	for number in $(seq 50); do
		echo "$number" >"/srv/data/$number"
	done
	for via in audit namespace; do
		"$command" run --nodes 2 --via "$via" --shared /srv/data --summary-json /tmp/summary.json -- \
			sh -c 'cat /srv/data/* | sort -n | sha256sum' >/tmp/results
		# Each node's process has the result, and each file was read once for both.
		[ "$(sort -u /tmp/results)" = "$(seq 50 | sha256sum)" ] || fail "wrong results: $(cat /tmp/results)"
		[ "$(wc -l </tmp/results)" = 2 ] || fail "results of two nodes: $(cat /tmp/results)"
		for counter in '"via": *"'$via'"' '"files_read": *50,' '"daemons_lost": *0,'; do
			grep -q "$counter" /tmp/summary.json || fail "no $counter in $(cat /tmp/summary.json)"
		done
	done
	printf 'used %s\n' "$("$command" --version)"
}

# Files below these directories by name, in a form to compare before and after.
files() {
	find "$@" -xdev \( -name '*headwater*' -o -name pspawn.h \) 2>/dev/null | sort
}

is_gone() {
	left=$(files /usr /etc /opt /var /run /srv)
	[ -z "$left" ] || fail "left behind: $left"
	echo removed
}
