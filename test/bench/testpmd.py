#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Holds the frames that uroce-bench sends over a port against those of Debian's dpdk-testpmd (package
dpdk-dev) over another of the same kind, in the same run: is the limit that figures are compared with
what the port can do?

  testpmd.py BENCH [PORT...]     ports: memif vhost af_packet af_xdp (all)

BENCH is a uroce-bench; as root. The ratio is uroce-bench's rate to testpmd's, measured in turns.
"""
import json
import subprocess
import sys

MTU = {"memif": 4096, "vhost": 4096, "af_packet": 4096, "af_xdp": 2048}
RUNS = "5"


def measure(bench, port):
    """Returns the document of one run; ends the program if the run fails."""
    done = subprocess.run(
        [bench, "limit", "--port", port, "--mtu", str(MTU[port]), "--versus-testpmd", "--runs", RUNS, "--json"],
        capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"testpmd.py: {port}: {done.stderr}")
    return json.loads(done.stdout)


def show(row):
    """One line: the medians and the range of the ratio."""
    def of(key):
        return row[key]["median"]

    ratio = row["versus_testpmd"]
    print(f"{row['name']:58} {of('oneway'):7.2f} {of('testpmd'):7.2f}   {ratio['median']:.2f} "
          f"({ratio['least']:.2f} .. {ratio['most']:.2f})")


def main():
    if len(sys.argv) < 2 or any(port not in MTU for port in sys.argv[2:]):
        sys.exit(__doc__)
    print(f"{'':58} {'uroce':>7} {'testpmd':>7}   ratio   (Mpps, median of {RUNS})")
    for port in sys.argv[2:] or MTU:
        for row in measure(sys.argv[1], port)["rows"]:
            show(row)


main()
