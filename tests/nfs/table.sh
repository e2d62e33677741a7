#!/bin/sh
# What the I/O library gains on NFS: the patterns of tests/programs/mpiio/c as they are and with the library, in turn.
#   table.sh PROGRAMS LIBRARY MPI BYTES ROUNDS
# PROGRAMS: the directory of the compiled programs. LIBRARY: libheadwater-mpiio.so. Prints a line for each run: the
# program, without or with the library, the seconds of reading and writing, and how much was transformed.
. "$(dirname "$0")/nodes.sh"
programs=$1 library=$2 mpi=$3 bytes=$4 rounds=$5
side=$(awk "BEGIN { s = 1; while (s * s * 8 <= $bytes / 4) s *= 2; print s }")
run() {
	name=$1
	shift
	for round in $(seq "$rounds"); do
		for kind in ${KINDS:-plain library}; do
			echo 3 >/proc/sys/vm/drop_caches
			rm -f /export/out*
			case $kind in
			plain) with=env ;;
			*) with="env LD_PRELOAD=$library HEADWATER_IO=auto HEADWATER_IO_EVERYWHERE=yes HEADWATER_IO_REPORT=/export.report" ;;
			esac
			rm -f /export.report
			# shellcheck disable=SC2086
			start "$mpi" timeout 90 $with "$@" --in /nfs/in --out /nfs/out >/run/said 2>/run/errors || cat /run/errors
			echo "$name $kind $(tr '\n' ' ' </run/said) sum=$(cat /export/out* | cksum | cut -d' ' -f1)" \
				"$(grep -c . /export.report 2>/dev/null)"
			grep -v btl_tcp /run/errors | head -3
			[ "$kind" = plain ] || { cp /export.report /out/report.$name.$mpi 2>/dev/null; }
		done
	done
}
head -c "$bytes" /dev/urandom >/export/in
ln /export/in /export/in.0
[ "${6:-all}" = 2d ] || run 1d "$programs/${mpi}/c_rows_c" --rows $((bytes / 65536)) --row-bytes 65536 --files
[ "${6:-all}" = 1d ] || run 2d "$programs/${mpi}/c_blocks_c" --rows $((bytes / 8 / side)) --columns $side
