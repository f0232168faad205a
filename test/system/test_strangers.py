#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Users that share a daemon: what each sees of the others, and which peers it can impersonate."""
import errno
import json
import struct
import subprocess

import control
import lib

ALICE, BOB, MALLORY, ROOT = 65534, 65533, 65532, 0
GID = {"uroce0": control.ipv4_gid("10.9.0.101"), "uroce1": control.ipv4_gid("10.9.0.102"),
       "nobody": control.ipv4_gid("10.9.0.77")}
QP_AV, QP_ALT_PATH = 1 << 7, 1 << 14
SQD = 4


def start():
    """Two devices joined in memory; every user can reach the socket."""
    devs = [f"name=uroce{i},port=net_ring_pair{end},addr=10.9.0.{101 + i}/24,mtu=4096"
            for i, end in enumerate("ab")]
    return lib.Daemon([], devs, lib.netns(),
                      (*lib.TWO_WORKERS, "--pair", "pair", "--socket-mode", "0666"),
                      socket=lib.public_socket())


class End:
    """A client with a QP."""

    def __init__(self, daemon, uid, dev):
        self.uid, self.dev = uid, dev
        with control.as_uid(uid):
            self.c = control.Client(daemon.socket, dev)
        assert self.c.make("ALLOC_PD")[:2] == (0, 0)
        assert self.c.make("CREATE_CQ", control.cq())[:2] == (0, 0)
        self.qp()

    def qp(self, kind=2):
        status, self.handle, body = self.c.make("CREATE_QP", control.qp(0, 0, 0, kind=kind))
        assert status == 0, status
        self.qpn = struct.unpack_from("<I", body, 4)[0]
        assert self.modify(control.INIT, self.dev, 0)[0] == 0

    def modify(self, state, to, dest, mask=None, alt=None):
        """(status, the daemon's message)"""
        body = bytearray(control.modify(self.handle, state, GID[to], dest, mask))
        if alt:
            body[96:128] = control.address(GID[alt])
            body[141:143] = bytes((1, 14))
        status, why, _ = self.c.call("MODIFY_QP", bytes(body))
        return status, why.decode() if status else ""

    def connect(self, to, dest):
        """Connects. Returns the first refusal, or (0, "")."""
        status, why = self.modify(control.RTR, to, dest)
        return (status, why) if status else self.modify(control.RTS, to, dest)

    def destroy(self):
        assert self.c.do("DESTROY_QP", control.one(self.handle)) == 0

    def close(self):
        self.c.close()


def refused(daemon, answer, holder):
    status, why = answer
    assert status == errno.EADDRINUSE, (status, why)
    assert f"a QP of uid {holder} " in why, why
    lib.until("a log line", lambda: why in daemon.proc.output())


def posing(daemon):
    alice, bob = End(daemon, ALICE, "uroce0"), End(daemon, BOB, "uroce1")
    with lib.case("two users connect to each other"):
        assert alice.connect("uroce1", bob.qpn)[0] == 0
        assert bob.connect("uroce0", alice.qpn)[0] == 0
    with lib.case("a third user cannot pose as a peer"):
        for kind in (2, 3):
            mallory = End(daemon, MALLORY, "uroce1")
            mallory.qp(kind)
            mask = None if kind == 2 else control.MASK[control.RTR] & ~(1 << 15 | 1 << 17)
            refused(daemon, mallory.modify(control.RTR, "uroce0", alice.qpn, mask), BOB)
            # The QP is unchanged: another connection is fine.
            assert mallory.modify(control.RTR, "uroce0", alice.qpn ^ 1, mask)[0] == 0
            mallory.close()
        root = End(daemon, ROOT, "uroce1")
        refused(daemon, root.connect("uroce0", alice.qpn), BOB)
        root.close()
    with lib.case("nor by an alternate path"):
        mallory = End(daemon, MALLORY, "uroce1")
        refused(daemon, mallory.modify(control.RTR, "nobody", alice.qpn,
                                       control.MASK[control.RTR] | QP_ALT_PATH, "uroce0"), BOB)
        assert mallory.connect("nobody", alice.qpn)[0] == 0
        refused(daemon, mallory.modify(control.RTS, "nobody", alice.qpn, 1 | QP_ALT_PATH, "uroce0"),
                BOB)
        # A refused address is not reserved, either.
        bob2 = End(daemon, BOB, "uroce1")
        assert bob2.connect("uroce0", alice.qpn)[0] == 0
        bob2.close()
        mallory.close()
    with lib.case("nor by another path in SQD"):
        mallory = End(daemon, MALLORY, "uroce1")
        assert mallory.connect("nobody", alice.qpn)[0] == 0
        assert mallory.modify(SQD, "nobody", alice.qpn, 1)[0] == 0

        def moved():
            answer = mallory.modify(SQD, "uroce0", alice.qpn, 1 | QP_AV)
            return answer if answer[0] != errno.EINVAL else None  # EINVAL while it drains
        refused(daemon, lib.until("drained", moved), BOB)
        mallory.close()
    with lib.case("a QP of the same user may"):
        bob2 = End(daemon, BOB, "uroce1")
        assert bob2.connect("uroce0", alice.qpn)[0] == 0
        bob.destroy()
        mallory = End(daemon, MALLORY, "uroce1")
        refused(daemon, mallory.connect("uroce0", alice.qpn), BOB)
        bob2.close()
    with lib.case("an address is free once its QPs are destroyed or reset"):
        lib.until("bob's are gone", lambda: mallory.connect("uroce0", alice.qpn)[0] == 0)
        bob.qp()
        refused(daemon, bob.connect("uroce0", alice.qpn), MALLORY)  # the first to connect holds the address
        assert mallory.modify(control.RESET, "uroce0", 0)[0] == 0
        assert bob.connect("uroce0", alice.qpn)[0] == 0
        assert mallory.modify(control.INIT, "uroce0", 0)[0] == 0
        refused(daemon, mallory.connect("uroce0", alice.qpn), BOB)
    with lib.case("two users of one device connect to each other"):
        carol = End(daemon, MALLORY, "uroce0")
        alice.qp()
        assert alice.connect("uroce0", carol.qpn)[0] == 0
        assert carol.connect("uroce0", alice.qpn)[0] == 0
        carol.close()
    for end in (alice, bob, mallory):
        end.close()


# All fields of an object that other users see.
SEEN = {"qp": {"device", "uid", "type", "state", "local", "remote"}, "cq": {"device", "uid"},
        "mr": {"device", "uid"}, "client": {"device", "uid", "client"}}


CONFINED = -2  # root without CAP_NET_ADMIN, as in a container


def urocectl(daemon, uid):
    """The start of a command line as a user."""
    who = ["--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
    if uid == CONFINED:
        who = ["--bounding-set", "-net_admin", "--inh-caps", "-net_admin"]
    return ["setpriv", *who, lib.public_copy() / "app/urocectl/urocectl", "--socket", daemon.socket]


def show(daemon, uid, *words):
    """`urocectl --json show ..` as a user: the rows, or None if it fails; and the table."""
    run = urocectl(daemon, uid)
    done = subprocess.run([*run, "--json", "show", *words], text=True, capture_output=True,
                          timeout=60)
    table = subprocess.run([*run, "show", *words], text=True, capture_output=True, timeout=60)
    rows = json.loads(done.stdout)[words[0]] if done.returncode == 0 else None
    return rows, table.stdout


def seen(daemon):
    alice, bob = End(daemon, ALICE, "uroce0"), End(daemon, BOB, "uroce1")
    assert alice.connect("uroce1", bob.qpn)[0] == 0 and bob.connect("uroce0", alice.qpn)[0] == 0
    fd = control.memfd()
    status, _, body = alice.c.make("REG_MR", control.region(0), [fd])
    assert status == 0
    key = f"{struct.unpack_from('<I', body, 4)[0]:#x}"
    for what, fields in SEEN.items():
        with lib.case(f"show {what}: another user sees only that the object exists"):
            rows, table = show(daemon, MALLORY, what)
            assert rows and all(set(row) == fields for row in rows), rows
            assert {row["uid"] for row in rows} <= {ALICE, BOB}
            text = json.dumps(rows) + table
            for secret in (str(alice.qpn), str(bob.qpn), key, f"{control.REGION:#x}"):
                assert secret not in text, (secret, text)
    with lib.case("root without CAP_NET_ADMIN, as in a container, is such a user"):
        root = End(daemon, ROOT, "uroce0")
        for what in ("qp", "cq", "client"):
            rows = show(daemon, CONFINED, what)[0]
            assert rows and all(set(row) == SEEN[what] for row in rows), rows
        assert show(daemon, CONFINED, "qp", str(root.qpn)) == (None, "")
        root.close()
        for words in (("impair", "uroce0", "set", "drop=1%"), ("addr", "add", "10.9.0.9/24", "dev", "uroce0")):
            done = subprocess.run([*urocectl(daemon, CONFINED), *words], text=True, capture_output=True, timeout=60)
            assert done.returncode != 0 and "CAP_NET_ADMIN" in done.stderr, done
    with lib.case("the owner and root see everything of it"):
        for what in SEEN:
            for uid, whose in ((ALICE, {ALICE}), (ROOT, {ALICE, BOB})):
                full = [r for r in show(daemon, uid, what)[0] if set(r) > SEEN[what]]
                assert {r["uid"] for r in full} == (whose if what != "mr" else {ALICE}), full
        assert key in show(daemon, ALICE, "mr")[1] and key in show(daemon, ROOT, "mr")[1]
        assert key not in show(daemon, BOB, "mr")[1]
    with lib.case("QPNs cannot be probed"):
        assert show(daemon, ALICE, "qp", str(alice.qpn))[0]
        assert show(daemon, ROOT, "qp", str(alice.qpn))[0]
        assert show(daemon, BOB, "qp", str(alice.qpn)) == (None, "")
        assert show(daemon, BOB, "qp", str(alice.qpn ^ 1)) == (None, "")
    with lib.case("only root may change captures, faults, addresses and keys"):
        with control.as_uid(MALLORY):
            c = control.Connection(daemon.socket)
        assert c.hello("")[0] == 0
        dev = struct.pack("<32s", b"uroce0")
        for flags in (0, 1, 2):
            assert c.call("CAPTURE", dev + struct.pack("<II8x", flags, 0), [fd])[0] == errno.EPERM
        for flags in (1, 2):
            assert c.call("IMPAIR", dev + b"drop=1%".ljust(512, b"\0")
                          + struct.pack("<II", flags, 0))[0] == errno.EPERM
        for what in (1, 2, 3):
            assert c.call("SET", dev + b"10.9.0.9/24".ljust(64, b"\0")
                          + struct.pack("<4I", what, 1, 0xffff, 0))[0] == errno.EPERM
        c.close()
    alice.close()
    bob.close()


def main():
    lib.need_root()
    daemon = start()
    posing(daemon)
    seen(daemon)
    with lib.case("nothing is left, the daemon ends cleanly"):
        lib.until("no object is left", lambda: not any(daemon.objects().values()))
        daemon.stop()
    lib.finish()


main()
