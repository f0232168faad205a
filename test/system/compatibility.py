#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes doc/compatibility.md from what the suite programs found:

    meson test -C build --suite programs
    test/system/compatibility.py build/meson-logs/testlog.json >doc/compatibility.md
"""
import collections
import json
import re
import subprocess
import sys

# program (the start of a test's name) -> Debian package
PACKAGES = {"ibv_": "ibverbs-utils", "ib_": "perftest", "pyverbs": "python3-pyverbs",
            "ibstat": "infiniband-diags", "ucx_": "ucx-utils", "fi_": "libfabric-bin", "mpirun": "openmpi-bin",
            "valgrind": "valgrind"}
LIMITS = """
As an ordinary user (UROCE_TEST_UID=65534) the same passes but for what is listed; huge pages for
`--use_hugepages` need the group in vm.hugetlb_shm_group.

## What does not work, and why

| program | what | why |
| --- | --- | --- |
| all of perftest | `-R`, and everything else of rdma_cm | there is no connection manager yet |
| `ib_send_bw` | `-b -e` with `-q` above 1 | after an event it polls once, for one QP's depth, and \
sleeps on what is left |
| `raw_ethernet_*` | all | raw Ethernet queues are the kernel driver's, not RoCE |
| `rdma` of iproute2 | all | it asks the kernel's RDMA core over netlink, which knows nothing of \
uroce's devices: `urocectl show` tells the same |
| infiniband-diags | but `ibstat` and `ibstatus` | they ask a subnet manager by MADs; RoCE has none |
| `ibv_xsrq_pingpong` | all | XRC is not offered |
| `ibv_rc_pingpong` | `-o`, `-O`, `-P`; `-j` | no on-demand paging; no device memory |
| `ibv_rc_pingpong` | `-t -e` | the program takes an empty CQ after an event for an error |
| `fi_pingpong` | `-p verbs` with `-e dgram` or `-e msg` | its event queue opens rdma_cm |
| `ibv_import_device` | as a process's first call | listing devices is what loads the provider |
| `ucx_perftest` | a check of the data | it has none; the MPI job over UCX compares every byte |
| `mpirun` | the test as an ordinary user | it enters two network namespaces, which takes root |
| any program | linked with a static libibverbs (`libibverbs.a`) | that one loads no provider from \
`/etc/libibverbs.d` and lists no device: link the shared one, `ldd PROGRAM` shows `libibverbs.so.1` |

pyverbs' traffic tests run on while frames are lost: 200 times over, with 1 % of all frames lost, by

    UROCE_TEST_LOOPS=200 UROCE_BUILD=build /usr/bin/python3 test/system/test_prog_lossy.py

(`meson test --suite programs` runs two loops.)

A completion of UD carries in `sl` which IP header came, as UCX expects it of a RoCE NIC, and not
the sender's priority.

## What is in /sys/class/infiniband

Programs find there what the kernel has of a RoCE port, under `uroce-run` and after `urocectl
install`. State, `counters/` and `hw_counters/` are files that the daemon keeps beside its socket
(`SOCKET.sysfs/DEVICE`) and writes once a second; a container has to see that folder, too, else the
state is that of the program's start and there are no counters. `hw_counters/` has the names of NIC
drivers where there is an equivalent, and all of uroced's own. GIDs and P_Keys are those of the start;
libibverbs itself is told the present ones. `device/` says what is near to the interface (`numa_node`,
`local_cpus`) and has uroce's identity, not the NIC's.

## Programs with large packages

`ninja -C build programs-long` installs and runs them, as root: Ceph 16.2.15 (monitor, OSD and rados, `ms_type
= async+rdma`; objects of 1 B to 16 MiB compared byte for byte), Open MPI 4.1.4 and MPICH 4.0.2 (4 ranks
that compare every byte, with their default transports and with `UCX_TLS=rc,self`), and podman
(doc/containers.md as it stands).

Ceph: set `ms_async_rdma_local_gid` to the device's IPv4 GID, and lower `ms_async_rdma_receive_buffers`:
its default of 32768 buffers of 128 KiB is 4 GiB of registered memory a process. Ceph fixes the path MTU at
1024. `UROCE_CEPH_BENCH=1` compares its write rates with TCP's; doc/notes/performance.md has the figures.
"""


def version(package):
    done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], text=True,
                          capture_output=True)
    return done.stdout or "not installed"


def package_of(program):
    return next((pkg for start, pkg in PACKAGES.items() if program.startswith(start)), None)


def cases(path):
    """(program, what, passed) of every test; and lines about pyverbs' tests that are skipped."""
    found, skipped = [], {}
    for line in open(path, encoding="utf-8"):
        test = json.loads(line)
        if "programs" not in test["name"] and "prog_" not in test["name"]:
            continue
        for out in test.get("stdout", "").splitlines():
            case = re.match(r"(ok|not ok) \d+ - (\w+): (.*?)(?: \([\d.]+ s\))?$", out)
            if case and package_of(case[2]) and "not offered" not in case[3]:
                found.append((case[2], case[3], case[1] == "ok"))
            note = re.match(r"# tests\.(\S+): (.*)", out)
            if note:
                skipped[note[1]] = note[2]
    return found, skipped


def main():
    found, skipped = cases(sys.argv[1])
    programs = collections.defaultdict(list)
    for program, what, passed in found:
        programs[program].append((what, passed))
    print("# What runs\n")
    print("Written by test/system/compatibility.py from a run of `meson test --suite programs`: "
          "Debian's\nprograms as packaged, under `uroce-run`, between two daemons unless they "
          "talk to one device only.\n")
    print("| program | package | version | command lines tested | passed |")
    print("| --- | --- | --- | --- | --- |")
    for program, tests in programs.items():
        package = package_of(program)
        good = sum(passed for _, passed in tests)
        print(f"| `{program}` | {package} | {version(package)} | {len(tests)} | {good} |")
    print(LIMITS)
    print("## pyverbs' own tests that are skipped\n")
    why = collections.Counter(skipped.values())
    print("Of its generic tests; those of single vendors' devices are left out.")
    for reason, count in why.most_common():
        print(f"\n{reason} ({count}):\n")
        for name in sorted(name for name, what in skipped.items() if what == reason):
            print(f"* `{name}`")
    print("\n## Every command line\n")
    for program, tests in programs.items():
        if program == "pyverbs":
            continue
        for what, passed in tests:
            print(f"* {'' if passed else 'FAILS: '}`{program} {what}`")
    return 0


sys.exit(main())
