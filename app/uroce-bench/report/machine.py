# SPDX-License-Identifier: BSD-3-Clause
"""What the machine is and has: processor, load, its cores' distance and speed, programs and packages."""
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import time

NEAR_NS = 100  # one-way latency of a cache line between the two cores; beyond it they are far
SLOW = 1.1     # times the fastest loop of the run: a core whose loop takes longer is shared

# Programs that measurements start, and Debian's packages of them.
PACKAGES = {
    "iperf3": "iperf3",
    "ucx_perftest": "ucx-utils",
    "ib_write_bw": "perftest",
    "ib_send_lat": "perftest",
    "ib_send_bw": "perftest",
    "qemu-system-x86_64": "qemu-system-x86",
    "ip": "iproute2",
    "meson": "meson",
    "ninja": "ninja-build",
    "dpdk-testpmd": "dpdk-dev",
    "mmdebstrap": "mmdebstrap",
}


class Missing(Exception):
    """A program that a measurement needs is not there."""


class NoTime(Exception):
    """What a measurement takes would end after the run's deadline."""


def bench():
    """The uroce-bench that started this."""
    return pathlib.Path(os.environ["UROCE_BENCH"])


def source():
    """The source tree that uroce-bench was built from and runs in, or None where it is installed."""
    path = os.environ.get("UROCE_BENCH_SOURCE")
    return pathlib.Path(path) if path else None


def program(name):
    """The path of one of uroce's programs: that of the build tree, or that beside uroce-bench."""
    here = bench().parent
    for path in (here.parent / name / name, here / name):
        if path.is_file():
            return path
    raise Missing(f"{name} is neither in {here} nor in {here.parent / name}")


def need(*names):
    """Missing, with the package to install, where one of the programs is not there."""
    for name in names:
        if shutil.which(name) is None:
            package = PACKAGES.get(name)
            raise Missing(f"{name} is missing" + (f": apt-get install {package}" if package else ""))


def run_bench(mode, *options, timeout=120):
    """`uroce-bench MODE OPTION.. --json`, decoded. RuntimeError with its message where it fails."""
    argv = [str(bench()), mode, *(str(o) for o in options), "--json"]
    for _ in range(3):
        try:
            done = subprocess.run(argv, text=True, capture_output=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{' '.join(argv[1:])}: no end within {timeout} s") from None
        if "Cannot init memory" not in done.stderr:
            break
        time.sleep(0.5)  # another program took the free huge pages between look and start
    if done.returncode:
        said = (done.stderr + done.stdout).strip().splitlines()[-3:]
        raise RuntimeError(f"uroce-bench {mode}: status {done.returncode}: {' '.join(said)}")
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise RuntimeError(f"uroce-bench {mode}: no JSON: {error}") from None


@dataclasses.dataclass(frozen=True)
class Cores:
    """
    What the cores are like at one moment.
    distance_ns  one-way latency of a cache line between the two
    loops_ns     what a loop of additions takes on each, both at the same time
    """
    distance_ns: float
    loops_ns: tuple


def cores():
    """The cores as they are now."""
    doc = run_bench("probe", timeout=30)
    return Cores(doc["core_distance_ns"][1], tuple(doc["core_speed_ns"][1]))


def state(*distances_ns):
    """What a figure is that was taken between, or with, such probes: near, far, or mixed where it changed."""
    near = [ns < NEAR_NS for ns in distances_ns]
    return "near" if all(near) else "mixed" if any(near) else "far"


def share(loops_ns, fastest_ns):
    """
    How much of a core a figure had, from the loop's times around it: whole, shared (with a busy
    neighbour on another thread of the core), or mixed where it changed; "" where nobody looked.
    """
    slow = [ns > SLOW * fastest_ns for ns in loops_ns]
    if not slow:
        return ""
    return "shared" if all(slow) else "mixed" if any(slow) else "whole"


def load():
    """The run queue's average length of the last minute."""
    return os.getloadavg()[0]


def describe():
    """cpu, cores, commit, kernel."""
    model = "unknown"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    commit = "unknown"
    if source() and shutil.which("git"):
        done = subprocess.run(["git", "-C", source(), "describe", "--always", "--dirty"], text=True,
                              capture_output=True, check=False)
        commit = done.stdout.strip() or commit
    return {"cpu": model, "cores": os.cpu_count(), "commit": commit, "kernel": os.uname().release}


class HugePages:
    """Sees to so many MiB in free huge pages, where this user may; gives back what it took."""

    def __init__(self, mib):
        self.knob = pathlib.Path("/proc/sys/vm/nr_hugepages")
        self.added = 0
        info = dict(line.split()[:2] for line in pathlib.Path("/proc/meminfo").read_text().splitlines()
                    if line.startswith("HugePages_"))
        lack = mib // 2 - int(info.get("HugePages_Free:", "0"))
        if lack > 0 and os.access(self.knob, os.W_OK):
            before = int(self.knob.read_text())
            self.knob.write_text(str(before + lack))
            self.added = int(self.knob.read_text()) - before

    def back(self):
        if self.added > 0:
            self.knob.write_text(str(max(0, int(self.knob.read_text()) - self.added)))
            self.added = 0
