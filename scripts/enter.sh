#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# enter.sh FOLDER COMMAND ARG..: runs a command in a folder that mmdebstrap made, with the file systems that a machine has,
# in separate mount and PID namespaces. When the command ends, so do its children. Needs root.
# UROCE_FOREIGN=1: programs of arm64 run, too, by the folder's qemu-user-static. Needs Linux 6.7.
set -e
if [ -z "$UROCE_ENTERED" ]; then
	exec env UROCE_ENTERED=1 ${UROCE_FOREIGN:+"$(dirname "$0")/userns.py"} unshare --mount --pid --fork --kill-child "$0" "$@"
fi
root=$1
shift
mount --bind "$root" "$root" # namespaces that are created there expect a mount point
for fs in dev sys; do mount --rbind /$fs "$root/$fs"; done
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
if [ -n "$UROCE_FOREIGN" ]; then
	# the first bytes of an ELF file of arm64, and which of their bits count; the entry lasts as long as the mount
	mount -t binfmt_misc binfmt_misc "$root/mnt"
	magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
	mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
	printf %s ":qemu-aarch64:M::$magic:$mask:$root/usr/bin/qemu-aarch64-static:F" >"$root/mnt/register"
fi
exec chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
	"$@"
