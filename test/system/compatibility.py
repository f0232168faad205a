#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes doc/compatibility.md from the results of suite programs:

    meson test -C build --suite programs --suite cm
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
# those of suite cm
CM_PACKAGES = {"rping": "rdmacm-utils", "ucmatose": "rdmacm-utils", "udaddy": "rdmacm-utils", "mckey": "rdmacm-utils",
               "cmtime": "rdmacm-utils", "rdma_": "rdmacm-utils", "rstream": "rdmacm-utils",
               "riostream": "rdmacm-utils", "rcopy": "rdmacm-utils", "librspreload": "librdmacm1", "fio": "fio",
               "ucp_": "libucx-dev", "io_demo": "ucx-utils", "qperf": "qperf", "dtest": "dapl2-utils",
               "qemu": "qemu-system-x86", "tgtd": "tgt"}
CM_SETTINGS = ("cm_packet", "cm_udp", "cm_share", "cm_pair")
LIMITS = """
As an ordinary user (UROCE_TEST_UID=65534) the same tests pass, except for the ones listed below. Huge pages for
`--use_hugepages` need the group in vm.hugetlb_shm_group.

## What does not work, and why

| program | what | why |
| --- | --- | --- |
| `ib_send_bw` | `-b -e` with `-q` above 1 | after an event the program polls once, for one \
QP's depth, and then sleeps although completions are left |
| `raw_ethernet_*` | all | raw Ethernet queues are a NIC driver's feature, not RoCE |
| `rdma` of iproute2 | all | it queries the kernel's RDMA core over netlink, which does not have \
uroce's devices: `urocectl rdma` prints the same lines and JSON |
| infiniband-diags | all but `ibstat` and `ibstatus` | they send MADs to a subnet manager; RoCE has none |
| `ibv_xsrq_pingpong` | all | XRC is not supported |
| `ibv_rc_pingpong` | `-o`, `-O`, `-P`; `-j` | no on-demand paging; no device memory |
| `ibv_rc_pingpong` | `-t -e` | the program treats an empty CQ after an event as an error |
| `fi_pingpong` | `-p verbs -e dgram` | not tested; `-e msg` and ofi_rxm pass |
| perftest | `-R -c UC` | perftest refuses it: librdmacm has no UC |
| perftest | `-g -M 239.3.4.5` aborts: 'buffer overflow detected' | perftest's parser of the MGID takes 16 decimals with colons only, and \
copies to a buffer of 20 bytes as far as a colon that is not there; \
`-M 0:0:0:0:0:0:0:0:0:0:255:255:239:3:4:5` works |
| perftest | `-R` on a busy machine | fails sometimes (REJECTED 8, UNREACHABLE 1): the client connects a second \
time at once, even if its server does not listen yet, as `no_listener` of `urocectl show cm_stats` tells; the suite \
repeats only such runs |
| perftest `-R`, `fi_pingpong` | while frames are lost | the server may fail at the end (status 12, a flushed send): the \
client is gone as soon as it has the last message, and if that one's ACK is lost nobody sends another |
| `rstream`, `riostream` | `-T a` may end with status 16 | the program treats POLLHUP as an error when its peer has \
finished, although the last data can still be read |
| `qperf` | without `-cm 1` | it addresses its peer by LID, without GRH; UD and UC have no other way |
| `qperf` | `-cm 1` with `-n`, or while frames are lost | `-n` is ignored by latency tests, which then never end; after a \
loss rdma_cm's ACK timeout of 0.5 s lasts longer than the test |
| DAPL over sockets | without `DAPL_GLOBAL_ROUTING=1 DAPL_GID_INDEX=1` | it addresses its peer by LID otherwise |
| `qemu` | `-incoming rdma:ADDR` on a host without any IPv4 address | getaddrinfo gives it a mapped IPv6 address, which it \
refuses for RoCE |
| `tgtd` | `--iser portal=..`, `port=..` | tgt 1.0.85 says `invalid port supplied` for every one; `tgtadm` must bind \
initiators by name (`-Q`), too; the pool needs huge pages |
| libiscsi | `iser://` | version 1.19 reads memory that it has not initialised and crashes (`MALLOC_PERTURB_=255` helps), \
and has no requests above 512 KiB |
| `mpirun` | `--mca btl openib` | Debian's has only the connection manager udcm, which RoCE does not have |
| `udpong` | all | datagram rsockets address a peer by its LID, without GRH; RoCE has no LIDs |
| `rdma_xclient`, `rdma_xserver` | `-c x` | XRC is not supported |
| `fio` | `--ioengine=rdma` | runs; `--verb=send` with a server whose `--iodepth` covers all messages (the suite: 128). \
With a smaller one, on a busy machine or while frames are lost the client may hang after `cq completion status`: 13, \
because it connects with an RNR retry count of 0 and gives its server a fixed 0.5 s to post receives, or because its \
memory was late ([memory.md](memory.md)) (then the server's daemon counts `sent_rnr_naks`); 12, because the server \
destroys its QP at its last receive, and if that one's ACK is lost nobody sends another. A client whose connection \
fails says so and ends with status 0 |
| librspreload | `nc` of netcat-openbsd | it calls `accept4`, and `socket` with `SOCK_NONBLOCK`, which librspreload \
does not take over |
| librspreload | `nc` of netcat-traditional with a daemon of three workers | it refuses descriptors above 16 (`Preposterous fd value`); a program has one more for each worker |
| librspreload | `iperf3` | no data is read, on any device: `select` of librspreload 44.0 answers with the numbers of \
rsockets. Seen in a debugger: asked for the descriptors 3, 18 and 24, it returned 1 and 22, the rsocket behind 24, \
whose data waited. Later versions keep the program's numbers |
| librspreload | `iperf3`, `nc`: a server's `select` or `poll` on a listener | may see a connection up to 5 s late: \
librdmacm's own thread takes the event first, and `rpoll` looks again after its `wake_up_interval` |
| libfabric over rdma_cm | on a device whose address is on no interface of the host | it gets its addresses from \
getifaddrs |
| `ibv_import_device` | as a process's first call | only listing the devices loads the provider |
| `ucx_perftest` | a check of the data | the program has none; the MPI job over UCX compares every byte |
| `mpirun` | the test as an ordinary user | the test enters two network namespaces, which needs root |
| any program | linked with a static libibverbs (`libibverbs.a`) | the static library loads no provider from \
`/etc/libibverbs.d` and lists no device: link the shared one (`ldd PROGRAM` shows `libibverbs.so.1`) |

pyverbs' traffic tests also run while frames are lost. This command runs them 200 times with 1 % of all frames lost:

<!-- untested: a loop of minutes over the whole suite -->
```sh
UROCE_TEST_LOOPS=200 UROCE_BUILD=build /usr/bin/python3 test/system/test_prog_lossy.py
```

(`meson test --suite programs` runs two loops.)

In a UD completion `sl` gives the type of the datagram's IP header, as UCX expects of a RoCE NIC, not the sender's
priority.

## What is in /sys/class/infiniband

Under `uroce-run` and after `urocectl install`, programs find the entries that the kernel has for a RoCE port. State,
`counters/` and `hw_counters/` are files that the daemon keeps next to its socket (`SOCKET.sysfs/DEVICE`) and writes once
per second. A container needs access to that folder, too; without it, it sees the state at the program's start and no
counters.
`hw_counters/` has the names of NIC drivers if there is an equivalent, and all of uroced's own counters. GIDs and P_Keys
are those at the program's start; libibverbs itself gets the present ones. `device/` describes the location of the
interface (`numa_node`, `local_cpus`) and has uroce's identity, not the NIC's.

## Programs with large packages

`ninja -C build programs-long` installs and runs them, as root:

* Ceph 16.2.15: monitor, OSD and rados, `ms_type = async+rdma`; objects of 1 B to 16 MiB compared byte for byte.
* Open MPI 4.1.4 and MPICH 4.0.2: 4 ranks that compare every byte, with their default transports and with
  `UCX_TLS=rc,self`.
* podman: the commands of doc/containers.md, unchanged.

For Ceph set `ms_async_rdma_local_gid` to the device's IPv4 GID, and lower `ms_async_rdma_receive_buffers`: its default
of 32768 buffers of 128 KiB is 4 GiB of registered memory for each process. Ceph fixes the path MTU at 1024.
`UROCE_CEPH_BENCH=1` compares its write rates with TCP's; doc/notes/performance.md has the figures.
"""


def version(package):
    done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], text=True,
                          capture_output=True)
    if done.stdout:
        return done.stdout
    shown = subprocess.run(["apt-cache", "policy", package], text=True, capture_output=True)
    found = re.search(r"Candidate: (\S+)", shown.stdout)
    return found[1] if found else "not installed"


def package_of(program):
    return next((pkg for start, pkg in {**CM_PACKAGES, **PACKAGES}.items() if program.startswith(start)), None)


def cm_cases(path):
    """program -> setting -> (passed, tests, passed while frames were lost, tests then)."""
    found = collections.defaultdict(lambda: {setting: [0, 0, 0, 0] for setting in CM_SETTINGS})
    for line in open(path, encoding="utf-8"):
        test = json.loads(line)
        setting = next((s for s in CM_SETTINGS if s in test["name"]), None)
        for out in test.get("stdout", "").splitlines() if setting else ():
            case = re.match(r"(ok|not ok) \d+ - (\w+): (.*?)(?: \([\d.]+ s\))?$", out)
            if case and package_of(case[2]):
                at = 2 * case[3].endswith("lost")
                found[case[2]][setting][at] += case[1] == "ok"
                found[case[2]][setting][at + 1] += 1
    return found


def print_cm(found):
    print("\n## rdma_cm\n")
    print("From a run of `meson test --suite cm`: passed of tested, and, behind the comma, while 1 % of all frames is\n"
          "lost. packet: root's daemons on net_af_packet. udp: everything as uid 65534 without capabilities, on the\n"
          "kernel's addresses. share: port packet with the interface's addresses. pair: one device of a --pair.\n")
    print("| program | package | version | packet | udp | share | pair |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for program, settings in found.items():
        def cell(n):
            parts = [f"{n[i]} of {n[i + 1]}" for i in (0, 2) if n[i + 1]]
            return ", ".join(parts) or "-"
        package = package_of(program)
        print(f"| `{program}` | {package} | {version(package)} | "
              + " | ".join(cell(settings[s]) for s in CM_SETTINGS) + " |")


def cases(path):
    """(program, what, passed) forevery test, and lines about the skipped tests of pyverbs."""
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
          "Debian's\nprograms as packaged, under `uroce-run`, between two daemons unless the "
          "program uses only one device.\n")
    print("| program | package | version | command lines tested | passed |")
    print("| --- | --- | --- | --- | --- |")
    for program, tests in programs.items():
        package = package_of(program)
        good = sum(passed for _, passed in tests)
        print(f"| `{program}` | {package} | {version(package)} | {len(tests)} | {good} |")
    print_cm(cm_cases(sys.argv[1]))
    print(LIMITS)
    print("## pyverbs' own tests that are skipped\n")
    why = collections.Counter(skipped.values())
    print("These are generic tests; the tests of single vendors' devices are left out.")
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
