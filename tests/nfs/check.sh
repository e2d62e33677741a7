#!/bin/sh
# Runs programs with the I/O library on four nodes that mount one NFS server, and prints a line for each: its name, its
# status, the checksum of what it wrote, how many places that write were transformed, and how many requests to write the
# first node has sent.
#
#   check.sh LIBRARY MPI INPUT CASES
#
# CASES: a file with a line for each program: a name, the program, and its options. INPUT: the file that all read.
. "$(dirname "$0")/nodes.sh"
library=$1 mpi=$2 input=$3 cases=$4
cp "$input" /export/in
# The kernel's count of the first node's requests to write.
requests() { on 1 awk '$1 == "WRITE:" { sum += $2 } END { print sum }' /proc/self/mountstats; }
while read -r name program options; do
	rm -f /export/out /run/report
	status=0 before=$(requests)
	# shellcheck disable=SC2086
	start "$mpi" timeout 60 env LD_PRELOAD="$library" HEADWATER_IO=auto HEADWATER_IO_EVERYWHERE=yes \
		HEADWATER_IO_MODEL=always HEADWATER_IO_REPORT=/run/report "$program" $options --in /nfs/in --out /nfs/out \
		</dev/null >/run/printed 2>&1 || status=$?
	[ $status -eq 0 ] || cat /run/printed
	echo "case $name status=$status sum=$(cksum </export/out)" \
		"writes=$(grep -c '"pattern": "[a-z]*+write".*"transformed": [1-9]' /run/report)" \
		"requests=$(($(requests) - before))"
done <"$cases"
