# SPDX-License-Identifier: BSD-3-Clause
"""rdma_cm between uroce and the guest's kernel, by Debian's programs on both sides, in both directions."""
from guest import lib

GROUP = "239.1.2.3"
PEER6, HOST6, UROCE6 = "fd77::2", "fd77::1", "fd77::77"  # of the guest, the host, a device with its own


def listens(side):
    """Does a program of this side have an rdma_cm listener?"""
    if hasattr(side, "guest"):
        return "LISTEN" in side.guest.run("rdma resource show cm_id", timeout=60)[1]
    return any(row["state"] == "LISTEN" for row in side.daemon.show("cm")["cm"])


def spawn(side, line):
    return side.spawn(["stdbuf", "-oL", *line.split()])


def both_end(server, client, rcs=(0,)):
    """Client and server end with a good status. What they printed."""
    try:
        rc = client.wait(60)
        assert rc in rcs, f"client {rc}:\n{client.tail(1500)}\n--- server:\n{server.tail(1500)}"
        rc = server.wait(60)
        assert rc in rcs, f"server {rc}:\n{server.tail(1500)}\n--- client:\n{client.tail(1500)}"
    except TimeoutError as late:
        raise TimeoutError(f"{late}\n--- client:\n{client.tail(1500)}\n--- server:\n{server.tail(1500)}") from None
    finally:
        client.kill()
        server.kill()
    return server.output(), client.output()


def pair(server, client, serve, ask, says=""):
    """Runs a server on one side, then its client on the other."""
    lib.until("the last test's listener is gone", lambda: not listens(server))
    one = spawn(server, serve)
    lib.until("the server listens", lambda: listens(server) or one.poll() is not None)
    out = both_end(one, spawn(client, ask))
    assert all(says in text for text in out), out


def programs(s, c):
    """(name, server, client, what both print) for these addresses."""
    yield "rping", f"rping -s -a {s} -C 20 -V -S 1000", f"rping -c -a {s} -I {c} -C 20 -V -S 1000", ""
    yield ("ucmatose, 5 connections", f"ucmatose -b {s} -c 5 -C 5 -S 1000",
           f"ucmatose -s {s} -b {c} -c 5 -C 5 -S 1000", "return status 0")
    yield ("udaddy (SIDR)", f"udaddy -b {s} -c 3 -C 5 -S 1000", f"udaddy -s {s} -b {c} -c 3 -C 5 -S 1000",
           "return status 0")
    # rsockets exchange their buffers' addresses by the private data of REQ and REP
    yield ("rstream (private data)", f"rstream -b {s} -S 4000 -C 20 -I 2 -T v",
           f"rstream -s {s} -S 4000 -C 20 -I 2 -T v", "")


def programs6(s, c):
    """Likewise for IPv6 addresses."""
    yield "rping, IPv6", f"rping -s -a {s} -C 20 -V -S 1000", f"rping -c -a {s} -C 20 -V -S 1000", ""
    yield ("ucmatose, IPv6", f"ucmatose -f ipv6 -b {s} -c 2 -C 5 -S 1000",
           f"ucmatose -f ipv6 -s {s} -b {c} -c 2 -C 5 -S 1000", "return status 0")
    yield ("udaddy, IPv6 (SIDR)", f"udaddy -f ipv6 -b {s} -c 2 -C 5 -S 1000",
           f"udaddy -f ipv6 -s {s} -b {c} -c 2 -C 5 -S 1000", "return status 0")
    yield "rstream, IPv6", f"rstream -b {s} -S 4000 -C 20 -I 2 -T v", f"rstream -s {s} -S 4000 -C 20 -I 2 -T v", ""


def rejected(server, client, s, how="data"):
    """A program rejects, or its rdma_accept is refused (how: reject.c): the client gets the reason, and the private data
    if there is some, before the server ends."""
    def program(side):
        return "./reject" if hasattr(side, "guest") else str(lib.BUILD / "test/interop/reject")

    pair(server, client, f"{program(server)} -s {s} 7473 {how}", f"{program(client)} -c {s} 7473 {how}")


def no_listener(client, s, c):
    """No listener: the client gets a REJ with reason 8 (invalid service id)."""
    proc = spawn(client, f"rping -c -a {s} -I {c} -C 1 -p 7999")
    try:
        assert proc.wait(60) != 0
        assert "RDMA_CM_EVENT_REJECTED, error 8" in proc.output(), proc.tail()
    finally:
        proc.kill()


def group(receiver, sender, s, c):
    """A member of a multicast group receives what the other side sends to it."""
    one = spawn(receiver, f"mckey -m {GROUP} -b {s} -C 10")
    lib.until("the member waits", lambda: "receiving data" in one.output() or one.poll() is not None)
    out = both_end(one, spawn(sender, f"mckey -m {GROUP} -b {c} -s -C 10"))
    assert all("return status 0" in text for text in out), out


def killed(server, client, s, c):
    """A killed client's peer is disconnected: a DREQ was sent for it."""
    lib.until("the last test's listener is gone", lambda: not listens(server))
    one = spawn(server, f"rping -s -a {s} -v")
    lib.until("the server listens", lambda: listens(server) or one.poll() is not None)
    two = spawn(client, f"rping -c -a {s} -I {c} -v")
    try:
        lib.until("they talk", lambda: "ping data" in one.output() or one.poll() is not None)
        assert one.poll() is None and two.poll() is None, f"{one.tail()}\n--- client:\n{two.tail()}"
        two.kill()
        one.wait(60)
        assert "DISCONNECT" in one.output(), one.tail()
    finally:
        two.kill()
        one.kill()


def ids(side):
    """The ids of programs. (What they destroyed may answer copies, or keep numbers in TIMEWAIT.)"""
    return [row for row in side.daemon.show("cm")["cm"] if row["state"] != "destroyed"]


def run(ours, address, rxe, peer, label):
    """All of it in both directions. ours: a lib.Side with this address; rxe: run.py's GuestSide, with address peer."""
    v6 = (PEER6, UROCE6 if label == "uroce" else HOST6)
    for server, s, client, c, way in ((rxe, peer, ours, address, f"{label} -> rxe"),
                                      (ours, address, rxe, peer, f"rxe -> {label}")):
        for name, serve, ask, says in programs(s, c):
            # Requirements: CM-17
            with lib.case(f"rdma_cm, {way}: {name}"):
                pair(server, client, serve, ask, says)
        s6, c6 = (v6[side is ours] for side in (server, client))
        for name, serve, ask, says in programs6(s6, c6):
            # Requirements: CM-17
            with lib.case(f"rdma_cm, {way}: {name}"):
                pair(server, client, serve, ask, says)
        for family, to in (("IPv4", s), ("IPv6", s6)):
            # Requirements: CM-17
            with lib.case(f"rdma_cm, {way}: the server's program rejects, {family}"):
                rejected(server, client, to)
        for how, what in (("accept", "rdma_accept"), ("service", "rdma_accept of a service")):
            # Requirements: CM-04, CM-07
            with lib.case(f"rdma_cm, {way}: the server's {what} is refused"):
                rejected(server, client, s, how)
        with lib.case(f"rdma_cm, {way}: rejected, no listener"):
            no_listener(client, s, c)
        with lib.case(f"rdma_cm, {way}: mckey, {GROUP}"):
            group(server, client, s, c)
        with lib.case(f"rdma_cm, {way}: the client is killed"):
            killed(server, client, s, c)
    with lib.case(f"rdma_cm, {label}: no id and no object stays"):
        lib.until("no id is left", lambda: not ids(ours))
        lib.until("no object is left", lambda: not any(ours.daemon.objects().values()))
