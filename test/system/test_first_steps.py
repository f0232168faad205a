#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The first start of a daemon: interfaces of any MTU work without further arguments, and an error names the
problem, the legal values and the remedy."""
import os
import re
import signal

import lib


def start_fails(vdev, *words, ns=None, extra=()):
    """A daemon on this port must refuse to start; its message contains all of the words."""
    name = vdev.split(",")[0]
    sock = lib.tmpdir() / "uroced.sock"
    proc = lib.spawn([lib.UROCED, "--socket", sock, "--file-prefix", lib.unique("ur"), "--no-huge",
                      "--vdev", vdev, "--dev", f"name=uroce0,port={name}", *extra], ns=ns)
    rc = proc.wait(60)
    assert rc == 1, f"{vdev}: status {rc}\n{proc.output()}"
    for word in words:
        assert word in proc.output(), f"{vdev}: no '{word}' in\n{proc.output()}"


def jumbo(mtu, ring):
    """Two daemons on a veth of that MTU: path MTU 4096, with long frames of the kernels alongside."""
    spaces = [lib.netns(), lib.netns()]
    lib.veth(spaces[0], "10.9.0.1/24", spaces[1], "10.9.0.2/24", mtu)
    sides = []
    for i, ns in enumerate(spaces):
        dev = f"name=uroce0,port=net_af_packet0,addr=10.9.0.{101 + i}/24"
        daemon = lib.Daemon([f"net_af_packet0,iface=eth0{ring}"], [dev], ns)
        sides.append(lib.Side(daemon, "uroce0", f"10.9.0.{1 + i}"))
    link = lib.Link("veth", *sides, 4096)
    said = link.a.daemon.proc.output()
    assert f"MTU {mtu} of eth0" in said and "8110" in said, said
    lib.verbs_pair(link.b, link.a, "ibv_rc_pingpong",
                   ["-d", "{dev}", "-g", "1", "-c", "-m", "4096", "-s", "100000", "-n", "50"])
    lib.ping(spaces[0], "10.9.0.2", 5, "-M", "do", "-s", str(mtu - 28))
    lib.ping(spaces[0], "10.9.0.102", 3, "-s", "4000")
    link.stop()


def small_buffers(vdev, remedy, mtu=9000):
    """The daemon starts with a smaller path MTU and names the argument that raises it."""
    ns, other = lib.netns(), lib.netns()
    lib.veth(ns, "10.9.0.1/24", other, "10.9.0.2/24", mtu)
    name = vdev.split(",")[0]
    daemon = lib.Daemon([vdev], [f"name=uroce0,port={name},addr=10.9.0.101/24"], ns)
    assert daemon.show("device")["device"][0]["path_mtu"] < 4096
    assert remedy in daemon.proc.output(), daemon.proc.output()
    daemon.stop()


def every_path_mtu():
    """Every value of --dev mtu=, on a port of any kind."""
    ns, other = lib.netns(), lib.netns()
    lib.veth(ns, "10.9.0.1/24", other, "10.9.0.2/24", 9000)
    for mtu in (256, 512, 1024, 2048, 4096):
        devs = [f"name=uroce{i},port={port},addr=10.9.{i}.101/24,mtu={mtu}"
                for i, port in enumerate(("net_af_packet0", "net_ring_pa"))]
        daemon = lib.Daemon(["net_af_packet0,iface=eth0"], devs, ns, [*lib.ONE_WORKER, "--pair", "p"])
        found = [device["path_mtu"] for device in daemon.show("device")["device"]]
        assert found == [mtu, mtu], (mtu, found)
        daemon.stop()


def short_link():
    """An interface with an MTU too small for any path MTU."""
    ns, other = lib.netns(), lib.netns()
    lib.veth(ns, "10.9.0.1/24", other, "10.9.0.2/24", 500)
    start_fails("net_af_packet0,iface=eth0", "MTU 500 of eth0", "ip link set eth0 mtu", "576", ns=ns)


def port_taken():
    """Two devices on one port."""
    start_fails("net_af_packet0,iface=lo", "port 'net_af_packet0' is used by device uroce0",
                "uroce1", ns=lib.netns(), extra=("--dev", "name=uroce1,port=net_af_packet0"))


def config():
    """An unknown name in the file."""
    path = lib.tmpdir() / "uroced.conf"
    path.write_text("[uroced]\nscoket = /tmp/s\n")
    proc = lib.spawn([lib.UROCED, "--config", path])
    assert proc.wait(60) == 2
    for word in (str(path), "scoket", "--help"):
        assert word in proc.output(), proc.output()


def messages():
    ns, other = lib.netns(), lib.netns()
    lib.veth(ns, "10.9.0.1/24", other, "10.9.0.2/24", 9000)
    for driver in ("net_af_packet0", "net_af_xdp0"):
        with lib.case(f"{driver}: an interface that does not exist"):
            start_fails(f"{driver},iface=eth7", "interface eth7 not found",
                        "interfaces: lo, eth0", ns=ns)
    with lib.case("af_packet: a slot larger than packet buffers"):
        start_fails("net_af_packet0,iface=eth0,framesz=16384,blocksz=16384", "framesz=16384",
                    "from 1024 to 8192", ns=ns)
    with lib.case("af_packet: a slot that does not divide its block"):
        start_fails("net_af_packet0,iface=eth0,framesz=4608", "framesz=4608", "framesz=8192",
                    ns=ns)
    with lib.case("af_xdp: an MTU that it does not support"):
        start_fails("net_af_xdp0,iface=eth0", "MTU 9000 of eth0", "ip link set eth0 mtu",
                    "net_af_packet", ns=ns, extra=("--mem", "512"))
    with lib.case("af_xdp: too little memory for its own buffers"):
        start_fails("net_af_xdp0,iface=eth0", "--mem", ns=ns, extra=("--mem", "160"))


def huge_pages():
    """More than any machine has free: the daemon uses ordinary pages, and reports how to get huge ones."""
    ns = lib.netns()
    proc = lib.spawn([lib.UROCED, "--socket", lib.tmpdir() / "s", "--file-prefix",
                      lib.unique("ur"), "--mem", "1048576", "--pair", "a"], ns=ns)
    lib.until("the message", lambda: "huge pages" in proc.output())
    found = re.search(r"vm\.nr_hugepages=(\d+)", proc.output())
    assert found and int(found[1]) >= 1024 and "--no-huge" in proc.output(), proc.output()
    proc.kill()


def lost_huge_pages():
    """Huge pages that are free, but cannot be had: another process was quicker, or a cgroup limits them. A file in the
    place of the kernel's tells both uroced and DPDK that many are free."""
    free = lib.tmpdir() / "free_hugepages"
    free.write_text("100000\n")
    known = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"

    def misled(*argv):
        return ["unshare", "-m", "sh", "-c", f'mount --bind {free} {known} && exec "$@"', "sh", *argv]

    proc = lib.spawn(misled(lib.UROCED, "--socket", lib.tmpdir() / "lost", "--file-prefix", lib.unique("ur"),
                            "--mem", "2048", "--pair", "p", "--dev", "name=uroce0,port=net_ring_pa,addr=10.9.0.1/24"))
    lib.until("ready", lambda: "ready" in proc.output())
    assert "starting again with ordinary pages" in proc.output(), proc.output()
    assert proc.term() == 0, proc.output()
    bench = lib.spawn(misled(lib.BUILD / "app/uroce-bench/uroce-bench", "engine", "--runs", "2", "--count", "100", "--no-probe"))
    assert bench.wait(60) == 0, bench.output()


def no_grh(link, tool):
    """Without -g the program gets EINVAL; the daemon and the provider say why."""
    port = lib.tcp_port()
    server = link.b.spawn([tool, "-d", link.b.dev, "-p", str(port)])
    lib.until("the server listens", lambda: server.listens(port))
    client = link.a.spawn([tool, "-d", link.a.dev, "-p", str(port), link.a.host])
    assert client.wait(60) != 0 and server.wait(60) != 0
    said = server.output()  # the client sees only that the server ended
    assert "uroce: uroced refuses: " in said and "GRH: -g 1" in said, said
    said = [line for line in link.a.daemon.proc.output().splitlines()
            if f": {tool[:15]} (pid {server.pid})" in line]
    assert len(said) == 1 and "RoCE needs a GRH: -g 1" in said[0], link.a.daemon.proc.output()


def large_path_mtu():
    """-m 4096 on an interface of MTU 1500: what was asked, what the port allows, what to do."""
    both = [lib.netns(), lib.netns()]
    lib.veth(both[0], "10.9.0.1/24", both[1], "10.9.0.2/24", 1500)
    daemon = lib.Daemon([], ["name=uroce0,port=udp,iface=eth0"], both[0])
    port = lib.tcp_port()
    server = daemon.client(["ibv_rc_pingpong", "-g", "1", "-m", "4096", "-p", str(port)])
    lib.until("the server listens", lambda: server.listens(port))
    client = daemon.client(["ibv_rc_pingpong", "-g", "1", "-m", "4096", "-p", str(port), "10.9.0.1"])
    assert client.wait(60) != 0 and server.wait(60) != 0
    says = "path_mtu is 4096 bytes (5), and the port allows 1024 (3): raise the interface's MTU to 4200"
    assert says in server.output(), server.output()
    daemon.stop()


def empty_gid(link):
    """-g of an empty index: the program that names it says so, and its peer does not blame its own -g."""
    port = lib.tcp_port()
    server = link.b.spawn(["ibv_rc_pingpong", "-d", link.b.dev, "-g", "1", "-p", str(port)])
    lib.until("the server listens", lambda: server.listens(port))
    client = link.a.spawn(["ibv_rc_pingpong", "-d", link.a.dev, "-g", "9", "-p", str(port), link.a.host])
    assert client.wait(60) != 0 and server.wait(60) != 0
    assert re.search(rf"^uroce: GID index 9 of {link.a.dev} is empty; indexes: 0, 1$", client.output(), re.M), client.output()
    said = server.output()
    assert "uroced refuses: " in said and "the peer sent no GID" in said and "GID index 0" not in said, said
    listed = link.a.spawn(["ibv_devinfo", "-v", "-d", link.a.dev])  # reads every index
    assert listed.wait(60) == 0 and "is empty" not in listed.output(), listed.output()


def detached():
    """--daemon returns when a program may start; a daemon that cannot start returns its status and its message."""
    ns, folder = lib.netns(), lib.tmpdir()
    sock = folder / "uroced.sock"
    start = [lib.UROCED, "--daemon", "--sandbox", "kill", "--no-huge", "--socket", sock, "--file-prefix", lib.unique("ur"), "--pair", "p",
             "--dev", "name=uroce0,port=net_ring_pa,addr=10.9.0.1/24"]
    proc = lib.spawn(start, ns=ns)
    assert proc.wait(60) == 0, proc.output()
    pid = int(re.search(rf"^uroced: pid (\d+), log {sock}.log$", proc.output(), re.M)[1])
    try:
        for said in (proc.output(), (folder / "uroced.sock.log").read_text()):
            assert "uroced: ready (device uroce0" in said, said
        tool = lib.spawn([lib.UROCE_RUN, "--socket", sock, "ibv_devinfo", "-l"], ns=ns, env=lib.asan_env())
        assert tool.wait(60) == 0 and "uroce0" in tool.output(), tool.output()
        again = lib.spawn(start, ns=ns)
        assert again.wait(60) == 1 and "a daemon listens there" in again.output(), again.output()
        lib.sh(lib.UROCECTL, "--socket", sock, "set", "log-level", "debug", ns=ns)
        lib.until("the log goes on", lambda: "log level: debug" in (folder / "uroced.sock.log").read_text(), every=0.1)
    finally:
        os.kill(pid, signal.SIGTERM)
    lib.until("it has ended", lambda: not sock.exists())


def nobody_there():
    """uroce-run without a daemon names every path; a user without the right learns who decides."""
    user = 60000 + os.getpid() % 4000
    tool = lib.public_copy() / "app/uroce-run/uroce-run"
    plain = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "env", "XDG_RUNTIME_DIR=", "HOME=/"]
    proc = lib.spawn(["unshare", "-m", "sh", "-c", 'mkdir -p /run/uroce; mount -t tmpfs none /run/uroce; exec "$@"', "sh",
                      *plain, tool, "true"])
    assert proc.wait(60) != 0
    assert f"no uroced at /tmp/uroce-{user}/uroced.sock, nor at /run/uroce/uroced.sock: " in proc.output(), proc.output()
    folder = lib.tmpdir()
    folder.chmod(0o755)
    daemon = lib.Daemon([], ["name=uroce0,port=net_ring_pa,addr=10.9.0.1/24"], lib.netns(), ("--pair", "p"), folder / "s")
    proc = lib.spawn([*plain, tool, "--socket", folder / "s", "true"])
    assert proc.wait(60) != 0
    for word in ("Permission denied", "--socket-mode", "--socket-group"):
        assert word in proc.output(), proc.output()
    daemon.stop()


def while_it_starts():
    """uroce-run waits for a daemon that has no socket yet: this one is stopped until uroce-run has said so."""
    def stopped():
        sock = lib.tmpdir() / "s"
        daemon = lib.spawn([lib.UROCED, "--socket", sock, "--file-prefix", lib.unique("ur"), "--no-huge", "--pair", "p",
                            "--dev", "name=uroce0,port=net_ring_pa,addr=10.9.0.1/24"])
        os.kill(daemon.pid, signal.SIGSTOP)
        return not sock.exists() and (daemon, sock)
    daemon, sock = lib.until("a daemon that has only begun to start", stopped)
    tool = lib.spawn([lib.UROCE_RUN, "--socket", sock, "ibv_devinfo", "-l"], env=lib.asan_env())
    lib.until("it says that it waits", lambda: "waiting for uroced, which is starting" in tool.output())
    os.kill(daemon.pid, signal.SIGCONT)
    assert tool.wait(lib.processes.HANGS_S) == 0 and "uroce0" in tool.output(), tool.output()
    assert daemon.term() == 0, daemon.output()


class Chroot(lib.Side):
    """A side whose programs run in a plain chroot: its root is no mount point, so mounts there cannot be made private."""

    SCRIPT = """set -e; root=$1; shift
        for dir in usr etc dev proc sys tmp; do mkdir $root/$dir; mount --rbind /$dir $root/$dir; done
        for link in bin sbin lib lib64; do ln -s usr/$link $root/$link; done
        mkdir $root/run
        exec chroot $root "$@" """

    def __init__(self, daemon, dev, programs, uid):
        super().__init__(daemon, dev, "127.0.0.1")
        self.run = programs / "app/uroce-run/uroce-run"
        self.become = ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"] if uid else []

    def spawn(self, argv, env=None):
        root = lib.tmpdir()
        root.chmod(0o755)
        return lib.spawn(["unshare", "--mount", "sh", "-c", self.SCRIPT, "sh", root, *self.become, self.run,
                          "--socket", self.daemon.socket, *argv], ns=self.daemon.ns,
                         env={"UROCE_VERBOSE": "1", **lib.asan_env(), **(env or {})})


def in_chroot(uid):
    """Debian's programs, on a daemon outside: uroce-run preloads its library by itself."""
    programs, folder = lib.public_copy(), lib.tmpdir()
    folder.chmod(0o711)
    daemon = lib.Daemon([], [f"name=uroce{i},port=net_ring_p{end},addr=10.9.0.{101 + i}/24" for i, end in enumerate("ab")],
                        lib.netns(), ("--pair", "p", "--socket-mode", "0666"), socket=folder / "s")
    sides = [Chroot(daemon, f"uroce{i}", programs, uid) for i in (0, 1)]
    info = sides[0].spawn(["ibv_devinfo"])
    assert info.wait(60) == 0, info.output()
    said = info.output()
    assert re.search(r"liburoce-preload.so with files in \S+ \((cannot make mounts private: Invalid argument|"
                     r"no private mount namespace: Operation not permitted)", said), said
    assert "uroce0" in said and "uroce1" in said and said.count("PORT_ACTIVE") == 2, said
    lib.verbs_pair(*sides, "ibv_rc_pingpong", ["-d", "{dev}", "-g", "1", "-c", "-n", "100"])
    daemon.stop()


def missing_cpu():
    """A CPU on which the daemon may not run: one sentence, not EAL's usage text."""
    lcores = f"{min(os.sched_getaffinity(0))},1023"
    daemon = lib.spawn([lib.UROCED, "--socket", lib.tmpdir() / "s", "--no-huge", "--lcores", lcores, "--pair", "p",
                        "--dev", "name=uroce0,port=net_ring_pa,addr=10.9.0.1/24"])
    assert daemon.wait(60) == 1, daemon.output()
    said = daemon.output()
    assert re.search(rf"--lcores {lcores}: CPU 1023 is not one of the \d+ on which this process may run", said), said
    assert "usage" not in said.lower(), said


def auto_workers():
    """--workers auto: as many as CPUs and queues allow."""
    cpu = min(os.sched_getaffinity(0))
    pair = ("--pair", "p"), ["name=uroce0,port=net_ring_pa,addr=10.9.0.1/24"]
    ns = lib.netns()
    lib.veth(ns, "10.9.0.1/24", lib.netns(), "10.9.0.2/24", 1500)
    one_queue = ("--vdev", lib.af_packet("eth0")), ["name=uroce0,port=net_af_packet0,addr=10.9.0.101/24"]
    for (port, devs), more, workers in ((pair, ("--lcores", f"{cpu},{cpu}"), 2), (pair, (), None), (one_queue, ("--lcores", f"{cpu},{cpu}"), 1)):
        daemon = lib.Daemon([], devs, ns, (*port, "--workers", "auto", *more))
        shown = len(daemon.show("worker")["worker"])
        assert shown == (workers or min(16, max(1, len(os.sched_getaffinity(0)) - 1))), (more, shown)
        assert re.search(rf"; {shown} workers?,", daemon.proc.output()), daemon.proc.output()
        assert {row["option"]: row["value"] for row in daemon.show("config")["config"]}["workers"] == "auto"
        daemon.stop()
    proc = lib.spawn([lib.UROCED, "--workers", "all"])
    assert proc.wait(60) == 2 and "option --workers: 'all' is not auto or a number from 1 to 16" in proc.output(), proc.output()


def socket_taken():
    """The control socket: another daemon's, a file that is none, no folder."""
    folder = lib.tmpdir()
    (folder / "file").touch()
    first = lib.Daemon([], [], lib.netns(), ("--pair", "p"), socket=folder / "s")
    for path, says in (("s", "Address already in use: a daemon listens there; --socket names another path"),
                       ("file", "File exists: a file that is not a socket; --socket names another path"),
                       ("none/none/s", "No such file or directory: make its folder first"),
                       ("x" * 120, "File name too long: at most 107 characters")):
        proc = lib.spawn([lib.UROCED, "--socket", folder / path, "--file-prefix", lib.unique("ur"), "--no-huge",
                          "--pair", "p"])
        assert proc.wait(60) == 1, proc.output()
        assert f"socket {folder / path}: {says}" in proc.output(), proc.output()
    first.stop()
    programs = lib.public_copy()
    proc = lib.spawn(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", programs / "app/uroced/uroced", "--no-huge",
                      "--socket", programs / "s", "--file-prefix", lib.unique("ur"), "--pair", "p"])
    assert proc.wait(60) == 1, proc.output()
    assert f"socket {programs}/s: Permission denied: --socket names another path" in proc.output(), proc.output()


def strict_umask():
    """Root's umask 077: whom --socket-mode lets in reaches the socket, in a folder that the daemon makes, and reads what
    urocectl writes for containers."""
    top, user = lib.tmpdir(), 65534
    top.chmod(0o755)
    held = ("sh", "-c", 'umask 077; exec "$@"', "sh")
    daemon = lib.Daemon([], ["name=uroce0,port=net_ring_pa,addr=10.9.0.1/24"], lib.netns(), ("--pair", "p", "--socket-mode", "0666"),
                        top / "run/uroced.sock", before=held)
    plain = ("setpriv", "--reuid", user, "--regid", user, "--clear-groups")
    tool = lib.spawn([*plain, lib.public_copy() / "app/uroce-run/uroce-run", "--socket", daemon.socket, "ibv_devinfo", "-l"],
                     env=lib.asan_env())
    assert tool.wait(60) == 0 and "uroce0" in tool.output(), tool.output()
    lib.sh(*held, lib.UROCECTL, "--socket", daemon.socket, "cdi", "--output", top / "cdi/uroce.json")
    lib.sh(*plain, "cat", top / "cdi/uroce.json")
    daemon.stop()


def closed_descriptors():
    """Programs that start without standard input, output and error: no socket of theirs gets these numbers, where their
    messages would go."""
    sock = lib.tmpdir() / "s"
    closed = ("bash", "-c", 'exec "$@" <&- >&- 2>&-', "bash")
    daemon = lib.spawn([*closed, lib.UROCED, "--socket", sock, "--file-prefix", lib.unique("ur"), "--no-huge",
                        "--dev", "name=uroce0,port=net_ring0,addr=10.9.0.1/24", "--vdev", "net_ring0"])
    lib.until("the daemon listens", lambda: sock.exists() or daemon.poll() is not None)
    tool = (lib.UROCE_RUN, "--socket", sock)
    info = lib.spawn([*closed, *tool, "sh", "-c", f"readlink /proc/self/fd/[0-2] >{sock}.fds; ibv_devinfo >{sock}.out"],
                     env=lib.asan_env())
    assert info.wait(60) == 0, info.output()
    assert (sock.parent / "s.fds").read_text().split() == ["/dev/null", f"{sock}.fds", "/dev/null"]
    assert "uroce0" in (sock.parent / "s.out").read_text()
    refused = lib.spawn([*closed, lib.UROCECTL, "--socket", sock, "show", "device"])
    assert refused.wait(60) == 1, "urocectl has not noticed that its output is lost"
    for fd in range(3):
        assert os.readlink(f"/proc/{daemon.pid}/fd/{fd}") == "/dev/null", os.readlink(f"/proc/{daemon.pid}/fd/{fd}")
    assert daemon.term() == 0


def unknown_driver():
    """EAL says only that it cannot parse the device."""
    start_fails("net_foo0", "net_foo0", "EAL does not start", "--vdev takes DRIVER and a number")


def many_refusals(daemon):
    """A client with endless refused paths does not fill the log."""
    before = len(daemon.proc.output().splitlines())
    program = """
from pyverbs.addr import AH, AHAttr
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
pd = PD(Context(name="uroce0"))
for _ in range(2000):
    try:
        AH(pd, attr=AHAttr(port_num=1, is_global=0))
        raise SystemExit("made")
    except PyverbsRDMAError:
        pass
"""
    proc = daemon.client(["/usr/bin/python3", "-c", program])
    assert proc.wait(60) == 0, proc.output()
    assert 1 <= len(daemon.proc.output().splitlines()) - before < 1000


def search_for_limits(daemon):
    """UCX finds the limits of a QP by asking for more: the log names each that failed once, also if several
    processes of a user search."""
    program = """
import subprocess
import sys
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPCap, QPInitAttr
ctx = Context(name="uroce0")
pd, cq = PD(ctx), CQ(ctx, 8)
for send, inline in (4, 4000), (4, 3000), (1 << 20, 0), (4, 2000):
    try:
        QP(pd, QPInitAttr(qp_type=2, scq=cq, rcq=cq, cap=QPCap(max_send_wr=send, max_recv_wr=4, max_inline_data=inline)))
        raise SystemExit("made")
    except PyverbsRDMAError:
        pass
if len(sys.argv) == 1:
    subprocess.run([*sys.orig_argv, "second"], check=True)
"""
    proc = daemon.client(["/usr/bin/python3", "-c", program])
    assert proc.wait(60) == 0, proc.output()
    said = re.findall(r"CREATE_QP refused: (.*)", daemon.proc.output())
    assert said == ["max_inline_data is 4000, above 1024", "max_send_wr is 1048576, above 16384"], said


def grh():
    link = lib.link_ring()
    with lib.case("a program that searches for the limits of a QP, and its child: one line for each limit"):
        search_for_limits(link.a.daemon)
    assert "TELEMETRY" not in link.a.daemon.proc.output(), link.a.daemon.proc.output()
    for tool in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong"):
        with lib.case(f"{tool} without -g: the error names the missing GRH"):
            no_grh(link, tool)
    with lib.case("-g of an empty index: said here, and not blamed on the peer's -g"):
        empty_gid(link)
    with lib.case("a path MTU above the port's"):
        large_path_mtu()
    with lib.case("2000 refusals: few lines"):
        many_refusals(link.a.daemon)
    link.stop()


def main():
    lib.need_root()
    for mtu in (9000, 9001):
        for ring in ("", ",blocksz=16384,framesz=8192,framecnt=1024,qpairs=1"):
            with lib.case(f"af_packet on an interface of MTU {mtu}{ring and ', ring given'}"):
                jumbo(mtu, ring)
    with lib.case("af_packet: slots too small for path MTU 4096"):
        small_buffers("net_af_packet0,iface=eth0,framesz=2048", "framesz=8192")
    with lib.case("memif: buffers too small for path MTU 4096"):
        small_buffers(f"net_memif0,role=server,socket={lib.tmpdir()}/memif,socket-abstract=no",
                      "bsize=4608")
    with lib.case("every path MTU that --dev accepts"):
        every_path_mtu()
    with lib.case("an MTU below that of any RoCE packet"):
        short_link()
    with lib.case("two devices on one port"):
        port_taken()
    with lib.case("an unknown name in the configuration file"):
        config()
    messages()
    grh()
    with lib.case("too few huge pages"):
        huge_pages()
    with lib.case("huge pages that are free, but cannot be used"):
        lost_huge_pages()
    with lib.case("--lcores with a CPU that the machine lacks"):
        missing_cpu()
    with lib.case("--workers auto"):
        auto_workers()
    with lib.case("a control socket that cannot be made: why, and what to do"):
        socket_taken()
    with lib.case("umask 077: users of the daemon reach its socket"):
        strict_umask()
    with lib.case("closed standard descriptors"):
        closed_descriptors()
    with lib.case("--daemon returns when the daemon is ready, or has failed"):
        detached()
    with lib.case("uroce-run while its daemon starts"):
        while_it_starts()
    with lib.case("uroce-run without a daemon, and without the right to use it"):
        nobody_there()
    for user, uid in (("root", 0), ("an ordinary user", 65534)):
        with lib.case(f"uroce-run in a plain chroot, {user}: ibv_devinfo, ibv_rc_pingpong"):
            in_chroot(uid)
    with lib.case("--vdev with a driver that DPDK does not have"):
        unknown_driver()
    lib.finish()


main()
