#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's Open MPI and MPICH: jobs of 4 ranks that compare every byte, with the libraries' default transports and
with every message over RoCE (UCX_TLS=rc,self)."""
import os
import re

import lib

RC = {"UCX_TLS": "rc,self", "UCX_NET_DEVICES": "uroce0:1"}
UCX = ["--mca", "pml", "ucx", "--mca", "btl", "^openib"]
SUITES = (("mpicc.openmpi", ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe",
                             "--bind-to", "none"]),
          ("mpicc.mpich", ["mpirun.mpich"]))


def job(link, program, launch, ranks, env):
    given = [f"{key}={value}" for key, value in env.items()]
    proc = lib.spawn([*launch, "-np", ranks, "env", *given, lib.UROCE_RUN, program],
                     ns=link.a.daemon.ns, env={"UROCE_SOCKET": str(link.a.daemon.socket)})
    rc = proc.wait(200)
    assert rc == 0, f"status {rc}:\n{proc.output()}"
    found = re.search(r"mpi check: (\d+) ranks, (\d+) bytes compared", proc.output())
    assert found and int(found[1]) == ranks, proc.output()


def sent(link):
    return link.a.daemon.counters()["tx_roce"]


def main():
    lib.need_root()
    os.environ["OMPI_MCA_orte_tmpdir_base"] = str(lib.tmpdir())
    folder = lib.tmpdir()
    link = lib.link_ring()
    for compiler, launch in SUITES:
        name = launch[0]
        program = folder / name
        lib.sh(compiler, "-O2", "-o", program, lib.HERE / "mpi/check.c")
        with lib.case(f"{name}: 4 ranks, default transports: every byte correct"):
            job(link, program, launch, 4, {})
        ucx = UCX if "openmpi" in name else []
        with lib.case(f"{name}: 4 ranks, UCX_TLS=rc,self: every byte correct, over RoCE"):
            before = sent(link)
            job(link, program, launch + ucx, 4, RC)
            assert sent(link) - before > 1000, "the messages did not go through the daemon"
    link.end()
    lib.finish()


main()
