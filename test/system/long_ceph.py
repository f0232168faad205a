#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's Ceph over RDMA: a monitor, an OSD with its objects in memory, and rados. All messages go through a
daemon (ms_type = async+rdma), and the test compares every byte read with the byte written. A second cluster has its
client in another network namespace, on the other end of a veth pair, with port udp at both ends. UROCE_CEPH_BENCH=1
also prints the write rates of RDMA and TCP in turn, with CPU time per process."""
import json
import os
import pathlib
import re
import uuid

import lib

ADDR, CLIENT = "10.9.0.101", "10.9.0.102"
POOL = "uroce"
BENCH = os.environ.get("UROCE_CEPH_BENCH")
SIZES = (1, 4096, 131072, 131073, 4 << 20, 16 << 20)
CONF = """[global]
fsid = {fsid}
mon_host = [v2:{addr}:3300/0]
mon_initial_members = a
public_addr = {addr}
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
osd_pool_default_size = 1
osd_pool_default_min_size = 1
mon_allow_pool_size_one = true
osd_crush_chooseleaf_type = 0
osd_objectstore = memstore
memstore_device_bytes = 2147483648
mon_data_avail_crit = 1
mon_data = {folder}/mon
osd_data = {folder}/osd
run_dir = {folder}
log_file = {folder}/$name.log
admin_socket = {folder}/$name.$pid.asok
keyring = {folder}/keyring
{messenger}
"""
# Buffers of 128 KiB; Ceph's default of 32768 buffers would take 4 GiB per process.
RDMA = """ms_type = async+rdma
ms_async_rdma_device_name = uroce0
ms_async_rdma_local_gid = 0000:0000:0000:0000:0000:ffff:0a09:00{host:02x}
ms_async_rdma_receive_buffers = 2048
ms_async_rdma_receive_queue_len = 1024
"""
TCP = "ms_type = async+posix\n"
# Debian's OSD uses glibc's malloc, which returns the objects' memory to the kernel when rados bench removes them. The
# next run then measures page faults, in a virtual machine up to ten times the messenger's work. These settings keep
# the memory; the first runs fault it in.
KEEP_MEMORY = ("glibc.malloc.arena_max=1:glibc.malloc.mmap_threshold=33554432:"
               "glibc.malloc.trim_threshold=17179869184")
WARM_UP = 4


class Cluster:
    """A monitor and an OSD in the daemon's network namespace. Clients run there, too, or on other's side."""

    def __init__(self, daemon, messenger, other=None):
        self.daemon, self.rdma = daemon, messenger == RDMA
        self.folder = lib.tmpdir()
        self.fsid = str(uuid.uuid4())
        (self.folder / "keyring").touch()
        self.conf = self.write_conf("ceph.conf", messenger, ADDR)
        self.client, self.client_conf = daemon, self.conf
        if other:
            self.client, self.client_conf = other, self.write_conf("client.conf", messenger, CLIENT)
        for name in ("mon", "osd"):
            (self.folder / name).mkdir()
        self.here("monmaptool", "--create", "--addv", "a", f"[v2:{ADDR}:3300]", "--fsid",
                  self.fsid, self.folder / "monmap", conf=False)
        self.here("ceph-mon", "--mkfs", "-i", "a", "--monmap", self.folder / "monmap")
        self.mon = self.start(daemon, "ceph-mon", "-f", "-i", "a")
        self.ceph("-s")
        osd = str(uuid.uuid4())
        self.ceph("osd", "new", osd)
        self.run(daemon, "ceph-osd", "--mkfs", "-i", "0", "--osd-uuid", osd)
        self.osd = self.start(daemon, "ceph-osd", "-f", "-i", "0")
        lib.until("the OSD is up", lambda: "1 up" in self.ceph("osd", "stat"), 240)
        self.ceph("osd", "pool", "create", POOL, "8", "8")

    def write_conf(self, name, messenger, host):
        path = self.folder / name
        path.write_text(CONF.format(fsid=self.fsid, addr=ADDR, folder=self.folder, messenger=messenger.format(
            host=int(host.rsplit(".", 1)[1]))).replace(f"public_addr = {ADDR}", f"public_addr = {host}"))
        return path

    def start(self, daemon, *argv):
        conf = self.conf if daemon is self.daemon else self.client_conf
        argv = [argv[0], "-c", conf, *argv[1:]]
        env = {"CEPH_CONF": str(conf), **({"GLIBC_TUNABLES": KEEP_MEMORY} if BENCH else {})}
        return daemon.client(argv, env) if self.rdma else lib.spawn(argv, daemon.ns, env)

    def here(self, *argv, conf=True):
        lib.sh(argv[0], *(["-c", self.conf] if conf else []), *argv[1:], ns=self.daemon.ns)

    def run(self, daemon, *argv, timeout=240):
        proc = self.start(daemon, *argv)
        rc = proc.wait(timeout)
        assert rc == 0, f"{argv}: status {rc}\n{proc.tail()}"
        return proc.output()

    def ceph(self, *argv):
        return self.run(self.daemon, "ceph", *argv)

    def rados(self, *argv):
        return self.run(self.client, "rados", "-p", POOL, *argv)

    def bench(self, size, seconds=5):
        procs = {"osd": self.osd, "osd's uroced": self.daemon.proc, "client's uroced": self.client.proc}
        before, mine = {name: cpu_s(proc.pid) for name, proc in procs.items()}, os.times()
        most = min((1 << 30) // size, 16384)  # a fast machine would fill the OSD; removing objects takes long
        said = self.rados("bench", str(seconds), "write", "-b", str(size), "-t", "16", "--max-objects", str(most))
        rates = {what: float(re.search(rf"^{re.escape(what)}:\s*([\d.]+)", said, re.M)[1])
                 for what in ("Bandwidth (MB/sec)", "Average IOPS")}
        used = {name: round(cpu_s(proc.pid) - before[name], 2) for name, proc in procs.items()}
        now = os.times()
        used["rados"] = round(now.children_user + now.children_system - mine.children_user - mine.children_system, 2)
        return {**rates, "CPU seconds": used}

    def stop(self):
        for proc in (self.osd, self.mon):
            proc.term(60)


def cpu_s(pid):
    """CPU time of a process so far, in seconds."""
    field = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(field[11]) + int(field[12])) / os.sysconf("SC_CLK_TCK")


def whole(cluster, size):
    there, back = cluster.folder / "there", cluster.folder / "back"
    there.write_bytes(os.urandom(size))
    cluster.rados("put", f"object{size}", there)
    cluster.rados("get", f"object{size}", back)
    assert there.read_bytes() == back.read_bytes(), f"{size} bytes came back changed"
    back.unlink()


def compare(clusters):
    for _ in range(WARM_UP):
        for cluster in clusters.values():
            cluster.bench(4 << 20)
    for size in (4 << 20, 4096):
        for _ in range(3):
            for name, cluster in clusters.items():
                print(f"# {name}, {size} B: {json.dumps(cluster.bench(size))}", flush=True)


def objects(cluster):
    """Cases: objects of all sizes; the client's daemon must have sent them."""
    for size in SIZES:
        with lib.case(f"ceph: an object of {size} bytes is read back unchanged"):
            before = cluster.client.counters()["tx_roce"]
            whole(cluster, size)
            assert cluster.client.counters()["tx_roce"] > before + size // 4096, "not over RoCE"


def end(cluster, daemons):
    with lib.case("ceph: it ends, nothing is left, the daemons end cleanly"):
        assert cluster, "it never started"
        cluster.stop()
        for daemon in daemons:
            lib.until("no object is left", lambda daemon=daemon: not any(daemon.objects().values()), 60)
            daemon.stop()


def one_daemon():
    dev = f"name=uroce0,port=net_ring0,addr={ADDR}/24,mtu=4096"

    def make():
        daemon = lib.Daemon(["net_ring0"], [dev], lib.netns())
        lib.sh("ip", "-n", daemon.ns, "addr", "add", f"{ADDR}/24", "dev", "lo")
        return daemon

    daemon, cluster = make(), None
    with lib.case("ceph: monitor and OSD come up over RDMA"):
        cluster = Cluster(daemon, RDMA)
        objects(cluster)
        if BENCH:
            compare({"rdma": cluster, "tcp": Cluster(make(), TCP)})
    end(cluster, [daemon])


def over_veth(mtu):
    """Two daemons, port udp on the addresses of a veth pair."""
    def make():
        spaces = [lib.netns(), lib.netns()]
        lib.veth(spaces[0], f"{ADDR}/24", spaces[1], f"{CLIENT}/24", mtu)
        return [lib.Daemon([], [f"name=uroce0,port=udp,addr={addr}"], ns) for addr, ns in zip((ADDR, CLIENT), spaces)]

    daemons, cluster = make(), None
    with lib.case(f"ceph: client and cluster on the two ends of a veth pair, MTU {mtu}"):
        cluster = Cluster(daemons[0], RDMA, daemons[1])
        objects(cluster)
        if BENCH:
            there, other = make()
            compare({f"rdma, veth {mtu}": cluster, f"tcp, veth {mtu}": Cluster(there, TCP, other)})
    end(cluster, daemons)


def main():
    lib.need_root()
    one_daemon()
    for mtu in (1500, 9000) if BENCH else (1500,):
        over_veth(mtu)
    lib.finish()


main()
