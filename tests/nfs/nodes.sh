#!/bin/sh
# Four nodes that mount one NFS server, each in namespaces of its own, with links of NODE_RATE; the server's has
# SERVER_RATE. Sources this, then: `on N COMMAND...` runs a command on node N. Every node sees the export at /nfs.
#
# For root, in a machine whose kernel has NFS (machine.sh); KERNEL is its directory there. NFS_OPTIONS: of the mounts.
set -eu
nodes=${NODES:-4}
for module in veth bridge sch_tbf nfsd nfsv4 nfsv3; do modprobe -d "$KERNEL" "$module"; done
state=/run/nodes
mkdir -p $state /nfs /run/rpc_pipefs
echo "127.0.0.1 localhost" >/etc/hosts
echo "10.9.0.100 server" >>/etc/hosts

# A switch, whose links are limited in both directions.
ip link set lo up
unshare -n sleep infinity &
switch=$!
sleep 0.3
in_switch() { nsenter -t $switch -n "$@"; }
in_switch ip link add br0 type bridge
in_switch ip link set br0 up
limit() { "$@" tc qdisc add dev "$device" root tbf rate "$rate" burst 128k latency 300ms; }
# connect PID NAME ADDRESS RATE
connect() {
	ip link add "$2" netns "$1" type veth peer name "$2" netns $switch
	in_switch ip link set "$2" master br0 up
	nsenter -t "$1" -n ip addr add "$3/24" dev "$2"
	nsenter -t "$1" -n ip link set "$2" up
	device=$2 rate=$4
	limit in_switch
	limit nsenter -t "$1" -n
}
connect $$ server 10.9.0.100 "${SERVER_RATE:-80mbit}"

# The server: NFS 3 and 4.2, its files in memory.
mkdir -p /export /var/lib/nfs/v4recovery
mount -t tmpfs -o size=70% export /export
mount -t nfsd nfsd /proc/fs/nfsd 2>/dev/null || true
mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs 2>/dev/null || true
echo "/export *(rw,fsid=0,no_root_squash,no_subtree_check,insecure${EXPORT_OPTIONS:-,async})" >/etc/exports
rpcbind -w 2>/dev/null || rpcbind
rpc.mountd -p 20048
echo 5 >/proc/fs/nfsd/nfsv4leasetime 2>/dev/null || true
echo 5 >/proc/fs/nfsd/nfsv4gracetime 2>/dev/null || true
exportfs -a
rpc.nfsd 8
echo Y >/proc/fs/nfsd/v4_end_grace 2>/dev/null || true

pid_of() { cat "$state/$1"; }
on() {
	pid=$(pid_of "node$1")
	shift
	nsenter -t "$pid" -n -m -u "$@"
}
for node in $(seq "$nodes"); do
	unshare -n -m -u sleep infinity &
	echo $! >"$state/node$node"
	echo "10.9.0.$node node$node" >>/etc/hosts
done
sleep 0.3
mount_options=nosharecache,${NFS_OPTIONS:-vers=4.2}
case $mount_options in
*vers=4*) source=server:/ ;;
*) source=server:/export mount_options=$mount_options,nolock,mountport=20048,mountproto=tcp ;;
esac
for node in $(seq "$nodes"); do
	pid=$(pid_of "node$node")
	nsenter -t "$pid" -u hostname "node$node"
	nsenter -t "$pid" -n ip link set lo up
	connect "$pid" "node$node" "10.9.0.$node" "${NODE_RATE:-20mbit}"
	# UCX finds a node's devices there.
	on "$node" mount -t sysfs sysfs /sys
	on "$node" mount -t nfs -o "$mount_options" "$source" /nfs
done
# How the launchers of MPIs start something on another node.
cat >$state/agent <<'AGENT'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
pid=$(cat /run/nodes/"$1")
shift
exec nsenter -t "$pid" -n -m -u /bin/sh -c "$*"
AGENT
chmod +x $state/agent
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
# The first N nodes take part in the jobs that follow.
use_nodes() {
	nodes=$1
	hosts=$(seq -s , -f node%g "$nodes")
	slots=$(echo "$hosts" | sed 's/,/:1,/g'):1
}
use_nodes "$nodes"
# start MPI COMMAND...: a rank on each node.
start() {
	mpi=$1
	shift
	case $mpi in
	openmpi*) on 1 mpirun.openmpi --mca plm_rsh_agent $state/agent --mca btl_tcp_if_include 10.9.0.0/24 \
		--mca btl tcp,self --mca pml ob1 -H "$slots" -np "$nodes" "$@" ;;
	*) on 1 mpiexec.hydra -launcher ssh -launcher-exec $state/agent -hosts "$hosts" -ppn 1 -n "$nodes" "$@" ;;
	esac
}
