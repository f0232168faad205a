# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034
# Sourced by demo.sh and check.sh: installs packages and builds. Prints what it does, never asks, and
# skips what is done already.

# Names of Debian 12; "a|b": of another release, the first that it has; "a|": nothing where it has none. Not run on
# Ubuntu: 24.04 and 26.04 have the rarer of these names by packages.ubuntu.com, most in the component universe; 22.04 lacks
# libclang-rt-dev, and its DPDK (21.11) is too old.
BUILD_PACKAGES="gcc clang meson scdoc ninja-build pkgconf libdpdk-dev libisal-dev libibverbs-dev librdmacm-dev libjansson-dev
	libssl-dev libseccomp-dev libsystemd-dev libpcap-dev libcmocka-dev python3 ibverbs-providers iproute2 util-linux"
TEST_PACKAGES="infiniband-diags ethtool git libclang-rt-dev clang-format ibverbs-utils tcpdump tshark python3-scapy python3-prometheus-client dpdk-dev
	iputils-ping procps python3-pyverbs python3-matplotlib libfabric-bin openmpi-bin libopenmpi-dev valgrind
	rdmacm-utils librdmacm-dev fio perftest ucx-utils libucx-dev netcat-traditional qperf dapl2-utils|
	qemu-utils qemu-block-extra qemu-system-x86 virtiofsd|qemu-system-common libaio1|libaio1t64 gdb
	iptables nftables python3-jsonschema python3-seccomp wireguard-tools wireguard-go"
# `uroce-bench report` compares with these programs and measures with them; it names missing ones.
# chromium (81 MB) looks at the page of `report --html` in test_report_html.py.
BENCH_PACKAGES="iperf3 ucx-utils perftest qemu-system-x86 virtiofsd|qemu-system-common mmdebstrap e2fsprogs cpio kmod binutils dpdk-dev python3-matplotlib
	chromium|"
# For the programs of `ninja programs-long`: about 200 MB.
LONG_PACKAGES="ceph-mon ceph-osd ceph-common openmpi-bin libopenmpi-dev mpich libmpich-dev podman crun runc mmdebstrap"
# What users run, without tests and benches.
RUN_TARGETS="app/uroced/uroced app/uroce-run/uroce-run app/urocectl/urocectl drivers/verbs/liburoce-rdmav34.so
	drivers/verbs/liburoce-preload.so"
DEMO_TARGETS="$RUN_TARGETS app/uroce-bench/uroce-bench app/uroce-bench/check/rcdata"
DEMO_PACKAGES="iperf3 perftest procps" # for the demo's headline figures; also in a list above

setup_quiet='' # not empty: setup_say is silent

setup_say() {
	[ -n "$setup_quiet" ] || printf '%s: %s\n' "$(basename "$0")" "$*"
}

# setup_progress LOG WHAT: shows the last "[n/m]" of LOG behind WHAT, until it is killed.
setup_progress() {
	local last
	while :; do
		last=$(grep -oE '^\[[0-9]+/[0-9]+\]' "$1" 2>/dev/null | tail -1 | tr -d '[]' | sed 's,/, of ,')
		printf '\r\033[K%s: %s %s' "$(basename "$0")" "$2" "${last:-...}" >&2
		sleep 0.5
	done
}

# setup_run LOG WHAT COMMAND...: runs COMMAND with its output in LOG. Shows the progress on a terminal. Returns the
# status. COMMAND runs in the foreground, so that an interrupt ends it.
setup_run() {
	local log=$1 what=$2 reader='' status=0
	shift 2
	if [ -t 2 ] && [ -z "$setup_quiet" ]; then
		setup_progress "$log" "$what" &
		reader=$!
	fi
	"$@" >"$log" 2>&1 || status=$?
	if [ -n "$reader" ]; then
		kill "$reader" 2>/dev/null || true
		wait "$reader" 2>/dev/null || true
		printf '\r\033[K' >&2
	fi
	return "$status"
}

setup_fail() {
	printf '%s: %s\n' "$(basename "$0")" "$*" >&2
	exit 1
}

setup_installed() {
	local pkg
	for pkg in ${1//|/ }; do
		[ "$(dpkg-query -W -f='${db:Status-Status}' "$pkg" 2>/dev/null)" != installed ] || return 0
	done
	return 1
}

# Whether this release has none of the packages "a|", by the lists that apt has.
setup_nowhere() {
	[ "${1: -1}" = "|" ] && compgen -G '/var/lib/apt/lists/*Packages*' >/dev/null &&
		! apt-cache show "${1%|}" >/dev/null 2>&1
}

# setup_packages PACKAGE...: installs missing packages, as root or by sudo without a password.
setup_packages() {
	local missing=() sudo=() pkg i
	command -v dpkg-query >/dev/null ||
		setup_fail "no dpkg here: please install what this Debian would (names of Debian 12): $*"
	for pkg in "$@"; do
		setup_installed "$pkg" || setup_nowhere "$pkg" || missing+=("$pkg")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	if [ "$(id -u)" != 0 ]; then
		sudo -n true 2>/dev/null ||
			setup_fail "please install (not root, and no sudo without a password):" \
				"apt-get install ${missing[*]}"
		sudo=(sudo -n)
	fi
	setup_say "installing ${missing[*]}"
	local log
	log=$(mktemp)
	if ! { "${sudo[@]}" apt-get -q update &&
		for i in "${!missing[@]}"; do
			for pkg in ${missing[i]//|/ }; do
				! apt-cache show "$pkg" >/dev/null 2>&1 || break
				[ "${missing[i]: -1}" != "|" ] || pkg=''
			done
			if [ -n "$pkg" ]; then missing[i]=$pkg; else unset "missing[i]"; fi
		done &&
		"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
			apt-get -q -y --no-install-recommends install "${missing[@]}"; } >"$log" 2>&1; then
		tail -20 "$log" >&2
		rm -f "$log"
		setup_fail "apt-get failed"
	fi
	rm -f "$log"
}

# setup_build DIR [MESON OPTION...]: configures DIR if necessary, and builds setup_targets in it (empty: everything).
setup_targets=''
# shellcheck disable=SC2086
setup_build() {
	local dir=$1 log=$1.log
	local targets=${setup_targets:-all meson-test-prereq} # since meson 1.7 (Debian 13) all lacks what only tests need
	shift
	if [ ! -f "$dir/build.ninja" ]; then
		setup_say "configuring $dir"
		setup_run "$log" "configuring $dir" meson setup "$dir" "$@" || { tail -20 "$log" >&2; setup_fail "meson failed"; }
	fi
	# print nothing if nothing has changed
	if ! ninja -C "$dir" -n $targets | grep -q 'no work to do'; then
		setup_say "building $dir"
		setup_run "$log" "building $dir:" ninja -C "$dir" $targets || { tail -40 "$log" >&2; setup_fail "the build failed"; }
	fi
	rm -f "$log"
}

# setup_hugepages MIB: tries to have this much free memory in huge pages of 2 MiB; everything works
# without them, too. setup_hugepages_back undoes it.
setup_hugepages() {
	local knob=/proc/sys/vm/nr_hugepages free total
	setup_hugepages_were=''
	free=$(awk '/^HugePages_Free/ {print $2}' /proc/meminfo)
	total=$(awk '/^HugePages_Total/ {print $2}' /proc/meminfo)
	if [ "${free:-0}" -lt $(($1 / 2)) ] && [ -w "$knob" ]; then
		setup_hugepages_were=$total
		echo $((total - free + $1 / 2)) 2>/dev/null >"$knob" || true
	fi
}

setup_hugepages_back() {
	[ -z "$setup_hugepages_were" ] || echo "$setup_hugepages_were" >/proc/sys/vm/nr_hugepages
	setup_hugepages_were=''
}
