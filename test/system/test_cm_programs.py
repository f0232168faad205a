#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Suite cm: Debian's unmodified rdma_cm programs, without loss and while 1 % of frames is lost.

    test_cm_programs.py packet|udp|share|pair [WORD ..]

packet: daemons of root on net_af_packet, whose addresses the host does not have. udp: everything as an ordinary user,
on the kernel's addresses. share: port packet with the interface's addresses. pair: one device of one daemon. The last
two run without loss, because no loss can be injected there. WORD: only cases whose names contain one of these."""
import itertools
import shutil
import subprocess
import sys

SETTING, WORDS = sys.argv[1], sys.argv[2:]
if SETTING == "udp":
    import test_port_udp as udp  # first: it sets the user whom lib reads
import cm_cases  # noqa: E402
import cm_jobs  # noqa: E402
import cm_run  # noqa: E402
import hostlink  # noqa: E402
import lib  # noqa: E402
import pyverbs_run  # noqa: E402

LOSSY = ("packet", "udp")

# librdmacm is loaded by dlopen after the provider. Its channel must be the daemon's socket.
LATE = """
import ctypes, os, stat
verbs, found = ctypes.CDLL("libibverbs.so.1"), ctypes.c_int()
verbs.ibv_get_device_list.restype = ctypes.c_void_p
assert verbs.ibv_get_device_list(ctypes.byref(found)) and found.value
cm = ctypes.CDLL("librdmacm.so.1")
cm.rdma_create_event_channel.restype = ctypes.POINTER(ctypes.c_int)
channel = cm.rdma_create_event_channel()
assert channel and stat.S_ISSOCK(os.fstat(channel[0]).st_mode)
"""


def give_ipv6(ns):
    """getaddrinfo returns IPv6 addresses only if some interface has one."""
    lib.sh("ip", "-n", ns, "link", "add", "six", "up", "type", "veth", "peer", "name", "five")
    lib.sh("sysctl", "-qw", "net.ipv6.conf.six.disable_ipv6=0", ns=ns)
    lib.sh("ip", "-n", ns, "addr", "add", "fd01::1/128", "dev", "six", "nodad")


def link_packet():
    """As lib.link_veth, with IPv6 addresses."""
    sides = []
    spaces = [lib.netns(), lib.netns()]
    lib.veth(spaces[0], "10.9.0.1/24", spaces[1], "10.9.0.2/24", 4200)
    for ns in spaces:
        give_ipv6(ns)
    for i, ns in enumerate(spaces):
        dev = f"name=uroce0,port=net_af_packet0,addr=10.9.0.{101 + i}/24,addr=fd00::{101 + i}/64,mtu=4096"
        sides.append(lib.Side(lib.Daemon([lib.af_packet("eth0")], [dev], ns), "uroce0", f"10.9.0.{1 + i}"))
    return lib.Link("packet", *sides, 4096)


def link_share():
    """Two daemons on packet sockets that share the kernel's addresses."""
    daemons = [lib.Daemon([], ["name=uroce0,port=packet,iface=eth0,share=yes,mtu=4096"], ns)
               for ns in hostlink.spaces(9000)]
    return lib.Link("share", *(lib.Side(daemon, "uroce0", v4)
                               for daemon, (v4, _) in zip(daemons, hostlink.ADDRESSES)), 4096)


def link_pair():
    """A device of a daemon with --pair; frames that it sends to itself stay inside the daemon."""
    link = lib.link_ring(addr6=True)
    give_ipv6(link.a.daemon.ns)
    return lib.Link("pair", link.a, link.a, 4096)


def make_ends():
    if SETTING == "share":
        return cm_run.Ends(link_share(), hostlink.ADDRESSES[1], hostlink.ADDRESSES[0], host=True)
    if SETTING == "pair":
        return cm_run.Ends(link_pair(), ("10.9.0.101", "fd00::101"), ("10.9.0.101", "fd00::101"), host=False)
    if SETTING == "packet":
        return cm_run.Ends(link_packet(), ("10.9.0.102", "fd00::102"), ("10.9.0.101", "fd00::101"), host=False)
    return cm_run.Ends(udp.link_udp(), ("10.9.0.2", "fd00::2"), ("10.9.0.1", "fd00::1"), host=True)


def user_folder():
    """A folder that the programs may read and write."""
    folder = lib.tmpdir()
    folder.chmod(0o777)
    return folder


def build_ucx_example():
    folder = user_folder()
    source = "/usr/share/doc/libucx-dev/examples"
    subprocess.run(["gcc", "-w", "-o", folder / "ucp_client_server", f"{source}/ucp_client_server.c", "-lucp", "-lucs"],
                   check=True, timeout=120)
    return folder


def wanted(name):
    return not WORDS or any(word in name for word in WORDS)


def run_case(ends, name, call):
    if wanted(name):
        with lib.case(name):
            call()


class DatagramLost(TimeoutError):
    """A member hung; dropped: what the daemon counted, by reason."""

    def __init__(self, text, dropped):
        super().__init__(text)
        self.dropped = dropped


def members(ends, group):
    """mckey: two members receive what the sender sends to the group. A datagram into copied memory is lost, and counted,
    if the copying thread gets no CPU; mckey waits for it forever."""
    for attempt in range(cm_run.ATTEMPTS):
        try:
            members_once(ends, group)
            return
        except DatagramLost as lost:
            if attempt + 1 == cm_run.ATTEMPTS or not lost.dropped.get("memory_late"):
                raise
            print(f"# again: dropped {lost.dropped}")


def members_once(ends, group):
    server = ends.server[":" in group]
    before = ends.link.b.daemon.counters("drops")
    receivers = [cm_run.spawn(ends.link.b, ["mckey", "-m", group, "-b", server, "-C", "10"], {}) for _ in range(2)]
    try:
        for receiver in receivers:
            lib.until("a member waits", lambda receiver=receiver: "receiving data" in receiver.output() or
                      receiver.poll() is not None)
        cm_run.spawn(ends.link.a, ["mckey", "-m", group, "-b", ends.client[":" in group], "-s", "-C", "10"],
                     {}).result(lib.processes.HANGS_S)
        for receiver in receivers:
            assert "return status 0" in receiver.result(lib.processes.HANGS_S), receiver.tail()
    except TimeoutError as late:
        now = ends.link.b.daemon.counters("drops")
        dropped = {reason: n - before[reason] for reason, n in now.items() if n != before[reason]}
        raise DatagramLost(f"{late}\ndropped: {dropped}\n{cm_run.state(ends)}", dropped) from None
    finally:
        for receiver in receivers:
            receiver.kill()


def copy(ends):
    """rcopy: a file arrives complete."""
    folder = user_folder()
    source, target = folder / "source", folder / "target"
    source.write_bytes(bytes(i * i % 251 for i in range(300000)))
    source.chmod(0o644)
    port = str(lib.tcp_port())
    server = cm_run.spawn(ends.link.b, ["rcopy", "-p", port], {})
    try:
        cm_run.wait_ready(ends, server)
        cm_run.spawn(ends.link.a, ["rcopy", source, f"{ends.server[0]}:{target}", "-p", port], {}).result(60)
        cm_run.same_bytes(source, target)
    finally:
        server.kill()


def preloaded(ends):
    """librspreload: nc.traditional, a TCP program, over rsockets. (nc.openbsd and Python call accept4, which
    librspreload does not redirect. iperf3's select gets wrong descriptors from it: doc/compatibility.md.)"""
    folder = user_folder()
    source, target = folder / "source", folder / "target"
    source.write_bytes(bytes(i * i % 251 for i in range(300000)))
    source.chmod(0o644)
    port = str(lib.tcp_port())
    nc = f"{cm_cases.PRELOAD} nc.traditional -n"
    server = cm_run.spawn(ends.link.b, ["sh", "-c", f"{nc} -l -s {ends.server[0]} -p {port} >{target}"], {})
    try:
        cm_run.wait_ready(ends, server)
        before = ends.link.a.daemon.counters()["tx_roce"]
        cm_run.spawn(ends.link.a, ["sh", "-c", f"{nc} -q 1 {ends.server[0]} {port} <{source}"], {}).result(60)
        server.result(60)
        cm_run.same_bytes(source, target)
        assert ends.link.a.daemon.counters()["tx_roce"] > before, "not over RDMA"
    finally:
        server.kill()


def pyverbs(ends):
    folder = pyverbs_run.unpack()
    found = pyverbs_run.run(ends.link.a, folder, ["test_rdmacm"])
    assert sum(what == "ok" for what in found.values()) == 10, found


def late(ends):
    ends.link.a.spawn(["/usr/bin/python3", "-c", LATE]).result(60)


def daemon_dies():
    """Requirements: CM-15. A program that waits for an event learns that its daemon was killed."""
    link = lib.link_ring()
    server = link.a.spawn(["rping", "-s", "-a", "10.9.0.101", "-p", lib.tcp_port()])
    lib.until("rping listens", lambda: cm_run.listens(link.a.daemon))
    link.a.daemon.proc.kill()
    assert server.wait(60) != 0 and "cma detected device removal" in server.output(), server.tail()


def programs(ends, folder):
    yield from cm_cases.rping()
    yield from cm_cases.examples()
    yield from cm_cases.rsockets()
    yield from cm_cases.perftest()
    yield from cm_cases.fio()
    yield from cm_cases.fabric()
    yield from cm_cases.qperf()
    yield from cm_cases.dapl(folder)
    yield from cm_cases.ucx(folder)


# Requirements: CM-03
def test_programs_run_unmodified(ends, folder, lossy):
    for case in programs(ends, folder):
        if (case.host and not ends.host) or (lossy and not case.lossy):
            continue
        name = case.name.format(s="ADDR", s6="ADDR6", c="OWN")
        run_case(ends, f"{case.program}: {name}{', 1 % lost' if lossy else ''}",
                 lambda case=case: cm_run.pair(ends, case, lossy))
    mark = ", 1 % lost" if lossy else ""
    run_case(ends, f"rcopy: FILE ADDR:FILE{mark}", lambda: copy(ends))
    run_case(ends, f"librspreload: nc.traditional -q 1 ADDR PORT{mark}", lambda: preloaded(ends))
    if lossy:
        return
    for group in ("239.1.2.3", "ff1e::4:5"):
        run_case(ends, f"mckey: -m {group} -b ADDR, two members", lambda group=group: members(ends, group))
    if ends.host:
        run_case(ends, "pyverbs: test_rdmacm (10 tests)", lambda: pyverbs(ends))
    for name, call in cm_jobs.cases(ends, user_folder, root=SETTING != "udp"):
        run_case(ends, name, call)


def main():
    lib.need_root()
    ends = make_ends()
    folder = build_ucx_example()
    run_case(ends, "librdmacm: loaded after the provider", lambda: late(ends))
    test_programs_run_unmodified(ends, folder, lossy=False)
    if SETTING in LOSSY:
        cm_run.impair(ends.link, True)
        test_programs_run_unmodified(ends, folder, lossy=True)
        with lib.case("frames were lost"):
            lost = cm_run.frames_lost(ends.link)
            assert WORDS or lost > 20, lost
        cm_run.impair(ends.link, False)
    if SETTING == "packet":
        run_case(ends, "rping: its daemon is killed", daemon_dies)
    with lib.case("nothing is left, the daemons end cleanly"):
        ends.link.nothing_left()
        ends.link.stop()
    lib.finish()


main()
