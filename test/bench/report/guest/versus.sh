#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest: perftest between two rxe devices, then between two of uroce, on the same veth
# pair. Prints one line "figure WHO WHAT VALUE" each; errors go to stderr.
#
#   versus.sh ROUNDS SECONDS
. guest/two-rxe.sh
rounds=$1 seconds=$2
port=18600 daemon=''
cp -a root/. / && ldconfig || exit 1
sysctl -qw net.core.rmem_max=8388608 net.core.wmem_max=8388608

# transfer WHO SERVER CLIENT TOOL ARG...: SERVER and CLIENT are the words before the program's options
transfer() {
	local who=$1 server=$2 client=$3 tool=$4 line rc pid
	shift 4
	port=$((port + 1))
	on "$server" "$tool" -p $port "$@" >/tmp/server.log 2>&1 &
	pid=$!
	for _ in $(seq 100); do
		ss -ltn | grep -q ":$port " && break
		sleep 0.1
	done
	on "$client" timeout 40 "$tool" -p $port "$@" 127.0.0.1 >/tmp/client.log 2>&1
	rc=$?
	[ $rc = 0 ] || kill $pid 2>/dev/null
	wait $pid
	line=$(awk '/^ *#bytes/ { head = 1; next } head && /^ *[0-9]/ { print; exit }' /tmp/client.log)
	if [ $rc != 0 ] || [ -z "$line" ]; then
		echo "$who $tool $*: status $rc: $(tail -n3 /tmp/client.log /tmp/server.log | tr '\n' ' ')" >&2
		return 1
	fi
	echo "$line"
}

# on DEVICE PROGRAM ARG...: with the device's options behind the program's name
on() {
	local device=$1 gid before=()
	shift
	case $device in
	rxe*) gid=$(gid_index "$device") ;;
	uroce*) gid=1 before=(taskset -c 0 /opt/uroce/app/uroce-run/uroce-run --socket /tmp/uroced.sock) ;;
	esac
	[ "$1" != timeout ] || { before+=("$1" "$2"); shift 2; }
	"${before[@]}" "$1" -d "$device" -x "$gid" -F "${@:2}"
}

# figure WHO WHAT EXPRESSION SERVER CLIENT TOOL ARG...: EXPRESSION is for awk, on the line that the tool
# prints. A run that moved nothing, as sometimes with rxe, is repeated.
figure() {
	local who=$1 what=$2 expression=$3 line value
	shift 3
	for _ in 1 2 3; do
		line=$(transfer "$who" "$@") || return
		value=$(echo "$line" | awk "{ print $expression }")
		[ "$value" = 0 ] || break
		echo "$who $*: nothing moved" >&2
	done
	echo "figure $who $what $value"
}

# figures WHO SERVER CLIENT: message rate and bandwidth
figures() {
	figure "$1" rate '$5 * 1000' "$2" "$3" ib_write_bw -s 64 -D "$seconds"
	figure "$1" bandwidth '$4 * 1.048576' "$2" "$3" ib_write_bw -s 65536 -t 16 -D "$seconds"
}

port_of() {
	echo "net_af_packet$1,iface=veth$1,blocksz=16384,framesz=8192,framecnt=1024,qpairs=1,qdisc_bypass=1"
}

# The worker has one processor, its clients the other: otherwise the scheduler puts all of them on one,
# where they yield to each other. rxe works in its callers' context and is not pinned.
start_uroce() {
	/opt/uroce/app/uroced/uroced --socket /tmp/uroced.sock --no-huge --mem 192 --idle poll --lcores 1 \
		--vdev "$(port_of 0)" --vdev "$(port_of 1)" \
		--dev name=uroce0,port=net_af_packet0,addr=10.78.0.101/24,mtu=4096 \
		--dev name=uroce1,port=net_af_packet1,addr=10.78.0.102/24,mtu=4096 >/tmp/uroced.log 2>&1 &
	daemon=$!
	for _ in $(seq 200); do
		grep -q '^uroced: ready' /tmp/uroced.log && return 0
		kill -0 $daemon 2>/dev/null || break
		sleep 0.1
	done
	cat /tmp/uroced.log >&2
	return 1
}

# pktgen BYTES: k frames/s that the kernel's own generator sends over the veth pair
pktgen() {
	local say=/proc/net/pktgen word
	echo "add_device veth0" >$say/kpktgend_0
	for word in "count 20000" "pkt_size $1" "dst 10.78.0.102" "dst_mac 02:00:00:78:00:02"; do
		echo "$word" >$say/veth0
	done
	echo start >$say/pgctrl
	awk '$1 ~ /pps$/ { print $1 / 1000 }' $say/veth0
	echo "rem_device_all" >$say/kpktgend_0
}

# limit MODE OPTION...: runs test/bench/limits; median NAME KEY: that figure of its row of that name
limit() {
	/opt/uroce/test/bench/limits/limits "$@" --no-huge --no-probe --runs 1 --json >/tmp/limit.json
}

median() {
	awk -v name="$1" -v key="\"$2\":" '
		/"name":/ { row = index($0, name); next }
		row && $1 == key { found = 1 }
		row && found && /"median":/ { print $2 + 0; exit }' /tmp/limit.json
}

# Limits of this link for any transport, and of this processor for uroce: frames of messages of 64 B and
# of 4 KiB, made by the kernel; the same between two bare af_packet ports; CRC and copy of 4 KiB.
limits() {
	modprobe pktgen || return
	echo "figure veth rate $(pktgen 138)"
	pktgen 4170 | awk '{ print "figure veth bandwidth", $1 * 4.096 }'
	limit port --port af_packet --run-ms 100 &&
		median "payload 64 B" oneway | awk '{ print "figure port rate", $1 * 1000 }' &&
		median "payload 4096 B" oneway | awk '{ print "figure port bandwidth", $1 * 4096 }'
	limit memory && median "memory, 4096 B" crc | awk '{ print "figure crc us", $1 / 1000 }' &&
		median "memory, 4096 B" copy | awk '{ print "figure copy us", $1 / 1000 }'
}

two_rxe 4200 || exit 1
limits
for round in $(seq "$rounds"); do
	if [ "$round" -gt 1 ]; then
		rdma link add rxe0 type rxe netdev veth0
		rdma link add rxe1 type rxe netdev veth1
		for _ in $(seq 50); do
			[ -n "$(gid_index rxe0)" ] && [ -n "$(gid_index rxe1)" ] && break
			sleep 0.1
		done
	fi
	figures rxe rxe1 rxe0
	rdma link del rxe0
	rdma link del rxe1
	start_uroce || exit 1
	figures uroce uroce1 uroce0
	kill $daemon
	wait $daemon
done
exit 0
