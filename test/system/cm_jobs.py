# SPDX-License-Identifier: BSD-3-Clause
"""Programs of suite cm that take more than a command line at each end: a virtual machine that moves, a disk over iSER,
and an MPI job over libfabric. Each compares every byte."""
import json
import os
import socket

import cm_run
import debian
import lib
import perftool

# libiscsi 1.19 expects new memory to be 0 (its list of descriptors); glibc inverts this byte.
ZEROED = {"MALLOC_PERTURB_": "255"}
INITIATOR = "iqn.2008-11.org.linux-kvm"


class Qmp:
    """QEMU's control socket."""

    def __init__(self, path, proc):
        self.sock = socket.socket(socket.AF_UNIX)
        lib.until("QEMU listens", lambda: self.sock.connect_ex(str(path)) == 0)
        self.file = self.sock.makefile("rw", encoding="utf-8")
        try:
            self.file.readline()
            self.call("qmp_capabilities")
        except OSError as error:
            raise AssertionError(f"QEMU has ended: {proc.tail()}") from error

    def call(self, command, **arguments):
        self.file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.file.flush()
        while True:
            reply = json.loads(self.file.readline())
            assert "error" not in reply, reply
            if "return" in reply:
                return reply["return"]


def qemu(side, folder, name, *argv):
    return cm_run.spawn(side, ["qemu-system-x86_64", "-machine", "q35,accel=tcg", "-m", "64", "-nographic",
                               "-nodefaults", "-S", "-qmp", f"unix:{folder}/{name}.qmp,server=on,wait=off", *argv], {})


def migrate(ends, folder, capabilities):
    """A stopped virtual machine whose memory has 16 MiB of pattern moves; both memories are then the same."""
    pattern = folder / "pattern"
    pattern.write_bytes(bytes(i * i % 251 for i in range(1 << 16)) * 256)
    pattern.chmod(0o644)
    uri = f"rdma:{ends.server[0]}:{lib.tcp_port()}"
    target = qemu(ends.link.b, folder, "target", "-incoming", uri)
    source = qemu(ends.link.a, folder, "source", "-device", f"loader,file={pattern},addr=0x1000000,force-raw=on")
    try:
        to, of = Qmp(folder / "target.qmp", target), Qmp(folder / "source.qmp", source)
        lib.until("the target listens", lambda: cm_run.listens(ends.link.b.daemon))
        before = ends.link.a.daemon.counters()["tx_bytes"]
        for end in (of, to):
            end.call("migrate-set-capabilities",
                     capabilities=[{"capability": c, "state": True} for c in capabilities])
        of.call("migrate", uri=uri)

        def done():
            state = of.call("query-migrate")
            assert state.get("status") not in ("failed", "cancelled"), f"{state}{source.tail()}{target.tail()}"
            return state.get("status") == "completed"
        lib.until("the migration has ended", done, every=0.2)
        assert ends.link.a.daemon.counters()["tx_bytes"] - before > 16 << 20, "the memory did not go over RDMA"
        for end, name in ((of, "was"), (to, "is")):
            end.call("pmemsave", val=0x1000000, size=16 << 20, filename=str(folder / name))
            end.call("quit")
        cm_run.same_bytes(folder / "was", pattern)
        cm_run.same_bytes(folder / "is", pattern)
        assert source.wait(60) == 0 and target.wait(60) == 0
    finally:
        source.kill()
        target.kill()


def migrate_again(ends, user_folder, capabilities):
    """QEMU allows no RNR retry, and a daemon without privileges sends an RNR NAK if its copy thread gets no CPU."""
    for attempt in range(cm_run.ATTEMPTS):
        before = ends.link.b.daemon.counters()["sent_rnr_naks"]
        try:
            migrate(ends, user_folder(), capabilities)
            return
        except AssertionError as failed:
            if (attempt + 1 == cm_run.ATTEMPTS or "RNR retry counter exceeded" not in str(failed)
                    or ends.link.b.daemon.counters()["sent_rnr_naks"] == before):
                raise
            print("# again: RNR retry counter exceeded")


def iser(ends, folder):
    """tgt serves a disk by iSER; qemu-img reads and writes it through libiscsi."""
    tgt = debian.extracted("tgt") / "usr/sbin"
    disk, new, read = folder / "disk", folder / "new", folder / "read"
    disk.write_bytes(os.urandom(16 << 20))
    new.write_bytes(os.urandom(16 << 20))
    admin = [tgt / "tgtadm", "-C", "77", "--lld", "iser", "--mode"]
    port = lib.tcp_port()
    with perftool.huge_pages(64):  # tgt's pool
        argv = [tgt / "tgtd", "-f", "-C", "77", "--iscsi", f"portal={ends.server[0]}:{port}", "--iser", "pool_sz_mb=16"]
        server = cm_run.spawn(ends.link.b, argv, {})
        try:
            cm_run.wait_ready(ends, server)
            for words in (["target", "--op", "new", "--tid", "1", "--targetname", "iqn.2026-11.test:disk"],
                          ["logicalunit", "--op", "new", "--tid", "1", "--lun", "1", "-b", disk],
                          ["target", "--op", "bind", "--tid", "1", "-I", "ALL"],
                          ["target", "--op", "bind", "--tid", "1", "-Q", INITIATOR]):
                ends.link.b.spawn([*admin, *words]).result(60)
            url = f"iser://{ends.server[0]}:3260/iqn.2026-11.test:disk/1"

            def copy(*argv):
                # libiscsi's iSER has no requests above 512 KiB
                cm_run.spawn(ends.link.a, ["qemu-img", "dd", "-O", "raw", "bs=128k", *argv], ZEROED).result(60)
            copy(f"if={url}", f"of={read}")
            cm_run.same_bytes(read, disk)
            cm_run.spawn(ends.link.a, ["qemu-io", "-f", "raw", "-c", f"write -s {new} 0 256k", url], ZEROED).result(60)
            assert disk.read_bytes()[:256 << 10] == new.read_bytes()[:256 << 10], "written data is wrong"
        finally:
            server.kill()


def mpi(ends, folder):
    """Open MPI over libfabric's verbs provider: two ranks on each side compare every byte."""
    lib.sh("mpicc", "-O2", "-o", folder / "check", lib.HERE / "mpi/check.c")
    agent = folder / "agent"
    agent.write_text(f"#!/bin/sh\nshift\nexport UROCE_SOCKET={ends.link.b.daemon.socket}\n"
                     f'exec ip netns exec {ends.link.b.daemon.ns} sh -c "$*"\n')
    agent.chmod(0o755)
    before = ends.link.a.daemon.counters()["tx_bytes"]
    said = lib.spawn(["mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent", agent, "--mca",
                      "orte_tmpdir_base", folder, "--host", f"{ends.client[0]}:2,{ends.server[0]}:2", "-np", "4",
                      "--bind-to", "none", "--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca",
                      "mtl_ofi_provider_include", "verbs;ofi_rxm", lib.UROCE_RUN, folder / "check"],
                     ns=ends.link.a.daemon.ns, env={"UROCE_SOCKET": str(ends.link.a.daemon.socket)}).result(120)
    assert "mpi check: 4 ranks" in said, said
    assert ends.link.a.daemon.counters()["tx_bytes"] - before > 10 << 20, "not over RDMA"


def cases(ends, user_folder, root):
    """(name, function) of what runs here. user_folder(): a folder that the programs may use; root: they are root."""
    if ends.link.kind != "pair":  # its namespace has no IPv4 address, so getaddrinfo gives QEMU a mapped IPv6 one
        yield ("qemu: migrate -d rdma:ADDR:PORT", lambda: migrate_again(ends, user_folder, []))
        yield ("qemu: migrate -d rdma:ADDR:PORT, rdma-pin-all",
               lambda: migrate_again(ends, user_folder, ["rdma-pin-all"]))
    if root and ends.host:
        if debian.extracted("tgt"):
            yield ("tgtd: --lld iser, qemu-img dd if=iser://ADDR/DISK", lambda: iser(ends, user_folder()))
        else:
            lib.skip_case("tgtd: --lld iser", "the package tgt cannot be downloaded")
        yield ("mpirun: --mca mtl ofi, verbs;ofi_rxm, 4 ranks", lambda: mpi(ends, user_folder()))
