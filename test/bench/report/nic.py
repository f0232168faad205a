# SPDX-License-Identifier: BSD-3-Clause
"""uroce-bench's mode `nic`: what to run first on a machine with a NIC. It writes one file to send back (doc/hardware.md).

Each step is separate: one that fails has its reason in the file, and the others go on."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import traceback

import machine
import processes
from progress import Progress

HUGE_MIB = 1024  # of a daemon and of testpmd
SAID = 40        # lines of a daemon's log that the file keeps
PCI = pathlib.Path("/sys/bus/pci/devices")


class Left(Exception):
    """A step cannot run; its text says why."""


def options(argv):
    parser = argparse.ArgumentParser(
        prog="uroce-bench nic", description="What two ports of NICs and this machine do: one file to send back. "
        "Needs root, and ports that a cable joins.")
    parser.add_argument("--allow", metavar="PCI", action="append", default=[],
                        help="address of a PCI device under vfio-pci, as uroced's; give two")
    parser.add_argument("--vdev", metavar="VDEV", action="append", default=[], help="any other port of DPDK, as uroced's")
    parser.add_argument("--out", metavar="FILE", default="uroce-nic.json", help="the file [uroce-nic.json]")
    parser.add_argument("--only", metavar="STEP,..", help=f"only these steps, of: {' '.join(STEPS)}")
    parser.add_argument("--workers", type=int, metavar="N", default=max(1, min((os.cpu_count() or 1) - 1, 16)),
                        help="most workers of the daemon [one less than there are CPUs, at most 16]")
    parser.add_argument("--mem", type=int, metavar="MIB", default=1024, help="memory of the daemon [1024]")
    parser.add_argument("--runs", type=int, metavar="N", default=3, help="measurements of each figure [3]")
    parser.add_argument("--run-ms", type=int, metavar="MS", default=300, help="duration of each [300]")
    parser.add_argument("-q", "--quiet", action="store_true", help="do not print progress (printed on terminals only)")
    given = parser.parse_args(argv)
    given.ports = given.allow + given.vdev
    if len(given.ports) != 2:
        parser.error(f"needs two ports (--allow, --vdev), not {len(given.ports)}")
    given.steps = given.only.split(",") if given.only else list(STEPS)
    for step in given.steps:
        if step not in STEPS:
            parser.error(f"--only '{step}': must be of {', '.join(STEPS)}")
    return given


def _read(path):
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _link(path):
    return path.resolve().name if path.is_symlink() else None


def pci(address):
    """What the kernel says of a PCI device."""
    at = PCI / address
    if not at.exists():
        return {"address": address, "present": False}
    found = {key: _read(at / key) for key in ("vendor", "device", "subsystem_vendor", "subsystem_device", "class",
                                              "revision", "numa_node", "current_link_speed", "current_link_width",
                                              "max_link_speed", "max_link_width", "sriov_totalvfs")}
    try:
        said = subprocess.run(["lspci", "-nns", address], capture_output=True, text=True, check=False, timeout=30).stdout
    except OSError:
        said = ""
    return {"address": address, "present": True, "lspci": said.strip() or None, "driver": _link(at / "driver"),
            "iommu_group": _link(at / "iommu_group"), **found}


def problems(devices):
    """What a user has to do before uroced and testpmd can have these devices: sentences."""
    said = []
    for dev in devices:
        name = dev["address"]
        if not dev["present"]:
            said.append(f"this machine has no PCI device {name}: lspci -D lists them")
            continue
        if dev["driver"] == "mlx5_core":
            continue  # keeps its driver
        if dev["driver"] != "vfio-pci":
            has = f"is bound to the kernel's driver {dev['driver']}" if dev["driver"] else "has no driver"
            said.append(f"{name} {has}: bind it to vfio-pci (driverctl set-override {name} vfio-pci)")
        if dev["iommu_group"] is None:
            said.append(f"{name} is in no IOMMU group: enable the IOMMU in the firmware, and in the kernel's command line "
                        "(intel_iommu=on or amd_iommu=on)")
    groups = [dev["iommu_group"] for dev in devices if dev.get("iommu_group")]
    if len(groups) == 2 and groups[0] == groups[1]:
        said.append(f"both ports are in IOMMU group {groups[0]}, which only one process can open: step wire needs ports of "
                    "two groups")
    return said


def about(run):
    """The machine, and what is wrong with the ports."""
    info = dict(line.split()[:2] for line in _read(pathlib.Path("/proc/meminfo")).splitlines()
                if line.startswith("HugePages_"))
    devices = [pci(address.split(",")[0]) for address in run.given.allow]
    run.wrong = problems(devices)
    notes = [f"this process is not root: {what}" for what in ["vfio and huge pages need it"] if os.geteuid() != 0]
    if int(info.get("HugePages_Free:", "0")) * 2 < HUGE_MIB:
        notes.append(f"{info.get('HugePages_Free:', '0')} huge pages are free: without them rates are lower (echo {HUGE_MIB} "
                     ">/proc/sys/vm/nr_hugepages)")
    return {**machine.describe(), "load": machine.load(), "cmdline": _read(pathlib.Path("/proc/cmdline")), "huge_pages": info,
            "cpus": sorted(os.sched_getaffinity(0)), "devices": devices, "problems": run.wrong, "notes": notes}


class Run:
    """One run: its options, and what earlier steps found."""

    def __init__(self, given):
        self.given = given
        self.wrong = []
        self.found = {}  # by this step; the file has it even if the step fails
        self.path_mtu = 1024
        self.queues = 1

    def ports(self):
        """Words that name the ports for uroced and uroce-bench."""
        return [word for option, values in (("--allow", self.given.allow), ("--vdev", self.given.vdev))
                for value in values for word in (option, value)]

    def bench(self, mode, *words, limits=False):
        """Rows of a mode over the ports."""
        call = machine.run_limits if limits else machine.run_bench
        return call(mode, *self.ports(), "--runs", self.given.runs, "--run-ms", self.given.run_ms, *words,
                    timeout=600)["rows"]

    def daemon(self, *words, mtu=4096):
        """uroced with a device on each port, until both have a link."""
        devs = [f"name=uroce{i},port={port.split(',')[0]},addr=10.99.0.{i + 1}/24,mtu={mtu}"
                for i, port in enumerate(self.given.ports)]
        more = [word for address in self.given.allow for word in ("--allow", address)]
        daemon = processes.Daemon(machine.program("uroced"), self.given.vdev, devs,
                                  extra=(*more, "--mem", str(self.given.mem), *words))
        daemon.said = lambda: daemon.proc.output().splitlines()[-SAID:]
        daemon.show = lambda topic: json.loads(processes.sh(machine.program("urocectl"), "--socket", daemon.socket, "--json",
                                                            "show", topic))[topic]
        processes.until("both links are up", lambda: all(port["link"] == "up" for port in daemon.show("port")))
        return daemon

    def client(self, daemon, *words):
        """Rows of verbs programs from the first port to the second."""
        return machine.run_bench("client", "--socket", daemon.socket, "--dev", "uroce0", "--peer-dev", "uroce1", "--runs",
                                 self.given.runs, *words, timeout=600)["rows"]


def port(run):
    """The ports as uroced sees them, with jumbo frames if they carry them."""
    result, daemon = run.found, None
    for mtu in (4096, 1024):
        try:
            daemon = run.daemon(mtu=mtu)
            break
        except processes.Failed as why:
            result[f"mtu_{mtu}"] = str(why)
    if daemon is None:
        raise Left(result["mtu_1024"])
    try:
        result.update(port=daemon.show("port"), device=daemon.show("device"), daemon=daemon.show("daemon"))
        run.path_mtu = min(dev["path_mtu"] for dev in result["device"])
        run.queues = min(p.get("capabilities", {}).get("max_rx_queues", 1) for p in result["port"])
        result["messages"] = {}
        for op, size in (("write", 64), ("write", 65536), ("send", 64), ("read", 65536)):
            result["messages"][f"{op}, {size} B"] = run.client(daemon, "--op", op, "--size", size)[0]
    finally:
        result["said"] = daemon.said()
        daemon.proc.term()
    return result


def rss(run):
    """How frames of 64 QPs spread over the queues, with as many workers as there are queues and CPUs."""
    workers = max(1, min(run.given.workers, run.queues))
    if workers == 1:
        raise Left(f"only one worker: {run.queues} receive queues, --workers {run.given.workers}")
    daemon = run.daemon("--workers", str(workers), mtu=run.path_mtu)
    try:
        ports = daemon.show("port")
        before = daemon.show("worker")
        row = run.client(daemon, "--op", "write", "--size", "4096", "--qps", "64")[0]
        after = daemon.show("worker")
        frames = [b["rx_frames"] - a["rx_frames"] for a, b in zip(before, after)]
        return {"workers": workers, "rx_queues": [p["rx_queues"] for p in ports],
                "rss_used": [p.get("capabilities", {}).get("rss_used") for p in ports], "rx_frames": frames,
                "largest_share": max(frames) / max(1, sum(frames)), "qps": [worker["qps"] for worker in after],
                "stats": daemon.show("stats"), "write_4096": row, "said": daemon.said()}
    finally:
        daemon.proc.term()


def workers(run):
    """Rates of verbs programs with 1, 2, 4 .. workers."""
    rates, n = {}, 1
    while n <= min(run.given.workers, run.queues):
        daemon = run.daemon("--workers", str(n), mtu=run.path_mtu)
        try:
            for size in ("64", "4096"):
                rates[f"{n} workers, {size} B"] = run.client(daemon, "--size", size, "--qps", "16", "--clients", str(n))[0]
        finally:
            daemon.proc.term()
        n *= 2
    return rates


def wire(run):
    """The engine over the ports, without clients."""
    return [row for op, size in (("write", 64), ("write", 4096), ("write", 65536), ("send", 64), ("read", 65536))
            for row in run.bench("wire", "--mtu", run.path_mtu, "--op", op, "--size", size)]


def testpmd(run):
    """The same, in turn with dpdk-testpmd on the same ports; and frames alone."""
    machine.need("dpdk-testpmd")
    run.found["frames"] = run.bench("port", "--mtu", run.path_mtu, limits=True)
    run.found["wire"] = [row for size in (64, 65536)
                         for row in run.bench("wire-testpmd", "--mtu", run.path_mtu, "--size", size, limits=True)]
    return run.found


def through(run):
    """RoCE through a testpmd that forwards between the ports."""
    machine.need("dpdk-testpmd")
    return [row for size in (64, 65536)
            for row in run.bench("wire", "--through", "testpmd", "--mtu", run.path_mtu, "--size", size)]


def scale(run):
    """Workers of this machine without a NIC."""
    return machine.run_bench("scale", "--runs", run.given.runs, "--run-ms", run.given.run_ms, timeout=900)["rows"]


STEPS = {"machine": about, "port": port, "rss": rss, "workers": workers, "wire": wire, "testpmd": testpmd,
         "through": through, "scale": scale}
NEED_PORTS = ("port", "rss", "workers", "wire", "testpmd", "through")


def step(run, name):
    """One step: what the file says of it."""
    start, why, result = time.monotonic(), None, None
    run.found = {}
    try:
        if name in NEED_PORTS and run.wrong:
            raise Left("; ".join(run.wrong))
        result = STEPS[name](run)
    except (Left, machine.Missing, machine.NoTime) as reason:
        why = str(reason)
    except Exception as reason:  # whatever it is, the other steps go on
        why = f"{reason}\n{traceback.format_exc(limit=3)}" if not isinstance(reason, (processes.Failed, RuntimeError)) \
            else str(reason)
    return {"step": name, "done": why is None, "why": why, "seconds": round(time.monotonic() - start, 1),
            "result": result or run.found or None}


def figures(result):
    """Lines for people: the rows anywhere in a result."""
    if isinstance(result, dict) and isinstance(result.get("name"), str):
        yield f"    {result['name']}"
        for key, cell in result.items():
            if isinstance(cell, dict) and "median" in cell:
                yield f"      {key:<16} {cell['median']:.4g} {cell['unit']} ({cell['least']:.4g} .. {cell['most']:.4g})"
    elif isinstance(result, (dict, list)):
        for part in result.values() if isinstance(result, dict) else result:
            yield from figures(part)


def show(done):
    """Prints a step."""
    why = "" if done["done"] else ": " + re.sub(r"\s*\n\s*", "; ", done["why"].strip())[:600]
    print(f"{done['step']}: {'done' if done['done'] else 'not done'}, {done['seconds']} s{why}")
    result = done["result"] or {}
    if done["step"] == "machine":
        for line in (*result.get("problems", ()), *result.get("notes", ())):
            print(f"    {line}")
    if done["step"] == "rss" and done["done"]:
        print(f"    frames by worker: {result['rx_frames']}, RSS over {result['rss_used']}")
    for line in figures(result):
        print(line)
    sys.stdout.flush()


def main(argv):
    """Runs the steps. The exit status is 1 if one was not done."""
    given = options(argv)
    run, steps, progress = Run(given), [], Progress(given.quiet)
    processes.start()
    for name in given.steps:
        progress.show(name)
        steps.append(step(run, name))
        progress.end()
        show(steps[-1])
        with open(given.out + ".new", "w", encoding="utf-8") as out:
            json.dump({"mode": "nic", "ports": given.ports, "steps": steps}, out, indent=1)
        os.replace(given.out + ".new", given.out)
    print(f"uroce-bench: please send back {given.out}")
    return 0 if all(done["done"] for done in steps) else 1
