# PID 1 of a node. $1 is its name. The environment says the rest:
#   CLUSTER_HOSTS     the text of /etc/hosts
#   CLUSTER_RAM_MIB   the size of each RAM disk
#   CLUSTER_SHARES    directories below a RAM disk's place that are the host's all the same, a line each
# It prints `ready NAME PID`, with the PID of the namespace that /proc belongs to.
set -eu
exec 2>&1
read -r pid _ </proc/self/stat
echo "$1" >/proc/sys/kernel/hostname
# What nearly all machines use. Others misjudge what a bucket of tokens lets through, and lose a tenth of it.
echo cubic 2>/dev/null >/proc/sys/net/ipv4/tcp_congestion_control || :

# The RAM disks are made aside, because a shared directory is found only as long as they don't hide it.
# Without -n, `mount` would write into /run, which is the host's at first.
mount -n -t tmpfs -o mode=755 cluster /mnt
for place in /run /tmp /var/tmp /dev/shm; do
    mkdir -p "/mnt$place"
    mount -n -t tmpfs -o "size=${CLUSTER_RAM_MIB}m,mode=1777" cluster "/mnt$place"
done
chmod 755 /mnt/run
printf '%s' "$CLUSTER_SHARES" | while IFS= read -r share; do
    mkdir -p "/mnt$share"
    mount -n --rbind "$share" "/mnt$share"
done
printf '%s' "$CLUSTER_HOSTS" >/mnt/hosts
mount -n --bind /mnt/hosts /etc/hosts
for place in /run /tmp /var/tmp /dev/shm; do
    mount -n --move "/mnt$place" "$place"
done
umount -n /mnt
mount -n -t proc proc /proc

cd /
echo "ready $1 $pid"
# It inherits whatever its node's processes leave behind, and reaps it.
exec env --ignore-signal=CHLD sleep infinity </dev/null >/dev/null 2>&1
