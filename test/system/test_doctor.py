#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""urocectl doctor: nothing is wrong with a working set-up, and a broken one is named in one line with its remedy."""
import json
import re
import resource
import shutil
import subprocess

import cli
import lib
from hostlink import ADDRESSES, spaces

US, PEER = ADDRESSES[0][0], ADDRESSES[1][0]
STRANGER = 12345


def daemon_of(ns, dev="name=uroce0,port=udp,iface=eth0", extra=lib.ONE_WORKER, **more):
    return lib.Daemon([], [dev], ns, extra, **more)


def doctor(daemon, *words, ns=None, before=(), tool=lib.UROCECTL):
    """Runs it in the daemon's network namespace; returns exit status and output."""
    where = daemon.socket if daemon and not isinstance(daemon, str) else daemon
    inside = ["ip", "netns", "exec", ns or daemon.ns] if ns or not isinstance(daemon, str) else []
    done = subprocess.run([*inside, *map(str, before), tool, *(["--socket", where] if where else []), "doctor", *words],
                          text=True, capture_output=True, timeout=60, check=False)
    assert done.stderr == "", done.stderr
    return done.returncode, done.stdout


def names(said, check, *words):
    """The findings must include a fault of this check, in one line with all of the words, and exit status 1."""
    status, text = said
    faults = [line for line in text.splitlines() if line.startswith("fault")]
    assert status == cli.FAILURE and faults, said
    assert any(line.split()[1] == check and all(word in line for word in words) for line in faults), text


def firewall(ns, chain, verdict):
    lib.sh("ip", "netns", "exec", ns, "iptables", "-A", chain, "-p", "udp", "--dport", "4791", "-j", *verdict.split())


def flush(ns):
    lib.sh("ip", "netns", "exec", ns, "iptables", "-F")


def sockets():
    """Faults in the connection to the daemon."""
    gone = lib.tmpdir() / "uroced.sock"
    alone = ("unshare", "--pid", "--fork", "--mount-proc")  # other tests' daemons run on this machine
    with lib.case("no daemon: what to start"):
        done = subprocess.run([*alone, lib.UROCECTL, "--socket", gone, "doctor"], text=True, capture_output=True,
                              timeout=60, check=False)
        names((done.returncode, done.stdout), "daemon", f"no daemon at {gone}", "start uroced", "--socket")
    with lib.case("no daemon, and another program has its port"):
        ns = lib.netns()
        lib.spawn(["nc", "-u", "-l", "-p", "4791"], ns=ns)
        lib.until("it listens", lambda: ":12B7" in lib.sh("cat", "/proc/net/udp", ns=ns))
        done = subprocess.run(["ip", "netns", "exec", ns, *alone, lib.UROCECTL, "--socket", gone, "doctor"], text=True,
                              capture_output=True, timeout=60, check=False)
        names((done.returncode, done.stdout), "kernel", "UDP port 4791 is in use by a program of uid 0")
    daemon = daemon_of(spaces(1500)[0], extra=("--socket-mode", "0600"))
    with lib.case("another socket than the daemon's: a running daemon's is named"):
        said = doctor(str(gone), ns=daemon.ns)
        names(said, "socket", f"no daemon at {gone}, but uroced runs as pid")
        assert said[1].count("fault") == 1, said[1]  # that it uses UDP port 4791 is none
    tool = lib.public_copy() / "app/urocectl/urocectl"
    stranger = ("setpriv", "--reuid", STRANGER, "--regid", STRANGER, "--clear-groups")
    with lib.case("a folder that another user may not search"):
        daemon.socket.parent.chmod(0o700)
        names(doctor(str(daemon.socket), before=stranger, tool=tool, ns=daemon.ns), "socket",
              f"uid {STRANGER} may not look into the folder", "chmod a+x")
    with lib.case("a socket that another user may not open"):
        daemon.socket.parent.chmod(0o755)
        said = doctor(str(daemon.socket), before=stranger, tool=tool, ns=daemon.ns)
        names(said, "socket", "mode 0600", "group root", "--socket-mode", "--socket-group")
        assert said[1].count("fault") == 1, said[1]
    with lib.case("a daemon that was killed"):
        daemon.proc.kill()
        done = subprocess.run([*alone, lib.UROCECTL, "--socket", daemon.socket, "doctor"], text=True, capture_output=True,
                              timeout=60, check=False)
        names((done.returncode, done.stdout), "daemon", "has ended", "log")


def nft_rules(daemon):
    """Rules of nft: the table, the chain and the rule are named, with the command that deletes it; it works."""
    def nft(*words):
        return lib.sh("ip", "netns", "exec", daemon.ns, "nft", *words)

    if not shutil.which("nft"):
        lib.skip_case("rules of nft", "nft (package nftables) is not installed")
        return
    for hook, rule in (("input", "udp dport 4791 drop"), ("output", "udp dport 4791 drop"),
                       ("input", "udp dport { 53, 4791 } counter reject"), ("output", "udp dport 4000-5000 drop")):
        with lib.case(f"this host's nft: {hook}, {rule}"):
            nft("add", "table", "inet", "doctor")
            nft("add", "chain", "inet", "doctor", "way", f"{{ type filter hook {hook} priority 0; policy accept; }}")
            nft("add", "rule", "inet", "doctor", "way", rule)
            said = doctor(daemon, PEER)
            where = ("table inet doctor, chain way", rule.split(" counter")[0])
            names(said, "firewall", "delete it", *where)
            names(said, "peer", "firewall refuses UDP port 4791", *where)
            remedy = re.search(r"`nft (delete rule inet doctor way handle \d+)`", said[1])
            nft(*remedy[1].split())
            status, text = doctor(daemon, PEER)
            nft("delete", "table", "inet", "doctor")
            assert status == cli.OK and re.search(r"^ok +firewall ", text, re.M), text
    with lib.case("rules of nft about other ports, protocols and hosts"):
        nft("add", "table", "inet", "doctor")
        for hook, rules in (("input", ("udp dport 14791 drop", "tcp dport 4791 drop", "udp dport 4792-4800 drop")),
                            ("forward", ("udp dport 4791 drop",))):
            nft("add", "chain", "inet", "doctor", hook, f"{{ type filter hook {hook} priority 0; policy accept; }}")
            for rule in rules:
                nft("add", "rule", "inet", "doctor", hook, rule)
        status, text = doctor(daemon, PEER)
        nft("delete", "table", "inet", "doctor")
        assert status == cli.OK and re.search(r"^ok +firewall ", text, re.M), text


def memory_limit(daemon):
    """RLIMIT_MEMLOCK: both values, and that nothing depends on them."""
    with lib.case("the limits of locked memory"):
        of_daemon = daemon.show("daemon")["daemon"][0]["memlock_bytes"]
        shown = "unlimited" if of_daemon < 0 else f"{of_daemon // 1024} KiB"
        own = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
        for before, mine in (((), "unlimited" if own < 0 else f"{own // 1024} KiB"),
                             (("prlimit", "--memlock=65536:"), "64 KiB")):
            status, text = doctor(daemon, before=before)
            assert status == cli.OK, text
            assert re.search(rf"^ok +memlock +uroced {shown}, this shell {mine}; .*locked in no", text, re.M), text


def locked_port():
    """A port whose frames are locked memory, beyond the limit of a daemon without CAP_IPC_LOCK."""
    with lib.case("a limit of locked memory that matters: uroced names it"):
        before = ("prlimit", "--memlock=1048576:", "setpriv", "--inh-caps=-ipc_lock", "--bounding-set=-ipc_lock")
        try:
            lib.Daemon(["net_af_xdp0,iface=eth0"], ["name=uroce0,port=net_af_xdp0"], spaces(3000)[0], lib.ONE_WORKER,
                       before=before)
        except lib.processes.Failed as failed:
            said = str(failed)
        assert re.search(r"net_af_xdp0: .*may lock 1024 KiB.*LimitMEMLOCK=infinity", said), said


def peers(a, b):
    """Faults on the way to a peer. a, b: daemons."""
    with lib.case("nothing is wrong: no fault, exit status 0, JSON as described"):
        status, text = doctor(a, PEER)
        assert status == cli.OK and "fault" not in text, text
        assert re.search(r"^ok +peer +uroce0: uroced at 10.9.0.2 answers in \d+ us, UDP port 4791 is open both ways", text,
                         re.M), text
        done = subprocess.run(["ip", "netns", "exec", a.ns, lib.UROCECTL, "--socket", a.socket, "--json", "doctor", PEER],
                              text=True, capture_output=True, timeout=60, check=True)
        found = cli.validate("doctor", json.loads(done.stdout))["doctor"]
        assert [line["verdict"] for line in found if line["check"] == "peer"] == ["ok"], found
        assert {line["check"] for line in found} >= {"socket", "daemon", "rights", "kernel", "memory", "memlock", "link", "gids", "mtu",
                                                     "buffers", "firewall"}, found
    with lib.case("the peer by its IPv6 address, and this host itself"):
        for address in (ADDRESSES[1][1], US):
            status, text = doctor(a, address)
            assert status == cli.OK and "open both ways" in text, text
    with lib.case("this host's firewall drops 4791"):
        firewall(a.ns, "INPUT", "DROP")
        for path in ("/usr/sbin:/usr/bin", "/usr/bin:/bin"):
            names(doctor(a, PEER, before=("env", f"PATH={path}")), "firewall", "-A INPUT -p udp -m udp --dport 4791 -j DROP",
                  "delete it")
        names(doctor(a, PEER), "peer", "firewall", "-A INPUT -p udp -m udp --dport 4791 -j DROP")
        flush(a.ns)
    nft_rules(a)
    with lib.case("this host's policy is to drop"):
        lib.sh("ip", "netns", "exec", a.ns, "iptables", "-P", "INPUT", "DROP")
        status, text = doctor(a)
        assert status == cli.OK and re.search(r"^hint +firewall .*--dport 4791 -j ACCEPT", text, re.M), text
        lib.sh("ip", "netns", "exec", a.ns, "iptables", "-P", "INPUT", "ACCEPT")
    with lib.case("this host's firewall drops 4791 on the way out"):
        firewall(a.ns, "OUTPUT", "DROP")
        names(doctor(a, PEER), "peer", "firewall", "-A OUTPUT -p udp -m udp --dport 4791 -j DROP")
        flush(a.ns)
    with lib.case("this host's firewall drops all UDP on the way out"):
        lib.sh("ip", "netns", "exec", a.ns, "iptables", "-A", "OUTPUT", "-p", "udp", "-j", "DROP")
        names(doctor(a, PEER), "peer", "kernel does not send UDP port 4791", "output")
        flush(a.ns)
    with lib.case("the peer's firewall drops 4791"):
        firewall(b.ns, "INPUT", "DROP")
        names(doctor(a, PEER), "peer", f"{PEER} answers ping, but nothing on UDP port 4791",
              "firewall drops it there or between")
        flush(b.ns)
    with lib.case("the peer's firewall rejects 4791"):
        firewall(b.ns, "INPUT", "REJECT")
        names(doctor(a, PEER), "peer", f"{PEER} refuses UDP port 4791", "firewall rejects")
        flush(b.ns)
    with lib.case("a peer to which no route leads, one that is no host"):
        names(doctor(a, "192.0.2.7"), "peer", "no route")
        names(doctor(a, "nosuchhost.invalid"), "peer", "'nosuchhost.invalid' is no host")
    with lib.case("a peer that is down"):
        names(doctor(a, "10.9.0.77"), "peer", "10.9.0.77", "is it up")
    with lib.case("the peer's uroced does not run"):
        b.stop()
        names(doctor(a, PEER), "peer", f"{PEER} refuses UDP port 4791: no uroced runs there")
    with lib.case("another RoCE at the peer, which does not answer"):
        other = lib.spawn(["/usr/bin/python3", "-c", "import socket, time; s = socket.socket(2, 2); "
                           f"s.bind(('{PEER}', 4791)); print('bound', flush=True); time.sleep(600)"], ns=b.ns)
        lib.until("it is bound", lambda: "bound" in other.output())
        names(doctor(a, PEER), "peer", "its RoCE is not uroce (rxe, a NIC: try rping)")
        other.kill()


def devices(daemon):
    """Faults of a device: its link, addresses, MTU, and the kernel's RDMA on its interface."""
    ns = daemon.ns
    with lib.case("rxe on the device's interface"):
        fake = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none /sys/class && mkdir -p /sys/class/infiniband/rxe0 && '
                'echo eth0 > /sys/class/infiniband/rxe0/parent && exec "$@"', "sh")
        names(doctor(daemon, before=fake), "kernel", "rxe0 holds UDP port 4791 of eth0", "rdma link delete rxe0")
    with lib.case("the interface's MTU is smaller than at the start"):
        lib.sh("ip", "-n", ns, "link", "set", "eth0", "mtu", "1500")
        names(doctor(daemon), "mtu", "eth0 has MTU 1500, and had", "path MTU 4096 does not fit", "ip link set eth0 mtu")
        lib.sh("ip", "-n", ns, "link", "set", "eth0", "mtu", "9000")
    with lib.case("an interface that is down"):
        lib.sh("ip", "-n", ns, "link", "set", "eth0", "down")
        lib.until("the daemon has noticed", lambda: not daemon.link_up())
        names(doctor(daemon), "link", "eth0 is down", "ip link set eth0 up")
        lib.sh("ip", "-n", ns, "link", "set", "eth0", "up")
    with lib.case("an interface without an address"):
        lib.sh("ip", "-n", ns, "addr", "flush", "dev", "eth0", "scope", "global")
        lib.until("the daemon has noticed", lambda: not any(g["index"] for g in daemon.show("gid")["gid"]))
        names(doctor(daemon), "gids", "eth0 has no address", "ip addr add ADDRESS/LENGTH dev eth0")


def mtu_mismatch():
    """Interfaces of different MTU: this host's packets of its path MTU do not arrive."""
    both = spaces(9000)
    lib.sh("ip", "-n", both[1], "link", "set", "eth0", "mtu", "1500")
    a, b = (daemon_of(ns) for ns in both)
    names(doctor(a, PEER), "peer", "path MTU 4096 here, 1024 at 10.9.0.2", "4096 bytes do not arrive")
    a.stop()
    b.stop()


def smaller_between():
    """A switch that drops packets of the path MTU: the line about the failed program names doctor, which says so."""
    both = spaces(9000)
    for words in ("add table inet between", "add chain inet between way { type filter hook prerouting priority 0; policy accept; }",
                  "add rule inet between way meta l4proto udp meta length > 1500 drop"):
        lib.sh("ip", "netns", "exec", both[1], "nft", *words.split())
    a, b = (daemon_of(ns) for ns in both)
    port = lib.tcp_port()
    argv = ("ibv_rc_pingpong", "-d", "uroce0", "-g", "1", "-m", "4096", "-s", "65536", "-n", "1", "-p", port)
    server = b.client(argv)
    lib.until("the server listens", lambda: server.listens(port))
    client = a.client([*argv, PEER])
    assert client.wait(lib.processes.HANGS_S) != 0, client.output()
    server.kill()
    lib.until("it is logged", lambda: "no_response" in a.proc.output())
    assert "urocectl doctor PEER" in a.proc.output(), a.proc.output()
    names(doctor(a, PEER), "peer", "answers small packets, but none of path MTU 4096", "a smaller MTU")
    a.stop()
    b.stop()


def own_addresses():
    """Devices with addresses of their own: ARP gets no reply; a device without an address."""
    both = spaces(1500)
    daemon = lib.Daemon([lib.af_packet("eth0")], ["name=uroce0,port=net_af_packet0,addr=10.9.0.101/24"], both[0])
    names(doctor(daemon, "10.9.0.102"), "peer", "no answer to ARP or neighbour discovery for 10.9.0.102")
    daemon.stop()
    daemon = lib.Daemon([lib.af_packet("eth0")], ["name=uroce0,port=net_af_packet0"], both[0])
    names(doctor(daemon, "10.9.0.102"), "gids", "urocectl addr add ADDRESS/LENGTH dev uroce0")
    names(doctor(daemon, "10.9.0.102"), "peer", "no device has an IPv4 address to reach 10.9.0.102 from")
    daemon.stop()


def ordinary_user():
    """Hints for a daemon without privilege: memory of others, socket buffers. They are no faults."""
    plain = ("setpriv", "--reuid", STRANGER, "--regid", STRANGER, "--clear-groups", "--inh-caps=-all",
             "--bounding-set=-all", "--no-new-privs")
    folder = lib.tmpdir()
    folder.chmod(0o777)
    daemon = daemon_of(spaces(1500)[0], before=plain, socket=folder / "s", program=lib.public_copy() / "app/uroced/uroced")
    status, text = doctor(daemon)
    assert status == cli.OK, text
    assert re.search(rf"^hint +memory +uroced runs as uid {STRANGER} without CAP_SYS_PTRACE", text, re.M), text
    status, text = doctor(daemon, before=plain, tool=lib.public_copy() / "app/urocectl/urocectl")
    assert status == cli.OK and re.search("^ok +memory +private memory is mapped", text, re.M), text
    with open("/proc/sys/net/core/rmem_max", encoding="ascii") as file:
        small = int(file.read()) < 1 << 20
    assert not small or re.search(r"^hint +buffers +uroce0: .*net.core.rmem_max", text, re.M), text
    daemon.stop()


def main():
    lib.need_root()
    sockets()
    a, b = (daemon_of(ns) for ns in spaces(9000))
    memory_limit(a)
    peers(a, b)
    devices(a)
    a.stop()
    with lib.case("a peer whose interface has a smaller MTU"):
        mtu_mismatch()
    with lib.case("a switch between with a smaller MTU"):
        smaller_between()
    with lib.case("devices with addresses of their own"):
        own_addresses()
    locked_port()
    with lib.case("an ordinary user's daemon: hints, no fault"):
        ordinary_user()
    lib.finish()


main()
