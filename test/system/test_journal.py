#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroced under a service manager: its reports, and the journal's fields. A socket stands in for each."""
import re
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
WATCHDOG_US = 400000
DEV = "name=uroce0,port=net_ring0,addr=10.9.0.101/24,mtu=4096"


def listener(path):
    """A datagram socket at path."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(str(path))
    sock.settimeout(20)
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
                              timeout=20, check=True).stdout

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
        assert service.proc.wait(20) == 0, service.proc.tail()


def broken():
    with lib.case("an error is an entry of priority 3"):
        service = Service("--dev", "name=uroce0,port=net_missing0", watchdog=False)
        entry = service.entry(PRIORITY="3")
        assert "net_missing0" in entry["MESSAGE"], entry
        assert service.proc.wait(20) == 1
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
                       capture_output=True, timeout=20, check=True)
        assert "uroced: uroce0: GID" in daemon.proc.output(), daemon.proc.output()
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


def main():
    lib.need_root()
    service = Service("--vdev", "net_ring0", "--dev", DEV, "--max-qps", "8")
    reports(service)
    journal(service)
    full(service)
    ends(service)
    broken()
    plain()
    catalog()
    lib.finish()


main()
