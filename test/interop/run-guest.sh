#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Boot the Soft-RoCE guest, run SCRIPT in it, print its output, return its exit status.
#
#   run-guest.sh SCRIPT [options] [-- ARG...]
#
#   --tap NAME      attach the guest's eth0 to the host TAP device NAME (must exist and be up);
#                   a second --tap gives eth1.  Without it the guest has no NIC.
#   --mac MAC       MAC of eth0 (default 52:54:00:77:00:02; eth1 gets the next one)
#   --mtu N         MTU the NICs are offered with (default 1500)
#   --share DIR     folder the guest sees as /mnt/host, read-write, and its working
#                   directory (default: a temporary one)
#   --root          the guest can mount this machine's root, as the virtiofs share "root"
#   --mem MiB       guest memory (default 2048)       --smp N      vCPUs (default 2)
#   --timeout S     give up after S seconds (default 600, exit status 124)
#   --append STR    more kernel command line
#   --pci-nics KIND two NICs of QEMU's device KIND (with properties, as virtio-net-pci,mq=on), for vfio-pci in the guest:
#                   nic0 and nic1 on one hub, hot-pluggable, behind an IOMMU
#   --monitor PATH  QEMU's monitor as a unix socket
#   --qemu DIR      QEMU of packages that were unpacked in DIR, instead of this machine's
#   --image DIR     where build-image.sh put its output
#
# Accelerator: KVM where it can run an ordinary kernel, else TCG with a warning.
# ACCEL=kvm or ACCEL=tcg in the environment decides it by hand.
set -euo pipefail
img='' script='' share='' mem=2048 smp=2 tmo=600 mtu=1500 mac=52:54:00:77:00:02 append='' pci='' machine=q35
root='' taps=() args=() monitor=(-monitor none) qemu=(qemu-system-x86_64)
while [ $# -gt 0 ]; do
    case $1 in
    --tap) taps+=("$2"); shift 2;;
    --mac) mac=$2; shift 2;;
    --mtu) mtu=$2; shift 2;;
    --share) share=$2; shift 2;;
    --root) root=1; shift;;
    --mem) mem=$2; shift 2;;
    --smp) smp=$2; shift 2;;
    --timeout) tmo=$2; shift 2;;
    --append) append=$2; shift 2;;
    --pci-nics) pci=$2; shift 2;;
    --monitor) monitor=(-monitor "unix:$2,server=on,wait=off"); shift 2;;
    --qemu) qemu=("$2/usr/bin/qemu-system-x86_64" -L "$2/usr/share/qemu" -L "$2/usr/share/seabios")
            export QEMU_MODULE_DIR=$2/usr/lib/x86_64-linux-gnu/qemu; shift 2;;
    --image) img=$2; shift 2;;
    --) shift; args=("$@"); break;;
    -h|--help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0;;
    -*) echo "run-guest: unknown option $1" >&2; exit 2;;
    *) [ -z "$script" ] || { echo "run-guest: one script only; its arguments go after --" >&2; exit 2; }
       script=$1; shift;;
    esac
done
[ -f "${script:-}" ] || { echo "run-guest: no such script '${script:-}' (see --help)" >&2; exit 2; }
[ -n "$img" ] || { echo "run-guest: --image is missing (see --help)" >&2; exit 2; }
for f in vmlinuz initrd.gz root.img; do
    [ -f "$img/$f" ] || { echo "run-guest: $img/$f is missing, run build-image.sh" >&2; exit 2; }
done
command -v "${qemu[0]}" >/dev/null || { echo "run-guest: install qemu-system-x86" >&2; exit 2; }
# Debian 12's is part of qemu-system-common, later releases have a package virtiofsd.
virtiofsd=/usr/libexec/virtiofsd
[ -x $virtiofsd ] || virtiofsd=/usr/lib/qemu/virtiofsd
[ -x $virtiofsd ] || { echo "run-guest: install virtiofsd" >&2; exit 2; }

# KVM needs the device *and* hardware virtualisation: some nested hosts offer a /dev/kvm
# that only runs specially built guest kernels.
accel=${ACCEL:-}
if [ -z "$accel" ]; then
    if [ ! -e /dev/kvm ]; then why="/dev/kvm is missing"
    elif [ ! -r /dev/kvm ] || [ ! -w /dev/kvm ]; then why="no permission on /dev/kvm"
    elif ! grep -qwE 'vmx|svm' /proc/cpuinfo; then why="/dev/kvm is there but the CPU shows neither vmx nor svm"
    else accel=kvm; fi
    [ "$accel" ] || { accel=tcg; echo "run-guest: WARNING: $why; using TCG (slow, timings mean little)" >&2; }
fi
case $accel in
kvm) acc=(-accel kvm -cpu host);;
tcg) acc=(-accel tcg,thread=multi,tb-size=512 -cpu max,la57=off)
     append="clocksource=tsc tsc=reliable $append";;   # else the guest falls back to the slow HPET
*) echo "run-guest: ACCEL must be kvm or tcg" >&2; exit 2;;
esac

tmp= servers=()
if [ -z "$share" ]; then tmp=$(mktemp -d); share=$tmp; fi
share=$(cd "$share" && pwd)
trap 'rm -rf "$share/.run" ${tmp:+"$tmp"}; [ ${#servers[@]} = 0 ] || kill "${servers[@]}" 2>/dev/null || true' EXIT
rm -rf "$share/.run"; mkdir "$share/.run"
cp "$script" "$share/.run/script"
[ ${#args[@]} -gt 0 ] && printf '%q ' "${args[@]}" >"$share/.run/args"

net=(-nic none); n=0
for t in ${taps[@]+"${taps[@]}"}; do
    [ -e "/sys/class/net/$t" ] || { echo "run-guest: no device $t in this network namespace" >&2; exit 2; }
    m=${mac%:*}:$(printf '%02x' $(( (0x${mac##*:} + n) & 255 )))
    # The offloads stay off, so that every frame on the tap is what would be on a wire:
    # full checksums, no frame above the MTU.
    net+=(-netdev "tap,id=n$n,ifname=$t,script=no,downscript=no,vhost=off"
          -device "virtio-net-pci,netdev=n$n,mac=$m,host_mtu=$mtu,csum=off,guest_csum=off,gso=off,host_tso4=off,host_tso6=off,host_ufo=off,host_ecn=off,guest_tso4=off,guest_tso6=off,guest_ufo=off,guest_ecn=off,mrg_rxbuf=on,romfile=")
    n=$((n + 1))
done
if [ -n "$pci" ]; then
    machine=q35,kernel-irqchip=split
    append="intel_iommu=on iommu=pt $append"
    net+=(-device intel-iommu,intremap=on,caching-mode=on)
    for n in 0 1; do
        net+=(-device "pcie-root-port,id=rp$n,chassis=$((n + 1)),slot=$((n + 1))" -netdev "hubport,id=h$n,hubid=7"
              -device "$pci,id=nic$n,netdev=h$n,mac=52:54:00:99:00:0$((n + 1)),romfile=,bus=rp$n")
    done
fi

# share TAG DIR CACHE: the guest can mount DIR as the virtiofs share TAG. The server ends with QEMU.
fs=()
share() {
    local at=$share/.run/$1
    "$virtiofsd" --socket-path="$at" -o "source=$2,cache=$3,sandbox=chroot" >"$at.log" 2>&1 &
    servers+=($!)
    until [ -S "$at" ]; do
        kill -0 $! 2>/dev/null || { echo "run-guest: virtiofsd for $2 has ended:" >&2; cat "$at.log" >&2; exit 2; }
        sleep 0.1
    done
    fs+=(-chardev "socket,id=$1,path=$at" -device "vhost-user-fs-pci,chardev=$1,tag=$1")
}
share host "$share" none
[ -z "$root" ] || share root / always

set +e
timeout --foreground "$tmo" "${qemu[@]}" "${acc[@]}" -M "$machine" -smp "$smp" -m "$mem" \
    -nodefaults -no-user-config -display none -no-reboot -pidfile "$share/.run/pid" "${monitor[@]}" \
    -kernel "$img/vmlinuz" -initrd "$img/initrd.gz" \
    -append "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off random.trust_cpu=on net.ifnames=0 cryptomgr.notests apparmor=0 audit=0 no_timer_check $append" \
    -drive "file=$img/root.img,format=raw,if=virtio,readonly=on,file.locking=off" \
    -object "memory-backend-memfd,id=ram,size=${mem}M,share=on" -machine memory-backend=ram "${fs[@]}" \
    -device virtio-rng-pci -device virtio-serial-pci \
    -chardev file,id=out,path=/dev/stdout -device virtserialport,chardev=out,name=out \
    -serial "file:$share/.run/console" "${net[@]}" </dev/null | cat	# a pipe: the port stays open
q=${PIPESTATUS[0]}
set -e
if [ "$q" = 124 ]; then echo "run-guest: timed out after $tmo s" >&2; tail -5 "$share/.run/console" >&2; exit 124; fi
if [ ! -s "$share/.run/rc" ]; then
    echo "run-guest: guest ended (qemu status $q) without reporting; its console:" >&2
    tail -40 "$share/.run/console" >&2; exit 125
fi
exit "$(cat "$share/.run/rc")"
