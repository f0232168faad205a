# SPDX-License-Identifier: BSD-3-Clause
"""The machine: processor, load, distance and speed of its cores, programs and packages."""
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import time

NEAR_NS = 100  # one-way latency of a cache line; cores above it are far
SLOW = 1.1     # a core whose loop takes longer than this times the fastest is shared

# Programs that measurements start, and their Debian packages.
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
    """A program that a measurement needs is not installed."""


class NoTime(Exception):
    """The measurement would end after the run's deadline."""


def bench():
    """The uroce-bench that started this."""
    return pathlib.Path(os.environ["UROCE_BENCH"])


def source():
    """The source tree of this uroce-bench, or None if it is installed."""
    path = os.environ.get("UROCE_BENCH_SOURCE")
    return pathlib.Path(path) if path else None


def program(name):
    """The path of a program of uroce, in the build tree or next to uroce-bench."""
    here = bench().parent
    for path in (here.parent / name / name, here / name):
        if path.is_file():
            return path
    raise Missing(f"{name} is neither in {here} nor in {here.parent / name}")


def need(*names):
    """Raises Missing, with the package to install, if one of the programs is not installed."""
    for name in names:
        if shutil.which(name) is None:
            package = PACKAGES.get(name)
            raise Missing(f"{name} is missing" + (f": apt-get install {package}" if package else ""))


def limits_program():
    """The program test/bench/limits of the same build or installation."""
    places = [bench().parents[2] / "test/bench/limits/limits", bench().parents[1] / "libexec/uroce/limits"]
    for path in places:
        if path.is_file():
            return path
    raise Missing(f"neither {places[0]} nor {places[1]}: ninja test/bench/limits/limits")


def run_limits(mode, *options, timeout=120):
    """A mode of that program, which measures what the machine allows."""
    return run_bench(mode, *options, timeout=timeout, program_path=limits_program())


def run_bench(mode, *options, timeout=120, program_path=None):
    """`uroce-bench MODE OPTION.. --json`, decoded. Raises RuntimeError with its message on failure."""
    argv = [str(program_path or bench()), mode, *(str(o) for o in options), "--json"]
    for _ in range(3):
        try:
            done = subprocess.run(argv, text=True, capture_output=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{' '.join(argv[1:])}: did not end within {timeout} s") from None
        if "Cannot init memory" not in done.stderr:
            break
        time.sleep(0.5)  # another program took the huge pages after they were found free
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
    The state of the cores at one moment.
    distance_ns  one-way latency of a cache line between the two
    loops_ns     time of a loop of additions on each, measured at the same time
    """
    distance_ns: float
    loops_ns: tuple


def cores():
    """The cores as they are now."""
    doc = run_bench("probe", timeout=30)
    return Cores(doc["core_distance_ns"][1], tuple(doc["core_speed_ns"][1]))


def state(*distances_ns):
    """The state of a figure with these probes around it: near, far, or mixed if they differ."""
    near = [ns < NEAR_NS for ns in distances_ns]
    return "near" if all(near) else "mixed" if any(near) else "far"


def share(loops_ns, fastest_ns):
    """
    The share of a core that a figure had, from the loop times around it: whole, shared (with a busy
    sibling thread), or mixed if it changed; "" without probes.
    """
    slow = [ns > SLOW * fastest_ns for ns in loops_ns]
    if not slow:
        return ""
    return "shared" if all(slow) else "mixed" if any(slow) else "whole"


def load():
    """The load average of the last minute."""
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
    """Reserves huge pages until this many MiB are free, if permitted; back() releases them."""

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
