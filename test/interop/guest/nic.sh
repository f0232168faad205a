# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Source this in the guest behind stock.sh: NICs of QEMU (run-guest.sh --pci-nics), uroced on them by vfio-pci.

nic_build=${nic_build:-/run/nic-build}

# nic_address N: the PCI address of nic0 or nic1, each alone behind its root port
nic_address() { printf '0000:%02x:00.0\n' $(($1 + 1)); }

# nic_bind N DRIVER: vfio-pci, or the kernel's own driver of the NIC
nic_bind() {
	local dev
	dev=/sys/bus/pci/devices/$(nic_address "$1")
	case $2 in
	vfio-pci) modprobe -a vfio_pci vfio_iommu_type1 && echo vfio-pci >"$dev/driver_override" || return ;;
	*) modprobe "$2" && echo >"$dev/driver_override" || return ;;
	esac
	[ ! -e "$dev/driver" ] || echo "${dev##*/}" >"$dev/driver/unbind" || return
	echo "${dev##*/}" >/sys/bus/pci/drivers_probe
	[ "$(basename "$(readlink "$dev/driver")")" = "$2" ] || [ "$2" != vfio-pci ]
}

# nic_huge MIB: huge pages, as most users of DPDK have them
nic_huge() {
	mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages && echo $(($1 / 2)) >/proc/sys/vm/nr_hugepages
}

# nic_dev N ADDRESS [KEY=VALUE,..]: the words that give uroced the device uroceN on nicN
nic_dev() { echo "--allow $(nic_address "$1") --dev name=uroce$1,port=$(nic_address "$1"),addr=$2${3:+,$3}"; }

# nic_daemon WORD..: uroced, until it is ready; a system call that it may not make kills it. Its log is /run/uroced.log.
nic_daemon() {
	uroced --sandbox kill --idle adaptive --mem 256 "$@" >/run/uroced.log 2>&1 &
	echo $! >/run/uroced.pid
	until_true nic_decided && grep -q '^uroced: ready' /run/uroced.log && return
	cat /run/uroced.log
	return 1
}
nic_decided() { grep -q '^uroced: ready' /run/uroced.log || ! kill -0 "$(cat /run/uroced.pid)" 2>/dev/null; }

# nic_stop: ends uroced, and shows what it said
nic_stop() {
	local pid
	pid=$(cat /run/uroced.pid)
	kill "$pid" && until_true nic_gone "$pid"
	cat /run/uroced.log
}
nic_gone() { [ ! -e "/proc/$1" ]; }

# nic_links DEV STATE: until the device's link is in this state
nic_link() { urocectl --json show port | grep -A20 "\"$1\"" | grep -m1 '"link"' | grep -q "\"$2\""; }
nic_until_link() { until_true nic_link "$1" "$2"; }

# nic_says: what the daemon found out about uroce0's port, on a line
nic_says() {
	urocectl --json show port | /usr/bin/python3 -c '
import json, sys
port = json.load(sys.stdin)["port"][0]
caps = port["capabilities"]
print(port["driver"], "link_mtu", port["link_mtu"], "max_mtu", caps.get("max_mtu"), "rx_queues", port["rx_queues"],
      "of", caps["max_rx_queues"], "rss", caps["rss"], "rss_used", caps["rss_used"], "flow_rule", caps["flow_rule"],
      caps.get("flow_rule_why", ""), "rx", caps["rx_offloads"], "tx", caps["tx_offloads"])'
}

# nic_data: random WRITEs, READs and SENDs of up to 64 KiB both ways, every byte compared
nic_data() {
	local server check=$nic_build/app/uroce-bench/check/rcdata
	uroce-run "$check" -d uroce1 -p 18800 --stall 60 >/run/server 2>&1 &
	server=$!
	until_true listens 18800 && uroce-run "$check" -d uroce0 -p 18800 --stall 60 --qps 2 --ops 30 127.0.0.1 && wait $server && return
	cat /run/server
	return 1
}

# nic_perftest: WRITE, READ and SEND of 64 B and of 64 KiB
nic_perftest() {
	local op bytes server
	for op in write read send; do
		for bytes in 64 65536; do
			uroce-run "ib_${op}_bw" -d uroce1 -x 1 -n 50 -s $bytes -F -p 18700 >/run/server 2>&1 &
			server=$!
			until_true listens 18700 &&
				uroce-run "ib_${op}_bw" -d uroce0 -x 1 -n 50 -s $bytes -F -p 18700 127.0.0.1 && wait $server || return
		done
	done
}

# nic_wire OPTION..: uroce-bench wire from nic0 to nic1, as JSON
nic_wire() {
	"$nic_build/app/uroce-bench/uroce-bench" wire --allow "$(nic_address 0)" --allow "$(nic_address 1)" --mtu 1024 --runs 1 \
		--run-ms 3000 --no-probe --json "$@"
}

# nic_rpings N: N connections of uroce0 with uroce1, one after the other. Without -I rping takes uroce1 for both ends.
nic_rpings() {
	local _
	for _ in $(seq "$1"); do
		by_cm "rping -s -a 10.9.0.2 -p 18900 -C 20" "rping -c -I 10.9.0.1 -a 10.9.0.2 -p 18900 -C 20" uroce-run || return
	done
}

# nic_report OPTION..: the file of uroce-bench nic
nic_report() {
	"$nic_build/app/uroce-bench/uroce-bench" nic --allow "$(nic_address 0)" --allow "$(nic_address 1)" --mem 256 --workers 2 \
		--runs 1 --out /run/nic.json "$@" >/run/said 2>&1
	cat /run/nic.json
}

# nic_watch DEV: the events of a device, in /run/watch
nic_watch() {
	uroce-run stdbuf -oL ibv_asyncwatch -d "$1" >/run/watch 2>&1 &
	echo $! >/run/watch.pid
	until_true grep -q 'async event FD' /run/watch
}
nic_unwatch() { kill "$(cat /run/watch.pid)"; }
nic_absent() { [ ! -e "/sys/bus/pci/devices/$(nic_address "$1")" ]; }

# nic_has_interface ADDRESS: its folder in nic_dir. That of virtio is one of a device below the NIC.
nic_has_interface() {
	for nic_dir in "/sys/bus/pci/devices/$1"/net/* "/sys/bus/pci/devices/$1"/virtio*/net/*; do
		[ -d "$nic_dir" ] && return
	done
	return 1
}

# nic_rxe: the kernel's rxe on nic1, which the kernel has
nic_rxe() {
	until_true nic_has_interface "$(nic_address 1)" || return
	nic_if=$(basename "$nic_dir")
	sysctl -qw "net.ipv6.conf.$nic_if.disable_ipv6=1"
	echo "$nic_if" >/run/nic_if
	modprobe -a rdma_rxe ib_uverbs rdma_ucm && ip addr add 10.9.0.2/24 dev "$nic_if" && ip link set "$nic_if" up &&
		rdma link add rxe0 type rxe netdev "$nic_if"
}

# nic_with_rxe: WRITE, READ and SEND from the kernel's rxe to uroce0. The guest may need longer for a window of packets than
# the usual ACK timeout of 67 ms, and rxe may spoil a request that it repeats (doc/interop.md): -u 18 is 1 s.
nic_with_rxe() {
	local op server
	until_true ping -qc1 -W2 10.9.0.1 || return
	for op in write read send; do
		uroce-run "ib_${op}_bw" -d uroce0 -x 1 -n 20 -s 65536 -F -p 18700 >/run/server 2>&1 &
		server=$!
		until_true listens 18700 &&
			"ib_${op}_bw" -d rxe0 -x 1 -n 20 -s 65536 -F -p 18700 -m 1024 -u 18 127.0.0.1 && wait $server || {
			cat /run/server
			return 1
		}
	done
}

# nic_vf: a VF of nic0, whose PF the kernel has, for vfio-pci. Its address is in /run/vf, the PF's interface in /run/pf.
nic_vf() {
	local dev vf
	dev=/sys/bus/pci/devices/$(nic_address 0)
	until_true nic_has_interface "$(nic_address 0)" || return
	basename "$nic_dir" >/run/pf
	ip link set "$(cat /run/pf)" up && echo 0 >"$dev/sriov_drivers_autoprobe" && echo 1 >"$dev/sriov_numvfs" || return
	basename "$(readlink "$dev/virtfn0")" >/run/vf
	vf=$(cat /run/vf)
	ip link set "$(cat /run/pf)" vf 0 mac 52:54:00:99:01:01
	echo vfio-pci >"/sys/bus/pci/devices/$vf/driver_override" && echo "$vf" >/sys/bus/pci/drivers_probe
}
nic_vf_dev() { echo "--allow $(cat /run/vf) --dev name=uroce0,port=$(cat /run/vf),addr=10.9.0.1/24"; }
nic_no_vf() { echo 0 >"/sys/bus/pci/devices/$(nic_address 0)/sriov_numvfs"; }
# nic_reaches: uroce0's frames arrive at uroce1, and back
nic_reaches() {
	local server rc
	uroce-run ibv_rc_pingpong -d uroce1 -g 1 -n 5 -p 18850 >/dev/null 2>&1 &
	server=$!
	until_true listens 18850 && uroce-run ibv_rc_pingpong -d uroce0 -g 1 -n 5 -p 18850 127.0.0.1 >/dev/null 2>&1
	rc=$?
	kill $server 2>/dev/null
	wait $server 2>/dev/null
	return $rc
}
# nic_then FIRST SECOND: uroced has said FIRST, and SECOND behind it
nic_then() { sed -n "/$1/,\$p" /run/uroced.log | grep -q "$2"; }
nic_restarts() { grep -c 'is started again' /run/uroced.log; }

# nic_frames: how many frames uroced has received
nic_frames() { urocectl --json show stats | awk -F'[:,]' '/"rx_frames"/ {print $2 + 0; exit}'; }

# nic_filters: frames to another MAC do not arrive. The ping behind them is answered once the NIC is past them.
nic_filters() {
	local before
	before=$(nic_frames)
	/usr/bin/python3 -c '
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
for _ in range(200):
    s.send(bytes.fromhex("5254009900775254009900020800") + bytes(50))
' "$(cat /run/nic_if)" && until_true ping -qc1 -W2 10.9.0.1 && [ $(($(nic_frames) - before)) -lt 100 ]
}
