#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds everything and runs all tests: unit, lint, fuzz, sim, bench, system, cli, docs, cm, programs, interop and stock, then
# unit, sim and system again under the address and undefined-behaviour sanitizers, and some unit tests,
# a daemon under load and a program with many threads under the thread sanitizer.
#
#   ./check.sh [SUITE...]        only these suites, without the sanitizers
#
# The last line is the result: "N passed, N failed, N skipped" (meson tests). Before it the failed tests are
# listed again with the end of their output, because often only the end of a log is kept. At most three failed tests
# with real processes or threads run once more, alone; the line before the last tells how many passed only then.
set -euo pipefail
cd "$(dirname "$0")"
. scripts/setup.sh

# shellcheck disable=SC2086
setup_packages $BUILD_PACKAGES $TEST_PACKAGES $BENCH_PACKAGES

logs=()
# suites LOG DIR SUITE...: runs them and continues after failures; results are counted at the end. LOG: name of the log.
# Timeouts only end tests that hang; on a busy machine a test takes several times as long as alone.
suites() {
	local log=$1 dir=$2 args=() suite
	shift 2
	for suite in "$@"; do args+=(--suite "$suite"); done
	setup_say "testing in $dir: $*"
	rm -f "$dir/meson-logs/$log.json"
	meson test -C "$dir" --no-rebuild --print-errorlogs --logbase "$log" --timeout-multiplier 3 "${args[@]}" || true
	logs+=("$dir/meson-logs/$log.json")
}

SANITIZED="build-sanitized -Db_sanitize=address,undefined -Db_lundef=false"

# ThreadSanitizer over the programs that share memory between threads. With the C11 memory model DPDK's
# inlined rings use atomics that it understands.
RACES="test/unit/worker/test_worker test/unit/control/test_control_objects test/unit/control/test_control_defer
	app/uroced/uroced app/uroce-run/uroce-run drivers/verbs/liburoce-rdmav34.so test/system/storm/storm"
TSAN="suppressions=$PWD/test/unit/tsan.supp history_size=4"
races_build() {
	local dir=build-tsan
	if [ ! -f "$dir/build.ninja" ]; then
		meson setup "$dir" -Dtransport_lto=false -Db_sanitize=thread -Db_lundef=false \
			"-Dc_args=['-Wno-error=tsan','-DRTE_USE_C11_MEM_MODEL=1']" >"$dir.log" 2>&1 ||
			{ tail -20 "$dir.log" >&2; setup_fail "meson failed"; }
	fi
	setup_say "building $dir"
	# shellcheck disable=SC2086
	ninja -C "$dir" $RACES >"$dir.log" 2>&1 || { tail -40 "$dir.log" >&2; setup_fail "the build failed"; }
	rm -f "$dir.log"
}

races() {
	local dir=build-tsan
	races_build
	setup_say "testing in $dir: races"
	rm -f "$dir/meson-logs/testlog.json"
	TSAN_OPTIONS="$TSAN" meson test -C "$dir" --no-rebuild \
		--print-errorlogs --timeout-multiplier 3 \
		worker-1-adaptive worker-2-adaptive control-objects control-defer races storm || true
}

# What needs only processor time runs beside the system tests, whose processes spend much time waiting: the guest's
# image, the other builds, lint, the simulators, whose clock is virtual, and the count of instructions. Uses only idle
# processor time: lowest priority within the session and among sessions. What fails to build is built again with its
# output where it is needed.
SANITIZED_BUILT=build/meson-logs/sanitized-built # exists once build-sanitized was built in the background
BUILT=build/meson-logs/background-built # .. once everything was
in_background() {
	rm -f "$SANITIZED_BUILT" "$BUILT" build/meson-logs/beside.json build-sanitized/meson-logs/beside.json
	export -f races_build
	export RACES SANITIZED_BUILT BUILT
	# shellcheck disable=SC2016
	setsid nice -n 19 bash -c '
		echo 19 >/proc/self/autogroup
		. scripts/setup.sh
		beside() {
			local dir=$1
			shift
			meson test -C "$dir" --no-rebuild --logbase beside --timeout-multiplier 10 "$@"
		}
		(setup_build "$@")
		touch "$SANITIZED_BUILT"
		(cd test/interop && /usr/bin/python3 -c "import stock; stock.guestlib.image(); stock.build()")
		(races_build)
		touch "$BUILT"
		beside build --suite lint --suite sim --suite bench
		beside build-sanitized --suite sim' "$0" $SANITIZED >/dev/null 2>&1 &
	background_pid=$!
	trap 'kill -- -$background_pid -${lane_pid:-$background_pid} 2>/dev/null || true' EXIT
}
# in_background_built FILE: waits for SANITIZED_BUILT or BUILT, or for the end of what runs in the background.
in_background_built() {
	while [ ! -e "$1" ] && kill -0 "$background_pid" 2>/dev/null; do sleep 1; done
}

# Two lanes of about the same length run beside each other at the same priority: a system test uses about half of one
# core, and tests share no name or address (test/kit_py/processes.py). This one begins with programs of the ordinary
# build, until the other builds exist. LANE has the output.
LANE=build/meson-logs/lane.txt
lane() {
	suites lane build cm programs
	in_background_built "$SANITIZED_BUILT"
	setup_build $SANITIZED
	suites testlog build-sanitized unit system
}

setup_build build
if [ $# -gt 0 ]; then
	suites testlog build "$@"
else
	in_background
	rm -f build/meson-logs/lane.json build-sanitized/meson-logs/testlog.json build-tsan/meson-logs/testlog.json
	set -m # a process group, which the trap can end
	lane >"$LANE" 2>&1 </dev/null &
	lane_pid=$!
	set +m
	suites testlog build unit fuzz system cli docs interop stock
	in_background_built "$BUILT"
	races
	setup_say "waiting for programs and for the tests of build-sanitized; output: $LANE"
	wait "$lane_pid" || tail -60 "$LANE"
	setup_say "waiting for what runs in the background"
	wait "$background_pid" || true
	trap - EXIT
	logs+=({build-sanitized,build-tsan}/meson-logs/testlog.json build/meson-logs/{lane,beside}.json
		build-sanitized/meson-logs/beside.json)
fi

# Nothing else runs now. Which tests run once more, and how they are counted: scripts/results.py
rm -f {build,build-sanitized,build-tsan}/meson-logs/again.json
/usr/bin/python3 scripts/results.py again "${logs[@]}" | while read -r dir name; do
	setup_say "running $name of $dir again"
	TSAN_OPTIONS="$TSAN" meson test -C "$dir" --no-rebuild --logbase "again-$name" --timeout-multiplier 3 "$name" \
		</dev/null || true
	cat "$dir/meson-logs/again-$name.json" >>"$dir/meson-logs/again.json" || true
done
/usr/bin/python3 scripts/results.py report "${logs[@]}"
