#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The cross build for arm64 on a kernel with pages of 16 KiB, in a guest that QEMU emulates: the unit tests that depend on
pages, also those that qemu-user cannot run, and a daemon with programs that transfer from memory of every kind.

arm64_guest.py [TEST ..]: of the unit tests only these, and without the daemon; session: the daemon.

The guest runs from memory. Its kernel is Debian 13's linux-image-arm64-16k, its files are Debian 12's. No Debian has a
kernel with pages of 64 KiB."""
import json
import re
import shutil
import sys

import debian_root
import lib

PAGE_KB = 16
MEMORY_MB = 4096
LIMIT_S = 9000  # only ends a guest that hangs
TREE = debian_root.TREE
UNNEEDED = ("usr/include", "usr/share", "lib/udev", "var")
FILES = ("busybox-static", "ibverbs-utils")  # and the libraries of the build
PROGRAMS = ("app/uroced/uroced", "app/uroce-run/uroce-run", "app/urocectl/urocectl", "app/uroce-bench/check/rcdata",
            "test/system/regions", "test/system/hugeclient", "drivers/verbs/liburoce-rdmav34.so",
            "drivers/verbs/liburoce-preload.so")
DATA = ("config/uroced.conf", "test/pcaps", "test/fuzz/regress")  # of the source, which tests read
# Folders of test/unit whose tests make no system call that depends on the page: `targets.py arm64` runs them, in less time.
NO_PAGES = ("bench", "cc", "cli", "cm", "engine", "events", "net", "wire")
# What cannot pass there. Each counts as skipped.
NO_GUEST = {}
INIT = """#!/bin/busybox sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ UROCE_TEST_SHORT=1
/bin/busybox --install -s /bin
mkdir -p /proc /sys /dev /tmp /run /var/tmp; ln -s /run /var/run
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp; mount -t tmpfs run /run
mkdir -p /dev/shm /dev/hugepages; mount -t tmpfs shm /dev/shm; mount -t hugetlbfs huge /dev/hugepages
echo madvise >/sys/kernel/mm/transparent_hugepage/enabled # tests count pages that are there
echo 0 >/proc/sys/kernel/printk; chmod 1777 /tmp /dev/shm
ip link set lo up
echo "guest: kernel $(uname -r)"
echo "guest: page $(awk '/^KernelPageSize/ {print $2; exit}' /proc/self/smaps)"
cd /srv/uroce/build
sh -e /session >/tmp/out 2>&1; status=$?
cat /tmp/out
echo "guest: session $status"
while read -r name limit command; do
	read -r before rest </proc/uptime
	timeout $limit $command >/tmp/out 2>&1 </dev/null; status=$?
	read -r after rest </proc/uptime
	case $status in 0 | 77) ;; *) tail -n 40 /tmp/out ;; esac
	echo "guest: test $name $status in $((${after%.*} - ${before%.*})) s"
done </tests
poweroff -f
"""
# A call that the lists of app/uroced/sandbox.c lack for this machine ends the daemon.
SESSION = """echo 4 >/sys/kernel/mm/hugepages/hugepages-32768kB/nr_hugepages
app/uroced/uroced --daemon --no-huge --sandbox kill --socket /run/s --idle adaptive --pair p --dev name=uroce0,port=net_ring_pa,addr=10.9.0.1/24 \\
	--dev name=uroce1,port=net_ring_pb,addr=10.9.0.2/24
on() { app/uroce-run/uroce-run --socket /run/s "$@"; }
ctl() { app/urocectl/urocectl --socket /run/s "$@"; }
on ibv_devinfo -d uroce0
on ibv_rc_pingpong -d uroce0 -g 1 -s 100000 -c >/tmp/server & server=$!
until on ibv_rc_pingpong -d uroce1 -g 1 -s 100000 -c 127.0.0.1; do kill -0 $server; sleep 1; done
wait $server
on app/uroce-bench/check/rcdata -d uroce0 -g 1 >/tmp/server 2>&1 & server=$!
until on app/uroce-bench/check/rcdata -d uroce1 -g 1 --mixed --ops 200 127.0.0.1; do kill -0 $server; sleep 1; done
wait $server
on test/system/regions uroce0
UROCE_MR_MODE=copy on test/system/regions uroce0
on test/system/hugeclient uroce0 >/tmp/huge || true # queues are on ordinary pages
cat /tmp/huge
grep -q '^ok 1' /tmp/huge
grep -q '^ok 2' /tmp/huge
for what in device port gid neigh client quota pd qp cq srq mr mw ah cm worker stats drops cm_stats daemon config trace; do
	ctl show $what >/dev/null
done
ctl capture uroce0 start /tmp/frames.pcapng
ctl impair uroce0 set drop=1%
on ibv_rc_pingpong -d uroce0 -g 1 >/tmp/server & server=$!
until on ibv_rc_pingpong -d uroce1 -g 1 127.0.0.1; do kill -0 $server; sleep 1; done
wait $server
ctl impair uroce0 clear
ctl capture uroce0 stop
ctl doctor || true
ctl --json show daemon
"""


def unit_tests(root):
    """Lines NAME LIMIT COMMAND of the unit tests to run, which are programs. The limit only ends a hang."""
    folders = re.compile(rf"{TREE}/build/test/unit/(?!({'|'.join(NO_PAGES)})/)")
    lines = []
    for test in json.loads(root.bash("cd build\nmeson introspect --tests")):
        suites = {suite.rpartition(":")[2] for suite in test["suite"]}
        if "unit" in suites and folders.match(test["cmd"][0]) and test["name"] not in NO_GUEST:
            lines.append(f"{test['name']} {test['timeout'] * 20} {' '.join(test['cmd'])}\n")
    return lines


def program_of(line):
    """The program of a line of unit_tests(), in the build folder."""
    return line.split()[2].removeprefix(f"{TREE}/build/")


def extracted(name, release, packages, unneeded=()):
    """A folder with the files of packages for arm64, kept in the build folder."""
    kept = lib.BUILD / "releases" / name
    if not kept.exists():
        folder = lib.tmpdir() / name
        lib.sh("mmdebstrap", "--quiet", "--variant=extract", "--architectures=arm64", f"--include={','.join(packages)}", release,
               folder, debian_root.MIRROR, timeout=3000)
        for path in unneeded:
            shutil.rmtree(folder / path, ignore_errors=True)
        for archive in folder.rglob("*.a"):
            archive.unlink()
        shutil.move(folder, kept)
    return kept


def files_of(root, tests, session):
    """A folder with the guest's files."""
    folder = lib.tmpdir() / "guest"
    lib.sh("cp", "-a", extracted("arm64-files", "bookworm", (*FILES, *debian_root.dev_packages()), UNNEEDED), folder)
    tree = folder / TREE[1:]
    programs = {*PROGRAMS, *(program_of(line) for line in tests)}
    (root.folder / "srv/programs").write_text("".join(f"{name}\n" for name in sorted(programs)))
    root.bash("rm -rf /srv/stripped\nwhile read -r name; do mkdir -p /srv/stripped/${name%/*}\n"
              "aarch64-linux-gnu-strip --strip-debug -o /srv/stripped/$name build/$name; done </srv/programs")
    shutil.copytree(root.folder / "srv/stripped", tree / "build")
    for name in DATA:
        copy = shutil.copytree if (debian_root.SOURCE / name).is_dir() else shutil.copy
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        copy(debian_root.SOURCE / name, tree / name)
    (folder / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    (folder / "tests").write_text("".join(tests))
    (folder / "session").write_text(session)
    (folder / "init").write_text(INIT)
    (folder / "init").chmod(0o755)
    return folder


def kernel():
    """The kernel's file, from Debian 13."""
    found = list(extracted("arm64-kernel", "trixie", ("linux-image-arm64-16k",), ("usr/lib/modules",)).glob("boot/vmlinuz-*-16k"))
    assert len(found) == 1, found
    return found[0]


def run_guest(folder):
    """Boots it, and returns what it prints until it powers off. Shows the results as they come: it takes an hour."""
    shown = 0

    def ended():
        nonlocal shown
        state = guest.poll()
        said = re.findall(r"^guest: .*(?=\r?\n)", guest.output(), re.MULTILINE)
        for line in said[shown:]:
            print(f"# {line}", flush=True)
        shown = len(said)
        return state is not None

    archive = lib.tmpdir() / "files.cpio"
    lib.sh("sh", "-c", f"cd {folder} && find . -print0 | cpio -0 -o -H newc --quiet >{archive}", timeout=600)
    guest = lib.spawn(["qemu-system-aarch64", "-machine", "virt", "-cpu", "cortex-a76", "-accel", "tcg,thread=multi", "-smp", "2",
                       "-m", MEMORY_MB, "-kernel", kernel(), "-initrd", archive, "-append", "console=ttyAMA0 quiet panic=-1 default_hugepagesz=2M",
                       "-display", "none", "-serial", "stdio", "-monitor", "none", "-nic", "none", "-no-reboot"])
    lib.until("the guest powers off", ended, LIMIT_S, every=2)
    assert guest.poll() == 0, guest.tail()
    return guest.output().replace("\r", "")


def main(only):
    lib.need_root()
    if not debian_root.ForeignRoot.works():
        lib.skip("no binfmt_misc in a user namespace, which Linux 6.7 brought")
    lib.sh("bash", "-c", f". {debian_root.SOURCE}/scripts/setup.sh; setup_packages qemu-system-arm mmdebstrap cpio", timeout=600)
    what = f"arm64, pages of {PAGE_KB} KiB:"
    with lib.case("arm64: everything compiles"):
        root = debian_root.arm64_build(*(PROGRAMS if only else ()))
    tests = [line for line in unit_tests(root) if not only or line.split()[0] in only]
    if only and tests:
        root.bash("ninja -C build " + " ".join(program_of(line) for line in tests))
    with_daemon = not only or "session" in only
    with lib.case(f"{what} a guest runs to its end"):
        said = run_guest(files_of(root, tests, SESSION if with_daemon else "true\n"))
        assert f"guest: page {PAGE_KB}\n" in said and "guest: session" in said, said[-4000:]
    results = dict(re.findall(r"^guest: test (\S+) (\d+) in \d+ s$", said, re.MULTILINE))
    with lib.case(f"{what} {len(tests)} unit tests pass"):
        failed = [line.split()[0] for line in tests if results.get(line.split()[0]) not in ("0", "77")]
        assert not failed, f"{failed}\n{said[-12000:]}"
    if with_daemon:
        with lib.case(f"{what} programs transfer on a daemon, from ordinary and huge pages"):
            assert "guest: session 0\n" in said, said[-6000:]
        with lib.case(f"{what} system calls are filtered"):
            assert re.search(r'"sandbox": ?"kill"', said) and re.search(r'"refused_calls": ?0\b', said), said[-6000:]
    for name, why in NO_GUEST.items():
        lib.skip_case(f"{what} {name}", why)


main(sys.argv[1:])
lib.finish()
