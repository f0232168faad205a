#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce on an ordinary machine: a guest with a distribution's kernel, which has the RDMA core as a module, and with
this machine's programs. The kernel that runs the other tests has no RDMA core.

    stock.py [states] [distros] [user] [demo] [yama]    these parts, else all but demo

UROCE_TEST_FULL=1 runs every part and combination, and transfers of the README's length.
UROCE_STOCK_KERNEL names another kernel: SUITE/PACKAGE, as bullseye/linux-image-amd64 (Linux 5.10), trixie/linux-image-amd64
or bookworm/linux-image-cloud-amd64.
The cloud flavour has an RDMA core but no rxe: what needs rxe is skipped.

The guest's processor lacks some instructions of this machine's, so uroce is built for any x86-64 in build-stock."""
import fcntl
import os
import shutil
import sys

import guest as guestlib
from guest import lib
import debian_root  # noqa: E402, behind guest, which knows its folder

SOURCE = lib.HERE.parent.parent
BUILD = SOURCE / "build-stock"
OPTIONS = ("-Dtarget=x86-64-v2", "-Dtests=false", "-Dtransport_lto=false", "-Dman=disabled")
# A program that makes system calls fail: what a security module of another distribution refuses.
LOCK = SOURCE / "test/unit/verbs/test_run.py"
USERS = {"root": "", "uid 65534": "setpriv --reuid 65534 --regid 65534 --clear-groups "}
VIEWS = ("namespace", "preload")
STATES = ("unloaded", "loaded", "rxe")
RELEASES = ("trixie", "sid")  # rdma-core 56 and later; this machine has 44


def build(targets="$RUN_TARGETS"):
    """Builds what runs in the guest, unless it is there. targets: as for setup_build of scripts/setup.sh."""
    with open(guestlib.cache_dir() / "stock.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lib.sh("bash", "-c", f"cd {SOURCE} && . scripts/setup.sh && setup_targets=\"{targets}\" && "
               f"setup_build build-stock {' '.join(OPTIONS)}",
               timeout=1800)


class Machine:
    """The guest, and scripts in it that have the functions of guest/stock.sh."""

    def __init__(self, more=()):
        """more: options of run-guest.sh"""
        limit = 36000 if lib.FULL else 9000  # ends the guest of a test that was killed
        self.guest = guestlib.Guest(f"stock {SOURCE}", more=["--root", "--mem", "2048", "--timeout", str(limit), *more],
                                    kernel=os.environ.get("UROCE_STOCK_KERNEL") or None)
        self.good(f"stock_programs {BUILD}")
        print(f"# kernel {self.good('uname -r').strip()}", flush=True)
        self.has_rxe = self.guest.run("modinfo rdma_rxe")[0] == 0

    def states(self, part):
        """The states of the RDMA core that this kernel can have. Counts a skipped test of part for another one."""
        for state in STATES:
            if state == "rxe" and not self.has_rxe:
                lib.skip_case(f"{part}, RDMA core rxe", "the kernel has no rdma_rxe")
            else:
                yield state

    def good(self, script, timeout=700):
        """Runs it. What it printed; fails with that if its status is not 0."""
        rc, out = self.guest.run(f". guest/stock.sh; PATH=/run/bin:$PATH\n{script}", timeout=timeout)
        assert rc == 0, f"{script}: status {rc}\n{out}"
        return out


def runs(state):
    """(name, words that start a program) of each user and view; a half of them where both halves say the same."""
    for i, (user, become) in enumerate(USERS.items()):
        for j, view in enumerate(VIEWS):
            if lib.FULL or state == "loaded" or (i == j) == (state == "rxe"):
                yield f"{user}, {view}", f"{become}uroce-run --view={view}"


def states(machine):
    """Programs find the devices whatever the kernel has, and leave its RDMA core alone."""
    machine.good("pair_daemon")
    for state in machine.states("states"):
        machine.good(f"core {state}")
        for name, run in runs(state):
            with lib.case(f"RDMA core {state}, {name}: devices, messages, rdma_cm"):
                machine.good(f"seen {run} && transfers 18600 {run}")
            if lib.FULL or (state, name) == ("loaded", "uid 65534, preload"):
                with lib.case(f"RDMA core {state}, {name}: verbs as NCCL uses them"):
                    machine.good(f"{run} collective uroce0 uroce1")
                with lib.case(f"RDMA core {state}, {name}: UCX, MPI"):
                    become, bare = run.split("uroce-run")[0], "uroce-run" + run.split("uroce-run")[1]
                    machine.good(f"ucx 18650 {run} && become='{become}' && mpi {bare}")
        if state == "unloaded":
            with lib.case("uroce-run has not loaded the RDMA core"):
                machine.good("! core_loaded")
        if state == "rxe":
            with lib.case("urocectl install, the kernel has a device: refused"):
                machine.good("refused the kernel has RDMA devices")
            for view in VIEWS:
                with lib.case(f"--keep, {view}: messages over uroce's devices and over the kernel's"):
                    machine.good(f"kept uroce-run --keep --view={view}")
            with lib.case("port udp beside rxe, which has UDP port 4791: the error names it"):
                out = machine.good("! uroced --socket /run/other --file-prefix other --dev name=uroce9,port=udp,iface=rxe-port 2>&1")
                assert "4791" in out and "rxe" in out, out
            with lib.case("urocectl install, the RDMA core is in use: refused"):
                machine.good("rdma link del rxe0 && refused 'RDMA core (ib_core) is in use' && modprobe -r rdma_rxe")
        else:
            with lib.case(f"urocectl install, RDMA core {state}: devices without uroce-run, and none behind uninstall"):
                machine.good(f"installed {USERS['uid 65534']}")
    machine.good("daemon_ends")


def distros(machine):
    """Programs of later releases. From rdma-core 56 on librdmacm, too, asks the kernel first."""
    machine.good("pair_daemon")
    for release in RELEASES if lib.FULL else RELEASES[:1]:
        machine.good(f"other_root {release} {debian_root.programs_of(release)} {BUILD}")
        enter = f"nsenter --mount=/run/roots/{release} "
        version = machine.good(enter + "dpkg-query -Wf '${Version}' librdmacm1t64").strip()
        print(f"# {release}: librdmacm {version}", flush=True)
        # rping of rdma-core 65: long_distros.py
        bound = "bound='timeout 120'; " if release == "sid" else ""
        for state in machine.states(release):
            if state == "unloaded" and not lib.FULL:
                continue
            machine.good(f"core {state}")
            if state == "rxe":
                with lib.case(f"{release}: without uroce-run, libibverbs finds the kernel's device"):
                    machine.good(f"{enter} ibv_devices >/run/said && grep rxe0 /run/said && ! grep uroce /run/said")
            for name, run in runs(state) if lib.FULL or state == "rxe" or not machine.has_rxe else ():
                with lib.case(f"{release}, RDMA core {state}, {name}: devices, messages, rdma_cm"):
                    machine.good(f"{bound}found {enter}{run} && transfers 18600 {enter}{run} && connected 18610 {enter}{run}")
            if state != "rxe":
                with lib.case(f"{release}, RDMA core {state}: urocectl install"):
                    machine.good(f"{bound}inside='{enter}'; installed {USERS['uid 65534']}")
    machine.good("core unloaded && daemon_ends")


def demo(machine):
    """demo.sh as root, in a folder whose build is build-stock: nothing is compiled in the guest."""
    with lib.case("demo.sh"):
        out = machine.good(f"mkdir /tmp/demo && cd /tmp/demo && ln -s {SOURCE}/* . && ln -sfn build-stock build && ./demo.sh",
                           timeout=8000)
        assert out.count("all bytes equal:") == 2 and out.endswith("demo.sh: success: all bytes received as sent\n"), out
        print("".join(f"# {line}\n" for line in out.splitlines()), flush=True)  # figures of an emulated processor


def firewall(machine, rule):
    """A peer that cannot be reached: both programs end with an error, and work again afterwards."""
    edit = f"ip netns exec one iptables %s INPUT -p udp --dport 4791 -j {rule}"
    machine.good(edit % "-A")
    out = machine.good("! readme 'ib_write_bw -x 1 -u 10' 'ib_write_bw -x 1 -u 10 192.168.1.20'")
    assert "transport retry counter exceeded" in out or "status 12" in out, out
    machine.good(edit % "-D")


def user(machine):
    """README's two machines as an ordinary user, with the limits that distributions set."""
    machine.good("two_machines && sysctl -w vm.unprivileged_userfaultfd=0 kernel.yama.ptrace_scope=1")
    machine.guest.run("sysctl -w kernel.io_uring_disabled=2")  # later kernels have it
    write, ping = (("ib_write_bw -x 1", "ib_write_bw -x 1 192.168.1.20"),
                   ("rping -s -a 192.168.1.20 -C 10", "rping -c -a 192.168.1.20 -C 10 -v"))
    short = [f"{line} -n 100" for line in write]
    namespaces = "sysctl -qw user.max_user_namespaces=%d; "
    lock = f"lock=\"/usr/bin/python3 {LOCK} lock {{\\\"mount\\\":13,\\\"open_tree\\\":13}}\"; "
    limited = "user namespaces without capabilities (AppArmor)"
    cases = [("README's ib_write_bw", "", *(write if lib.FULL else short)), ("README's rping", "", *ping),
             ("no user namespaces: ib_write_bw", namespaces % 0, *short),
             (f"{limited}: rping", namespaces % 10000 + lock, *ping)]
    if lib.FULL:
        cases += [("no user namespaces: rping", namespaces % 0, *ping),
                  (f"{limited}: ib_write_bw", namespaces % 10000 + lock, *short)]
        cases += [(f"memory mode {mode}", f"export UROCE_MR_MODE={mode}; ", *short) for mode in ("copy", "adopt")]
    for name, before, server, client in cases:
        with lib.case(f"ordinary user, {name}"):
            machine.good(f"{before}readme '{server}' '{client}'")
    for rule in ("DROP", "REJECT"):
        with lib.case(f"a firewall that answers by {rule} for UDP port 4791"):
            firewall(machine, rule)
    with lib.case("ordinary user, after all: ib_write_bw"):
        machine.good(f"readme '{short[0]}' '{short[1]}'")


def yama(machine):
    """Memory of programs with threads, for each setting of the Yama module. A thread has to be stopped while pages move, as
    no ordinary user gets a userfaultfd. The last setting stays until the guest ends."""
    become = USERS["uid 65534"]
    machine.good(f"sysctl -w vm.unprivileged_userfaultfd=0; pair_daemon && own_daemon {become}")
    for scope in range(4):
        machine.good(f"echo {scope} >/proc/sys/kernel/yama/ptrace_scope")
        for view in VIEWS:
            for whose, socket in (("the user's daemon", "/tmp/own/sock"), ("root's daemon", "/run/uroce/uroced.sock")):
                # root may trace, and the owner of a user namespace in it
                may = scope < 2 or (scope == 2 and (whose == "root's daemon" or view == "namespace"))
                with lib.case(f"ptrace_scope {scope}, {whose}, {view}: memory of a program with threads is "
                              f"{'adopted' if may else 'copied, and adopted when they have ended'}"):
                    machine.good(f"timeout 300 {become}uroce-run --socket {socket} --view={view} paused uroce0 "
                                 f"{'asleep' if may else 'forbidden'}")
        if scope > 1:
            with lib.case(f"urocectl doctor says that ptrace_scope is {scope}"):
                machine.good(f"{become}urocectl --socket /tmp/own/sock doctor | grep 'kernel.yama.ptrace_scope is {scope}'")
    machine.good("daemon_ends && kill $(cat /run/own.pid)")


def main():
    lib.need_root()
    for program in ("qemu-system-x86_64", "mmdebstrap"):
        if not shutil.which(program):
            lib.skip(f"{program} is not installed")
    parts = [part for part in (states, distros, user, demo, yama) if part.__name__ in sys.argv[1:]] or \
        [states, distros, user] + [demo] * lib.FULL + [yama]
    build("$DEMO_TARGETS" if demo in parts else "$RUN_TARGETS")
    machine = Machine()
    for part in parts:
        part(machine)
    with lib.case("the guest's kernel has nothing to complain about"):
        machine.guest.stop()
        said = machine.guest.proc.output()
        assert "BUG" not in said and "Oops" not in said, said
    lib.finish()


if __name__ == "__main__":
    main()
