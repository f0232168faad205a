#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The devices as unmodified programs see them: ibv_devices, ibv_devinfo."""
import fcntl
import os
import re
import struct

import lib


def run(side, *argv):
    proc = side.spawn(argv)
    rc = proc.wait(60)
    assert rc == 0, f"{argv}: status {rc}\n{proc.output()}"
    return proc.output()


def field(text, name):
    found = re.search(rf"^\s*{name}:\s*(.*)$", text, re.M)
    assert found, f"no {name} in:\n{text}"
    return found.group(1).strip()


def gids(text):
    """Index -> GID from ibv_devinfo -v, without empty slots."""
    return {int(i): gid for i, gid in re.findall(r"GID\[\s*(\d+)\]:\s*(\S+?),?(?:\s|$)", text)}


def check_devinfo(side, mtu, last_octet):
    text = run(side, "ibv_devinfo", "-v", "-d", side.dev)
    assert field(text, "hca_id") == side.dev
    assert field(text, "transport").startswith("InfiniBand (0)"), text
    assert field(text, "state").startswith("PORT_ACTIVE"), text
    assert field(text, "link_layer") == "Ethernet"
    assert field(text, "active_mtu").startswith(str(mtu)), field(text, "active_mtu")
    assert field(text, "phys_port_cnt") == "1"
    for name in ("max_qp", "max_cq", "max_mr", "max_pd", "max_qp_wr", "max_cqe", "max_sge",
                 "max_qp_rd_atom", "gid_tbl_len"):
        assert int(field(text, name)) > 0, f"{name} is {field(text, name)}"
    assert int(field(text, "max_msg_sz"), 16) >= 1 << 30
    assert int(field(text, "max_mr_size"), 16) >= 1 << 32
    table = gids(text)
    assert table.get(0, "").startswith("fe80:"), f"GID 0 is not link-local: {table}"
    assert table.get(1) == f"::ffff:10.9.0.{last_octet}", f"GID 1 is not IPv4: {table}"


def check_own_mac():
    """mac= over an interface: the daemon uses that MAC, the kernel keeps the interface's."""
    spaces = [lib.netns(), lib.netns()]
    lib.veth(spaces[0], "10.9.0.1/24", spaces[1], "10.9.0.2/24", 1500)
    before, own = lib.mac_of(spaces[0], "eth0"), "02:00:00:00:00:aa"
    dev = f"name=uroce0,port=net_af_packet0,addr=10.9.0.101/24,mac={own}"
    daemon = lib.Daemon([lib.af_packet("eth0")], [dev], spaces[0])
    lib.until("the link is up", daemon.link_up)
    for address in ("10.9.0.101", "10.9.0.1"):
        lib.sh("ping", "-c", "3", "-i", "0.2", "-w", "60", address, ns=spaces[1])  # until 3 replies
    shown = lib.sh("ip", "-n", spaces[1], "neigh", "show")
    assert re.search(rf"^10\.9\.0\.101 .*{own}", shown, re.M), shown
    assert re.search(rf"^10\.9\.0\.1 .*{before}", shown, re.M), shown
    assert lib.mac_of(spaces[0], "eth0") == before
    daemon.stop()


PEERS = [f"10.9.0.{10 + i}" for i in range(16)]


def check_more_queues_than_workers():
    """af_packet with two queues and one worker: every flow arrives. Each address of the peer is a flow, which the kernel
    puts on either of the queues."""
    spaces = [lib.netns(), lib.netns()]
    lib.veth(spaces[0], "10.9.0.1/24", spaces[1], "10.9.0.2/24", 1500)
    for peer in PEERS:
        lib.sh("ip", "-n", spaces[1], "addr", "add", f"{peer}/24", "dev", "eth0")
    daemon = lib.Daemon(["net_af_packet0,iface=eth0,qpairs=2"], ["name=uroce0,port=net_af_packet0,addr=10.9.0.101/24"],
                        spaces[0], lib.ONE_WORKER)
    lib.until("the link is up", daemon.link_up)
    port = daemon.show("port")["port"][0]
    # One request of each, at once: a flow without an answer costs the time that a hung test has. Only the first frames
    # of a flow would be lost: once a queue is full, the kernel puts them on another.
    pings = {peer: lib.Proc(["ping", "-n", "-c", "1", "-W", str(lib.processes.HANGS_S), "-I", peer, "10.9.0.101"],
                            ns=spaces[1]) for peer in PEERS}
    silent = [peer for peer, ping in pings.items() if ping.wait(2 * lib.processes.HANGS_S) != 0]
    assert not silent, f"{len(silent)} of {len(PEERS)} flows get no answer; receive queues: {port['rx_queues']}"
    assert port["rx_queues"] == 2, port
    daemon.stop()


def check_vhost_queues():
    """vhost with two queues and one worker: what each worker of the other side sends is received. QPs are assigned to
    workers in turn."""
    ns, path = lib.netns(), lib.tmpdir() / "vhost"
    vdevs = f"net_vhost0,iface={path},queues=2", f"net_virtio_user0,path={path},queues=2,queue_size=1024"
    sides = []
    for i, (vdev, workers) in enumerate(zip(vdevs, (lib.ONE_WORKER, lib.TWO_WORKERS))):
        dev = f"name=uroce0,port={vdev.split(',')[0]},addr=10.9.0.{101 + i}/24"
        sides.append(lib.Side(lib.Daemon([vdev], [dev], ns, workers), "uroce0", "127.0.0.1"))
    for side in sides:
        lib.until("the link is up", side.daemon.link_up)
    for _ in range(2):
        lib.verbs_pair(*sides, "ibv_rc_pingpong", ["-d", "{dev}", "-g", "1", "-n", "50"])
    for side in reversed(sides):
        side.daemon.stop()


TUNSETIFF, IFF_TAP, IFF_NO_PI, IFF_MULTI_QUEUE = 0x400454ca, 2, 0x1000, 0x100


def tap_queues(ns, name, n):
    """Descriptors of a new TAP interface with n queues: what is written into one arrives on that queue."""
    def opened():
        fd = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI | IFF_MULTI_QUEUE))
        return fd

    with lib.entered(ns):
        return [opened() for _ in range(n)]


def check_xdp_queues():
    """af_xdp with two queues and one worker: what arrives on each is received. Then the interface has no program."""
    ns = lib.netns()
    queues = tap_queues(ns, "eth0", 2)
    lib.sh("ip", "-n", ns, "link", "set", "eth0", "up")
    daemon = lib.Daemon(["net_af_xdp0,iface=eth0,queue_count=2"], ["name=uroce0,port=net_af_xdp0,addr=10.9.0.101/24"], ns,
                        lib.ONE_WORKER)
    lib.until("the link is up", daemon.link_up)
    assert daemon.show("port")["port"][0]["rx_queues"] == 2
    arp = bytes.fromhex("ffffffffffff 020000000002 0806 0001 0800 06 04 0001 020000000002 0a090002 000000000000 0a090065")
    for i, queue in enumerate(queues):
        os.write(queue, arp.ljust(60, b"\0"))
        lib.until(f"the frame on queue {i} is received", lambda n=i + 1: daemon.counters()["rx_frames"] == n)
    daemon.stop()
    assert "xdp" not in lib.sh("ip", "-n", ns, "link", "show", "dev", "eth0")
    for queue in queues:
        os.close(queue)


def check_capabilities(link):
    """`show port` reports the capabilities that the driver had at the start."""
    for side in (link.a, link.b):
        for port in side.daemon.show("port")["port"]:
            can = port["capabilities"]
            assert "MULTI_SEGS" in can["tx_offloads"] or link.kind != "memif", port
            assert can["flow_rule"] == "no" and can["rss"] == can["rss_used"] == [], port
            assert can["max_rx_queues"] >= port["rx_queues"], port


def check_rx_wake(link, want):
    for side in (link.a, link.b):
        shown = {p["device"]: p["rx_wake"] for p in side.daemon.show("port")["port"]}
        assert shown[side.dev] == want, shown


def check_many_devices():
    """Ten devices: each is listed and opens, and a program's sysfs copy stays small."""
    pairs = [word for i in range(5) for word in ("--pair", f"p{i}")]
    devs = [f"name=uroce{i},port=net_ring_p{i // 2}{'ab'[i % 2]},addr=10.{i}.0.1/24,pkey=0x{i + 1:x}"
            for i in range(10)]
    daemon = lib.Daemon([], devs, extra=pairs)
    side = lib.Side(daemon, "uroce0", "127.0.0.1")
    names = [f"uroce{i}" for i in range(10)]
    found = re.findall(r"hca_id:\s+(\S+)", run(side, "ibv_devinfo"))
    assert sorted(found) == sorted(names), found
    for i, name in enumerate(names):
        text = run(side, "sh", "-c", f"cd /sys/class/infiniband/{name}/ports/1 && cat gids/1 gids/2 "
                   "gids/63 gid_attrs/types/63 pkeys/0 pkeys/1 pkeys/15")
        assert text.splitlines() == [
            f"0000:0000:0000:0000:0000:ffff:0a{i:02x}:0001", *2 * ["0000:" * 7 + "0000"], "RoCE v2",
            f"0x{i + 1:04x}", "0x0000", "0x0000"], text
    used = int(run(side, "df", "-k", "--output=used", "/sys/class").split()[1])
    assert used < 4096, f"{used} KiB"
    daemon.stop()


def main():
    lib.need_root()
    with lib.case("--allow none: no PCI, but the other ports"):
        dev = "name=uroce0,port=net_ring_pa,addr=10.9.0.1/24"
        daemon = lib.Daemon([], [dev], lib.netns(), ("--pair", "p", "--allow", "none"))
        assert len(daemon.show("device")["device"]) == 1
        daemon.stop()
    with lib.case("ten devices of one daemon"):
        check_many_devices()
    with lib.case("a separate MAC next to the kernel's"):
        check_own_mac()
    with lib.case("two devices of one daemon: ibv_devices, ibv_devinfo"):
        link = lib.link_ring()
        listed = run(link.a, "ibv_devices")
        assert "uroce0" in listed and "uroce1" in listed, listed
        check_devinfo(link.a, 4096, 101)
        check_devinfo(link.b, 4096, 102)
        check_rx_wake(link, "own")
        link.stop()
    with lib.case("ports without a receive wake-up: a private ring, memif"):
        for make in (lib.link_loop, lib.link_memif):
            link = make()
            check_rx_wake(link, "timer")
            check_capabilities(link)
            link.stop()
    with lib.case("af_packet with more queues than workers: every flow arrives"):
        check_more_queues_than_workers()
    with lib.case("af_xdp with more queues than workers, and its end"):
        check_xdp_queues()
    with lib.case("vhost with more queues than workers: every worker of the other side is heard"):
        check_vhost_queues()
    with lib.case("capabilities of a port that has RSS and flow rules"):
        daemon = lib.Daemon(["net_tap0,iface=roce0"], ["name=uroce0,port=net_tap0"], lib.netns())
        can = daemon.show("port")["port"][0]["capabilities"]
        assert {"ipv4-udp", "ipv6-udp"} < set(can["rss"]) and can["flow_rule"] == "yes", can
        daemon.stop()
    for mtu in (1024, 4096):
        with lib.case(f"af_packet on a veth, MTU {mtu}"):
            link = lib.link_veth(mtu)
            check_devinfo(link.a, mtu, 101)
            check_devinfo(link.b, mtu, 102)
            check_rx_wake(link, "port")
            for kernel, address in ((link.b, "10.9.0.101"), (link.a, "10.9.0.102")):
                lib.ping(kernel.daemon.ns, address, 3)
            link.stop()
    with lib.case("without a daemon there is no device, and no crash"):
        gone = lib.Proc([lib.UROCE_RUN, "--socket", lib.tmpdir() / "nobody", "ibv_devices"],
                        env=lib.asan_env())
        gone.wait(60)
        assert gone.poll() >= 0, f"killed by signal {-gone.poll()}"
        assert "uroce0" not in gone.output(), gone.output()
    lib.finish()


main()
