#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A user makes workers wait for memory that it shares with them (punch.c): the daemon pauses that user, takes from it
what a worker waits for too long, and others' programs go on. With copy-memory the daemon has no such memory but its own
segments."""
import pathlib
import re
import resource

import lib

MALLORY = "65534"
REGION = 65536  # bytes of punch.c's
RUNS = 300  # of another user's program, beside the attack


def start(*options):
    """Two devices joined in memory, one worker; every user can reach the socket."""
    devs = [f"name=uroce{i},port=net_ring_pair{end},addr=10.9.0.{101 + i}/24,mtu=4096" for i, end in enumerate("ab")]
    daemon = lib.Daemon([], devs, lib.netns(), (*lib.ONE_WORKER, "--pair", "pair", "--socket-mode", "0666", *options),
                        socket=lib.public_socket())
    return lib.Link("pair", *(lib.Side(daemon, f"uroce{i}", "127.0.0.1") for i in range(2)), 4096)


def spawn_as(uid, link, *argv):
    """Starts a program on the devices of link as this user."""
    return lib.spawn(["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups",
                      lib.public_copy() / "app/uroce-run/uroce-run", "--socket", link.a.daemon.socket, *argv],
                     link.a.daemon.ns, lib.asan_env())


def attack(link, *argv, uid=MALLORY):
    """The same for one that says when it begins."""
    proc = spawn_as(uid, link, *argv)
    lib.until("attack", lambda: "attacks" in proc.output() or proc.poll() is not None)
    assert proc.poll() is None, proc.tail()
    return proc


def end():
    """The end takes as long as the kernel needs to free memory: it must not touch what was never used, such as packet
    buffers, of which there are some 70 MiB."""
    link = start()
    status = pathlib.Path(f"/proc/{link.a.daemon.proc.pid}/status").read_text(encoding="ascii")
    with lib.case("the daemon's end uses no more memory"):
        used = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])
        link.stop()
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        assert used / 2 < most < used + 32 * 1024, (used, most)


def is_mapped(link):
    """Whether the daemon has mapped the region of punch.c."""
    return "memfd:punched" in pathlib.Path(f"/proc/{link.a.daemon.proc.pid}/maps").read_text(encoding="utf-8")


def copied():
    for options, path in ((), "shared"), (("--copy-memory",), "copy"):
        link = start(*options)
        with lib.case(f"{' '.join(options) or 'by default'}: path {path}"):
            mallory = attack(link, lib.public_program("punch"), "uroce0", "region")
            paths = {row["path"] for row in link.a.daemon.show("mr")["mr"] if row["length"] == REGION}
            assert paths == {path} and is_mapped(link) == (path == "shared"), paths
            mallory.kill()
            link.nothing_left()
        link.stop()


def ends_during_an_attack(what):
    """The worker has to leave the memory that it waits for, also if its user is the only one."""
    link = start()
    mallory = attack(link, lib.public_program("punch"), "uroce0", what)
    with lib.case(f"{what}: the daemon ends while the attack goes on"):
        link.stop()
    mallory.kill()


def main():
    lib.need_root()
    end()  # first: it measures the largest child
    copied()
    for what in ("region", "doorbells", "rings"):
        ends_during_an_attack(what)
    for what in ("region", "doorbells", "rings"):
        link = start()
        with lib.case(f"{what}: the daemon pauses the user, and others go on"):
            mallory = attack(link, lib.public_program("punch"), "uroce0", what)
            said = f"uid {MALLORY}: workers had to wait for its memory"
            for _ in range(RUNS):
                lib.verbs_pair(link.a, link.b, "ibv_rc_pingpong", ["-d", "{dev}", "-g", "1", "-n", "2000"])
                if said in link.a.daemon.proc.output():
                    break
            else:
                raise AssertionError(f"{MALLORY} was never paused")
            if what == "region":  # whose WRITEs go on, and so do the pauses
                lib.until("show client says so", lambda: any(
                    row["paused_ms"] > 0 and row["uid"] == int(MALLORY) for row in link.a.daemon.show("client")["client"]))
            lib.verbs_pair(link.a, link.b, "ibv_rc_pingpong", ["-d", "{dev}", "-g", "1", "-n", "2000"])
            mallory.kill()
            link.nothing_left()
        link.stop()
    lib.finish()


if __name__ == "__main__":
    main()
