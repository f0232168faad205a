#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroced on PCI NICs under vfio-pci: a guest with an emulated IOMMU and two NICs of QEMU on one hub.

    nic.py [DRIVER..] [CASE..]    drivers virtio-net-pci, e1000e, vmxnet3, igb; functions of CASES; default: all

igb needs QEMU 8 or later. Where this machine's is older, that of bookworm-backports is unpacked in the cache folder.
Every driver has a separate guest. doc/hardware.md says what was found."""
import fcntl
import json
import os
import re
import shutil
import socket
import subprocess
import sys

import guest as guestlib
import stock
from guest import lib

NICS = {  # name: QEMU's device, the kernel's driver
    "virtio-net-pci": ("virtio-net-pci,disable-legacy=on,iommu_platform=on", "virtio-pci"),
    "e1000e": ("e1000e", "e1000e"),
    "vmxnet3": ("vmxnet3", "vmxnet3"),
    "igb": ("igb", "igb"),
}
QEMU_PACKAGES = ("qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios")
BACKPORTS = "deb http://deb.debian.org/debian bookworm-backports main"


def qemu_has(nic, more=()):
    """Whether a QEMU knows this device."""
    program, env = "qemu-system-x86_64", dict(os.environ)
    if more:
        program = f"{more[1]}/usr/bin/qemu-system-x86_64"
        env["QEMU_MODULE_DIR"] = f"{more[1]}/usr/lib/x86_64-linux-gnu/qemu"
    asked = subprocess.run([program, "-device", f"{nic},help"], capture_output=True, text=True, env=env, timeout=60,
                           check=False)
    return f"{nic} options" in asked.stdout  # the status is 0 anyway


def newer_qemu():
    """The folder with the unpacked QEMU of bookworm-backports. Installs nothing."""
    final = guestlib.cache_dir() / "qemu-backports"
    with open(guestlib.cache_dir() / "qemu.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if final.exists():
            return final
        work = lib.tmpdir()
        for folder in ("lists/partial", "archives/partial", "debs", "root"):
            (work / folder).mkdir(parents=True)
        (work / "sources.list").write_text(BACKPORTS + "\n")
        apt = ["apt-get", "-qq", "-o", f"Dir::Etc::sourcelist={work}/sources.list", "-o",
               "Dir::Etc::sourceparts=/dev/null", "-o", f"Dir::State::lists={work}/lists", "-o", f"Dir::Cache={work}",
               "-o", "APT::Sandbox::User=root"]
        lib.sh(*apt, "update", timeout=300)
        lib.sh("bash", "-c", f"cd {work}/debs && \"$@\"", "apt", *apt, "download", *QEMU_PACKAGES, timeout=600)
        for deb in (work / "debs").glob("*.deb"):
            lib.sh("dpkg-deb", "-x", str(deb), str(work / "root"))
        shutil.copytree(work / "root", final.with_suffix(".partial"), symlinks=True, dirs_exist_ok=True)
        final.with_suffix(".partial").rename(final)
    return final


class Monitor:
    """QEMU's monitor."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(lib.processes.HANGS_S)
        self.sock.connect(str(path))
        self.answer()

    def answer(self):
        text = b""
        while not text.endswith(b"(qemu) "):
            got = self.sock.recv(4096)
            assert got, f"QEMU has ended: {text}"
            text += got
        return text.decode(errors="replace")

    def run(self, command):
        self.sock.sendall(command.encode() + b"\n")
        answer = self.answer()
        assert "Error" not in answer, answer


class Nic(stock.Machine):
    """A guest with two NICs of one kind. /run/uroced.log is what the running uroced has said."""

    def __init__(self, name, more):
        self.name, (device, self.kernel) = name, NICS[name]
        monitor = lib.tmpdir() / "monitor"
        super().__init__(["--pci-nics", device, "--monitor", str(monitor), *more])
        self.monitor = Monitor(monitor)
        self.good("nic_huge 256")

    def good(self, script, timeout=700):
        return super().good(f". guest/nic.sh; nic_build={stock.BUILD}\n{script}", timeout)

    def show(self, what):
        """`urocectl --json show WHAT`, decoded."""
        return json.loads(self.good(f"urocectl --json show {what}"))[what]

    def daemon(self, *words, keys=""):
        """uroced on both NICs, until both links are up."""
        self.bind("vfio-pci", "vfio-pci")
        self.good(f"nic_daemon {' '.join(words)} $(nic_dev 0 10.9.0.1/24 {keys}) $(nic_dev 1 10.9.0.2/24 {keys}) && "
                  "nic_until_link uroce0 up && nic_until_link uroce1 up")

    def runs(self):
        return self.guest.run("kill -0 $(cat /run/uroced.pid)", timeout=700)[0] == 0

    def kept_daemon(self):
        """That of an earlier case, or a new one: cases can be chosen."""
        if not self.runs():
            self.daemon()

    def bind(self, first, second):
        """Gives the NICs to these drivers, after the end of an earlier case's uroced."""
        if self.runs():
            self.stop()
        self.good(f"nic_bind 0 {first} && nic_bind 1 {second}")

    def stop(self):
        said = self.good("nic_stop")
        print("".join(f"# {line}\n" for line in said.splitlines()), end="", flush=True)
        return said


def sandboxed(nic):
    """The daemon limits its system calls and files although a NIC's driver runs in it, and had none refused."""
    text = nic.good("urocectl --json show daemon")
    words = dict(re.findall(r'"(sandbox|landlock|refused_calls)": "?(\w+)', text))
    print(f"# {words}", flush=True)
    assert words["sandbox"] == "kill" and int(words["landlock"]) > 0 and words["refused_calls"] == "0", text


def unbound(nic):
    """A NIC that the kernel's driver has: an error that says what to do."""
    nic.good(f"nic_bind 0 {nic.kernel}")
    out = nic.good("! uroced --mem 256 $(nic_dev 0 10.9.0.1/24) 2>&1")
    line = [text for text in out.splitlines() if text.startswith("uroced: ") and "0000:01:00.0" in text]
    assert line and "vfio-pci" in line[0] and nic.kernel in line[0], out


def transfers(nic):
    """Ready on both NICs; checked data, and connections by rdma_cm."""
    nic.daemon()
    print(f"# {nic.good('nic_says')}", flush=True)
    sandboxed(nic)
    nic.good("nic_data && transfers 18600 uroce-run && nic_perftest")
    sandboxed(nic)


def link(nic):
    """Link down and up: programs get PORT_ERR and PORT_ACTIVE."""
    nic.kept_daemon()
    nic.good("nic_watch uroce0")
    nic.monitor.run("set_link nic0 off")
    nic.good("nic_until_link uroce0 down && until_true grep -q PORT_ERR /run/watch")
    nic.monitor.run("set_link nic0 on")
    nic.good("nic_until_link uroce0 up && until_true grep -q PORT_ACTIVE /run/watch && nic_unwatch && nic_data")


def killed(nic):
    """SIGKILL leaves the NICs as they are; the next daemon takes them."""
    nic.kept_daemon()
    nic.good("kill -9 $(cat /run/uroced.pid) && until_true nic_gone $(cat /run/uroced.pid)")
    nic.daemon()
    nic.good("nic_data")
    nic.stop()


def large(nic):
    """Path MTU 4096, which needs jumbo frames, with VLAN tags, on two workers."""
    nic.daemon("--workers", "2", keys="mtu=4096,vlan=5")
    says = nic.good("nic_says")
    print(f"# {says}", flush=True)
    nic.good("nic_data")
    assert re.search(r"link_mtu (4[1-9]\d\d|9\d\d\d)", says) or "carries" in nic.good("cat /run/uroced.log"), says
    nic.stop()


def labels(nic):
    """rdma_cm chooses flow labels by which the peer's packets come to the worker of the connection's QP."""
    nic.daemon("--workers", "2")
    port = nic.show("port")[0]
    if port["rx_queues"] == 1 or "ipv4-udp" not in port["capabilities"]["rss_used"]:
        assert re.search("has no RSS over UDP ports|has 1 receive queues for 2 workers", nic.stop())
        return
    before = nic.show("stats")[0]["total"]
    nic.good("nic_rpings 8")
    rx, handed = (nic.show("stats")[0]["total"][name] - before[name] for name in ("rx_frames", "rx_handoff"))
    print(f"# uroce0: {rx} frames, {handed} of them handed over", flush=True)
    # The QPs are on both workers in turn: without a choice, every second frame is handed over.
    assert rx > 8 * 40 and handed * 10 < rx, (rx, handed)
    nic.stop()


def report(nic):
    """uroce-bench nic: the file to send back has its steps."""
    # Without wire, which would take six minutes here: case wire runs it for one size.
    nic.bind("vfio-pci", "vfio-pci")
    steps = {step["step"]: step for step in json.loads(nic.good("nic_report --only machine,port,rss", 6000))["steps"]}
    print("".join(f"# {name}: {step['seconds']} s, {step['why'] or 'done'}\n" for name, step in steps.items()), end="", flush=True)
    queues = steps["port"]["result"]["port"][0]["capabilities"]["max_rx_queues"]
    assert [name for name, step in steps.items() if not step["done"]] == ["rss"] * (queues == 1), steps
    assert len(steps["port"]["result"]["messages"]) == 4, steps
    assert queues == 1 or sum(steps["rss"]["result"]["rx_frames"]) > 0, steps["rss"]


def wire(nic):
    """uroce-bench wire from one NIC to the other, also through a testpmd. The rates of an emulated guest mean nothing."""
    nic.bind("vfio-pci", "vfio-pci")
    for more in ("", "--through testpmd"):
        said = nic.good(f"nic_wire --size 65536 {more}")
        row = json.loads(said[said.index("{"):])["rows"][0]
        assert "DIFFER" not in row["name"] and row["packets"]["median"] > 0, row
        print(f"# {row['name']}: {row['packets']['median'] * 1e6:.0f} packets/s, of testpmd's: "
              f"{row.get('versus_testpmd', {}).get('median')}", flush=True)


def kernel_peer(nic):
    """The kernel's rxe behind the other NIC; frames to another MAC do not arrive."""
    nic.bind("vfio-pci", nic.kernel)
    nic.good("nic_rxe")
    nic.good("nic_daemon $(nic_dev 0 10.9.0.1/24) && nic_until_link uroce0 up && nic_with_rxe")
    nic.good("nic_filters")


def vf(nic):
    """A VF: traffic returns when its PF was down and up; a MAC or VLAN that the PF sets is logged with what to do."""
    nic.bind(nic.kernel, "vfio-pci")
    nic.good("nic_vf")
    start = "nic_daemon $(nic_vf_dev) $(nic_dev 1 10.9.0.2/24) && nic_until_link uroce0 up && nic_until_link uroce1 up"
    nic.good(f"{start} && until_true nic_reaches")
    nic.good("ip link set $(cat /run/pf) down; until_true grep -q 'uroce0: link down' /run/uroced.log")
    nic.good("ip link set $(cat /run/pf) up; until_true nic_then 'uroce0: link down' 'uroce0: link up' && "
             "until_true nic_reaches && nic_data && [ $(nic_restarts) -gt 0 ]")
    nic.good("ip link set $(cat /run/pf) vf 0 vlan 5; until_true grep -q 'has put it into VLAN 5' /run/uroced.log; "
             "ip link set $(cat /run/pf) vf 0 vlan 0; until_true grep -q 'taken it out of VLAN 5' /run/uroced.log && "
             "until_true nic_reaches")
    nic.good("ip link set $(cat /run/pf) vf 0 mac 52:54:00:99:01:02; "
             "until_true grep -q 'set its MAC to 52:54:00:99:01:02, .*restart uroced, or' /run/uroced.log")
    nic.stop()
    nic.good(f"{start} && until_true nic_reaches && nic_data && urocectl --json show port | grep -q 52:54:00:99:01:02")
    nic.stop()
    nic.good("nic_no_vf")


def unplugged(nic):
    """Hot-unplug: programs get DEVICE_FATAL, and the daemon lives."""
    if not nic.runs():  # alone, or behind a case that failed
        nic.good("nic_bind 0 vfio-pci")
        nic.good("nic_daemon $(nic_dev 0 10.9.0.1/24) && nic_until_link uroce0 up")
    nic.good("nic_watch uroce0")
    nic.monitor.run("device_del nic0")
    nic.good("until_true grep -q DEVICE_FATAL /run/watch && until_true nic_absent 0 && nic_link uroce0 down && "
             "! uroce-run ibv_devinfo -d uroce0")
    said = nic.stop()
    assert "0000:01:00.0 is removed" in said, said


CASES = (unbound, transfers, link, killed, large, labels, wire, report, kernel_peer, vf, unplugged)


def logged(nic, part):
    """A case; if it fails, with the end of what the daemon has said."""
    try:
        part(nic)
    except Exception:
        print("".join(f"# {line}\n" for line in nic.guest.run("tail -n 30 /run/uroced.log", timeout=700)[1].splitlines()),
              flush=True)
        raise


def run(name, more, cases):
    """One driver."""
    with lib.case(f"{name}: a guest with two NICs"):
        nic = Nic(name, more)
        for part in cases:
            if part is vf and name != "igb":  # the others have no VFs
                continue
            with lib.case(f"{name}: {part.__doc__.splitlines()[0]}"):
                logged(nic, part)
        nic.guest.stop()
        said = nic.guest.proc.output()
        assert "BUG" not in said and "Oops" not in said, said


def main():
    lib.need_root()
    for program in ("qemu-system-x86_64", "mmdebstrap"):
        if not shutil.which(program):
            lib.skip(f"{program} is not installed")
    stock.build("$RUN_TARGETS app/uroce-bench/check/rcdata app/uroce-bench/uroce-bench")
    cases = [part for part in CASES if part.__name__ in sys.argv[1:]] or CASES
    for name in [name for name in NICS if name in sys.argv[1:]] or NICS:
        more = []
        if not qemu_has(name):
            try:
                more = ["--qemu", str(newer_qemu())]
            except (lib.processes.Failed, OSError) as why:
                print(f"# {why}")
            if not more or not qemu_has(name, more):
                lib.skip_case(name, "this machine's QEMU has no such NIC, and that of bookworm-backports was not "
                                    "to be had")
                continue
        run(name, more, cases)
    lib.finish()


if __name__ == "__main__":
    main()
