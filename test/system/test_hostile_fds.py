#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Passes descriptors and memory whose close, stat or access blocks forever to a real daemon, in every possible
place. The daemon still serves other clients, and SIGKILL ends it."""
import array
import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import pathlib
import signal
import socket
import struct
import threading
import time

import control
import lib
import stuckfs

ENDS_S = 60  # time limit for anything that must end, even on a busy machine
ETIMEDOUT, EFAULT, EINVAL, EPERM, EBUSY = (
    errno.ETIMEDOUT, errno.EFAULT, errno.EINVAL, errno.EPERM, errno.EBUSY)


def lingering():
    """A socket with unsent data; its close blocks for an hour."""
    listener = socket.create_server(("127.0.0.1", 0))
    sock = socket.create_connection(listener.getsockname())
    sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            sock.send(b"x" * 65536)
    sock.setblocking(True)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
    held.append(listener)
    fd = sock.detach()
    lasting.add(fd)
    return fd


held = []
lasting = set()  # descriptors whose last close blocks; for other kinds every close blocks
libc = ctypes.CDLL(None)
PR_SET_DUMPABLE = 4


class Refused(Exception):
    """The kernel or the daemon refuses it, which is fine."""


def send(sock, data, fds):
    try:
        sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
    except (BrokenPipeError, ConnectionResetError, PermissionError) as error:
        raise Refused from error
    for fd in lasting.intersection(fds):  # the last close blocks, so close before the daemon does
        threading.Thread(target=os.close, args=(fd,), daemon=True).start()
        lasting.remove(fd)


def message(op, body=b"", nfds=0):
    return struct.pack("<IHHIIII", control.MAGIC, control.VERSION, control.OPS[op], 5, 0,
                       len(body), nfds) + body


def context(path):
    client = control.Connection(path)
    reply = client.hello("uroce0")
    if reply is control.CLIENT_ENDED:
        raise Refused
    status, _, fds = reply
    assert status == 0, os.strerror(status)
    return client, fds


def before_hello(path, fd):
    """A descriptor with a first message that is no HELLO."""
    sock = control.Connection(path).sock
    send(sock, message("ALLOC_PD", nfds=1), [fd])
    return sock


def in_hello(path, fd):
    sock = control.Connection(path).sock
    send(sock, message("HELLO", control.hello("uroce0"), 1), [fd])
    return sock


def unannounced_in_hello(path, fd):
    sock = control.Connection(path).sock
    send(sock, message("HELLO", control.hello("uroce0")), [fd])
    return sock


def with_an_empty_message(path, fd):
    sock = control.Connection(path).sock
    sock.send(b"")
    send(sock, b"", [fd])
    return sock


def with_garbage(path, fd):
    client, _ = context(path)
    send(client.sock, b"\xff" * 30000, [fd])
    return client


def where_none_belongs(path, fd):
    client, _ = context(path)
    send(client.sock, message("ALLOC_PD", nfds=1), [fd])
    assert struct.unpack_from("<6xH4xI", client.sock.recv(16384))[1] == EINVAL
    assert client.call("ALLOC_PD")[0] == 0
    return client


def behind_a_close(path, fd):
    """Messages still unread when the connection ends."""
    client, _ = context(path)
    client.sock.send(message("ALLOC_PD"))
    send(client.sock, message("ALLOC_PD", nfds=1), [fd] * 20)
    client.sock.shutdown(socket.SHUT_WR)
    return client


def in_reg_mr(path, fd):
    client, _ = context(path)
    pd = struct.unpack_from("<I", client.call("ALLOC_PD")[1])[0]
    status = client.call("REG_MR", control.region(pd), [fd])[0]
    assert status == EINVAL, status
    assert client.call("ALLOC_PD")[0] == 0
    return client


def surplus_in_reg_mr(path, fd):
    client, _ = context(path)
    pd = struct.unpack_from("<I", client.call("ALLOC_PD")[1])[0]
    good = control.memfd()
    body = control.region(pd)
    send(client.sock, message("REG_MR", body, 1), [good, fd])
    data = client.sock.recv(16384)
    assert struct.unpack_from("<6xH4xI", data)[1] == 0
    return client


def in_rereg_mr(path, fd):
    client, _ = context(path)
    pd = struct.unpack_from("<I", client.call("ALLOC_PD")[1])[0]
    mr = struct.unpack_from("<I", client.call("REG_MR", control.region(pd),
                                              [control.memfd()])[1])[0]
    status = client.call("REREG_MR", struct.pack("<II", mr, 1) + control.region(pd), [fd])[0]
    assert status == EINVAL, status
    return client


def in_capture(path, fd):
    """From a user without permission to capture."""
    client = control.Connection(path)
    assert client.hello("")[0] == 0
    body = struct.pack("<32sII8x", b"uroce0", 1, 0)
    send(client.sock, message("CAPTURE", body, 1), [fd])
    assert struct.unpack_from("<6xH4xI", client.sock.recv(16384))[1] == EPERM
    return client


def on_the_event_socket(path, fd):
    client, fds = context(path)
    sock = socket.socket(fileno=fds[0])
    send(sock, b"hello", [fd])
    return client, sock


def on_a_channel(path, fd):
    client, _ = context(path)
    _, _, fds = client.call("CREATE_CHANNEL")
    sock = socket.socket(fileno=fds[0])
    send(sock, b"hello", [fd])
    return client, sock


WAYS = (before_hello, in_hello, unannounced_in_hello, with_an_empty_message, with_garbage,
        where_none_belongs, behind_a_close, in_reg_mr, surplus_in_reg_mr, in_rereg_mr, in_capture,
        on_the_event_socket, on_a_channel)


class Hostile:
    """A process of user 65534 that runs an action, then waits until it may end."""

    def __init__(self, action, *args):
        ready, told = os.pipe()
        self.end, stop = os.pipe()[::-1]
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.end)
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # as for a program that this user started
            verdict = b"ok"
            try:
                keep = action(*args)
            except Refused:
                keep = None
            except BaseException as error:  # pylint: disable=broad-except
                verdict = repr(error).encode()
            os.write(told, verdict)
            os.read(stop, 1)
            del keep
            os._exit(0)
        os.close(told)
        os.close(stop)
        self.ready = ready
        lib.at_end(self.kill)

    def done(self):
        """Waits until the action is done."""
        verdict = os.read(self.ready, 1000)
        assert verdict == b"ok", verdict

    def kill(self):
        """The process may hang in exit until the file system responds."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self.pid = 0


def daemon_for_all():
    dev = "name=uroce0,port=net_ring0,addr=10.9.0.101/24,mtu=4096"
    daemon = lib.Daemon(["net_ring0"], [dev], None, (*lib.ONE_WORKER, "--socket-mode", "0666"))
    daemon.socket.parent.chmod(0o711)
    return daemon


def served(daemon):
    """The daemon responds to another user's calls."""
    client = control.Client(daemon.socket, "uroce0")
    client.sock.settimeout(ENDS_S)
    status, pd, _ = client.make("ALLOC_PD")
    assert status == 0
    assert client.make("REG_MR", control.region(pd), [control.memfd()])[0] == 0
    client.close()
    daemon.show("client")


def dies_at_once(daemon):
    daemon.proc.popen.send_signal(signal.SIGKILL)
    assert daemon.proc.wait(ENDS_S) == -signal.SIGKILL


def give(path, way, make):
    return way(path, make())


def descriptors(name, make):
    daemon = daemon_for_all()
    for way in WAYS:
        with lib.case(f"{name} {way.__name__}"):
            hostile = Hostile(give, daemon.socket, way, make)
            hostile.done()
            served(daemon)
            os.write(hostile.end, b"x")  # closes its connection
            time.sleep(0.1)
            served(daemon)
    with lib.case(f"{name}: SIGTERM ends the daemon"):
        rc = daemon.proc.term(ENDS_S)
        assert rc == 0, f"{rc}\n{daemon.proc.tail()}"
    daemon = daemon_for_all()
    with lib.case(f"{name}: SIGKILL ends the daemon, connections open and closed"):
        there = [Hostile(give, daemon.socket, way, make) for way in WAYS]
        for hostile in there:
            hostile.done()
        for hostile in there[::2]:
            os.write(hostile.end, b"x")
        dies_at_once(daemon)


def stuck_file(path, hangs="flush"):
    return os.open(path.file(hangs), os.O_RDWR)


def many_at_once(fs):
    """One user sends more than any thread pool holds. Another user's registrations continue."""
    daemon = daemon_for_all()
    with lib.case("more stuck descriptors of one user than there are threads"):
        def flood():
            kept = []
            with contextlib.suppress(Refused, struct.error, ConnectionError, AssertionError):
                for _ in range(100):
                    kept.append(surplus_in_reg_mr(daemon.socket, stuck_file(fs)))
            assert len(kept) > 8, len(kept)
            return kept
        hostile = Hostile(flood)
        hostile.done()
        served(daemon)
        served(daemon)
    dies_at_once(daemon)


def memory(fs):
    daemon = daemon_for_all()

    def register(kind):
        fd = os.open(fs.file("read"), os.O_RDWR)
        size = 4 * control.PAGE
        shared = mmap.mmap(fd, size)
        held.append(shared)
        client, _ = context(daemon.socket)
        pd = struct.unpack_from("<I", client.call("ALLOC_PD")[1])[0]
        start, end = next(tuple(int(x, 16) for x in line.split()[0].split("-"))
                          for line in open("/proc/self/maps", encoding="ascii")
                          if str(fs.path) in line)
        piece = (start, size, kind, 0, 0, start, end)
        packed = struct.pack("<QQIIQQQ", *piece).ljust(32 * 48, b"\0")
        body = struct.pack("<IIQQQII8x", pd, 15, start, size, start, 1, 0) + packed
        status = client.call("REG_MR", body)[0]
        assert status in (ETIMEDOUT, EFAULT, EPERM, EBUSY), status
        assert client.call("ALLOC_PD")[0] == 0
        return client

    for what, kind in (("to be copied", 0), ("to be mapped", 2)):
        with lib.case(f"memory of a silent file system registered, {what}"):
            there = [Hostile(register, kind) for _ in range(12)]
            served(daemon)
            served(daemon)
            for hostile in there:
                hostile.done()
            served(daemon)
    with lib.case("SIGKILL ends the daemon all the same"):
        dies_at_once(daemon)


def broker_of(daemon):
    children = pathlib.Path(f"/proc/{daemon.proc.pid}/task/{daemon.proc.pid}/children").read_text()
    return [int(pid) for pid in children.split() if "broker" in lib.cmdline(pid)]


def lost_broker():
    daemon = daemon_for_all()
    with lib.case("a broker that is killed is replaced, and connections continue"):
        client = control.Client(daemon.socket, "uroce0")
        _, pd, _ = client.make("ALLOC_PD")
        for _ in range(2):
            old = broker_of(daemon)
            assert len(old) == 1
            os.kill(old[0], signal.SIGKILL)
            lib.until("another broker", lambda old=old: broker_of(daemon) not in ([], old))
            assert client.make("REG_MR", control.region(pd), [control.memfd()])[0] == 0
        client.close()
    with lib.case("no broker outlives its daemon"):
        last = broker_of(daemon)[0]
        daemon.stop()
        lib.until("it is gone", lambda: not os.path.exists(f"/proc/{last}"))


def rings():
    """The daemon gives each client separate eventfds: all holders of one share its flags and count."""
    daemon = lib.Daemon(["net_ring0"],
                        ["name=uroce0,port=net_ring0,addr=10.9.0.101/24,mtu=4096"], lib.netns(),
                        lib.TWO_WORKERS)
    with lib.case("a client cannot disturb other clients' wake-ups of a worker"):
        alice, bob = (control.Client(daemon.socket, "uroce0") for _ in range(2))
        for hers, his in zip(alice.fds[2:-1], bob.fds[2:-1]):
            fcntl.fcntl(hers, fcntl.F_SETFL, 0)
            os.write(hers, struct.pack("<Q", 2 ** 64 - 2))
            assert fcntl.fcntl(his, fcntl.F_GETFL) & os.O_NONBLOCK
            for _ in range(100):  # a full eventfd would fail or block forever
                os.write(his, struct.pack("<Q", 2 ** 32))
        for change in (lambda: os.write(alice.fds[-1], bytes(8)), lambda: os.ftruncate(alice.fds[-1], 0),
                       lambda: mmap.mmap(alice.fds[-1], 64)):  # the workers' states, which all clients read
            try:
                change()
                raise AssertionError("a client changed what others read")
            except (PermissionError, OSError) as error:
                assert error.errno == errno.EPERM, error
        assert daemon.show("client")["client"]
        for client in (alice, bob):
            client.close()
        daemon.stop()


def main():
    lib.need_root()
    rings()
    descriptors("a lingering socket", lingering)
    lost_broker()
    if stuckfs.available():
        fs = stuckfs.StuckFs()
        descriptors("a file that is never flushed", lambda: stuck_file(fs))
        many_at_once(fs)
        memory(fs)
    lib.finish()


main()
