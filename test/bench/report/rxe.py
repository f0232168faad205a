# SPDX-License-Identifier: BSD-3-Clause
"""Kernel rxe compared with uroce, in one boot of test/interop's guest, on the same veth pair, with the
guest's perftest. uroce is built for the guest's (emulated) processor and copied with its libraries."""
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import time
from concurrent import futures

import machine
import processes
from goals import Sample

LIBS = "usr/lib/x86_64-linux-gnu"
PMD_LIBS = ("librte_net_af_packet", "librte_net_ring", "librte_mempool_ring", "librte_bus_vdev")
TARGETS = ("app/uroced/uroced", "app/uroce-run/uroce-run", "test/bench/limits/limits",
           "drivers/verbs/liburoce-rdmav34.so", "drivers/verbs/liburoce-preload.so")
BOOT_S = 60   # a short measurement on shared cores, after the build
BUILD_S = 30  # minimum for the build
OF_THE_GUEST = ("libc.so", "libm.so", "ld-linux")  # the guest is the same Debian


def build_folder():
    return machine.bench().parents[2] / "guest-build"


def first_s():
    """Seconds of a first, short measurement; longer if nothing is built yet."""
    return BOOT_S if (build_folder() / "build.ninja").exists() else BUILD_S + BOOT_S


def guest_build(source):
    """Builds uroce for the guest's processor, which has no AVX-512, next to the build tree."""
    folder = build_folder()
    if not (folder / "build.ninja").exists():
        processes.sh("meson", "setup", folder, source, "-Dtarget=x86-64-v2", "--buildtype=release")
    processes.sh("ninja", "-C", folder, *TARGETS, timeout=900)
    return folder


def image(source):
    """The guest's image; test/interop makes it if it does not exist."""
    call = "import guest; print(guest.image())"
    done = subprocess.run(["/usr/bin/python3", "-B", "-c", call], cwd=source / "test/interop", text=True,
                          capture_output=True, check=False, timeout=700,
                          env={**os.environ, "UROCE_BUILD": str(machine.bench().parents[2])})
    if done.returncode:
        raise processes.Failed(f"no guest image: {done.stderr.strip()[-300:]}")
    return done.stdout.split()[-1]


def libraries(*objects):
    """Shared libraries that the objects load, except those that every Debian has."""
    found = re.findall(r"=> (/\S+)", processes.sh("ldd", *objects))
    return sorted({path for path in found if not pathlib.Path(path).name.startswith(OF_THE_GUEST)})


def bundle(build, root):
    """Collects under root the files to copy over the guest's."""
    pmds = next(pathlib.Path("/", LIBS, "dpdk").glob("pmds-*"), None)
    if pmds is None:
        raise machine.Missing("DPDK's drivers are missing: apt-get install dpdk-dev")
    for target in TARGETS:
        place = root / "opt/uroce" / target
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(build / target, place)
    drivers = [next(pathlib.Path("/", LIBS).glob(f"{name}.so.??")) for name in PMD_LIBS]
    links = root / LIBS / "dpdk" / pmds.name
    links.mkdir(parents=True)
    for path in [*drivers, *libraries(*(build / target for target in TARGETS), *drivers)]:
        shutil.copy(path, root / LIBS / pathlib.Path(path).name)
    for driver in drivers:  # links, because a second copy of a bus driver would be a second bus
        (links / driver.name.partition(".so")[0]).with_suffix(".so").symlink_to(f"../../{driver.name}")


def boot(source, rounds, seconds, deadline):
    """The output of guest/versus.sh. machine.NoTime if the guest was ready too late."""
    with futures.ThreadPoolExecutor() as both:
        made = both.submit(image, source)
        build, guest = guest_build(source), made.result()
    if time.monotonic() + BOOT_S > deadline:
        raise machine.NoTime("the guest is built now, which took too long")
    share = processes.tmpdir()
    bundle(build, share / "root")
    shutil.copytree(source / "test/interop/guest", share / "guest")
    script = pathlib.Path(__file__).resolve().parent / "guest/versus.sh"
    proc = processes.Proc([source / "test/interop/run-guest.sh", script, "--image", guest, "--share", share,
                        "--mem", "1536", "--timeout", 600, "--", rounds, seconds], apart=True)
    return proc.result(630)


def figures(text):
    """{(who, what): median} of the lines of versus.sh."""
    found = {}
    for who, what, value in re.findall(r"^figure (\w+) (\w+) ([\d.eE+-]+)\r?$", text, re.M):
        found.setdefault((who, what), []).append(float(value))
    return {key: statistics.median(values) for key, values in found.items()}


def limits(got, what, unit):
    """The limits of the guest's link and processor as text; '' if they were not measured."""
    told = []
    if ("veth", what) in got:
        told.append(f"veth alone carries {got['veth', what]:.3g} {unit} by pktgen")
    if ("port", what) in got:
        told.append(f"two af_packet ports alone {got['port', what]:.3g} {unit}")
    if what == "bandwidth" and ("crc", "us") in got and ("copy", "us") in got:
        told.append(f"CRC and copy of 4 KiB take {got['crc', 'us']:.1f} and {got['copy', 'us']:.1f} us, "
                    "on each side")
    return ", ".join(told)


def measure(plan):
    source = machine.source()
    if source is None or not (source / "test/interop/run-guest.sh").exists():
        raise machine.Missing("needs uroce's source tree: test/interop boots the guest")
    text = boot(source, 1 if plan.quick else 3, 2, plan.deadline)
    got = figures(text)
    said = " ".join(line for line in text.splitlines() if not line.startswith("figure"))[-400:]
    samples = {}
    for goal, what in (("rxe: messages, 64 B", "rate"), ("rxe: bandwidth, 64 KiB", "bandwidth")):
        if ("rxe", what) not in got or ("uroce", what) not in got:
            raise processes.Failed(f"the guest gave no {what}: {said}")
        rxe, uroce = got["rxe", what], got["uroce", what]
        unit = {"rate": "k/s", "bandwidth": "MB/s"}[what]
        note = f"rxe {rxe:.3g} {unit} by ib_write_bw; both in one boot, emulated where there is no KVM"
        alone = limits(got, what, unit)
        if alone:
            note += f"; {alone}"
        samples[goal] = Sample(uroce, rxe, note, possible=got.get(("veth", what)),
                               possible_by="the veth alone, by pktgen")
    return samples
