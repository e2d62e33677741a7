# PID 1 of a node. $1 is its name. Variables:
#   CLUSTER_HOSTS     the text of /etc/hosts
#   CLUSTER_RAM_MIB   the size of each RAM disk
#   CLUSTER_SHARES    directories of the host below a RAM disk's mount point, a line each
# It prints `ready NAME PID`, with the PID of the namespace that /proc belongs to.
set -eu
exec 2>&1
read -r pid _ </proc/self/stat
echo "$1" >/proc/sys/kernel/hostname
# The default of nearly all machines. Other algorithms misjudge a token bucket, and lose a tenth of its rate.
echo cubic 2>/dev/null >/proc/sys/net/ipv4/tcp_congestion_control || :

# RAM disks are mounted elsewhere first, since they would hide shared directories.
# Without -n, `mount` would write to the host's /run.
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
# Orphans of the node become its children, and it reaps them.
exec env --ignore-signal=CHLD sleep infinity </dev/null >/dev/null 2>&1
