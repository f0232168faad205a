#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds everything and tests it.
#
#   ./check.sh                    the first tier: builds (ordinary, and with the address and undefined-behaviour
#                                 sanitizers), lint, unit tests and simulators of both, fuzzers, instruction counts, and
#                                 the system tests that matter most, with the sanitized daemon
#   ./check.sh --long [--resume]  everything else, one at a time: all system tests, programs, rdma_cm, containers, rxe and
#                                 stock kernels in a guest, packages, the thread sanitizer, many seeds. For an idle
#                                 machine; --resume leaves out what passed before with the same files
#   ./check.sh --ci               the first tier, then what fits of --long into UROCE_CI_MINUTES (32) altogether: unit
#                                 tests and demo.sh in a root of Debian 13 first, then the tests of what the last day's
#                                 commits changed
#   ./check.sh SUITE...           only these suites of meson, in the ordinary build
#
# The last line is the result: "N passed, N failed, N skipped" (meson tests). Before it the failed tests are listed again
# with the end of their output, because often only the end of a log is kept.
set -euo pipefail
cd "$(dirname "$0")"
. scripts/setup.sh

tier=first resume=''
case ${1-} in
'') ;;
-h | --help)
	sed -n '3,/^set /s/^# \?//p' "$0"
	exit 0
	;;
--long)
	tier=long
	shift
	if [ "${1-}" = --resume ]; then
		resume=--resume
		shift
	fi
	[ $# = 0 ] || { echo "check.sh: --long: unknown argument '$1'; legal: --resume" >&2; exit 2; }
	;;
--ci) tier=ci ;;
-*)
	echo "check.sh: unknown option '$1'; legal: --long [--resume], --ci, --help, or names of suites" >&2
	exit 2
	;;
*) tier=suites ;;
esac
ci_minutes=${UROCE_CI_MINUTES-32}

[ "$(id -u)" = 0 ] || setup_say "not root: the tests with network namespaces are skipped, and counted"
# shellcheck disable=SC2086
setup_packages $BUILD_PACKAGES $TEST_PACKAGES $BENCH_PACKAGES

# tested LOG DIR ARG...: runs tests and goes on after failures, which are counted at the end. LOG: name of the log.
# scripts/hangs.py ends a test that waits forever within two minutes; the time limits only end one that computes forever.
tested() {
	local log=$1 dir=$2
	shift 2
	rm -f "$dir/meson-logs/$log.json"
	/usr/bin/python3 scripts/hangs.py meson test -C "$dir" --no-rebuild --print-errorlogs --logbase "$log" \
		--timeout-multiplier 10 "$@" || true
}

# -O1 and -g1 halve the time to compile; line numbers are all that a report needs.
sanitized_build() {
	setup_build build-sanitized -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 -Dc_args=-g1
}

# Nothing here depends on time, so the two lanes may slow each other down: system tests, one at a time, which often wait;
# and beside them what needs only processor time.
first_tier() {
	local beside=build/meson-logs/beside-lane.txt
	setup_build build
	sanitized_build
	rm -f build/meson-logs/beside.json build-sanitized/meson-logs/{beside,first}.json
	setup_say "lint, unit tests, simulators, instruction counts and fuzzers, of both builds; output: $beside"
	set -m # a process group, which the trap can end
	{
		tested beside build --suite lint --suite unit --suite bench --suite sim --suite fuzz
		tested beside build-sanitized --suite unit --suite sim
	} >"$beside" 2>&1 </dev/null &
	beside_pid=$!
	set +m
	trap 'kill -- -$beside_pid 2>/dev/null || true' EXIT
	setup_say "beside them the system tests that matter most, with the sanitized daemon"
	tested first build-sanitized --suite first
	setup_say "waiting for the others"
	wait "$beside_pid" || true
	trap - EXIT
	logs=(build/meson-logs/beside.json build-sanitized/meson-logs/{beside,first}.json)
}

# What the thread sanitizer needs. With the C11 memory model DPDK's inlined rings use atomics that it understands.
races_build() {
	setup_targets="test/unit/worker/test_worker test/unit/control/test_control_objects test/unit/control/test_control_defer
		app/uroced/uroced app/uroce-run/uroce-run drivers/verbs/liburoce-rdmav34.so test/system/storm/storm"
	setup_build build-tsan -Dtransport_lto=false -Db_sanitize=thread -Db_lundef=false \
		"-Dc_args=['-Wno-error=tsan','-DRTE_USE_C11_MEM_MODEL=1']"
	setup_targets=''
}

# long_tier ARG...: of scripts/long.py
long_tier() {
	races_build
	TSAN_OPTIONS="suppressions=$PWD/test/unit/tsan.supp history_size=4" /usr/bin/python3 scripts/long.py "$@"
	for log in {build,build-sanitized,build-tsan}/meson-logs/long.json; do
		[ ! -e "$log" ] || logs+=("$log")
	done
}

logs=()
case $tier in
first) first_tier ;;
long)
	setup_build build
	sanitized_build
	long_tier $resume
	;;
ci)
	first_tier
	setup_say "the first tier took $((SECONDS / 60)) minutes of $ci_minutes"
	# nothing can follow a failure but the same verdict, later
	if /usr/bin/python3 scripts/results.py "${logs[@]}" >/dev/null; then
		long_tier --touched --minutes $((ci_minutes - SECONDS / 60))
	fi
	;;
suites)
	setup_build build
	args=()
	for suite in "$@"; do args+=(--suite "$suite"); done
	tested testlog build "${args[@]}"
	logs=(build/meson-logs/testlog.json)
	;;
esac
/usr/bin/python3 scripts/results.py "${logs[@]}"
