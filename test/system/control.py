# SPDX-License-Identifier: BSD-3-Clause
"""The control protocol for tests: the part of include/uroce_abi that a misbehaving client needs. Reads the
operation numbers and the version from the headers."""
import array
import contextlib
import errno
import fcntl
import mmap
import os
import pathlib
import random
import re
import select
import socket
import struct

ABI = pathlib.Path(__file__).resolve().parents[2] / "include/uroce_abi/ctrl.h"
MAGIC = 0x434f5255
VERSION = int(re.search(r"define UROCE_ABI_VERSION +(\d+)", (ABI.parent / "version.h").read_text())[1])
VERSION_MIN = int(re.search(r"define UROCE_ABI_VERSION_MIN +(\d+)", (ABI.parent / "version.h").read_text())[1])
OPS = {name: i + 1 for i, name in enumerate(
    re.findall(r"^\tUROCE_CTRL_(\w+)(?: = 1)?,$", ABI.read_text(), re.M)[:-1])}
RING_HDR, DB_HDR = 192, 128
DB_RING = DB_HDR + 4 * 1024
REGION, PAGE = 0x10000000, 4096  # start of the regions that this client registers
CLIENT_ENDED = object()
F_SEAL_FUTURE_WRITE = 16  # Python 3.11 lacks it

RESET, INIT, RTR, RTS, ERR = 0, 1, 2, 3, 6
NEXT = {RESET: INIT, INIT: RTR, RTR: RTS, RTS: RTS, ERR: RESET}
MASK = {  # attributes that each state change needs
    RESET: 1, ERR: 1, INIT: 1 | 1 << 3 | 1 << 4 | 1 << 5,
    RTR: 1 | 1 << 7 | 1 << 8 | 1 << 20 | 1 << 12 | 1 << 17 | 1 << 15,
    RTS: 1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 16 | 1 << 13}


def memfd(size=1 << 20):
    """A memfd that the daemon accepts: it cannot shrink."""
    fd = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return fd


def seal(fd):
    """What the daemon requires of a client that has mapped a segment: nobody punches holes into it from now on."""
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, F_SEAL_FUTURE_WRITE)


@contextlib.contextmanager
def as_uid(uid):
    """Connections made inside the block belong to this user: the daemon sees who connected."""
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def hello(device, versions=(VERSION, VERSION), features=0, required=0, spare=b""):
    """Body of a HELLO."""
    return struct.pack("<32sIHHQQ40s", device.encode(), os.getpid(), *versions, features, required, spare)


class Connection:
    """A connection without HELLO. call returns (status, body, descriptors) or CLIENT_ENDED."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(60)
        self.sock.connect(str(path))
        self.version = VERSION

    def send(self, op, body=b"", fds=()):
        number = OPS.get(op, op)
        head = struct.pack("<IHHIIII", MAGIC, self.version, number, 5, 0, len(body), len(fds))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.sock.sendmsg([head + body], rights)

    def call(self, op, body=b"", fds=()):
        try:
            self.send(op, body, fds)
            return self.receive()
        except (ConnectionResetError, BrokenPipeError):
            return CLIENT_ENDED

    def receive(self):
        data, ancillary, _, _ = self.sock.recvmsg(16384, 1024)
        if not data:
            return CLIENT_ENDED
        got = array.array("i")
        for _, _, raw in ancillary:
            got.frombytes(raw[:len(raw) // 4 * 4])
        return struct.unpack("<6xH4xI8x", data[:24])[1], data[24:], list(got)

    def hello(self, device, **fields):
        return self.call("HELLO", hello(device, **fields))

    def close(self):
        self.sock.close()


class Arrivals:
    """The order in which the replies to connections arrive that have none yet."""

    def __init__(self, connections):
        self.by_fd = {c.sock.fileno(): c for c in connections}
        self.ready = select.epoll()  # keeps the order
        for fd in self.by_fd:
            self.ready.register(fd, select.EPOLLIN)

    def order(self):
        """Waits until each connection has a reply, and returns them."""
        for fd in self.by_fd:
            assert select.select([fd], [], [], 60)[0], "no reply"
        found = [self.by_fd[fd] for fd, _ in self.ready.poll(0, len(self.by_fd))]
        self.ready.close()
        return found


class Client(Connection):
    """A context on a device; maps the memory it shares with the daemon."""

    def __init__(self, path, device):
        super().__init__(path)
        status, body, fds = self.hello(device)
        assert status == 0, os.strerror(status)
        self.fds = fds
        self.segment = {}
        self.doorbells = mmap.mmap(fds[1], struct.unpack_from("<Q", body, 24)[0])
        seal(fds[1])

    def do(self, op, body=b"", fds=()):
        """Makes a call and returns its status; closes the reply's descriptors."""
        reply = self.call(op, body, fds)
        if reply is CLIENT_ENDED:
            return reply
        for fd in reply[2]:
            os.close(fd)
        return reply[0]

    def make(self, op, body=b"", fds=()):
        """Makes a call that creates an object: (status, handle, reply body)."""
        reply = self.call(op, body, fds)
        if reply is CLIENT_ENDED:
            return reply, None, b""
        status, body, got = reply
        for fd in got:
            os.close(fd)
        handle = struct.unpack_from("<I", body)[0] if status == 0 else None
        return status, handle, body

    def call(self, op, body=b"", fds=()):
        """As Connection.call, with the segments that the request needs."""
        for _ in range(3):
            reply = super().call(op, body, fds)
            if reply is CLIENT_ENDED or reply[0] != errno.ENOSPC:
                break
            segment = super().call("SEGMENT")
            if segment is CLIENT_ENDED or segment[0] != 0:
                return segment
            number, size = struct.unpack("<I4xQ", segment[1])
            self.segment[number] = mmap.mmap(segment[2][0], size)
            seal(segment[2][0])
            os.close(segment[2][0])
        return reply

    def ring(self, body, at):
        """Returns segment and offset of the ring that a reply describes at offset at."""
        number, _, off = struct.unpack_from("<IIQ", body, at)
        return self.segment[number], off

    def close(self):
        super().close()
        for fd in self.fds:
            os.close(fd)
        for shared in (self.doorbells, *self.segment.values()):
            shared.close()


def one(handle):
    """Body of operations that name one object."""
    return struct.pack("<II", handle & 0xffffffff, 0)


def cq(cqe=16, channel=0, user=1):
    return struct.pack("<QII8x", user, cqe, channel)


def qp(pd, send_cq, recv_cq, kind=2, srq=0, caps=(16, 16, 4, 4, 64)):
    return struct.pack("<Q6I5II", 2, kind, pd, send_cq, recv_cq, srq, 0, *caps, 0)


def region(pd, access=15, length=2 * PAGE, pieces=None):
    """A region of one memfd piece, unless pieces are given: (va, len, kind, fd, off, start, end)."""
    if pieces is None:
        pieces = [(REGION, length, 1, 0, 0, 0, 0)]
    packed = b"".join(struct.pack("<QQIIQQQ", *p) for p in pieces).ljust(32 * 48, b"\0")
    return struct.pack("<IIQQQII8x", pd, access, REGION, length, REGION, len(pieces), 0) + packed


def address(gid, sgid_index=1, is_global=1):
    return gid + struct.pack("<IBBBBBBBBHH", 0, sgid_index, 64, 0, 0, is_global, 1, 0, 0, 0, 0)


def ipv4_gid(text):
    return bytes(10) + b"\xff\xff" + socket.inet_aton(text)


def modify(handle, state, gid, dest=0x123456, mask=None, mtu=3):
    """A request for the state; every attribute it may need has a legal value."""
    attr = struct.pack("<4I5I5I", state, 0, mtu, 0, 0x1111, 100, 200, dest & 0xffffff, 15,
                       *[0] * 5)
    attr += address(gid) + bytes(32) + struct.pack("<HH12BI", 0, 0, 0, 0, 4, 4, 12, 1, 14, 7, 7,
                                                   0, 0, 0, 0) + bytes(8)
    return struct.pack("<II", handle, MASK[state] if mask is None else mask) + attr


class Hostile(Client):
    """A client that makes legal and illegal calls at random, from a seed."""

    def __init__(self, path, device, seed, dests):
        super().__init__(path, device)
        self.rng = random.Random(seed)
        self.dests = dests  # QPNs that exist or existed
        self.have = {kind: [] for kind in ("PD", "MR", "CHANNEL", "CQ", "QP", "AH", "SRQ", "MW")}
        self.state = {}

    def any(self, kind):
        """A handle of that kind; sometimes an invalid one."""
        if self.have[kind] and self.rng.random() < 0.95:
            return self.rng.choice(self.have[kind])
        return self.rng.getrandbits(32)

    def odd(self, *usual):
        """One of the usual values; sometimes a random number."""
        return self.rng.choice(usual) if self.rng.random() < 0.95 else self.rng.getrandbits(32)

    def gid(self):
        return self.rng.choice([ipv4_gid(f"10.9.0.{self.rng.choice((101, 102, 77))}"),
                                self.rng.randbytes(16)])

    def create(self, kind, op, body=b"", fds=()):
        status, handle, rest = self.make(op, body, fds)
        if status == 0:
            self.have[kind].append(handle)
        if status == 0 and kind == "QP":
            self.dests.append(struct.unpack_from("<I", rest, 4)[0])
        return status

    def destroy(self, kind, op):
        handle = self.any(kind)
        status = self.do(op, one(handle))
        if status == 0:
            self.have[kind].remove(handle)
        return status

    def create_qp(self):
        caps = [self.odd(0, 1, 16, 64) for _ in range(2)]
        caps += [self.odd(0, 1, 4, 32) for _ in range(2)] + [self.odd(0, 64, 1024)]
        return self.create("QP", "CREATE_QP", qp(
            self.any("PD"), self.any("CQ"), self.any("CQ"), self.odd(2, 2, 2, 3, 4),
            self.odd(0, 0, 0, self.any("SRQ") + 1 & 0xffffffff), caps))

    def modify_qp(self):
        handle = self.any("QP")
        state = NEXT[self.state.get(handle, RESET)]
        if self.rng.random() < 0.2:
            state = self.rng.choice(list(NEXT))
        mask = MASK[state] ^ (1 << self.rng.randrange(32) if self.rng.random() < 0.05 else 0)
        dest = self.rng.choice(self.dests) if self.dests else 77
        status = self.do("MODIFY_QP", modify(handle, state, self.gid(), dest, mask,
                                             self.odd(1, 3, 5)))
        if status == 0:
            self.state[handle] = state
        return status

    def reg_mr(self, op="REG_MR", front=b""):
        fd = memfd()
        pieces = None
        if self.rng.random() < 0.5:
            pieces = [(REGION + i * PAGE, self.odd(PAGE, 0), self.odd(0, 1, 2), self.odd(0, 1),
                       self.odd(0, PAGE), self.rng.getrandbits(47), self.rng.getrandbits(47))
                      for i in range(self.rng.choice((0, 1, 2, 32)))]
        body = front + region(self.any("PD"), self.odd(0, 1, 7, 15), self.odd(0, PAGE, 2 * PAGE),
                              pieces)
        fds = [fd] * self.rng.choice((0, 1, 1, 1, 2))
        status = self.create("MR", op, body, fds) if op == "REG_MR" else self.do(op, body, fds)
        os.close(fd)
        return status

    def scribble(self):
        """Overwrites shared memory: writes random data into rings and rings doorbells."""
        for shared in (self.doorbells, *self.segment.values()):
            for _ in range(self.rng.randrange(200)):
                at = self.rng.randrange(min(len(shared), 1 << 17) // 8) * 8
                shared[at:at + 8] = self.rng.choice(
                    (self.rng.randbytes(8), struct.pack("<Q", self.rng.getrandbits(5))))
        for worker in range(len(self.fds) - 3):  # the last one: the workers' states, which it cannot write
            base = worker * DB_RING
            prod = struct.unpack_from("<I", self.doorbells, base)[0]
            for i in range(8):
                struct.pack_into("<I", self.doorbells, base + DB_HDR + 4 * ((prod + i) % 1024),
                                 self.rng.choice(self.dests) if self.dests else 0)
            struct.pack_into("<I", self.doorbells, base, prod + 8 & 0xffffffff)
            os.write(self.fds[2 + worker], struct.pack("<Q", 1))
        return 0

    def nonsense(self):
        """Sends a random operation with a random body, of the right length or not. Excludes operations that may
        legally stop the daemon or hurt its other clients."""
        op = self.rng.choice([n for n in OPS if n != "IMPAIR"] + [0, 63, 65535])
        return self.do(op, self.rng.randbytes(self.rng.choice((0, 8, 16, 40, 1600))))

    def step(self):
        """Takes one step. Returns False if the daemon has closed the connection."""
        if not self.have["PD"]:
            return self.create("PD", "ALLOC_PD") is not CLIENT_ENDED
        if len(self.have["CQ"]) < 2:
            return self.create("CQ", "CREATE_CQ", cq()) is not CLIENT_ENDED
        todo = [
            (2, lambda: self.create("PD", "ALLOC_PD")),
            (6, lambda: self.create("CQ", "CREATE_CQ", cq(self.odd(0, 1, 16, 5000),
                                                         self.odd(0, self.any("CHANNEL") + 1
                                                                  & 0xffffffff)))),
            (2, lambda: self.create("CHANNEL", "CREATE_CHANNEL")),
            (12, self.create_qp), (40, self.modify_qp), (8, self.reg_mr),
            (3, lambda: self.do("QUERY_QP", one(self.any("QP")))),
            (2, lambda: self.do("RESIZE_CQ", struct.pack("<II8x", self.any("CQ"),
                                                         self.odd(0, 1, 64, 300)))),
            (2, lambda: self.reg_mr("REREG_MR", struct.pack("<II", self.any("MR"),
                                                            self.odd(1, 2, 4, 7)))),
            (3, lambda: self.create("AH", "CREATE_AH", struct.pack("<II", self.any("PD"), 0)
                                    + address(self.gid(), self.odd(0, 1) & 255))),
            (3, lambda: self.create("SRQ", "CREATE_SRQ", struct.pack(
                "<QIIII8x", 3, self.any("PD"), self.odd(1, 64), self.odd(1, 4), 0))),
            (2, lambda: self.do("MODIFY_SRQ", struct.pack("<IIII8x", self.any("SRQ"), self.odd(2, 1),
                                                          0, self.odd(0, 10)))),
            (2, lambda: self.do("RESIZE_SRQ", struct.pack(
                "<IIII8x", self.any("SRQ"), self.odd(1, 3), self.odd(1, 64, 300), self.odd(0, 10)))),
            (2, lambda: self.create("MW", "ALLOC_MW", struct.pack("<II8x", self.any("PD"),
                                                                  self.odd(1, 2)))),
            (1, lambda: self.do("ATTACH_MCAST", struct.pack("<II", self.any("QP"), 0)
                                + self.gid() + bytes(8))),
            (6, self.scribble), (1, self.nonsense)]
        todo += [(2, lambda kind=kind, op=op: self.destroy(kind, op)) for kind, op in (
            ("PD", "DEALLOC_PD"), ("MR", "DEREG_MR"), ("CQ", "DESTROY_CQ"), ("QP", "DESTROY_QP"),
            ("AH", "DESTROY_AH"), ("SRQ", "DESTROY_SRQ"), ("MW", "DEALLOC_MW"))]
        action = self.rng.choices([a for _, a in todo], [w for w, _ in todo])[0]
        return action() is not CLIENT_ENDED
