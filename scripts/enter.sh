#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# enter.sh FOLDER COMMAND ARG..: runs a command in a folder that mmdebstrap made, with the file systems that a machine has,
# in separate mount and PID namespaces. When the command ends, so do its children. Needs root.
set -e
if [ -z "$UROCE_ENTERED" ]; then
	exec env UROCE_ENTERED=1 unshare --mount --pid --fork --kill-child "$0" "$@"
fi
root=$1
shift
mount --bind "$root" "$root" # namespaces that are created there expect a mount point
for fs in dev sys; do mount --rbind /$fs "$root/$fs"; done
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
exec chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
	"$@"
