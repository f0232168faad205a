#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs one uroced with two devices connected in memory, and two ordinary verbs programs that transfer data
# between them and check every byte. Needs no hardware and, once the packages are installed, no privilege.
# -q: prints only the results and errors.
set -euo pipefail
cd "$(dirname "$0")"
. scripts/setup.sh

case ${1-} in
'') ;;
-q | --quiet) setup_quiet=yes ;;
*)
	echo "demo.sh: unknown argument '$1'; legal: -q" >&2
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
daemon='' server=''
finish() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
	wait 2>/dev/null || true
	setup_hugepages_back
	rm -rf "$run"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

on() { # on PROGRAM ARG...: runs it on the daemon's devices
	build/app/uroce-run/uroce-run --socket "$run/sock" "$@"
}

setup_say "starting uroced: devices uroce0 and uroce1, connected in memory"
build/app/uroced/uroced --socket "$run/sock" --file-prefix "demo$$" --idle adaptive --pair demo \
	--dev name=uroce0,port=net_ring_demoa,addr=10.9.0.101/24,mtu=4096 \
	--dev name=uroce1,port=net_ring_demob,addr=10.9.0.102/24,mtu=4096 >"$run/log" 2>&1 &
daemon=$!
ready() { # waits until the daemon is
	for _ in $(seq 150); do
		grep -q '^uroced: ready' "$run/log" && return
		kill -0 "$daemon" 2>/dev/null || break
		sleep 0.1
	done
	cat "$run/log" >&2
	setup_fail "uroced did not start"
}
ready

port=$((20000 + $$ % 10000))
bench=build/app/uroce-bench/uroce-bench

# A limit of time only ends what hangs.
# pair CLIENT-ARG...: runs a server on uroce1 and a client on uroce0; both must succeed
pair() {
	on "$bench" check -d uroce1 -p "$port" >"$run/server" 2>&1 &
	server=$!
	if ! timeout 3600 build/app/uroce-run/uroce-run --socket "$run/sock" \
		"$bench" check -d uroce0 -p "$port" "$@" 127.0.0.1 >"$run/client" 2>&1 || ! wait "$server"; then
		cat "$run/client" "$run/server" "$run/log" >&2
		setup_fail "the transfer failed"
	fi
	server=''
	port=$((port + 1))
}

setup_say "random SEND, WRITE and READ in both directions, then latency and bandwidth"
pair --qps 4 --ops 2000 --seed "$$"
check=$(cat "$run/client")
pair --bench --max-len 65536 --seed "$$"
printf '\n'
cat "$run/client"
printf '\n%s\n\n' "$check"

kill "$daemon"
wait "$daemon" || { cat "$run/log" >&2; setup_fail "uroced did not end cleanly"; }

setup_say "the same on the host's own address: uroced without ports, device uroce_lo on a UDP socket"
build/app/uroced/uroced --socket "$run/sock" --file-prefix "demo$$" >"$run/log" 2>&1 &
daemon=$!
ready
on "$bench" check -d uroce_lo -p "$port" >"$run/server" 2>&1 &
server=$!
if ! timeout 3600 build/app/uroce-run/uroce-run --socket "$run/sock" \
	"$bench" check -d uroce_lo -p "$port" --ops 2000 --seed "$$" 127.0.0.1 >"$run/client" 2>&1 || ! wait "$server"; then
	cat "$run/client" "$run/server" "$run/log" >&2
	setup_fail "the transfer failed"
fi
server=''
printf '\n%s\n\n' "$(tail -1 "$run/client")"
kill "$daemon"
wait "$daemon" || { cat "$run/log" >&2; setup_fail "uroced did not end cleanly"; }
daemon=''
setup_say "headline figures; uroce-bench report has all of them"
# a missed performance goal does not fail the demo
build/app/uroce-bench/uroce-bench report --headline ${setup_quiet:+-q} || true
printf '\n'
setup_say "success: all bytes received as sent"
