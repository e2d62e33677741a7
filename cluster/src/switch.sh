# PID 1 of the switch's namespaces, which hold the bridge and, below them, all nodes: when it ends,
# the kernel ends everything in them.
#   $1    the script of a node's PID 1
#   $2…   the nodes' names
# It prints `ready switch PID`, with the PID of the namespace that /proc belongs to, and `end NAME`
# when a node has ended. Any other line is a program's error. It ends with standard input, unless
# that has the line `stay`: then it ends with the last node.
set -eu
exec 2>&1
read -r pid _ </proc/self/stat
node=$1
shift
for name; do
    {
        unshare --net --mount --uts --ipc --pid --fork --kill-child --propagation slave \
            -- sh -c "$node" headwater-node "$name" || :
        echo "end $name"
    } &
done
# A switch has no firewall.
echo 0 2>/dev/null >/proc/sys/net/bridge/bridge-nf-call-iptables || :
echo "ready switch $pid"
exec >/dev/null 2>&1
if read -r word && [ "$word" = stay ]; then
    wait
fi
