#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The daemon's control protocol with invalid requests: correct errors, no partial or leftover objects, and no
effect on other clients."""
import errno
import os
import random
import struct
import sys
import threading

import control
import lib

STEPS = 1500
SEEDS = 2 if lib.SHORT else 6


def counts(daemon):
    """Objects of all clients, by kind."""
    shown = daemon.show("client")["client"]
    return {kind: sum(c[kind] for c in shown) for kind in ("qps", "cqs", "mrs", "pds", "channels")}


def connections(path):
    c = control.Connection(path)
    assert c.call("ALLOC_PD") is control.CLIENT_ENDED, "an object before HELLO"
    c = control.Connection(path)
    assert c.hello("uroce9")[0] == errno.ENODEV
    assert c.hello("")[0] == 0
    assert c.call("ALLOC_PD")[0] == errno.EPERM
    assert c.hello("uroce0")[0] == errno.EINVAL
    assert c.call(999)[0] == errno.EOPNOTSUPP
    assert c.call("SHOW", b"\xff" * 40 + bytes(16))[0] == errno.EINVAL
    assert c.call("SHOW", b"nothing".ljust(56, b"\0"))[0] == errno.ENOENT
    assert c.call("SHOW", b"qp") is control.CLIENT_ENDED, "a request of the wrong length"


def versions(path):
    """A client of another version gets the highest common one, or an error with both ranges; unknown features are
    ignored."""
    c, own = control.Connection(path), control.VERSION
    for versions, features, required, want in (
            ((own + 1, own + 3), 0, 0, f"the client supports {own + 1} to {own + 3}, the daemon "),
            ((1, control.VERSION_MIN - 1), 0, 0, f"the client supports 1 to {control.VERSION_MIN - 1}, the daemon "),
            ((own, own), 1 << 63, 1 << 63, "the client requires features 0x8000000000000000")):
        status, why, _ = c.hello("uroce0", versions=versions, features=features, required=required)
        assert (status, want in why.decode()) == (errno.EPROTONOSUPPORT, True), (status, why)
    status, why, _ = c.hello("uroce0", versions=(own, own - 1))
    assert (status, b"version_min" in why) == (errno.EINVAL, True), (status, why)
    # The same connection may retry with a common version.
    status, body, fds = c.hello("uroce0", versions=(1, own + 9), features=(1 << 64) - 1)
    assert status == 0 and struct.unpack_from("<H", body, 12)[0] == own, (status, body)
    assert struct.unpack_from("<Q", body, 16)[0] == 1, "features that the daemon does not have"  # UROCE_ABI_MOVES
    for fd in fds:
        os.close(fd)
    assert c.call("ALLOC_PD")[0] == 0
    c.version = own + 1
    assert c.call("ALLOC_PD") is control.CLIENT_ENDED, "another version than was agreed"
    # Up to version 6 a HELLO had no range.
    c = control.Connection(path)
    c.version = 6
    status, why, _ = c.call("HELLO", struct.pack("<32sII", b"uroce0", 1, 0))
    assert (status, b"the client supports 6 to 6" in why) == (errno.EPROTONOSUPPORT, True), (status, why)


def spare_bytes(path):
    """A request with nonzero spare bytes is refused; the error names the field."""
    c = control.Client(path, "uroce0")
    assert c.make("ALLOC_PD")[0] == 0
    for op, body, at, field in (
            ("DEALLOC_PD", control.one(0), 7, b"handle.spare"), ("CREATE_CQ", control.cq(), 16, b"create_cq_req.spare"),
            ("CREATE_QP", control.qp(0, 0, 0), 52, b"create_qp_req.spare"),
            ("MODIFY_QP", control.modify(0, control.INIT, bytes(16)), 155, b"modify_qp_req.spare"),
            ("MODIFY_QP", control.modify(0, control.INIT, bytes(16)), 95, b"modify_qp_req.attr.ah.spare"),
            ("REG_MR", control.region(0), 47, b"reg_mr_req.spare")):
        wrong = bytearray(body)
        wrong[at] = 1
        fds = [control.memfd()] if op == "REG_MR" else []
        status, why, _ = c.call(op, bytes(wrong), fds)
        assert (status, field + b" must be zero" in why) == (errno.EINVAL, True), (op, status, why)
        for fd in fds:
            os.close(fd)
    for at, field in ((12, b"ctrl_hdr.status"), (22, b"ctrl_hdr.spare")):
        head = bytearray(struct.pack("<IHHIIII", control.MAGIC, control.VERSION, control.OPS["ALLOC_PD"], 5, 0, 0, 0))
        head[at] = 1
        c.sock.send(head)
        status, why, _ = c.receive()
        assert (status, field + b" must be zero" in why) == (errno.EINVAL, True), (status, why)
    assert c.do("DEALLOC_PD", control.one(0)) == 0
    c.close()
    c = control.Connection(path)
    status, why, _ = c.hello("uroce0", spare=b"x")
    assert (status, b"hello_req.spare must be zero" in why) == (errno.EINVAL, True), (status, why)


def malformed_memory(daemon):
    """A malformed description of memory is refused with EINVAL; the log says what is in it, and where that was
    noticed."""
    c = control.Client(daemon.socket, "uroce0")
    status, pd, _ = c.make("ALLOC_PD")
    assert status == 0
    fd = os.memfd_create("unsealed")
    os.ftruncate(fd, 1 << 20)
    kept = [(control.REGION, 2 * control.PAGE, 3, 5, 0, 0, 0)]  # in slot 5, which is empty
    for pieces, fds, said in ((None, [fd], "looked up: 1 pieces, the first of kind 1 at"),
                              (kept, [], "mapped: 1 pieces, the first of kind 3 at")):
        assert c.make("REG_MR", control.region(pd, pieces=pieces), fds)[0] == errno.EINVAL
        assert f"cannot register {2 * control.PAGE} bytes at 0x{control.REGION:x}: malformed description" in \
            daemon.proc.output() and said in daemon.proc.output(), daemon.proc.tail()
    os.close(fd)
    c.close()


def naming(h, good):
    """Every request that names an object by a handle, with h in each such field in turn: (operation, body,
    descriptors). good: an existing PD and CQ, and a memfd."""
    pd, cq, fd = good
    gid = control.ipv4_gid("10.9.0.101")
    for op in ("DEALLOC_PD", "DEREG_MR", "DESTROY_CQ", "DESTROY_QP", "QUERY_QP", "DESTROY_AH",
               "DESTROY_SRQ", "QUERY_SRQ", "DEALLOC_MW"):
        yield op, control.one(h), []
    yield "MODIFY_QP", control.modify(h, control.INIT, gid), []
    yield "RESIZE_CQ", struct.pack("<II8x", h, 16), []
    for op in ("MODIFY_SRQ", "RESIZE_SRQ"):
        yield op, struct.pack("<4I8x", h, 1 if op == "RESIZE_SRQ" else 2, 8, 0), []
    for op in ("ATTACH_MCAST", "DETACH_MCAST"):
        yield op, struct.pack("<II", h, 0) + b"\xff\x0e" + bytes(14 + 8), []
    yield "REREG_MR", struct.pack("<II", h, 1) + control.region(pd), [fd]
    yield "REG_MR", control.region(h), [fd]
    yield "CREATE_AH", struct.pack("<II", h, 0) + control.address(gid), []
    yield "CREATE_SRQ", struct.pack("<Q4I8x", 1, h, 4, 1, 0), []
    yield "ALLOC_MW", struct.pack("<II8x", h, 1), []
    for args in ((h, cq, cq), (pd, h, cq), (pd, cq, h)):
        yield "CREATE_QP", control.qp(*args), []
    if h != 0xffffffff:  # handle + 1 would be 0, which means none
        yield "CREATE_QP", control.qp(pd, cq, cq, srq=h + 1), []
        yield "CREATE_CQ", control.cq(channel=h + 1), []
    yield "IMPORT_PD", bytes(16) + struct.pack("<II8x", h, 0), []
    yield "IMPORT_MR", bytes(16) + struct.pack("<II8x", h, pd), []


def unknown_handles(path):
    """Unknown handles get ENOENT, whatever their value. Covers all operations with a handle."""
    c = control.Client(path, "uroce0")
    (_, pd, _), (_, cq, _) = c.make("ALLOC_PD"), c.make("CREATE_CQ", control.cq())
    fd = control.memfd()
    seen = set()
    for h in (1, 0x7fff, 0xfffff, 1 << 20, 1 << 31, 0xfffffffe, 0xffffffff):
        for op, body, fds in naming(h, (pd, cq, fd)):
            assert c.make(op, body, fds)[0] == errno.ENOENT, (op, hex(h))
            seen.add(op)
    os.close(fd)
    c.close()
    others = set(control.OPS) - seen
    assert others == {"HELLO", "QUERY_DEVICE", "QUERY_PORT", "QUERY_GID", "QUERY_PKEY", "QUERY_CLOCK",
                      "ALLOC_PD", "CREATE_CHANNEL", "LIST_DEVICES", "SHOW", "IMPAIR", "CAPTURE",
                      "SET", "EXPORT", "CM_OPEN", "ASK_PEER", "PAUSE_THREADS", "RESUME_THREADS", "SEGMENT"}, others


def handles(path):
    a, b = control.Client(path, "uroce0"), control.Client(path, "uroce0")
    assert a.make("ALLOC_PD")[:2] == (0, 0)
    assert a.make("CREATE_CQ", control.cq())[:2] == (0, 0)
    status, qp, _ = a.make("CREATE_QP", control.qp(0, 0, 0))
    assert status == 0
    for op in ("DEALLOC_PD", "DEREG_MR", "DESTROY_CQ", "DESTROY_QP", "QUERY_QP", "DESTROY_AH",
               "DESTROY_SRQ", "DEALLOC_MW"):
        for handle in (1, 0xfffff, 1 << 20, 1 << 31, -1):
            assert a.do(op, control.one(handle)) == errno.ENOENT, (op, handle)
        # Client a's handles mean nothing to client b.
        assert b.do(op, control.one(0)) == errno.ENOENT, op
    assert a.do("DEALLOC_PD", control.one(0)) == errno.EBUSY
    assert a.do("DESTROY_CQ", control.one(0)) == errno.EBUSY
    assert a.do("DESTROY_QP", control.one(qp)) == 0
    assert a.do("QUERY_QP", control.one(qp)) == errno.ENOENT
    # The slot is reused, the handle is not.
    status, again, _ = a.make("CREATE_QP", control.qp(0, 0, 0))
    assert (status, again != qp) == (0, True)
    assert a.do("DESTROY_QP", control.one(again)) == 0
    assert a.do("DESTROY_CQ", control.one(0)) == 0
    assert a.do("DEALLOC_PD", control.one(0)) == 0
    a.close()
    b.close()


def refusals(daemon):
    """Each refusal has its errno and leaves the object counts unchanged (LIFE-02)."""
    c = control.Client(daemon.socket, "uroce0")
    assert c.make("ALLOC_PD")[0] == 0 and c.make("CREATE_CQ", control.cq())[0] == 0
    before = counts(daemon)
    big = [(1 << 20, 1, 1, 1, 0), (1, 1 << 20, 1, 1, 0), (1, 1, 33, 1, 0), (1, 1, 1, 33, 0),
           (1, 1, 1, 1, 1025), (2**32 - 1,) * 5]
    for caps in big:
        assert c.make("CREATE_QP", control.qp(0, 0, 0, caps=caps))[0] == errno.EINVAL, caps
    for cqe in (0, (1 << 18) + 1, 2**32 - 1):
        assert c.make("CREATE_CQ", control.cq(cqe))[0] == errno.EINVAL, cqe
    assert c.make("CREATE_CQ", control.cq(channel=1))[0] == errno.ENOENT
    for pd, scq, rcq in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):
        assert c.make("CREATE_QP", control.qp(pd, scq, rcq))[0] == errno.ENOENT
    fd = control.memfd()
    open_fd = os.memfd_create("unsealed")
    os.ftruncate(open_fd, 1 << 20)
    for what, body, fds, want in (
            ("no such PD", control.region(5), [fd], errno.ENOENT),
            ("remote write without local write", control.region(0, access=2), [fd], errno.EINVAL),
            ("no descriptor", control.region(0), [], errno.EINVAL),
            ("descriptor that can shrink", control.region(0), [open_fd], errno.EINVAL),
            ("longer than its pieces", control.region(0, length=1 << 30, pieces=[
                (control.REGION, 4096, 1, 0, 0, 0, 0)]), [fd], errno.EINVAL),
            ("around the end of the address space", control.region(0, length=2**64 - 4096),
             [fd], errno.EINVAL)):
        status = c.make("REG_MR", body, fds)[0]
        assert status == want, f"{what}: {os.strerror(status)}"
    os.close(fd)
    os.close(open_fd)
    assert counts(daemon) == before
    c.close()


def channel_dies_before_its_cq(daemon):
    c = control.Client(daemon.socket, "uroce0")
    assert c.make("CREATE_CHANNEL")[:2] == (0, 0)  # make has closed the client's end
    lib.until("the channel is gone", lambda: counts(daemon)["channels"] == 0)
    assert c.make("CREATE_CQ", control.cq(channel=1))[0] == errno.ENOENT
    status, body, fds = c.call("CREATE_CHANNEL")
    handle = int.from_bytes(body[:4], "little")
    assert (status, len(fds)) == (0, 1)
    assert c.make("CREATE_CQ", control.cq(channel=handle + 1))[:2] == (0, 0)
    os.close(fds[0])
    lib.until("the channel is gone", lambda: counts(daemon)["channels"] == 0)
    assert c.do("DESTROY_CQ", control.one(0)) == 0
    c.close()


def full_channel_loses_nothing(daemon):
    """More CQs raise an event than the channel's socket holds while no one reads it."""
    c = control.Client(daemon.socket, "uroce0")
    many = 600
    status, body, fds = c.call("CREATE_CHANNEL")
    assert status == 0
    channel, fd = int.from_bytes(body[:4], "little"), fds[0]
    os.set_blocking(fd, False)
    assert c.make("ALLOC_PD")[0] == 0
    for i in range(many):
        status, cq, body = c.make("CREATE_CQ", control.cq(1, channel + 1, user=i))
        assert status == 0, os.strerror(status)
        shared, at = c.ring(body, 8)
        struct.pack_into("<I", shared, at + 64, 2)  # armed for any completion
        status, qp, body = c.make("CREATE_QP", control.qp(0, cq, cq, caps=(1, 1, 1, 1, 0)))
        assert status == 0, os.strerror(status)
        shared, at = c.ring(body, 56)
        struct.pack_into("<QII", shared, at + control.RING_HDR, 7, 0, 0)
        struct.pack_into("<I", shared, at, 1)  # a receive WQE, which the error state flushes
        for state in (control.INIT, control.ERR):
            assert c.do("MODIFY_QP", control.modify(qp, state, bytes(16))) == 0
    got = []

    def read_all():
        try:
            while True:
                got.append(struct.unpack("<Q", os.read(fd, 64))[0])
        except BlockingIOError:
            return len(got) >= many

    lib.until("every event has come", read_all)
    assert sorted(got) == list(range(many)), f"{len(got)} events, {len(set(got))} of them different"
    os.close(fd)
    c.close()


def cq_overrun(daemon):
    """EVT-08: a CQ overrun fails the CQ and all its QPs, and each gets an event."""
    c = control.Client(daemon.socket, "uroce0")
    assert c.make("ALLOC_PD")[0] == 0
    assert c.make("CREATE_CQ", control.cq(1, user=77))[:2] == (0, 0)
    status, qp, body = c.make("CREATE_QP", control.qp(0, 0, 0, caps=(1, 4, 1, 1, 0)))
    _, other, _ = c.make("CREATE_QP", control.qp(0, 0, 0, caps=(1, 1, 1, 1, 0)))
    shared, at = c.ring(body, 56)
    struct.pack_into("<I", shared, at, 3)  # three receive WQEs for a CQ with space for one
    for handle, state in ((other, control.INIT), (qp, control.INIT), (qp, control.ERR)):
        assert c.do("MODIFY_QP", control.modify(handle, state, bytes(16))) == 0
    got = []
    os.set_blocking(c.fds[0], False)

    def read_all():
        try:
            while True:
                got.append(struct.unpack("<QII", os.read(c.fds[0], 64)))
        except BlockingIOError:
            return len(got) >= 3

    lib.until("the events", read_all)
    failed, overrun = 0x501, 0x502  # reasons, enum uroce_error
    assert sorted(got) == [(2, 1, failed), (2, 1, overrun), (77, 0, overrun)], got
    status, body, _ = c.call("QUERY_QP", control.one(other))
    assert (status, struct.unpack_from("<I", body)[0]) == (0, control.ERR)
    shown = daemon.show("cq")["cq"]
    assert [q["error"] for q in shown] == [True], shown
    c.close()


def queue_memory_is_limited(daemon):
    """--client-mem limits queue memory: freed memory is available again, and each client has its own limit."""
    c = control.Client(daemon.socket, "uroce0")
    made = []
    while True:
        status, handle, _ = c.make("CREATE_CQ", control.cq(1 << 18))
        if status != 0:
            break
        made.append(handle)
    assert status == errno.ENOMEM and 1 <= len(made) <= 3, (status, len(made))
    assert c.do("DESTROY_CQ", control.one(made.pop())) == 0
    assert c.make("CREATE_CQ", control.cq(1 << 18))[0] == 0
    other = control.Client(daemon.socket, "uroce0")
    assert other.make("CREATE_CQ", control.cq(1 << 18))[0] == 0
    c.close()
    other.close()


def hostile(daemon, seed):
    """Three clients at once; sometimes the daemon or the client ends the connection."""
    rng = random.Random(seed)
    dests = []

    def new(i):
        return control.Hostile(daemon.socket, f"uroce{i % 2}", rng.getrandbits(32), dests)

    clients = [new(i) for i in range(3)]
    for _ in range(STEPS):
        i = rng.randrange(3)
        if not clients[i].step() or rng.random() < 0.005:
            clients[i].close()
            clients[i] = new(i)
        del dests[:-30]
    for c in clients:
        c.close()


def pauses(path):
    """Who pauses a client's threads, and when they continue: test_mem_adopt_pause has the rest."""
    def observer():
        c = control.Connection(path)
        assert c.hello("")[0] == 0
        return c, lambda op, *body: c.call(op, struct.pack("<I4x", *body) if body else b"")[0]

    own = threading.get_native_id()
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)  # waits without the interpreter's lock
    thread.start()
    try:
        first, do = observer()

        def paused(do):
            """Pauses, if need be again: a thread that gets no core for half a second stops late (EBUSY), and stays
            traced (EPERM) until its tracer has ended."""
            late = False
            while (status := do("PAUSE_THREADS", own)) == errno.EBUSY or (late and status == errno.EPERM):
                late = True
            assert status == 0, os.strerror(status)

        assert do("RESUME_THREADS") == errno.ETIMEDOUT
        for tid in (0, os.getppid(), 2**31, 2**32 - 1):
            assert do("PAUSE_THREADS", tid) == errno.ESRCH, tid
        paused(do)
        assert do("PAUSE_THREADS", own) == errno.EBUSY
        second, do_second = observer()
        assert do_second("RESUME_THREADS") == errno.ETIMEDOUT  # another connection's
        assert do_second("PAUSE_THREADS", own) == errno.EPERM  # traced already
        assert do("RESUME_THREADS") == 0
        assert do("RESUME_THREADS") == errno.ETIMEDOUT
        paused(do)
        first.close()  # which ends the pause
        lib.until("the thread can be paused again", lambda: do_second("PAUSE_THREADS", own) == 0)
        assert do_second("RESUME_THREADS") == 0
        second.close()
    finally:
        stop.set()
        thread.join()


def main():
    lib.need_root()
    link = lib.link_ring(("--workers", "2", "--client-mem", "48", "--max-qps", "700"))
    daemon = link.a.daemon
    with lib.case("wrong states of a connection, unknown operations and topics"):
        connections(daemon.socket)
    with lib.case("HELLO: versions and features"):
        versions(daemon.socket)
    with lib.case("spare bytes that are not zero"):
        spare_bytes(daemon.socket)
    with lib.case("handles: unknown, stale, another client's, in use"):
        handles(daemon.socket)
    with lib.case("handles: every operation that takes one, with unknown ones"):
        unknown_handles(daemon.socket)
    # Requirements: LIFE-02
    with lib.case("every refusal has its errno and leaves no partial object"):
        refusals(daemon)
    with lib.case("the log explains why memory cannot be registered"):
        malformed_memory(daemon)
    with lib.case("a channel may be destroyed before its CQ"):
        channel_dies_before_its_cq(daemon)
    with lib.case("events that a full channel cannot take come later"):
        full_channel_loses_nothing(daemon)
    with lib.case("pauses of a client's threads"):
        pauses(daemon.socket)
    # Requirements: EVT-08
    with lib.case("a CQ overrun raises events for the CQ and its QPs"):
        cq_overrun(daemon)
    with lib.case("queue memory of a client is limited"):
        queue_memory_is_limited(daemon)
    seeds = [int(sys.argv[1])] if len(sys.argv) > 1 else range(SEEDS)
    for seed in seeds:
        with lib.case(f"three hostile clients, seed {seed}"):
            hostile(daemon, seed)
            daemon.alive()
            lib.until("their objects are gone",
                      lambda: not any(daemon.objects().values()))
    with lib.case("the daemon still serves clients, and ends cleanly"):
        lib.verbs_pair(link.b, link.a, "ibv_rc_pingpong", ["-d", "{dev}", "-c", "-g", "1"])
        link.stop()
    lib.finish()


main()
