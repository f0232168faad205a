#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's Open MPI over UCX: a job of 4 ranks on two nodes (network namespaces, a daemon each) that compares every
byte (mpi/check.c). A capture between the nodes must show the data as RoCE and only the job's control as TCP."""
import os
import re
import signal
import struct

import lib

# mpirun runs this in place of ssh to start the second node's orted: HOST COMMAND...
AGENT = """#!/bin/sh
shift
export UROCE_SOCKET={socket}
exec ip netns exec {ns} sh -c "$*"
"""


def record(side, path):
    dump = lib.spawn(["tcpdump", "-i", "eth0", "-Q", "in", "-U", "-n", "-s", "80", "-B", "65536",
                      "-Z", "root", "-w", path], ns=side.daemon.ns)
    lib.until("tcpdump listens", lambda: "listening on" in dump.output())
    return dump


def count(path):
    """Bytes on the wire by kind: roce (IPv4, UDP to 4791), other."""
    sums = {"roce": 0, "other": 0}
    data = path.read_bytes()
    pos = 24
    while pos + 16 <= len(data):
        have, length = struct.unpack_from("<II", data, pos + 8)
        frame = data[pos + 16:pos + 16 + have]
        roce = (frame[12:14] == b"\x08\x00" and frame[23:24] == b"\x11"
                and frame[36:38] == struct.pack(">H", 4791))
        sums["roce" if roce else "other"] += length
        pos += 16 + have
    return sums


def job(link, folder, *extra):
    agent = folder / "agent"
    agent.write_text(AGENT.format(socket=link.b.daemon.socket, ns=link.b.daemon.ns))
    agent.chmod(0o755)
    argv = ["mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent", agent, "--host",
            f"{link.a.host}:2,{link.b.host}:2", "-np", "4", "--bind-to", "none", "--mca", "pml",
            "ucx", "--mca", "btl", "^openib", "-x", "UCX_NET_DEVICES=uroce0:1", *extra,
            lib.UROCE_RUN, folder / "check"]
    proc = lib.spawn(argv, ns=link.a.daemon.ns, env={"UROCE_SOCKET": str(link.a.daemon.socket)})
    rc = proc.wait(120)
    assert rc == 0, f"status {rc}:\n{proc.output()}"
    found = re.search(r"mpi check: 4 ranks, (\d+) bytes compared", proc.output())
    assert found and int(found[1]) > 30 << 20, proc.output()


def on_the_wire(link, folder, *extra):
    paths = [folder / "a.pcap", folder / "b.pcap"]
    dumps = [record(side, path) for side, path in zip((link.a, link.b), paths)]
    job(link, folder, *extra)
    for dump in dumps:
        dump.popen.send_signal(signal.SIGINT)
        dump.wait(60)
    for path in paths:
        sums = count(path)
        assert sums["roce"] > 10 << 20, f"{path.name}: {sums}"
        assert sums["other"] < 1 << 20, f"{path.name}: {sums}"
        path.unlink()


def refusals(side):
    return re.findall(r"CREATE_QP refused: .*", side.daemon.proc.output())


def main():
    lib.need_root()
    if lib.UID:
        lib.skip("mpirun's second node is entered by ip netns, which needs root")
    os.environ["OMPI_MCA_orte_tmpdir_base"] = str(lib.tmpdir())
    folder = lib.tmpdir()
    lib.sh("mpicc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", folder / "check",
           lib.HERE / "mpi/check.c")
    link = lib.link_veth()
    for runs, tls in enumerate(("rc,self", "ud,self"), 1):
        with lib.case(f"mpirun: 4 ranks on 2 nodes, UCX_TLS={tls}: every byte correct, over RoCE"):
            on_the_wire(link, folder, "-x", f"UCX_TLS={tls}")
        with lib.case("all ranks have searched for the limits of a QP: one line in the log of each daemon for the run"):
            for said in map(refusals, (link.a, link.b)):
                assert len(said) == runs and "max_inline_data is" in said[-1], said
    link.end()
    lib.finish()


main()
