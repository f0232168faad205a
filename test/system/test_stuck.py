#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Copied memory that blocks (stuck.c, stuckfs.py): its user gets an error or a late completion; neighbours and the
daemon are not affected."""
import os
import signal
import subprocess

import lib
import stuckfs

STUCK = lib.BUILD / "test/system/stuck"


def spoken(side, mode, file):
    """Starts stuck in this mode, with a pipe to its standard input."""
    argv = [lib.UROCE_RUN, "--socket", side.daemon.socket, STUCK, side.dev, mode, file]
    proc = subprocess.Popen([str(word) for word in argv], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True, process_group=0,
                            env={**os.environ, **lib.asan_env()})
    lib.at_end(proc.kill)
    return proc


def never(fs, extra):
    link = lib.link_loop(extra)
    lib.tap(link.a.spawn([STUCK, link.a.dev, "silent", fs.file("hole")]), "silent", 300)
    with lib.case("drops are counted, the log names the client"):
        assert link.a.daemon.counters("drops")["memory_late"] > 0
        assert "still waits for its memory" in link.a.daemon.proc.output()
    with lib.case("SIGTERM ends the daemon while threads wait"):
        link.nothing_left()
        link.stop()


def late(fs, extra):
    link = lib.link_loop(extra)
    lib.tap(link.a.spawn([STUCK, link.a.dev, "slow", fs.file("slow")]), "slow", 300)
    with lib.case("no QP ran out of retries"):
        stats = link.a.daemon.counters("stats")
        assert stats["retry_exceeded"] == 0, stats
    link.nothing_left()
    link.stop()


def killed(fs):
    link = lib.link_loop()
    with lib.case("while a copy waits, neighbours continue and SIGKILL ends the daemon"):
        proc = spoken(link.a, "hold", fs.file("hole"))
        assert proc.stdout.readline() == "stuck 0\n"
        link.a.daemon.proc.popen.send_signal(signal.SIGKILL)
        assert link.a.daemon.proc.wait(60) == -signal.SIGKILL
        proc.stdin.close()  # the program's exit waits for its pages


def broker_of(daemon):
    children = f"/proc/{daemon.proc.pid}/task/{daemon.proc.pid}/children"
    with open(children, encoding="ascii") as file:
        return [int(pid) for pid in file.read().split() if "broker" in lib.cmdline(pid)]


def left_behind(fs):
    link = lib.link_loop()
    proc = spoken(link.a, "leave", fs.file("hole"))
    lines = []
    for line in proc.stdout:
        lines.append(line)
        if line == "# answer\n":
            fs.answer()
            proc.stdin.write("\n")
            proc.stdin.flush()
    with lib.case("a user leaves few threads behind, and none once their pages arrive"):
        assert proc.wait(60) == 0 and "".join(lines).count("\nok") + lines[0].startswith("ok") == 3, lines
    with lib.case("the user's other transfers continue"):
        lib.tap(link.a.spawn([STUCK, link.a.dev, "slow", fs.file("slow")]), "after it", 300)
    link.nothing_left()
    link.stop()


def lost_broker(fs):
    link = lib.link_loop()
    with lib.case("copies continue after the broker was killed"):
        proc = spoken(link.a, "again", fs.file("slow"))
        assert proc.stdout.readline() == "round\n"
        old = broker_of(link.a.daemon)
        os.kill(old[0], signal.SIGKILL)
        lib.until("another broker", lambda: broker_of(link.a.daemon) not in ([], old))
        out, _ = proc.communicate("xx", 100)
        assert proc.returncode == 0 and out == "round\n", out
    link.nothing_left()
    link.stop()


def main():
    lib.need_root()
    if not stuckfs.available():
        lib.skip("needs FUSE")
    fs = stuckfs.StuckFs()  # its end releases children that wait for their memory
    never(fs, lib.ONE_WORKER)
    late(fs, lib.TWO_WORKERS)
    killed(fs)
    lost_broker(fs)
    left_behind(fs)
    lib.finish()


main()
