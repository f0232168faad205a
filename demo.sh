#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs one uroced with two devices connected in memory, and two ordinary verbs programs that transfer data
# between them and check every byte. Needs no hardware and, once the packages are installed, no privilege.
#
#   ./demo.sh [-q | --quiet]
#
#   -q  prints only the results and errors
set -euo pipefail
cd "$(dirname "$0")"
. scripts/setup.sh

case ${1-} in
'') ;;
-q | --quiet) setup_quiet=yes ;;
-h | --help)
	sed -n '3,/^set /s/^# \?//p' "$0"
	exit 0
	;;
*)
	echo "demo.sh: unknown argument '$1'; legal: -q, --help" >&2
	exit 2
	;;
esac

# shellcheck disable=SC2086
setup_packages $BUILD_PACKAGES
# the comparison with kernel TCP creates network namespaces
# shellcheck disable=SC2086
[ "$(id -u)" != 0 ] || setup_packages $DEMO_PACKAGES
# what runs below, not the tests
setup_targets=$DEMO_TARGETS
setup_build build
setup_hugepages 384

run=$(mktemp -d /tmp/uroce-demo.XXXXXX)
daemon='' server='' client=''
finish() {
	local pid
	for pid in $client $server; do kill "$pid" 2>/dev/null || true; done
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
	wait 2>/dev/null || true
	setup_hugepages_back
	rm -rf "$run"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

# moves PID...: returns 1 if the processes have not used the processor during the last 300 calls, one each 0.2 s. A
# machine may be slow for hours; what hangs uses none.
ticks=0 still=0
moves() {
	local pid stat sum=0
	for pid; do
		{ read -ra stat <"/proc/$pid/stat"; } 2>/dev/null && sum=$((sum + stat[13] + stat[14]))
	done
	[ "$sum" != "$ticks" ] && still=0 || still=$((still + 1))
	ticks=$sum
	[ "$still" -lt 300 ] && sleep 0.2
}

setup_say "starting uroced: devices uroce0 and uroce1, connected in memory"
build/app/uroced/uroced --socket "$run/sock" --file-prefix "demo$$" --idle adaptive --pair demo \
	--dev name=uroce0,port=net_ring_demoa,addr=10.9.0.101/24,mtu=4096 \
	--dev name=uroce1,port=net_ring_demob,addr=10.9.0.102/24,mtu=4096 >"$run/log" 2>&1 &
daemon=$!
ready() { # waits until the daemon is
	while kill -0 "$daemon" 2>/dev/null && moves "$daemon"; do
		! grep -q '^uroced: ready' "$run/log" || return 0
	done
	cat "$run/log" >&2
	setup_fail "uroced did not start"
}
ready

port=$((20000 + $$ % 10000))
bench=build/app/uroce-bench/uroce-bench

on() { # on PROGRAM ARG...: becomes it, on the daemon's devices
	exec build/app/uroce-run/uroce-run --socket "$run/sock" "$@"
}

# transfer SERVER-DEVICE CLIENT-DEVICE CLIENT-ARG...: both sides must succeed. Each gives up when no completion arrives
# for a minute.
transfer() {
	local pid
	on "$bench" check -d "$1" -p "$port" --stall 60 >"$run/server" 2>&1 &
	server=$!
	on "$bench" check -d "$2" -p "$port" --stall 60 "${@:3}" 127.0.0.1 >"$run/client" 2>&1 &
	client=$!
	for pid in "$client" "$server"; do
		while kill -0 "$pid" 2>/dev/null; do
			moves "$client" "$server" && continue
			echo "neither side goes on" >>"$run/client"
			kill -9 "$client" "$server" 2>/dev/null || true
			break
		done
		wait "$pid" && continue
		cat "$run/client" "$run/server" "$run/log" >&2
		setup_fail "the transfer failed"
	done
	server='' client=''
	port=$((port + 1))
}

setup_say "random SEND, WRITE and READ in both directions, then latency and bandwidth"
transfer uroce1 uroce0 --qps 4 --ops 2000 --seed "$$"
check=$(cat "$run/client")
transfer uroce1 uroce0 --bench --max-len 65536 --seed "$$"
printf '\n'
cat "$run/client"
printf '\n%s\n\n' "$check"

kill "$daemon"
wait "$daemon" || { cat "$run/log" >&2; setup_fail "uroced did not end cleanly"; }

setup_say "the same on the host's own address: uroced without ports, device uroce_lo on a UDP socket"
build/app/uroced/uroced --socket "$run/sock" --file-prefix "demo$$" >"$run/log" 2>&1 &
daemon=$!
ready
transfer uroce_lo uroce_lo --ops 2000 --seed "$$"
printf '\n%s\n\n' "$(tail -1 "$run/client")"
kill "$daemon"
wait "$daemon" || { cat "$run/log" >&2; setup_fail "uroced did not end cleanly"; }
daemon=''
setup_say "headline figures; uroce-bench report has all of them"
# a missed performance goal does not fail the demo
build/app/uroce-bench/uroce-bench report --headline ${setup_quiet:+-q} || true
printf '\n'
setup_say "success: all bytes received as sent"
