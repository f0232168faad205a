#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# All fuzzers in turn, HOURS altogether: test/fuzz/run.sh HOURS [BUILD]. Builds them in the folder BUILD (build), which
# keeps their corpora for the next run. Prints a line for each fuzzer, and fails if one has found something.
set -euo pipefail
cd "$(dirname "$0")/../.."

hours=${1-} build=${2-build}
seconds=$(awk -v h="$hours" 'BEGIN { if (h !~ /^[0-9.]+$/ || h <= 0) exit 1; printf "%d", h * 3600 }') ||
	{ echo "run.sh: '$hours' is not a number of hours, such as 0.5; usage: test/fuzz/run.sh HOURS [BUILD]" >&2; exit 2; }
fuzzers=(rx cm net port ring control text)
ninja -C "$build" "${fuzzers[@]/#/test/fuzz/fuzz_}" test/fuzz/seeds.stamp >/dev/null
here=$build/test/fuzz failed=0 each=$((seconds / ${#fuzzers[@]} + 1))
for name in "${fuzzers[@]}"; do
	inputs=(test/fuzz/regress_"$name")
	case $name in
	rx) inputs=(test/fuzz/regress "$here/seeds") ;;
	ring) inputs+=("$here/seeds") ;;
	esac
	log=$here/run-$name.log result='no finding'
	test/fuzz/run.py --seconds "$each" --corpus "$here/corpus/$name" "$here/fuzz_$name" "${inputs[@]}" >"$log" 2>&1 ||
		{ result="FOUND something: $log" failed=1; }
	n=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
	echo "fuzz_$name: ${n:-no} executions in $each s, $(find "$here/corpus/$name" -type f | wc -l) inputs in its corpus, $result"
done
exit $failed
