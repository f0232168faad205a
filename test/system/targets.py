#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds uroce for another processor or by another compiler, and runs the tests of one process there.

targets.py arm64      a cross build in a root of Debian 12, and the suites unit and sim by qemu-user. qemu translates to
                      x86-64's loads and stores, so this shows nothing about the order of arm64's memory
                      (doc/memory-order.md)
targets.py NAME       one of COMPILED, on this machine: the suite unit
targets.py one_cpu    the suite unit of the build, on one processor

The root and the builds are in the build folder's releases/ and targets/."""
import os
import re
import subprocess
import sys

import debian_root
import lib

# Environment and meson's options of each build of this machine.
COMPILED = {
    "clang": ({"CC": "clang"}, []),
    "O3": ({}, ["-Doptimization=3"]),
    "v2": ({}, ["-Dtarget=x86-64-v2"]),
}
# Tests in Python that need packages of the tests.
PYTHON = ("wire_oracle", "wire_mad_oracle", "bench-report")
# What cannot run by qemu-user 7.2. Each counts as skipped.
NO_QEMU = {
    **dict.fromkeys(("engine_stopped", "mem_adopt_pause"), "qemu-user has no ptrace"),
    "ipc-message": "qemu-user receives the descriptors of a message that is only looked at",
    "page_data": "qemu-user's mremap has no MREMAP_DONTUNMAP",
    "port-udp": "qemu-user has no SO_ATTACH_REUSEPORT_CBPF",
    "verbs-cm": "qemu-user has no robust mutexes",
    "worker-blame": "qemu-user's vfork does not block the caller",
    "verbs-versions": "the Python of this machine loads the provider",
    "verbs-uroce-run": "qemu-user has no seccomp; programs of this machine in the view",
    **{f"mem_adopt_{what}": "qemu-user has no userfaultfd" for what in (
        "alone", "fork", "hostile", "kinds", "lifetime", "limits", "linger", "plain_daemon", "removed", "stores")},
}
QEMU = "QEMU_SET_ENV=LD_PRELOAD=/srv/qemu_ioctl.so"  # of the programs that it runs; see qemu_ioctl.c


def tests_of(listed, left_out):
    """Names of the tests in the output of `meson test --list`."""
    names = [line.rpartition(" / ")[2] for line in listed.splitlines() if " / " in line]
    return [name for name in names if name not in left_out]


def arm64():
    if not debian_root.ForeignRoot.works():
        lib.skip("no binfmt_misc in a user namespace, which Linux 6.7 brought")
    with lib.case("arm64: everything compiles"):
        root = debian_root.arm64_build()
    with lib.case("arm64: programs start"):
        said = root.bash("file=build/app/uroced/uroced\nod -An -tx1 -j18 -N2 $file\n$file --version")
        assert "b7 00" in said and "uroced" in said, said
    with lib.case("arm64: fences in front of a message's bytes, and of its last ones"):
        said = root.bash("aarch64-linux-gnu-objdump -d --disassemble=mem_store_ragged build/lib/mem/liburoce_mem.a")
        steps = re.findall(r"dmb\tish$|<memmove>$", said, re.MULTILINE)
        assert steps[:3] == ["dmb\tish", "<memmove>", "dmb\tish"], said
    root.bash("aarch64-linux-gnu-gcc -O2 -shared -fPIC -o /srv/qemu_ioctl.so test/system/qemu_ioctl.c")
    for suite in ("unit", "sim"):
        names = tests_of(root.bash(f"cd build\nmeson test --no-rebuild --list --suite {suite}"), (*PYTHON, *NO_QEMU))
        with lib.case(f"arm64: {len(names)} programs of suite {suite} pass by qemu-user"):
            root.bash(f"cd build\n{QEMU} meson test --no-rebuild --timeout-multiplier 20 --print-errorlogs " + " ".join(names))
    for name, why in NO_QEMU.items():
        lib.skip_case(f"arm64: {name}", why)


def run(*argv, **env):
    done = subprocess.run([str(arg) for arg in argv], env={**os.environ, **env}, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False, timeout=6000)
    assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout[-6000:]}"


def unit_tests(folder, *before):
    run(*before, "meson", "test", "-C", folder, "--no-rebuild", "--suite", "unit", "--timeout-multiplier", "10",
        "--print-errorlogs")


def compiled(name):
    env, options = COMPILED[name]
    folder = lib.BUILD / "targets" / name
    folder.parent.mkdir(exist_ok=True)
    with lib.case(f"{name}: everything compiles"):
        if not (folder / "build.ninja").exists():
            run("meson", "setup", folder, debian_root.SOURCE, *options, **env)
        run("ninja", "-C", folder, CCACHE_NOHASHDIR="1")
    with lib.case(f"{name}: unit tests pass"):
        unit_tests(folder)


def one_cpu():
    cpu = min(os.sched_getaffinity(0))
    with lib.case("one processor: unit tests pass"):
        unit_tests(lib.BUILD, "taskset", "-c", cpu)


def main(name):
    lib.need_root()
    special = {"arm64": arm64, "one_cpu": one_cpu}
    if name in special:
        special[name]()
    else:
        compiled(name)


main(*sys.argv[1:])
lib.finish()
