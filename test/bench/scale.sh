#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Measures uroce with many cores, on any x86-64 machine that this is copied to.
#
#   test/bench/scale.sh --bundle DIR [--target ARCH | --build BUILD]  here: builds (or takes what BUILD has), and
#                                     makes a folder with all that is needed
#   ./scale.sh [--out DIR] [--minutes N] [--only STEP,..]     there, in the bundle: measures
#
# The other machine needs glibc 2.36 or newer and the usual tools (sh, awk, timeout, taskset, unshare, nsenter); no
# packages, no huge pages, no network. Each step is bounded in time; one that fails is named and the rest goes on.
# Root, or a user who may create namespaces, is needed for the steps with a private network. Results, written
# after every step: results.json, table.txt and log.txt in --out (default: $OUT, else scale-results).
set -u

die() {
	echo "scale.sh: $*" >&2
	exit 2
}

here=$(cd "$(dirname "$0")" && pwd)
bundle='' build='' target=x86-64-v3 out=${OUT:-scale-results} minutes=9 only='' inside=''
while [ $# -gt 0 ]; do
	case $1 in
	--help)
		sed -n '3,14s/^# \{0,1\}//p' "$0"
		exit 0
		;;
	--inside) inside=yes ;; # called by itself, in the namespaces
	--bundle | --build | --target | --out | --minutes | --only)
		[ $# -ge 2 ] || die "$1 needs a value"
		case $1 in
		--bundle) bundle=$2 ;;
		--build) build=$2 ;;
		--target) target=$2 ;;
		--out) out=$2 ;;
		--minutes) minutes=$2 ;;
		--only) only=$2 ;;
		esac
		shift
		;;
	*) die "unknown argument $1 (--help)" ;;
	esac
	shift
done
case $minutes in
'' | *[!0-9]* | 0) die "--minutes: $minutes: not a number above 0" ;;
esac

# --- the bundle ------------------------------------------------------------------------------------------------------

programs='app/uroced/uroced app/uroce-bench/uroce-bench app/uroce-run/uroce-run app/urocectl/urocectl
	test/bench/limits/limits'
providers="drivers/verbs/liburoce-rdmav34.so drivers/verbs/liburoce-preload.so"

# Copies the libraries of these files, except the C library's: programs use the one of their machine.
copy_libraries() {
	ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u | while read -r lib; do
		case ${lib##*/} in
		libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.* | ld-linux*) ;;
		librte_*) cp -Ln "$lib" "$bundle/lib/dpdk/" ;;
		*) cp -Ln "$lib" "$bundle/lib/" ;;
		esac
	done
}

make_bundle() {
	root=$(cd "$here/../.." && pwd)
	[ "$(uname -m)" = x86_64 ] || die "only for x86-64"
	[ ! -e "$bundle" ] || die "$bundle exists"
	if [ -z "$build" ]; then
		build=$root/build-scale
		if [ -d "$build" ]; then
			meson configure "$build" -Dtarget="$target" || exit 1
		else
			meson setup "$build" "$root" -Dtarget="$target" -Dman=disabled || exit 1
		fi
		# shellcheck disable=SC2086 # several words
		ninja -C "$build" $programs $providers || exit 1
	else
		target="that of $build"
	fi
	mkdir -p "$bundle/bin" "$bundle/lib/dpdk" || exit 1
	for f in $programs $providers; do
		cp "$build/$f" "$bundle/bin/" || exit 1
	done
	ip=$(command -v ip) && cp -L "$ip" "$bundle/bin/ip"
	cc -O2 -o "$bundle/bin/tcp" "$root/test/bench/tcp.c" || exit 1
	# EAL loads its drivers from this folder. A machine without it has no such DPDK: it gets ours, with the
	# drivers preloaded. No library may be loaded twice.
	pmds=$(find "$(pkg-config --variable=libdir libdpdk)/dpdk" -maxdepth 1 -name 'pmds-*' | sort | tail -n 1)
	for driver in librte_mempool_ring librte_net_memif librte_net_af_packet; do
		lib=$(cd "$pmds" && echo $driver.so.?? $driver.so.???)
		lib=${lib%% *}
		cp -L "$pmds/$lib" "$bundle/lib/dpdk/" || exit 1
		echo "$lib" >>"$bundle/drivers"
	done
	echo "$pmds" >"$bundle/pmds"
	copy_libraries "$bundle"/bin/* "$bundle"/lib/dpdk/*
	strip --strip-debug "$bundle"/bin/* "$bundle"/lib/*.so.* "$bundle"/lib/dpdk/*
	cp "$here/scale.sh" "$bundle/"
	git -C "$root" describe --always --dirty >"$bundle/version" 2>/dev/null || echo unknown >"$bundle/version"
	echo "$target" >"$bundle/target"
	du -sh "$bundle"
	echo "run there: $(basename "$bundle")/scale.sh --out RESULTS"
}

if [ -n "$bundle" ]; then
	make_bundle
	exit 0
fi
[ -x "$here/bin/uroce-bench" ] || die "run it from a bundle (scale.sh --bundle DIR makes one)"

# --- steps -----------------------------------------------------------------------------------------------------------

mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
start=${SCALE_START:-$(date +%s)}
end=$((start + minutes * 60))
log=$out/log.txt
export LD_LIBRARY_PATH="$here/lib" PATH="$PATH:$here/bin" SCALE_START="$start"
if [ -z "$inside" ]; then
	: >"$log"
	rm -f "$out/results.json" "$out/table.txt"
	work=$(mktemp -d) || exit 1
	export SCALE_WORK="$work"
fi
work=$SCALE_WORK
with_drivers=''
if [ ! -d "$(cat "$here/pmds")" ]; then
	LD_LIBRARY_PATH=$here/lib:$here/lib/dpdk
	with_drivers="env LD_PRELOAD=$(tr '\n' ' ' <"$here/drivers" | sed 's/ $//; s/ /:/g')"
fi

say() {
	echo "$*"
	echo "$*" >>"$log"
}

# Makes results.json and table.txt from the steps so far.
collect() {
	{
		echo "{\"version\": \"$(cat "$here/version")\", \"target\": \"$(cat "$here/target")\","
		echo "\"machine\": $(cat "$work/machine"), \"steps\": ["
		separator=''
		for s in "$work"/step.*; do
			[ -e "$s/head" ] || continue
			printf '%s' "$separator"
			separator=,
			cat "$s/head"
			if [ -s "$s/json" ] && [ "$(cat "$s/rc")" = 0 ]; then cat "$s/json"; else echo null; fi
			echo '}'
		done
		echo ']}'
	} >"$out/results.tmp" && mv "$out/results.tmp" "$out/results.json"
	for s in "$work"/step.*; do
		[ -e "$s/rc" ] || continue
		echo "== $(cat "$s/name")"
		[ "$(cat "$s/rc")" = 0 ] || echo "   FAILED: $(cat "$s/why")"
		[ ! -e "$s/json" ] || awk '
			/^ "(core_distance_ns|core_speed_ns)": \[/ { list = 1; printf "   %s", $1 }
			list && NF == 1 && $1 ~ /[0-9]/ { printf " %s", $1 }
			/^ \]/ { if (list) print ""; list = 0 }
			{ key = $1; gsub(/[":]/, "", key) }
			/^   "name": / { sub(/^   "name": "/, ""); sub(/",?$/, ""); print; next }
			/^   "[^"]*": \{/ { figure = key; next }
			/^    "median"/ { median = $2 + 0 }
			/^    "least"/ { least = $2 + 0 }
			/^    "most"/ { most = $2 + 0 }
			/^    "unit"/ {
				sub(/^    "unit": "/, ""); sub(/",?$/, "")
				printf "   %-22s %12.4g  (%.4g .. %.4g) %s\n", figure, median, least, most, $0
			}' "$s/json"
	done >"$out/table.txt"
}

number=${SCALE_NUMBER:-100}
# step NAME SECONDS COMMAND..: its standard output is the result. Not after the end, and not if --only leaves it out.
step() {
	name=$1 most=$2
	shift 2
	case ,$only, in
	,, | *",$name,"*) ;;
	*) return 0 ;;
	esac
	number=$((number + 1))
	s=$work/step.$number
	left=$((end - $(date +%s)))
	if [ "$left" -lt 3 ]; then
		say "$name: left out, no time"
		mkdir "$s" && echo "$name" >"$s/name" && echo 125 >"$s/rc" && echo "no time left" >"$s/why"
		return 0
	fi
	[ "$most" -le "$left" ] || most=$left
	mkdir "$s" || exit 1
	echo "$name" >"$s/name"
	begin=$(date +%s)
	timeout -k 3 "$most" "$@" >"$s/json" 2>"$s/err" </dev/null
	rc=$?
	[ "$rc" != 124 ] || echo "not finished within $most s" >>"$s/err"
	echo "$rc" >"$s/rc"
	sed -n '/./p' "$s/err" | tail -n 1 | tr -d '\134"' >"$s/why"
	printf '{"name": "%s", "exit": %s, "seconds": %s, "error": "%s", "result":\n' "$name" "$rc" \
		$(($(date +%s) - begin)) "$([ "$rc" = 0 ] || cat "$s/why")" >"$s/head"
	if [ "$rc" = 0 ]; then
		say "$name: done, $(($(date +%s) - begin)) s"
	else
		say "$name: FAILED (exit $rc): $(cat "$s/why")"
	fi
	{
		echo "--- $name: $*"
		cat "$s/err"
	} >>"$log"
	collect
}

# step with uroce-bench, or limits, on these CPUs
limits_step() { program=limits; bench_step "$@"; program=uroce-bench; }
program=uroce-bench
bench_step() {
	name=$1 most=$2 cpus=$3
	shift 3
	# shellcheck disable=SC2086 # several words
	step "$name" "$most" taskset -c "$cpus" $with_drivers "$here/bin/$program" "$@" --json --quiet
}

# The CPUs that this process may use, the first threads of all cores first, one a line.
cpu_list() {
	allowed=" $(awk '/^Cpus_allowed_list/ {
		n = split($2, part, ",")
		for (i = 1; i <= n; i++) {
			m = split(part[i], e, "-")
			for (c = e[1]; c <= (m > 1 ? e[2] : e[1]); c++) printf "%d ", c
		}
	}' /proc/self/status)"
	for pass in first other; do
		for c in $allowed; do
			siblings=$(cat "/sys/devices/system/cpu/cpu$c/topology/thread_siblings_list" 2>/dev/null)
			if [ "${siblings%%[,-]*}" = "$c" ] || [ -z "$siblings" ]; then kind=first; else kind=other; fi
			[ "$kind" != "$pass" ] || echo "$c"
		done
	done
}

pick() { # the N-th CPU, from 0; from the front again if there are fewer
	echo "$cpus_all" | awk -v n="$1" '{c[NR - 1] = $1} END {print c[n % NR]}'
}

# --- the steps with a network ----------------------------------------------------------------------------------------

# Starts a uroced that logs to $work/$1.log, with the command behind; waits until it is ready.
start_daemon() {
	daemon_log=$work/$1.log
	shift
	"$@" >"$daemon_log" 2>&1 &
	daemons="$daemons $!"
	for _ in $(seq 200); do
		grep -q 'uroced: ready' "$daemon_log" && return 0
		kill -0 "$!" 2>/dev/null || break
		sleep 0.1
	done
	return 1
}

stop_daemons() {
	for p in $daemons; do
		kill "$p" 2>/dev/null
		wait "$p" 2>/dev/null
	done
	daemons=''
}

# link_steps KIND: two daemons with that kind of port, and programs on both sides, each on a core.
link_steps() {
	kind=$1
	daemons=''
	case $(echo "$cpus_all" | wc -l) in [123]) idle=adaptive ;; *) idle=poll ;; esac
	for side in a b; do
		case $side in a) n=1 net='' ;; *) n=2 net=$in_b ;; esac
		vdev=''
		case $kind in
		udp) dev=name=uroce0,port=udp,iface=v$side ;;
		packet) dev=name=uroce0,port=packet,iface=v$side,share=yes ;;
		af_packet)
			vdev="--vdev net_af_packet0,iface=v$side,blocksz=16384,framesz=8192,framecnt=1024,qpairs=1,qdisc_bypass=1"
			dev=name=uroce0,port=net_af_packet0,addr=10.9.1.$n/24,mtu=4096
			;;
		memif)
			case $side in a) role=server ;; *) role=client ;; esac
			vdev="--vdev net_memif0,role=$role,socket=$work/memif,socket-abstract=no,bsize=8192"
			dev=name=uroce0,port=net_memif0,addr=10.9.1.$n/24,mtu=4096
			;;
		esac
		# shellcheck disable=SC2086 # several words
		if ! start_daemon $side $net $with_drivers "$here/bin/uroced" \
			--socket "$work/$side" --file-prefix "scale-$$-$side" --lcores "$(pick $((n + 1)))" \
			--idle $idle --no-telemetry $vdev --dev $dev; then
			step "$kind" 1 sh -c "tail -n 1 $work/$side.log >&2; exit 1"
			stop_daemons
			return 0
		fi
	done
	# clients on the first two of these, the workers above on the third and the fourth
	cpus=$(pick 0),$(pick 1),$(pick 4)
	set -- client --socket "$work/a" --peer-socket "$work/b" --runs 5
	bench_step "$kind-send-latency" 20 "$cpus" "$@" --measure latency --op send --size 64
	bench_step "$kind-write-latency" 20 "$cpus" "$@" --measure latency --size 64
	bench_step "$kind-write-64" 20 "$cpus" "$@" --size 64
	bench_step "$kind-write-1m" 20 "$cpus" "$@" --size 1048576 --depth 16
	stop_daemons
}

# Kernel TCP over the same veth pair.
tcp_steps() {
	$in_b taskset -c "$(pick 1)" "$here/bin/tcp" serve 10.9.0.2 7471 2>"$work/tcp.log" &
	server=$!
	sleep 1
	set -- taskset -c "$(pick 0)" "$here/bin/tcp"
	step tcp-latency-polling 15 "$@" ping 10.9.0.2 7471 64 spin
	step tcp-latency-blocking 25 "$@" ping 10.9.0.2 7471 64 block
	step tcp-1m 15 "$@" send 10.9.0.2 7471 1048576
	kill "$server"
	wait "$server" 2>/dev/null
}

# In a private namespace; the other end of the veth pair is in that of a process that sleeps.
network_steps() {
	unshare -n sleep 600 &
	other=$!
	for _ in $(seq 100); do
		[ "$(readlink /proc/$other/ns/net)" = "$(readlink /proc/self/ns/net)" ] || break
		sleep 0.1
	done
	in_b="nsenter -t $other -n"
	if ! { ip link add va mtu 9000 type veth peer name vb mtu 9000 && ip link set vb netns $other &&
		ip addr add 10.9.0.1/24 dev va && ip link set va up && ip link set lo up &&
		$in_b ip addr add 10.9.0.2/24 dev vb && $in_b ip link set vb up && $in_b ip link set lo up; } \
		2>"$work/veth.log"; then
		step veth 1 sh -c "cat $work/veth.log >&2; exit 1"
		link_steps memif
	else
		tcp_steps
		for kind in udp packet memif af_packet; do
			link_steps $kind
		done
	fi
	kill $other
}

wire_steps() {
	set -- --runs 5 --run-ms 100
	for size in 64 1048576; do
		limits_step "wire-memif-$size" 20 "$all" wire-limit --port memif --size $size "$@"
		for port in udp packet; do
			limits_step "wire-$port-$size" 20 "$all" wire-limit --port $port --size $size --depth 16 "$@"
		done
	done
	for port in udp packet; do
		limits_step "sockets-$port" 20 "$all" sockets --port $port --size 64 --runs 5
	done
}

# --- all -------------------------------------------------------------------------------------------------------------

cpus_all=$(cpu_list)
# shellcheck disable=SC2086,SC2116 # lines to words
cpus_line=$(echo $cpus_all)
all=$(echo "$cpus_line" | tr ' ' ,)
if [ -n "$inside" ]; then
	network_steps
	wire_steps
	exit 0
fi
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
cpu_model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
threads=$(cat /sys/devices/system/cpu/cpu0/topology/thread_siblings_list 2>/dev/null)
printf '{"cpu": "%s", "kernel": "%s", "cpus": "%s", "siblings_of_cpu0": "%s", "load": "%s", "uid": %s}' \
	"$cpu_model" "$(uname -r)" "$cpus_line" "$threads" "$(cut -d' ' -f1-3 /proc/loadavg)" "$(id -u)" \
	>"$work/machine"
say "uroce $(cat "$here/version") ($(cat "$here/target")) on $cpu_model, $(uname -r), CPUs $cpus_line"

first=$(pick 0)
bench_step probe 10 "$all" probe
bench_step engine-64 20 "$first" engine --size 64 --runs 9
bench_step engine-4k 20 "$first" engine --size 4096 --runs 9
bench_step engine-1m 20 "$first" engine --size 1048576 --runs 5
limits_step scale 150 "$all" scale --sweep --runs 5
limits_step scale-all-handed-over 60 "$all" scale --handed-over 100 --runs 5
limits_step scale-all-handed-over-4k 60 "$all" scale --size 4096 --handed-over 100 --runs 5
two=$(pick 0),$(pick 1) three=$(pick 0),$(pick 1),$(pick 2)
for op in send write read; do
	bench_step "pair-$op-latency" 20 "$two" client --measure latency --op $op --size 64 --runs 5
done
bench_step pair-send-latency-apart 20 "$three" client --apart --measure latency --op send --size 64 --runs 5
bench_step pair-write-64 20 "$two" client --size 64 --runs 5
bench_step pair-write-1m 20 "$two" client --size 1048576 --depth 16 --runs 5
bench_step pair-write-64-4-clients 20 "$all" client --size 64 --clients 4 --runs 5
limits_step hops 20 "$two" hops --runs 5
if [ "$(id -u)" = 0 ]; then namespaces=-nm; else namespaces=-Urnm; fi
if unshare $namespaces true 2>"$work/unshare.log"; then
	SCALE_NUMBER=$number unshare $namespaces sh "$here/scale.sh" --inside --out "$out" --minutes "$minutes" \
		--only "$only"
else
	step network 1 sh -c "cat $work/unshare.log >&2; exit 1"
fi
collect
failed=$(grep -c ': FAILED' "$log")
say "finished in $(($(date +%s) - start)) s, $failed steps failed; see $out/table.txt"
