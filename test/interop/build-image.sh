#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Build the Soft-RoCE test guest: kernel, small initramfs and a read-only root image.
#
#   ./build-image.sh OUTDIR
#
# Everything comes from the Debian mirror apt is already configured for.
# Host packages needed: mmdebstrap e2fsprogs cpio kmod binutils.
#
#   KERNEL       SUITE/PACKAGE of the kernel, as trixie/linux-image-amd64 (default: what this machine's apt has as
#                linux-image-amd64). Debian's cloud flavour (linux-image-cloud-amd64) lacks rdma_rxe.
set -euo pipefail

out=${1:?usage: build-image.sh OUTDIR}
suite=${SUITE:-bookworm}

for t in mmdebstrap mke2fs cpio gzip dpkg-deb depmod strip apt-get; do
    command -v "$t" >/dev/null || { echo "build-image: '$t' is missing (apt-get install mmdebstrap e2fsprogs cpio kmod binutils)" >&2; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo "build-image: run as root (or under fakeroot)" >&2; exit 1; }

mkdir -p "$out"
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
chmod 755 "$tmp"

# --- 1. kernel ------------------------------------------------------------
if [ -n "${KERNEL:-}" ]; then
    pkg=$KERNEL
    mmdebstrap --quiet --variant=extract --include="${KERNEL#*/}" "${KERNEL%/*}" "$tmp/k"
else
    pkg=$(apt-cache depends linux-image-amd64 | awk '/Depends:/{print $2; exit}')
    (cd "$tmp" && apt-get -qq -o APT::Sandbox::User=root download "$pkg")
    mkdir "$tmp/k"; dpkg-deb -x "$tmp"/linux-image-*.deb "$tmp/k"
fi
echo "build-image: kernel package $pkg"
mods=$(echo "$tmp"/k/{usr/,}lib/modules/*-amd64 | tr ' ' '\n' | grep -v '\*' | head -1)
kver=$(basename "$mods")
cp "$tmp/k/boot/vmlinuz-$kver" "$out/vmlinuz"
cp "$tmp/k/boot/config-$kver" "$out/kernel-config"
echo "$kver" >"$out/kernel-version"

for m in ib_core ib_uverbs ib_umad rdma_cm rdma_ucm veth virtio_net sch_netem virtiofs; do
    find "$mods" -name "$m.ko*" | grep -q . || grep -q "/$m\.ko" "$mods/modules.builtin" || { echo "build-image: module $m not in $pkg" >&2; exit 1; }
done

# --- 2. guest root --------------------------------------------------------
pkgs=kmod,mount,iproute2,rdma-core,ibverbs-utils,ibverbs-providers,rdmacm-utils,perftest
pkgs+=,tcpdump,ethtool,procps,iputils-ping,busybox-static,libssl3
root=$tmp/root
mmdebstrap --quiet --variant=apt --include="$pkgs" \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' "$suite" "$root"
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*

# Modules: only the parts a network test needs.
d=$root/lib/modules/$kver
mkdir -p "$d/kernel"
cp "$mods"/modules.{builtin,order}* "$d/"
for p in net drivers/infiniband drivers/virtio drivers/block/virtio_blk.ko* drivers/net/veth.ko* \
         drivers/net/virtio_net.ko* drivers/net/net_failover.ko* drivers/vfio virt/lib \
         drivers/net/ethernet/intel/{e1000e,igb} drivers/net/vmxnet3 drivers/dca drivers/i2c/algos/i2c-algo-bit.ko* \
         drivers/char/virtio_console.ko* drivers/char/hw_random \
         fs/fuse fs/configfs fs/overlayfs fs/ext4 fs/jbd2 fs/mbcache.ko* lib crypto arch/x86/crypto; do
    for found in "$mods"/kernel/$p; do # the kernel may have it built in; a later one's modules are compressed
        [ -e "$found" ] || continue
        mkdir -p "$d/kernel/$(dirname "$p")"; cp -r "$found" "$d/kernel/$(dirname "$p")/"
    done
done
# GPU/TPM/etc. symbols needed by hardware HCA drivers are not there, so drop those drivers.
rm -rf "$d/kernel/drivers/infiniband/hw"
find "$d" -name '*.ko.xz' -exec unxz {} +
# Stripping also removes the signatures; checking those is slow under emulation.
find "$d" -name '*.ko' -exec strip --strip-debug {} +
depmod -b "$root" "$kver" 2>/dev/null

# First user program in the guest: mounts, then runs the script found in the shared folder.
cat >"$root/sbin/guest-init" <<'EOF'
#!/bin/bash
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LC_ALL=C
mount -t proc proc /proc; mount -t sysfs sys /sys

[ -c /dev/null ] || mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm /mnt/host
mount -t devpts devpts /dev/pts; mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /tmp
ln -sfn /proc/self/fd /dev/fd
hostname rxe; ulimit -l unlimited
modprobe -a virtio_console virtio_net
mount -t virtiofs host /mnt/host || { echo "guest: no shared folder"; reboot -f; }
ip link set lo up
ln -sfn /proc/self/fd/1 /dev/stdout 2>/dev/null; ln -sfn /proc/self/fd/2 /dev/stderr 2>/dev/null
# the port named "out" carries the script's output to the host
port=/dev/console
for i in $(seq 50); do
    for p in /sys/class/virtio-ports/*; do
        [ "$(cat "$p/name" 2>/dev/null)" = out ] && port=/dev/$(basename "$p")
    done
    [ "$port" != /dev/console ] && break; sleep 0.1
done
cd /mnt/host
rc=127
if [ -f .run/script ]; then
    eval "set -- $(cat .run/args 2>/dev/null)"
    bash .run/script "$@" </dev/null >"$port" 2>&1; rc=$?
fi
echo "$rc" >.run/rc
sync
busybox poweroff -f
EOF
chmod 755 "$root/sbin/guest-init"

# --- 3. initramfs: mount the image read-only with a tmpfs on top --------------
i=$tmp/initrd
mkdir -p "$i"/{bin,dev,proc,sys,ro,rw,new,lib/modules}
cp "$root/bin/busybox" "$i/bin/busybox"
list=$(modprobe -d "$root" -S "$kver" --show-depends -a virtio_pci virtio_blk ext4 overlay virtiofs crc32c_generic 2>/dev/null |
       awk '$1=="insmod" && !seen[$2]++ {print $2}')
: >"$i/modules"
for m in $list; do cp "$m" "$i/lib/modules/"; echo "/lib/modules/$(basename "$m")" >>"$i/modules"; done
cat >"$i/init" <<'EOF'
#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc; $b mount -t sysfs sys /sys; $b mount -t devtmpfs dev /dev
while read m; do $b insmod $m; done </modules
n=0; until [ -b /dev/vda ] || [ $n = 50 ]; do $b sleep 0.1; n=$((n+1)); done
$b mount -t ext4 -o ro /dev/vda /ro || { echo "initramfs: no root image"; $b reboot -f; }
$b mount -t tmpfs -o size=50% tmpfs /rw; $b mkdir /rw/u /rw/w
$b mount -t overlay -o lowerdir=/ro,upperdir=/rw/u,workdir=/rw/w overlay /new
$b mount -o move /dev /new/dev; $b umount /proc; $b umount /sys
exec $b switch_root /new /sbin/guest-init
EOF
chmod 755 "$i/init"
(cd "$i" && find . | cpio -o -H newc --quiet | gzip -1) >"$out/initrd.gz"

# --- 4. root image ----------------------------------------------------------
size=$(($(du -sm "$root" | cut -f1) * 115 / 100 + 32))
rm -f "$out/root.img"
mke2fs -q -t ext4 -m 0 -O ^has_journal -E root_owner=0:0 -d "$root" "$out/root.img" "${size}M"
echo "build-image: done: kernel $kver, root image ${size} MiB in $out"
