#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroced under a service manager: its reports, socket activation, and the journal's fields. A socket or a few lines stand in
for each; at the end a real systemd-journald stores the entries, and journalctl reads them back."""
import json
import os
import re
import signal
import socket
import struct
import subprocess

import lib

# Its own /run, with the test's folder as the journal's, and standard error as the journal's stream.
UNDER_JOURNAL = """
mount -t tmpfs run /run && mkdir -p /run/systemd/journal && mount --bind "$1" /run/systemd/journal || exit 9
shift
JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec "$@"
"""
# The same with a real journal, in a mount namespace: what systemd sets up for a service, then the service.
UNDER_JOURNALD = """
mount -t tmpfs run /run && mkdir -p /run/systemd/journal /run/log/journal /run/conf && mount --bind /run/conf /etc/systemd ||
    exit 9
printf '[Journal]\\nReadKMsg=no\\nStorage=volatile\\nAudit=no\\nRateLimitIntervalSec=0\\n' >/run/conf/journald.conf
/lib/systemd/systemd-journald &
for i in $(seq 600); do [ -S /run/systemd/journal/stdout ] && break; sleep 0.1; done
systemd-cat sh -c 'JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec "$@"' sh "$@"
status=$?
kill $!
wait $!
exit $status
"""
JOURNALD = "/lib/systemd/systemd-journald"
# What systemd does for a unit with a socket: KIND PATH FDS COMMAND.. makes the socket, and runs the command whenever a
# client connects and it does not run.
ACTIVATE = """
import os, select, socket, sys
kind, path, fds, *command = sys.argv[1:]
sock = socket.socket(socket.AF_UNIX, getattr(socket, kind))
sock.bind(path)
sock.listen(8)
print("manager: listens", flush=True)
if sock.fileno() != 3:
    os.dup2(sock.fileno(), 3)
os.set_inheritable(3, True)
while True:
    select.select([sock], [], [])
    pid = os.fork()
    if pid == 0:
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=fds)
        os.execvp(command[0], command)
    print("manager: started", pid, flush=True)
    print("manager: status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
SOCKET_ACTIVATE = "/usr/bin/systemd-socket-activate"
# Many free huge pages, according to the kernel's file: uroced tries them, and starts again with ordinary ones.
MISLED = """
echo 100000 >"$1/free" && mount --bind "$1/free" /sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages || exit 9
shift
exec "$@"
"""
WATCHDOG_US = 400000
DEV = "name=uroce0,port=net_ring0,addr=10.9.0.101/24,mtu=4096"


def listener(path):
    """A datagram socket at path."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(str(path))
    sock.settimeout(60)
    return sock


def fields(datagram):
    """An entry in the journal's native protocol as a dictionary."""
    entry = {}
    while datagram:
        line, _, datagram = datagram.partition(b"\n")
        name, equals, value = line.partition(b"=")
        if not equals:  # a value with newlines: its length and the value follow
            size = struct.unpack_from("<Q", datagram)[0]
            value, datagram = datagram[8:8 + size], datagram[8 + size + 1:]
        entry[name.decode()] = value.decode()
    return entry


class Service:
    """A uroced with the environment that systemd sets."""

    def __init__(self, *options, watchdog=True):
        folder = lib.tmpdir()
        self.notified, self.journal = listener(folder / "notify"), listener(folder / "socket")
        self.socket = lib.tmpdir() / "uroced.sock"
        self.entries = []
        env = {"NOTIFY_SOCKET": str(folder / "notify")}
        if watchdog:
            env["WATCHDOG_USEC"] = str(WATCHDOG_US)
        self.proc = lib.spawn(["unshare", "-m", "sh", "-c", UNDER_JOURNAL, "sh", folder, lib.UROCED, "--socket",
                               self.socket, "--file-prefix", lib.unique("ur"), "--idle", "adaptive", "--no-huge",
                               *options], lib.netns(), env)

    def report(self, wanted):
        """Waits for a report of the daemon that contains wanted; returns it as a dictionary."""
        while True:
            text = self.notified.recv(4096).decode()
            if wanted in text:
                return dict(line.split("=", 1) for line in text.splitlines())

    def entry(self, **wanted):
        """Waits for an entry of the journal with these fields; returns it."""
        while True:
            for entry in self.entries:
                if all(entry.get(name) == value for name, value in wanted.items()):
                    return entry
            self.entries.append(fields(self.journal.recv(65536)))

    def ctl(self, *words):
        return subprocess.run([lib.UROCECTL, "--socket", self.socket, *words], text=True, capture_output=True,
                              timeout=60, check=True).stdout

    def client(self, *argv):
        return lib.spawn([lib.UROCE_RUN, "--socket", self.socket, *argv], env=lib.asan_env())


def message_ids():
    """Name to MESSAGE_ID, from the header that defines them."""
    text = (lib.HERE.parent.parent / "lib/control/log_event.h").read_text()
    return dict(re.findall(r'X\((\w+), "([0-9a-f]{32})"\)', text))


def reports(service):
    with lib.case("READY=1 comes with a status"):
        got = service.report("READY=1")
        assert got["STATUS"] == "1 device (1 up), 1 worker, 0 clients, 0 queue pairs", got
    with lib.case("WATCHDOG=1 is sent repeatedly"):
        for _ in range(3):
            service.report("WATCHDOG=1")


def journal(service):
    ids = message_ids()
    with lib.case("the journal has an entry for readiness, with its priority"):
        entry = service.entry(MESSAGE_ID=ids["READY"])
        assert entry["MESSAGE"].startswith("ready (device uroce0 on net_ring0; socket "), entry
        assert entry["PRIORITY"] == "5" and entry["SYSLOG_IDENTIFIER"] == "uroced", entry
    with lib.case("a change by an operator names the operator"):
        service.ctl("addr", "add", "10.9.0.77/24", "dev", "uroce0")
        entry = service.entry(MESSAGE_ID=ids["CHANGED"])
        assert entry["UROCE_DEVICE"] == "uroce0" and entry["UROCE_CLIENT_UID"] == "0", entry
        assert entry["UROCE_CLIENT_COMM"] == "urocectl" and "10.9.0.77" in entry["MESSAGE"], entry
    with lib.case("a refused request has its reason as a field"):
        tool = service.client("ibv_srq_pingpong", "-d", "uroce0", "-g", "1", "-q", "16")
        entry = service.entry(MESSAGE_ID=ids["REFUSED"])
        tool.kill()
        assert entry["UROCE_REASON"] in entry["MESSAGE"] and entry["UROCE_OPERATION"], entry
    with lib.case("a queue pair that fails has its reason, peer and program as fields"):
        failing(service)
        entry = service.entry(MESSAGE_ID=ids["QP_FAILED"])
        for name in ("DEVICE", "QPN", "PEER_GID", "PEER_QPN", "REASON", "VENDOR_ERR", "SIDE", "OPCODE", "PSN",
                     "CLIENT_COMM", "CLIENT_PID", "CLIENT_UID"):
            assert f"UROCE_{name}" in entry, (name, entry)
        assert entry["UROCE_DEVICE"] == "uroce0" and re.fullmatch(r"\d+", entry["UROCE_QPN"]), entry
        assert entry["UROCE_REASON"] in entry["MESSAGE"], entry
    with lib.case("nothing is logged on standard error"):
        assert service.proc.output().strip() == "", service.proc.output()


def full(service):
    """More lines than the journal's socket holds: the daemon must not wait for the journal."""
    ids = message_ids()
    for i in range(40):
        service.ctl("addr", "add" if i % 2 else "del", "10.9.0.77/24", "dev", "uroce0")
    with lib.case("a journal that reads nothing delays no request"):
        seen = len([e for e in service.entries if e.get("MESSAGE_ID") == ids["CHANGED"]])
        while seen < 41:
            service.entries.append(fields(service.journal.recv(65536)))
            seen += service.entries[-1].get("MESSAGE_ID") == ids["CHANGED"]


def failing(service):
    """Two queue pairs of one device, one of which writes with a wrong R_Key."""
    port = lib.tcp_port()
    argv = [lib.BUILD / "test/system/errors/errmatrix", "-d", "uroce0", "-p", str(port)]
    lib.run_pair(lambda: service.client(*argv),
                 lambda: service.client(*argv, "--json", "--only", "write_bad_rkey", "127.0.0.1"), port)


def ends(service):
    with lib.case("STOPPING=1 comes before the end, which is clean"):
        service.proc.popen.terminate()
        service.report("STOPPING=1")
        assert service.proc.wait(60) == 0, service.proc.tail()


def broken():
    with lib.case("an error is an entry of priority 3"):
        service = Service("--dev", "name=uroce0,port=net_missing0", watchdog=False)
        entry = service.entry(PRIORITY="3")
        assert "net_missing0" in entry["MESSAGE"], entry
        assert service.proc.wait(60) == 1
    with lib.case("without WATCHDOG_USEC there is no WATCHDOG=1, only READY=1"):
        service = Service("--vdev", "net_ring0", "--dev", DEV, watchdog=False)
        assert "WATCHDOG" not in service.report("READY=1")
        service.proc.term()
        service.notified.setblocking(False)
        assert service.notified.recv(4096) == b"STOPPING=1"


def plain():
    with lib.case("standard error that is not the journal gets plain lines"):
        daemon = lib.Daemon(["net_ring0"], [DEV], lib.netns(), before=("env", "JOURNAL_STREAM=1:2"))
        subprocess.run([lib.UROCECTL, "--socket", daemon.socket, "addr", "add", "10.9.0.77/24", "dev", "uroce0"],
                       capture_output=True, timeout=60, check=True)
        lib.until("a log line", lambda: "uroced: uroce0: GID" in daemon.proc.output())
        daemon.stop()


def catalog():
    """config/uroce.catalog explains every event, with fields that exist."""
    with lib.case("the catalog explains each MESSAGE_ID"):
        text = (lib.HERE.parent.parent / "config/uroce.catalog").read_text()
        explained = re.findall(r"^-- ([0-9a-f]{32})$", text, re.M)
        assert sorted(explained) == sorted(message_ids().values()), set(explained) ^ set(message_ids().values())
        done = subprocess.run(["journalctl", "--update-catalog", f"--root={root_with(text, lib.tmpdir())}"], text=True,
                              capture_output=True, timeout=60)
        assert done.returncode == 0 and not done.stderr.strip(), done.stderr


def root_with(text, folder):
    """A root folder whose only catalog is text."""
    at = folder / "usr/lib/systemd/catalog"
    at.mkdir(parents=True)
    (at / "uroce.catalog").write_text(text)
    (folder / "var/lib/systemd/catalog").mkdir(parents=True)
    return folder


class Journald:
    """A uroced whose standard error is a stream of a real systemd-journald."""

    def __init__(self, *options):
        self.socket = lib.tmpdir() / "uroced.sock"
        # not by `ip netns exec`, which hides the control groups that journald reads
        self.proc = lib.spawn(["unshare", "-m", "-n", "sh", "-c", UNDER_JOURNALD, "sh", lib.UROCED, "--socket", self.socket,
                               "--file-prefix", lib.unique("ur"), "--idle", "adaptive", "--no-huge", *options])
        lib.until("the daemon runs", lambda: self.socket.exists() or self.proc.poll() is not None)
        if self.proc.poll() is not None:
            raise lib.processes.Failed(self.proc.tail())

    ctl, client = Service.ctl, Service.client

    def entries(self, *match):
        """What journalctl finds, each entry a dictionary."""
        done = subprocess.run(["nsenter", "-t", str(self.proc.pid), "-m", "journalctl", "-D", "/run/log/journal", "-o", "json",
                               *match], text=True, capture_output=True, timeout=60)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def entry(self, *match):
        return lib.until(f"the journal has {match}", lambda: self.entries(*match))[0]


def stored():
    """Queries by field, as an operator types them."""
    ids = message_ids()
    service = Journald("--vdev", "net_ring0", "--dev", DEV)
    with lib.case("systemd-journald: entries are found by MESSAGE_ID, once each"):
        entry = service.entry(f"MESSAGE_ID={ids['READY']}")
        assert entry["MESSAGE"].startswith("ready (device uroce0"), entry
        assert entry["_TRANSPORT"] == "journal" and entry["SYSLOG_IDENTIFIER"] == "uroced" and entry["PRIORITY"] == "5", entry
        assert len(service.entries("SYSLOG_IDENTIFIER=uroced", f"MESSAGE_ID={ids['READY']}")) == 1
        assert not [e for e in service.entries("_COMM=uroced") if e["_TRANSPORT"] != "journal"], "lines came twice"
    with lib.case("systemd-journald: a failed queue pair is found by its device, with its reason, peer and program"):
        failing(service)
        entry = service.entry(f"MESSAGE_ID={ids['QP_FAILED']}", "UROCE_DEVICE=uroce0")
        assert entry["UROCE_CLIENT_COMM"] == "errmatrix" and entry["UROCE_REASON"] in entry["MESSAGE"], entry
        assert entry["UROCE_QPN"].isdigit() and entry["UROCE_PEER_QPN"].isdigit() and entry["UROCE_PSN"], entry
        assert service.entries(f"UROCE_QPN={entry['UROCE_QPN']}"), "found by the queue pair's number, too"
    with lib.case("systemd-journald: a change is found by the operator's user"):
        service.ctl("addr", "add", "10.9.0.77/24", "dev", "uroce0")
        entry = service.entry("UROCE_CLIENT_UID=0", f"MESSAGE_ID={ids['CHANGED']}")
        assert "10.9.0.77" in entry["MESSAGE"] and entry["UROCE_CLIENT_COMM"] == "urocectl", entry
    service.proc.kill()


class Activated:
    """A uroced that is started at the first connection."""

    def __init__(self, *options, kind="SOCK_SEQPACKET", fds="1", before=(), huge=("--no-huge",)):
        self.socket = lib.tmpdir() / "uroced.sock"
        self.manager = lib.spawn(["/usr/bin/python3", "-c", ACTIVATE, kind, self.socket, fds, *before, lib.UROCED, *huge,
                                  "--file-prefix", lib.unique("ur"), "--pair", "p", "--dev",
                                  "name=uroce0,port=net_ring_pa,addr=10.9.0.1/24", *options], lib.netns())
        lib.until("the socket listens", lambda: "manager: listens\n" in self.manager.output())

    def lists(self):
        """A client sees the device."""
        said = lib.spawn([lib.UROCE_RUN, "--socket", self.socket, "ibv_devinfo", "-l"], env=lib.asan_env()).result(60)
        assert "uroce0" in said, said

    def end(self):
        """Ends the daemon; its socket stays. Returns its status."""
        pid = int(re.findall(r"manager: started (\d+)", self.manager.output())[-1])
        os.kill(pid, signal.SIGTERM)
        return self.status()

    def status(self):
        """Waits for the end of the last daemon."""
        def ended():
            output = self.manager.output()
            found = re.findall(r"manager: status (-?\d+)\n", output)  # a line may still be incomplete
            return found if output.count("manager: started") == len(found) > 0 else None
        return int(lib.until("its end", ended)[-1])

    def refused(self, *words):
        """The daemon ends at once, and says why."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            try:
                sock.connect(str(self.socket))
            except OSError:  # a stream socket
                with socket.socket(socket.AF_UNIX) as stream:
                    stream.connect(str(self.socket))
            assert self.status() == 1, self.manager.output()
        self.manager.kill()
        for word in words:
            assert word in self.manager.output(), self.manager.output()


def activation():
    with lib.case("socket activation: a client that comes first waits, the socket survives the daemon"):
        service = Activated()
        for _ in range(2):
            service.lists()
            assert f"; socket {service.socket};" in service.manager.output(), service.manager.output()
            assert service.end() == 0 and service.socket.exists(), service.manager.output()
        assert service.manager.output().count("manager: started") == 2, service.manager.output()
        service.manager.kill()
    with lib.case("socket activation: a daemon that starts again with ordinary pages keeps the socket"):
        service = Activated("--mem", "2048", before=("unshare", "-m", "sh", "-c", MISLED, "sh", lib.tmpdir()), huge=())
        service.lists()
        assert "starting again with ordinary pages" in service.manager.output(), service.manager.output()
        assert service.end() == 0
        service.manager.kill()
    with lib.case("socket activation: wrong sockets are refused with the reason"):
        Activated(fds="2").refused("LISTEN_FDS=2: uroced takes 1 socket")
        Activated(kind="SOCK_STREAM").refused("is no listening SOCK_SEQPACKET socket", "ListenSequentialPacket=")
        service = Activated("--socket", "/tmp/another")
        service.refused("--socket /tmp/another: the socket of the service manager is ", str(service.socket))
    with lib.case("config/uroced.socket listens where clients look"):
        unit = (lib.HERE.parent.parent / "config/uroced.socket").read_text()
        path = re.search("^ListenSequentialPacket=(.*)$", unit, re.M)[1]
        abi = (lib.HERE.parent.parent / "include/uroce_abi/ctrl.h").read_text()
        assert f'UROCE_DEFAULT_SOCK "{path}"' in abi, path
    if not os.access(SOCKET_ACTIVATE, os.X_OK):
        lib.skip_case("socket activation by systemd-socket-activate", "not installed (package systemd)")
        return
    with lib.case("socket activation by systemd-socket-activate"):
        sock = lib.tmpdir() / "uroced.sock"
        daemon = lib.spawn([SOCKET_ACTIVATE, "--seqpacket", "-l", sock, lib.UROCED, "--no-huge", "--file-prefix",
                            lib.unique("ur"), "--pair", "p", "--dev", "name=uroce0,port=net_ring_pa,addr=10.9.0.1/24"])
        lib.until("the socket", sock.exists)
        said = lib.spawn([lib.UROCE_RUN, "--socket", sock, "ibv_devinfo", "-l"], env=lib.asan_env()).result(60)
        assert "uroce0" in said, said
        assert daemon.term() == 0, daemon.output()


def main():
    lib.need_root()
    activation()
    service = Service("--vdev", "net_ring0", "--dev", DEV, "--max-qps", "8")
    reports(service)
    journal(service)
    full(service)
    ends(service)
    broken()
    plain()
    if os.access(JOURNALD, os.X_OK) and os.listdir("/sys/fs/cgroup"):
        stored()
    else:
        lib.skip_case("systemd-journald stores the fields", f"no {JOURNALD} (package systemd), or no control groups")
    catalog()
    lib.finish()


main()
