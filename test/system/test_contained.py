#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The unit's restrictions: their score by systemd-analyze, and uroced's work under them (contained.py: no systemd runs
here). Probes try what the unit forbids, without and with the restrictions."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
from unittest import mock

from scapy.utils import PcapNgReader

import contained as launcher
import control
import hostlink
import lib

LAUNCHER = pathlib.Path(launcher.__file__)
UNIT = lib.BUILD / "config/uroced.service"
BROKER_UNIT = lib.BUILD / "config/uroced-broker@.service"
DROPINS = lib.HERE.parent.parent / "config/systemd"
# systemd-analyze's scale of 0 to 10, times 10; doc/security.md says what it consists of.
EXPOSURE, BROKER_EXPOSURE = 20, 17
USER = 65534
# What a bug in a parser could do as root: one line of Python each, which fails if it is forbidden.
PROBES = {
    "mount a file system": "check(libc.mount(b'x', b'/mnt', b'tmpfs', 0, None))",
    "write to /etc": "open('/etc/uroce-probe', 'w').close() or os.unlink('/etc/uroce-probe')",
    "write a sysctl": "open('/proc/sys/kernel/randomize_va_space', 'r+').close()",
    "become another user": "os.setresuid(65533, 65533, 65533)",
    "make a device node": "os.mknod('/dev/shm/uroce-probe', 0o60600, os.makedev(7, 0)) or os.unlink('/dev/shm/uroce-probe')",
    "change the hostname": "socket.sethostname(socket.gethostname())",
    "enter a user namespace": "check(libc.unshare(0x10000000))",
    "map writable code": "mmap.mmap(-1, 4096, prot=7)",
    "see /dev/net/tun": "os.stat('/dev/net/tun')",
    "open a socket of another family": "socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)",
    "have SYS_ADMIN": "cap(21)",
    "have SYS_MODULE": "cap(16)",
    "have SETUID": "cap(7)",
    "have KILL": "cap(5)",
    "be root by a set-uid program": "no_new_privs()",
}
PRELUDE = """
import ctypes, mmap, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def check(rc):
    if rc < 0:
        raise OSError(ctypes.get_errno(), 'probe')
def status(name):
    return next(l.split()[1] for l in open('/proc/self/status') if l.startswith(name))
def cap(number):
    if not (int(status('CapEff:'), 16) | int(status('CapBnd:'), 16)) >> number & 1:
        raise OSError(1, 'probe')
def no_new_privs():
    if status('NoNewPrivs:') == '1':
        raise OSError(1, 'probe')
for line in sys.argv[1:]:
    try:
        eval(line)
        print('done')
    except (OSError, PermissionError) as error:
        print('refused')
"""


def contained(folder, unit=UNIT):
    return ("/usr/bin/python3", LAUNCHER, unit, folder)


def exposure(unit, most):
    """Runs systemd-analyze, which fails if the unit's exposure is above most."""
    return subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={most}", unit],
                          text=True, capture_output=True)


def without(name):
    """The unit without a setting."""
    path = lib.tmpdir() / "uroced.service"
    lines = UNIT.read_text().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(f"{name}=")]
    assert len(kept) < len(lines), name
    path.write_text("".join(kept))
    return path


def score():
    done = exposure(UNIT, EXPOSURE)
    assert done.returncode == 0, done.stdout + done.stderr
    print("\n".join(f"# {line}" for line in done.stdout.splitlines() if line.startswith(("✗", "→"))))
    broker = exposure(BROKER_UNIT, BROKER_EXPOSURE)
    assert broker.returncode == 0, broker.stdout + broker.stderr
    for name in ("CapabilityBoundingSet", "SystemCallFilter", "RestrictAddressFamilies", "User"):
        assert exposure(without(name), EXPOSURE).returncode != 0, f"without {name}= it is still below {EXPOSURE}"


def probe(before):
    """What each probe says, behind a command prefix."""
    done = subprocess.run([*(str(a) for a in before), "/usr/bin/python3", "-c", PRELUDE, *PROBES.values()], text=True,
                          capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return dict(zip(PROBES, done.stdout.split(), strict=True))


def probes():
    free = probe(("unshare", "-m"))
    held = probe(contained(lib.tmpdir()))
    print(f"# refused here even without the unit: {[name for name, said in free.items() if said != 'done']}")
    assert list(free.values()).count("done") * 2 > len(free), free
    assert set(held.values()) == {"refused"}, held


class Brokers:
    """Stands in for uroced-broker.socket: starts the program of uroced-broker@.service for each connection."""

    def __init__(self, program):
        folder = lib.tmpdir()
        folder.chmod(0o711)
        self.path, self.program = folder / "brokers.sock", program
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.bind(str(self.path))
        os.chown(self.path, launcher.USER, -1)
        self.path.chmod(0o600)
        self.sock.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            conn, _ = self.sock.accept()
            with conn:
                command = [*(str(a) for a in contained(lib.tmpdir(), BROKER_UNIT)), str(self.program), "--broker-starter"]
                # systemd passes the connection as descriptor 3; Popen takes care of the others.
                subprocess.Popen(["bash", "-c", f'exec 3<&{conn.fileno()}; exec "$@"', "sh", *command], pass_fds=(conn.fileno(),))


class Contained(lib.Daemon):
    """A daemon under the restrictions of its unit and, of its drop-in if ports need one."""

    def __init__(self, vdevs, devs, ns=None, extra=lib.ONE_WORKER, dropin=None):
        top = lib.tmpdir()
        top.chmod(0o711)
        folder = top / "run"
        folder.mkdir()
        os.chown(folder, launcher.USER, launcher.USER)
        program = lib.public_copy() / "app/uroced/uroced"
        self.brokers = Brokers(program)
        self.unit = UNIT if dropin is None else f"{UNIT},{DROPINS / dropin}"
        with mock.patch.dict(os.environ, CONTAINED_GROUPS=str(lib.UID)):  # SupplementaryGroups=
            super().__init__(vdevs, devs, ns, ("--broker-socket", str(self.brokers.path), *extra), folder / "uroced.sock",
                             program=program, before=contained(folder, self.unit))

    def broker(self):
        return self.show("daemon")["daemon"][0]["broker_pid"]

    def restricted(self):
        status = dict(line.split(":", 1) for line in
                      pathlib.Path(f"/proc/{self.proc.pid}/status").read_text().splitlines())
        assert status["NoNewPrivs"].strip() == "1" and status["Seccomp"].strip() == "2", status
        caps = launcher.caps_of(launcher.settings(self.unit), "CapabilityBoundingSet")
        mask = sum(1 << launcher.CAPS.index(name) for name in caps)
        assert int(status["CapBnd"], 16) & ~mask == 0 and int(status["CapPrm"], 16) & ~mask == 0, status
        assert status["Uid"].split() == [str(launcher.USER)] * 4, status


def pair():
    daemon = Contained([], ["name=uroce0,port=net_ring_xa,addr=10.9.0.1/24", "name=uroce1,port=net_ring_xb,addr=10.9.0.2/24"],
                       lib.netns(), (*lib.ONE_WORKER, "--pair", "x"))
    daemon.restricted()
    return lib.Link("pair", lib.Side(daemon, "uroce0", "127.0.0.1"), lib.Side(daemon, "uroce1", "127.0.0.1"), 1024)


def programs(link):
    """Programs with each way to their anonymous memory: adopted, and copied by the broker through /proc/PID/mem."""
    found = link.a.daemon.client(["ibv_devinfo", "-v"])
    assert found.wait(60) == 0 and "hca_id:\turoce0" in found.output(), found.output()
    for mode in ("adopt", "copy"):
        with mock.patch.dict(os.environ, UROCE_MR_MODE=mode):
            hostlink.pingpong(link, "-g", "1", "-s", "65536", "-n", "100")
    for side in (link.a, link.b):
        side.daemon.restricted()


def capture(link):
    """urocectl opens the file, also in a folder that the unit does not see."""
    path = lib.tmpdir() / "held.pcap"
    program = lib.Proc([lib.UROCECTL, "--socket", link.a.daemon.socket, "capture", "uroce0", "start", path])
    assert program.wait(60) == 0, program.output()
    hostlink.pingpong(link, "-g", "1", "-n", "20")
    program = lib.Proc([lib.UROCECTL, "--socket", link.a.daemon.socket, "capture", "uroce0", "stop"])
    assert program.wait(60) == 0, program.output()
    with PcapNgReader(str(path)) as frames:
        assert sum(1 for _ in frames) >= 20


def over_veth(spec, dropin):
    sides = [lib.Side(Contained([], [spec.format(i=i)], ns, dropin=dropin), "uroce0", hostlink.ADDRESSES[i - 1][0])
             for i, ns in enumerate(hostlink.spaces(9000), 1)]
    link = lib.Link("veth", *sides, 4096)
    programs(link)
    link.stop()


def request(daemon):
    """Connects and ends: the daemon passes the connection to its broker."""
    client = control.Client(daemon.socket, "uroce0")
    client.do("ALLOC_PD")
    client.do("REG_MR", control.region(0), [])
    client.close()
    return True


def broker_again(link):
    """A killed broker is started again, under the same restrictions."""
    daemon = link.a.daemon
    first = daemon.broker()
    os.kill(first, signal.SIGKILL)
    # The next request starts one, unless the last has just been started.
    lib.until("another broker", lambda: request(daemon) and daemon.broker() != first, every=0.2)
    programs(link)


def starter_again(link):
    """The same after the service that starts brokers has ended, too: the daemon connects to its socket again."""
    broker = link.a.daemon.broker()
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{broker}/status").read_text().splitlines())
    assert int(status["CapPrm"], 16) == sum(1 << launcher.CAPS.index(name) for name in launcher.caps_of(
        launcher.settings(BROKER_UNIT), "CapabilityBoundingSet")), status
    os.kill(int(status["PPid"]), signal.SIGKILL)
    broker_again(link)


def main():
    lib.need_root()
    if shutil.which("systemd-analyze") is None:
        lib.skip("needs systemd-analyze (package systemd)")
    with lib.case(f"the unit's exposure is at most {EXPOSURE / 10}"):
        score()
    try:
        import seccomp  # noqa: F401
    except ImportError:
        lib.skip_case("the work under the unit's restrictions", "needs python3-seccomp")
        lib.finish()
        return
    with lib.case("the unit refuses what a bug would use"):
        probes()
    link = pair()
    with lib.case("pair: programs of root"):
        programs(link)
    lib.UID = USER
    users = pair()
    with lib.case(f"pair: programs of uid {USER}"):
        programs(users)
        paused = users.a.spawn([lib.public_program("paused"), users.a.dev])
        assert paused.wait(lib.processes.HANGS_S) == 0, paused.output()
    with lib.case("a broker that was killed"):
        broker_again(users)
    with lib.case("a starter of brokers that was killed"):
        starter_again(users)
    lib.UID = 0
    with lib.case("a capture to a file"):
        capture(link)
    link.end("root")
    users.end("user")
    for spec, dropin in (("name=uroce0,port=udp,iface=eth0", None),
                         ("name=uroce0,port=packet,iface=eth0,share=yes", "packet.conf"),
                         ("name=uroce0,port=packet,iface=eth0,addr=10.9.0.10{i}/24", "packet.conf")):
        with lib.case(f"veth: {spec}"):
            over_veth(spec, dropin)
    lib.finish()


if __name__ == "__main__":
    main()
