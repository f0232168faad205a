#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What uroce0 costs an MPI program that talks inside the machine: the latency of one byte between
two ranks by the library's default transports, with uroce's devices in sight and without, in turn.

  mpi.py [--runs N] [--batches N] [--poll spin|yield|adaptive] [--build DIR] [mpich] [openmpi]

Needs root (network namespaces) and the libraries' Debian packages; nothing is timed by a test.
"""
import argparse
import os
import pathlib
import re
import shutil
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE / "mpi_latency.c"
MPIRUN = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", "2"]
LIBRARIES = {
    "openmpi": ("mpicc.openmpi", MPIRUN),
    # UCX with all transports; Open MPI selects UCX by itself only with some NICs
    "ompi-ucx": ("mpicc.openmpi", [*MPIRUN, "--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any",
                                   "--mca", "opal_common_ucx_devices", "any"]),
    "mpich": ("mpicc.mpich", ["mpiexec.mpich", "-n", "2"]),
}


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--poll", help="UROCE_POLL of the ranks")
    parser.add_argument("--build", default=os.environ.get("UROCE_BUILD"))
    parser.add_argument("library", nargs="*", metavar="LIBRARY")
    return parser.parse_args()


def figures(lib, argv, env):
    proc = lib.spawn(argv, env=env)
    status = proc.wait(300)
    found = re.search(r"min ([\d.]+) p10 ([\d.]+) median ([\d.]+) mean ([\d.]+) us", proc.output())
    if status or not found:
        sys.exit(f"{argv}: status {status}:\n{proc.tail()}")
    return [float(v) for v in found.groups()]


def measure(lib, name, daemon, opt):
    compiler, launch = LIBRARIES[name]
    program = lib.tmpdir() / name
    lib.sh(compiler, "-O2", "-Wall", "-Wextra", "-o", program, SOURCE)
    env = {"UROCE_SOCKET": str(daemon.socket)}
    if opt.poll:
        env["UROCE_POLL"] = opt.poll
    rank = [program, str(opt.batches)]
    seen = {"without": [], "with": []}
    for _ in range(opt.runs):
        seen["without"].append(figures(lib, [*launch, *rank], env))
        seen["with"].append(figures(lib, [lib.UROCE_RUN, *launch, *rank], env))
    for kind, rows in seen.items():
        middle = [statistics.median(column) for column in zip(*rows)]
        print(f"{name:8} {kind:8} min {middle[0]:7.2f}  p10 {middle[1]:7.2f}  median {middle[2]:7.2f}"
              f"  mean {middle[3]:7.2f} us", flush=True)


def main():
    opt = options()
    if opt.build:
        os.environ["UROCE_BUILD"] = opt.build
    sys.path.insert(0, str(HERE.parent / "system"))
    import lib
    lib.need_root()
    os.environ["OMPI_MCA_orte_tmpdir_base"] = str(lib.tmpdir())
    link = lib.link_veth()
    for name in opt.library or LIBRARIES:
        if shutil.which(LIBRARIES[name][0]):
            measure(lib, name, link.a.daemon, opt)
        else:
            print(f"{name}: {LIBRARIES[name][0]} is not installed")
    link.stop()


main()
