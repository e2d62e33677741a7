#!/bin/sh
# The patterns by the number of nodes and by size, in one, two and three dimensions, on NFS: as they are, with the I/O
# library, and with MPI-IO by hand.
#
#   curves.sh PROGRAMS LIBRARY MPI CASES ROUND
#
# PROGRAMS: the directory of the compiled programs. LIBRARY: libheadwater-mpiio.so. CASES: NODES:MB, separated by commas.
# NODES, of the environment: as many as the largest case has. Prints lines of `runs.csv` as `cargo xtask bench io --part
# curves` does, and the sum of what was written where it is not that of the program as it is.
. "$(dirname "$0")/nodes.sh"
programs=$1 library=$2 mpi=$3 cases=$4 round=$5
# MPICH's UCX would copy from one node's processes to another's, past the links. For MPICH 5: by TCP alone, jobs of MPICH 4
# don't end.
export UCX_TLS=tcp,self
version=$(echo "${NFS_OPTIONS:-vers=4.2}" | sed 's/.*vers=\([0-9.]*\).*/\1/')

# The largest power of two that isn't larger than the N-th root of a number: root NUMBER N
root() { awk "BEGIN { s = 1; while ((2 * s) ^ $2 <= $1) s *= 2; print s }"; }
# A program and its options for so many bytes, as the benchmark chooses them. It closes the file that it has written.
options() {
	doubles=$(($2 / 8))
	case $1 in
	1) echo "c_rows_c --rows $(($2 / 65536)) --row-bytes 65536 --files" ;;
	2)
		columns=$(root $doubles 2)
		echo "c_blocks_c --rows $((doubles / columns)) --columns $columns"
		;;
	3)
		planes=$(root $doubles 3)
		rows=$(root $((doubles / planes)) 2)
		echo "c_blocks_c --planes $planes --rows $rows --columns $((doubles / planes / rows))"
		;;
	esac
}
with_library="LD_PRELOAD=$library HEADWATER_IO=auto HEADWATER_IO_EVERYWHERE=yes"
echo "file system,mpi,dimensions,nodes,mb,round,way,reading s,writing s"
for case in $(echo "$cases" | tr , ' '); do
	mb=${case#*:}
	use_nodes "${case%:*}"
	head -c $((mb << 20)) /dev/urandom >/export/in
	ln -f /export/in /export/in.0
	for dimensions in ${DIMENSIONS:-1 2 3}; do
		expected=
		for way in plain library twin; do
			echo 3 >/proc/sys/vm/drop_caches
			rm -f /export/out*
			with=env twin=
			[ $way != library ] || with="env $with_library"
			[ $way != twin ] || twin=--twin
			# shellcheck disable=SC2086
			start "$mpi" timeout 300 $with "$programs/$mpi/"$(options "$dimensions" $((mb << 20))) $twin \
				--in /nfs/in --out /nfs/out >/run/said 2>/run/errors || cat /run/errors
			seconds=$(sed -n 's/.*read_s=\([0-9.]*\) write_s=\([0-9.]*\).*/\1,\2/p' /run/said)
			echo "NFS $version,$mpi,$dimensions,$nodes,$mb,$round,$way,$seconds"
			sum=$(cat /export/out* | cksum)
			[ "${expected:=$sum}" = "$sum" ] || echo "$way: the sum is $sum, not $expected"
		done
	done
done
