#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A user makes workers wait for memory that it shares with them (punch.c): the daemon pauses that user, takes from it
what a worker waits for too long, and others' programs go on. With copy-memory the daemon has no such memory: rings get
no holes."""
import ctypes
import errno
import mmap
import os
import pathlib
import re
import resource
import struct

import control
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
            mallory = attack(link, lib.public_program("punch"), "uroce0")
            paths = {row["path"] for row in link.a.daemon.show("mr")["mr"] if row["length"] == REGION}
            assert paths == {path} and is_mapped(link) == (path == "shared"), paths
            mallory.kill()
            link.nothing_left()
        link.stop()


def ends_during_an_attack():
    """The worker has to leave the memory that it waits for, also if its user is the only one."""
    link = start()
    mallory = attack(link, lib.public_program("punch"), "uroce0")
    with lib.case("the daemon ends while the attack goes on"):
        link.stop()
    mallory.kill()


def pauses():
    link = start()
    with lib.case("the daemon pauses the user, and others go on"):
        mallory = attack(link, lib.public_program("punch"), "uroce0")
        said = f"uid {MALLORY}: workers had to wait for its memory"
        for _ in range(RUNS):
            lib.verbs_pair(link.a, link.b, "ibv_rc_pingpong", ["-d", "{dev}", "-g", "1", "-n", "2000"])
            if said in link.a.daemon.proc.output():
                break
        else:
            raise AssertionError(f"{MALLORY} was never paused")
        lib.until("show client says so", lambda: any(
            row["paused_ms"] > 0 and row["uid"] == int(MALLORY) for row in link.a.daemon.show("client")["client"]))
        lib.verbs_pair(link.a, link.b, "ibv_rc_pingpong", ["-d", "{dev}", "-g", "1", "-n", "2000"])
        mallory.kill()
        link.nothing_left()
    link.stop()


def holes(shared):
    """How many of the files behind these mappings get holes."""
    libc = ctypes.CDLL(None, use_errno=True)
    got = 0
    for m in shared:
        at = ctypes.addressof(ctypes.c_char.from_buffer(m))
        if libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(len(m)), 9) == 0:  # MADV_REMOVE
            got += 1
        else:
            assert ctypes.get_errno() == errno.EPERM, os.strerror(ctypes.get_errno())
    return got


def rings():
    """Rings and doorbells are the daemon's files. It uses none that may get holes."""
    link = start()
    path = link.a.daemon.socket
    with lib.case("rings and doorbells of a client get no holes"):
        c = control.Client(path, "uroce0")
        assert c.make("ALLOC_PD")[:2] == c.make("CREATE_CQ", control.cq())[:2] == (0, 0)
        assert c.make("CREATE_QP", control.qp(0, 0, 0))[0] == 0 and len(c.segment) == 1
        assert holes((c.doorbells, *c.segment.values())) == 0
        c.close()
    with lib.case("a client that does not seal them gets no queues"):
        c = control.Connection(path)
        _, body, fds = c.hello("uroce0")
        doorbells = mmap.mmap(fds[1], struct.unpack_from("<Q", body, 24)[0])
        for _ in range(3):  # and the same segment again
            assert c.call("CREATE_CQ", control.cq())[:2] == (errno.ENOSPC, b"")
            status, body, (fd,) = c.call("SEGMENT")
            assert (status, body) == (0, struct.pack("<I4xQ", 0, 2 << 20)), (status, body)
            segment = mmap.mmap(fd, 2 << 20)
            os.close(fd)
        assert holes((doorbells, segment)) == 2
        # A CQ, but no QP, without seals of the doorbells.
        c.call("ALLOC_PD")
        _, _, (fd,) = c.call("SEGMENT")
        control.seal(fd)
        assert c.call("CREATE_CQ", control.cq())[0] == 0
        status, why, _ = c.call("CREATE_QP", control.qp(0, 0, 0))
        assert (status, why) == (errno.EPERM, b"its doorbell segment lacks the seal F_SEAL_FUTURE_WRITE"), why
        status, why, _ = c.call("SEGMENT")
        assert (status, why) == (errno.EINVAL, b"no request lacks room for its rings"), why
        for fd in (fd, *fds):
            os.close(fd)
        c.close()
        link.nothing_left()
    link.stop()


def main():
    lib.need_root()
    end()  # first: it measures the largest child
    copied()
    rings()
    ends_during_an_attack()
    pauses()
    lib.finish()


if __name__ == "__main__":
    main()
