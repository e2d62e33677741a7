#!/bin/sh
# Boots an emulated machine whose root is this one's, read-only, with changes in its memory, and runs a command there.
# Its output is this script's. For kernel modules that this machine's kernel lacks, such as NFS.
#
#   machine.sh KERNEL OUT SECONDS COMMAND...
#
# KERNEL: a directory into which Debian's package linux-image-VERSION-amd64 was unpacked (dpkg-deb -x), with
# depmod -b KERNEL VERSION. OUT: a directory that the command can write to. The command ends after SECONDS.
set -eu
kernel=$1 out=$2 seconds=$3
shift 3
image=$(ls "$kernel"/boot/vmlinuz-*)
version=${image##*/vmlinuz-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/root/bin" "$scratch/root/modules"
cp "$(command -v busybox)" "$scratch/root/bin/busybox"
order=0
for module in virtio_pci 9pnet_virtio 9p overlay; do
	modprobe -d "$kernel" -S "$version" --show-depends "$module" | while read -r _ file; do
		[ -e "$scratch/root/modules/${file##*/}" ] || cp "$file" "$scratch/root/modules/"
		echo "${file##*/}" >>"$scratch/root/modules/order"
	done
done
printf '%s\n' "$*" >"$out/command"
cat >"$scratch/root/init" <<'INIT'
#!/bin/busybox sh
b=/bin/busybox
$b mkdir -p /proc /sys /dev /lower /memory /root /out
$b mount -t proc proc /proc
$b mount -t devtmpfs dev /dev
for module in $($b cat /modules/order); do $b insmod /modules/$module 2>/dev/null; done
options=trans=virtio,version=9p2000.L,msize=1048576
$b mount -t 9p -o $options,cache=loose,ro lower /lower || $b poweroff -f
$b mount -t tmpfs -o size=90% memory /memory
$b mkdir /memory/upper /memory/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/memory/upper,workdir=/memory/work overlay /root || $b poweroff -f
$b mkdir -p /root/out
$b mount -t 9p -o $options out /root/out
for type in proc sysfs devtmpfs; do
	case $type in proc) at=proc ;; sysfs) at=sys ;; *) at=dev ;; esac
	$b mount -t $type $type /root/$at
done
$b mount -t tmpfs tmpfs /root/tmp.machine 2>/dev/null
exec $b switch_root /root /bin/sh -c '
	export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
	mkdir -p /dev/pts /dev/shm /run
	mount -t devpts devpts /dev/pts; mount -t tmpfs shm /dev/shm; mount -t tmpfs run /run
	sh -c "$(cat /out/command)" </dev/null >/out/output 2>&1
	echo $? >/out/status
	/bin/busybox poweroff -f'
INIT
chmod +x "$scratch/root/init"
(cd "$scratch/root" && find . | cpio -o -H newc 2>/dev/null | gzip -1) >"$scratch/initramfs"
rm -f "$out/status"
timeout -k 5 "$seconds" qemu-system-x86_64 -M q35 -cpu max -accel tcg,thread=multi -smp "${MACHINE_CPUS:-2}" \
	-m "${MACHINE_MEMORY:-3G}" -nodefaults -no-reboot -display none -serial "file:$out/console" \
	-kernel "$image" -initrd "$scratch/initramfs" -append "console=ttyS0 quiet panic=-1 mitigations=off" \
	-fsdev "local,id=lower,path=/,security_model=none,readonly=on,multidevs=remap" \
	-device virtio-9p-pci,fsdev=lower,mount_tag=lower \
	-fsdev "local,id=out,path=$out,security_model=none" -device virtio-9p-pci,fsdev=out,mount_tag=out || true
cat "$out/output" 2>/dev/null || cat "$out/console"
exit "$(cat "$out/status" 2>/dev/null || echo 1)"
