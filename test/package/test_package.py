#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""
The Debian packages: built, checked by lintian, installed into a fresh Debian that runs systemd in a container without
a network (systemd-nspawn), used there, upgraded under a running daemon, and purged without a trace.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
sys.path.insert(0, str(SOURCE / "test/system"))
import lib  # noqa: E402

PACKAGES = ("uroce", "liburoce-ibverbs", "uroce-bench", "uroce-kubernetes", "uroce-dev")
TOOLS = "debhelper dpkg-dev lintian mmdebstrap scdoc systemd-container libssl-dev"
SYSTEM = "systemd,systemd-sysv,ibverbs-utils,ibverbs-providers,perftest,procps,iproute2,python3-minimal,python3"
# What differs in a system that merely ran for a while.
LIVE = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/log", "/var/cache", "/var/lib/dpkg", "/var/lib/systemd",
        "/var/tmp", "/root", "/etc/machine-id", "/etc/ld.so.cache", "/etc/passwd-", "/etc/shadow-", "/etc/group-",
        "/etc/gshadow-")
LIST = "find / -xdev \\( " + " -o ".join(f"-path {path}" for path in LIVE) + \
    " \\) -prune -o -printf '%p %y %m %U\\n' | sort"
DEVICE = "dev = name=uroce0,port=udp,addr=127.0.0.1"
SHARED = "dev = name=uroce0,port=packet,iface=v0,share=yes"


def run(*command, timeout=600, **options):
    """Runs a command; returns its output. What it printed is in the error if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          timeout=timeout, **options)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def setup():
    """Installs what building and running need, by the function that check.sh uses."""
    run("bash", "-c", f". scripts/setup.sh; setup_packages {TOOLS}", cwd=SOURCE)


def copy_source(to):
    """The files that git knows, as they are in the work tree."""
    names = run("git", "ls-files", "-z", cwd=SOURCE).split("\0")
    for name in filter(None, names):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(SOURCE / name, to / name)


def build(tree, *args):
    run("dpkg-buildpackage", "-b", "-us", "-uc", *args, cwd=tree, timeout=900)


def debs(folder, version):
    return [str(path) for name in PACKAGES for path in folder.glob(f"{name}_{version}_*.deb")]


def new_version(tree, version):
    path = tree / "debian/changelog"
    text = path.read_text()
    path.write_text(text.replace("(0.1.0)", f"({version})", 1))


class Machine:
    """A container that has booted systemd from the folder root."""

    def __init__(self, root):
        self.root = root
        # EAL looks into /sys/module, which systemd-nspawn hides.
        self.nspawn = lib.Proc(["systemd-nspawn", "-q", "-D", str(root), "--private-network", "--register=no",
                                "--bind-ro=/sys/module", "--keep-unit", "--machine", lib.unique("uroce"), "-b"])
        self.init = lib.until("systemd starts", self._init, 60)
        lib.until("systemd is up", lambda: self.ok("systemctl is-system-running | grep -E 'running|degraded'"), 400)

    def _init(self):
        children = pathlib.Path(f"/proc/{self.nspawn.pid}/task/{self.nspawn.pid}/children").read_text().split()
        return children[0] if children else None

    def _enter(self, command):
        return ["nsenter", "-t", self.init, "-a", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8",
                "DEBIAN_FRONTEND=noninteractive", "sh", "-c", command]

    def sh(self, command, timeout=300):
        return run(*self._enter(command), timeout=timeout)

    def ok(self, command):
        return subprocess.run(self._enter(command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              check=False).returncode == 0

    def copy(self, paths):
        (self.root / "root/debs").mkdir(exist_ok=True)
        for path in paths:
            shutil.copy(path, self.root / "root/debs")
        return " ".join(f"/root/debs/{os.path.basename(path)}" for path in paths)

    def daemon(self):
        """The process id of the unit's main process, and when it started."""
        return self.sh("systemctl show -P MainPID -P ExecMainStartTimestampMonotonic uroced").split()


def make_root(folder, packages):
    """A fresh Debian with what the packages depend on, but without them."""
    wanted = set()
    for path in packages:
        for clause in run("dpkg-deb", "-f", path, "Depends").strip().split(","):
            name = clause.split("|")[0].split("(")[0].strip()
            if name and name not in PACKAGES:
                wanted.add(name)
    run("mmdebstrap", "--variant=minbase", "--include=" + ",".join([SYSTEM, *sorted(wanted)]), "bookworm",
        str(folder), timeout=600)


def pingpong(machine):
    machine.sh("set -e; uroce-run ibv_rc_pingpong -d uroce0 -g 1 >/tmp/server & sleep 1\n"
               "uroce-run ibv_rc_pingpong -d uroce0 -g 1 127.0.0.1; wait $!; grep 'bytes in' /tmp/server")


def two(machine, server, client):
    """Runs a server, and a client one second later, both under uroce-run; returns what they print."""
    return machine.sh(f"uroce-run {server} >/tmp/server 2>&1 & sleep 1\nuroce-run {client} 127.0.0.1 2>&1; wait; "
                      "cat /tmp/server")


def show(machine, command):
    """Runs a command of urocectl, and prints it and its output as comments."""
    said = machine.sh(command)
    print("\n".join(f"# {line}" for line in ["$ " + command, *said.splitlines()]), flush=True)
    return said


def shared(machine):
    """A device on an interface's own address under the unit."""
    machine.sh("set -e; ip link add v0 type veth peer name v1; ip addr add 10.9.0.1/24 dev v0; ip link set v0 up\n"
               "mkdir -p /etc/systemd/system/uroced.service.d\n"
               "cp /usr/share/uroce/systemd/packet.conf /etc/systemd/system/uroced.service.d; systemctl daemon-reload\n"
               f"ip link set v1 up; sed -i '/^dev = /d' /etc/uroce/uroced.conf; echo '{SHARED}' >>/etc/uroce/uroced.conf\n"
               "systemctl restart uroced || { journalctl -u uroced -n 30 --no-pager; exit 1; }")
    show(machine, "urocectl show device")
    tool = "ib_write_bw -F -x 1 -d uroce0 -n 500"
    assert "BW average" in two(machine, tool, tool)


def explained(machine):
    """A receive buffer that is too small breaks two QPs; urocectl alone tells the cause."""
    tool = "ibv_rc_pingpong -d uroce0 -g 1 -s"
    assert "Failed status" in two(machine, f"{tool} 1024", f"{tool} 4096")
    listed = show(machine, "urocectl trace")
    assert "recv_too_small" in listed and "nak_invalid_request" in listed, listed
    number = next(line.split()[0] for line in listed.splitlines() if "recv_too_small" in line)
    assert "the receive buffer" in show(machine, f"urocectl trace {number}")


def socket_activation(machine):
    """uroced.socket starts the daemon at the first connection, and stays when it stops."""
    active = "systemctl is-active uroced.service"
    assert not machine.ok("systemctl is-enabled uroced.socket"), "off by default"
    machine.sh("systemctl stop uroced && systemctl enable --now uroced.socket")
    for _ in range(2):
        assert not machine.ok(active)
        assert "uroce0" in machine.sh("uroce-run ibv_devinfo -l") and machine.ok(active)
        machine.sh("systemctl stop uroced.service && test -S /run/uroce/uroced.sock")
    machine.sh("systemctl disable --now uroced.socket && ! test -e /run/uroce/uroced.sock && systemctl start uroced")


def journal(machine):
    """The unit's journal has the failed QPs as entries with fields."""
    text = (SOURCE / "lib/control/log_event.h").read_text()
    failed = re.search(r'X\(QP_FAILED, "([0-9a-f]{32})"\)', text)[1]
    entries = [json.loads(line) for line in machine.sh(
        f"journalctl -u uroced -o json MESSAGE_ID={failed} UROCE_DEVICE=uroce0").splitlines()]
    assert len(entries) >= 2, entries
    reasons = {entry["UROCE_REASON"] for entry in entries}
    assert {"recv_too_small", "nak_invalid_request"} <= reasons, entries
    for entry in entries:
        assert entry["_TRANSPORT"] == "journal" and entry["_SYSTEMD_UNIT"] == "uroced.service", entry
        assert entry["UROCE_CLIENT_COMM"] == "ibv_rc_pingpong" and entry["UROCE_QPN"].isdigit(), entry
    show(machine, f"journalctl -u uroced -o cat MESSAGE_ID={failed}")
    assert "QP" in machine.sh(f"journalctl -x -u uroced MESSAGE_ID={failed} --no-pager"), "explained by the catalog"


def main():
    lib.need_root()
    setup()
    work = lib.tmpdir()
    tree = work / "b/uroce-0.1.0"
    tree.mkdir(parents=True)
    copy_source(tree)
    with lib.case("dpkg-buildpackage builds the five packages"):
        build(tree)
        assert len(debs(work / "b", "0.1.0")) == len(PACKAGES), os.listdir(work / "b")
    with lib.case("lintian finds no error and no warning"):
        found = run("lintian", "--allow-root", "--fail-on", "error,warning",
                    *(str(path) for path in (work / "b").glob("*.changes")))
        assert "E:" not in found and "W:" not in found, found
    with lib.case("man pages and completions are in the packages"):
        listed = "".join(run("dpkg-deb", "-c", deb) for deb in debs(work / "b", "0.1.0"))
        for name in ("man8/uroced.8", "man8/urocectl.8", "man1/uroce-run.1", "man1/uroce-bench.1", "man5/uroced.conf.5",
                     "man7/uroce.7", "man7/uroce-fields.7", "man3/uroce_qp_set_policy.3", "completions/urocectl",
                     "include/uroce/uroce.h", "liburoce-rdmav34.so", "liburoce-preload.so", *(f"liburoce-rdmav{abi}.so -> " for abi in (33, 57, 59, 64, 65))):
            assert name in listed, name
    new_version(tree, "0.1.1")
    build(tree, "-nc")
    make_root(work / "root", debs(work / "b", "0.1.0"))
    machine = Machine(work / "root")
    files = machine.copy(debs(work / "b", "0.1.0"))
    newer = machine.copy(debs(work / "b", "0.1.1"))
    before = machine.sh(LIST)
    with lib.case("the packages install, and the unit is enabled and runs"):
        machine.sh(f"dpkg -i {files}")
        machine.sh("systemctl is-enabled uroced && systemctl is-active uroced || "
                   "{ journalctl -u uroced -n 30 --no-pager; exit 1; }")
    with lib.case("a change of the configuration is used after a restart"):
        machine.sh(f"echo '{DEVICE}' >>/etc/uroce/uroced.conf; systemctl restart uroced || "
                   "{ journalctl -u uroced -n 30 --no-pager; exit 1; }")
    with lib.case("a verbs program runs on the daemon of the unit"):
        assert "uroce0" in machine.sh("urocectl show device")
        pingpong(machine)
    with lib.case("the Kubernetes device plugin has what it needs"):
        assert "--kubelet-dir" in machine.sh("/usr/libexec/uroce/uroce-device-plugin --help")
    with lib.case("share=yes: perftest on the interface's own address"):
        shared(machine)
    with lib.case("a QP broken on purpose: urocectl tells why"):
        explained(machine)
    with lib.case("the unit's journal has failed QPs as entries with fields"):
        journal(machine)
    with lib.case("systemctl enable uroced.socket: the first program starts the daemon"):
        socket_activation(machine)
    with lib.case("an upgrade leaves the running daemon alone"):
        daemon = machine.daemon()
        machine.sh(f"dpkg -i {newer}")
        assert machine.daemon() == daemon and int(daemon[0]) > 0, daemon
        assert "0.1.1" in machine.sh("dpkg-query -W uroce")
        pingpong(machine)
    with lib.case("removing the package ends the daemon"):
        machine.sh("dpkg --remove uroce-bench uroce-kubernetes uroce")
        assert not machine.ok("pgrep uroced"), machine.sh("ps ax")
    with lib.case("purging leaves no trace but the account, as other packages do"):
        machine.sh("rm -r /etc/systemd/system/uroced.service.d; dpkg --purge " + " ".join(PACKAGES))
        after = machine.sh(LIST)
        assert before == after, set(before.splitlines()) ^ set(after.splitlines())
        assert not machine.ok("ls -d /run/uroce* /var/lib/systemd/*/uroced*")
    machine.sh("systemctl poweroff --no-block")
    machine.nspawn.wait(60)
    lib.finish()


if __name__ == "__main__":
    main()
