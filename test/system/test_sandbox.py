#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The system calls that uroced and its broker refuse themselves. probe.c tries them from inside their threads."""
import contextlib
import os
import pathlib
import re
from unittest import mock

import control
import lib

PAIR = ["name=uroce0,port=net_ring_xa,addr=10.9.0.1/24", "name=uroce1,port=net_ring_xb,addr=10.9.0.2/24"]
# Names of threads by role; EAL's differ by version of DPDK. A thread that runs before it has its name counts as uroced.
ROLES = ("rte-worker|lcore-worker", "uroced", "broker")
OF_EAL = "eal-intr|dpdk-intr"


def pair(mode, env=None):
    with mock.patch.object(lib, "SANDBOX", mode), mock.patch.dict(os.environ, env or {}):
        return lib.Daemon([], PAIR, lib.netns(), (*lib.ONE_WORKER, "--pair", "x"))


def status(pid):
    """The status of each thread of a process: field -> text."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # the thread has ended
            yield {name: text.strip() for name, text in
                   (line.split(":", 1) for line in (task / "status").read_text().splitlines())}


def broker_of(daemon):
    tasks = pathlib.Path(f"/proc/{daemon.proc.pid}/task").iterdir()
    pids = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
    (broker,) = (pid for pid in pids if "broker" in lib.cmdline(pid))
    return broker


def filtered(pid):
    """Each thread has one filter, and takes the signal of a refused call: blocked, it would end the process. A broker may
    not have begun, and libc blocks all signals while it starts a thread."""
    def good(fields):
        return (fields["Seccomp"] == "2" and fields["NoNewPrivs"] == "1" and fields.get("Seccomp_filters", "1") == "1"
                and not int(fields["SigBlk"], 16) >> 30 & 1)  # SIGSYS is 31

    def all_good():
        threads = list(status(pid))
        return all(good(fields) for fields in threads) and [fields["Name"] for fields in threads]

    return lib.until(f"all threads of {pid} are restricted", all_good)


def every_thread():
    daemon = pair("kill")
    names = filtered(daemon.proc.pid)
    print(f"# threads: {names}")
    assert len(names) > 3, names
    filtered(broker_of(daemon))
    client = control.Client(daemon.socket, "uroce0")  # makes the daemon and its broker start more threads
    client.do("ALLOC_PD")
    client.do("REG_MR", control.region(0), [])
    client.close()
    filtered(daemon.proc.pid)
    filtered(broker_of(daemon))
    shown = daemon.show("daemon")["daemon"][0]
    assert (shown["sandbox"], shown["refused_calls"]) == ("kill", 0), shown
    daemon.stop()


def tried(mode):
    """What each thread's tries said: thread -> call -> result."""
    out = lib.tmpdir() / "tried"
    out.touch(0o600)
    env = {"LD_PRELOAD": str(lib.BUILD / "test/system/libprobe.so"), "PROBE_OUT": str(out)}
    if mode == "off":
        env["PROBE_FREE"] = "1"
    daemon = pair(mode, env)
    roles = ROLES if mode == "off" else (*ROLES, OF_EAL)
    said = {}

    def complete():
        said.clear()
        for line in out.read_text().splitlines():
            thread, call, result = line.rsplit(" ", 2)
            said.setdefault(thread, {})[call] = result
        ended = [thread for thread, results in said.items() if results.pop("end", "")]
        return all(any(re.match(role, thread) for thread in ended) for role in roles)

    lib.until("the threads have tried", complete)
    return daemon, said


def probes():
    free, said = tried("off")
    assert free.show("daemon")["daemon"][0]["sandbox"] == "off"
    assert next(status(free.proc.pid))["Seccomp"] == "0"
    done = {call for results in said.values() for call, result in results.items() if result != "EPERM"}
    free.stop()
    daemon, held = tried("on")
    calls = {call for results in held.values() for call in results}
    print(f"# {len(calls)} calls; refused even without the sandbox: {sorted(calls - done)}")
    assert len(done) * 3 > len(calls) * 2, done
    for thread, results in held.items():
        wrong = {call: result for call, result in results.items() if result != "EPERM"}
        assert not wrong, (thread, wrong)
    # It works, has counted them and names some; lines are limited in number.
    shown = daemon.show("daemon")["daemon"][0]
    assert shown["sandbox"] == "on" and shown["refused_calls"] >= 3 * 20, shown
    lines = daemon.proc.output()
    for who in ("thread", "the broker"):
        assert re.search(rf"sandbox: {who}.*system call \w+ \(\d+\) was refused", lines), (who, lines)
    daemon.stop()


def files_tried(mode):
    """What the threads of a daemon said that has no filters, but, unless mode is off, its Landlock rules: thread -> call ->
    results."""
    folder = lib.tmpdir()
    for name in ("there", "victim", "tried"):
        (folder / name).touch(0o600)
    env = {"LD_PRELOAD": str(lib.BUILD / "test/system/libprobe.so"), "PROBE_OUT": str(folder / "tried"),
           "PROBE_FILES": str(folder)}
    if mode == "off":
        env["PROBE_FREE"] = "1"
    daemon = pair(mode, env)
    said = {}

    def complete():
        said.clear()
        for line in (folder / "tried").read_text().splitlines():
            thread, call, result = line.rsplit(" ", 2)
            said.setdefault(thread, {}).setdefault(call, []).append(result)
        ended = sum(len(results.pop("end", ())) for results in said.values())
        return ended == len(os.listdir(f"/proc/{daemon.proc.pid}/task"))

    lib.until("all threads have tried", complete)
    return daemon, said


def files():
    """Landlock alone, without the filters that do not even let a worker try."""
    free, said = files_tried("off")
    assert free.show("daemon")["daemon"][0]["landlock"] == 0
    done = {call for results in said.values() for call, result in results.items() if "EACCES" not in result}
    free.stop()
    daemon, held = files_tried("on")
    abi = daemon.show("daemon")["daemon"][0]["landlock"]
    if abi == 0:
        lib.skip_case("Landlock's rules", "the kernel has none")
        daemon.stop()
        return
    calls = {call for results in held.values() for call in results} - ({"connect_tcp"} if abi < 4 else set())
    print(f"# Landlock {abi}; threads: {sorted(held)}")
    assert done >= calls, f"refused without the rules: {calls - done}"
    for role in (*ROLES[:2], OF_EAL, "uroce-blame", "live"):
        assert any(re.match(role, thread) for thread in held), (role, list(held))
    for thread, results in held.items():
        wrong = {call: results[call] for call in calls if set(results[call]) != {"EACCES"}}
        assert not wrong, (thread, wrong)
    control.Client(daemon.socket, "uroce0").close()
    daemon.stop()


def without_landlock():
    """A kernel without it: the daemon says so once, and runs with its filters."""
    daemon = pair("kill", {"LD_PRELOAD": str(lib.BUILD / "test/system/libprobe.so"), "PROBE_NO_LANDLOCK": "1"})
    shown = daemon.show("daemon")["daemon"][0]
    assert (shown["sandbox"], shown["landlock"], shown["refused_calls"]) == ("kill", 0, 0), shown
    assert daemon.proc.output().count("Landlock") == 1, daemon.proc.output()
    daemon.stop()


def loud():
    """--sandbox=kill ends the daemon with a line that names the call, which is what makes the suite find calls that the
    lists lack."""
    out = lib.tmpdir() / "tried"
    out.touch(0o600)
    with mock.patch.dict(os.environ, LD_PRELOAD=str(lib.BUILD / "test/system/libprobe.so"), PROBE_OUT=str(out)):
        proc = lib.Proc([lib.UROCED, "--socket", lib.tmpdir() / "s", "--no-huge", "--pair", "x", "--no-telemetry", "--file-prefix",
                         lib.unique("ur"), "--sandbox", "kill"], lib.netns())
    assert proc.wait(60) != 0, proc.output()
    assert re.search(r"--sandbox=kill: system call \d+ is not allowed", proc.output()), proc.output()


def main():
    lib.need_root()
    if next(status(os.getpid())).get("Seccomp") is None:
        lib.skip("needs a kernel with seccomp")
    with lib.case("every thread is restricted"):
        every_thread()
    with lib.case("forbidden calls fail inside each thread, and are reported"):
        probes()
    with lib.case("no thread opens, makes or removes other files than the daemon's"):
        files()
    with lib.case("a kernel without Landlock"):
        without_landlock()
    with lib.case("--sandbox=kill is loud"):
        loud()
    lib.finish()


if __name__ == "__main__":
    main()
