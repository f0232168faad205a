#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# `ninja programs-long`, as root: programs whose packages are large (Ceph, MPICH, podman), and tests that
# take minutes or gigabytes (distros: five Debian releases). Installs what is missing; runs all, or those named:
# long.sh BUILD [mpi|ceph|containers|podman|distros|mappings|message ..].
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../scripts/setup.sh"
export UROCE_BUILD=$1
shift
# shellcheck disable=SC2086
setup_packages $LONG_PACKAGES || exit 1
status=0
for name in ${*:-mpi ceph containers podman distros mappings message}; do
	echo "# $name"
	/usr/bin/python3 "$here/long_$name.py" | tee "$UROCE_BUILD/long_$name.tap"
	# a program that died printed no plan
	grep -q '^1\.\.' "$UROCE_BUILD/long_$name.tap" || status=1
	! grep -q '^not ok' "$UROCE_BUILD/long_$name.tap" || status=1
done
exit $status
