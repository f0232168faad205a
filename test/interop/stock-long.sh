#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every combination of stock.py, also with other kernels than suite stock's. Takes an hour for each.
#
#   stock-long.sh BUILD
export UROCE_BUILD="$1" UROCE_TEST_FULL=1
failed=0
for UROCE_STOCK_KERNEL in '' bullseye/linux-image-amd64 trixie/linux-image-amd64 bookworm/linux-image-cloud-amd64; do
	export UROCE_STOCK_KERNEL
	/usr/bin/python3 "$(dirname "$0")/stock.py" || failed=1
done
exit $failed
