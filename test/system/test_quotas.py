#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Users allocate all they can: each is stopped at its limit, the refusal names that limit, other users and root can
still allocate, and everything is freed."""
import contextlib
import errno
import json
import os
import pathlib
import shutil
import struct
import time

import control
import lib

ALICE, BOB, ROOT = 65534, 65533, 0
GROUP = control.ipv4_gid("10.9.0.101")


def client(daemon, uid):
    with control.as_uid(uid):
        return control.Client(daemon.socket, "uroce0")


def unmapped(attempt):
    """Retries on EAGAIN: memory counts until the background unmap is done."""
    while True:
        reply = attempt()
        if reply[0] != errno.EAGAIN:
            return reply
        time.sleep(0.001)


class Maker:
    """A client with the base for objects of any kind; creates them one by one."""

    def __init__(self, daemon, uid, huge=None):
        self.c = client(daemon, uid)
        self.huge = huge
        self.kept = []
        self.ids = 0

    def base(self):
        for op, body in (("ALLOC_PD", b""), ("CREATE_CQ", control.cq())):
            status, _, _ = self.c.make(op, body)
            assert status == 0, (op, status)

    def one(self, kind):
        """(status, the daemon's message)"""
        body = {
            "pd": b"", "cq": control.cq(), "qp": control.qp(0, 0, 0), "mw": struct.pack("<II8x", 0, 1),
            "srq": struct.pack("<QIIII8x", 3, 0, 16, 1, 0), "channel": b"",
            "ah": struct.pack("<II", 0, 0) + control.address(GROUP)}.get(kind)
        op = {"pd": "ALLOC_PD", "cq": "CREATE_CQ", "qp": "CREATE_QP", "mw": "ALLOC_MW",
              "srq": "CREATE_SRQ", "channel": "CREATE_CHANNEL", "ah": "CREATE_AH"}.get(kind)
        if kind == "mr":
            return self.region(control.PAGE)
        if kind == "mcast":
            return self.member()
        if kind == "queue-mem":
            op, body = "CREATE_CQ", control.cq(1 << 15)
        status, body, fds = self.c.call(op, body)
        self.kept += fds  # a channel lives as long as its descriptor
        return status, body.decode() if status else ""

    def region(self, length):
        fd = self.huge if self.huge is not None else control.memfd()
        status, body = unmapped(lambda: self.c.call("REG_MR", control.region(0, length=length),
                                                    [fd])[:2])
        if self.huge is None:
            os.close(fd)
        return status, body.decode() if status else ""

    def member(self):
        if self.ids == 0:
            assert self.c.make("CREATE_QP", control.qp(0, 0, 0, kind=4))[:2] == (0, 0)
        self.ids += 1
        group = b"\xff\x0e" + bytes(10) + struct.pack(">I", self.ids)
        status, body, _ = self.c.call("ATTACH_MCAST", struct.pack("<II", 0, 0) + group + bytes(8))
        return status, body.decode() if status else ""

    def fill(self, kind, most=5000):
        """Number created before the first refusal, its status and message."""
        for n in range(most):
            status, why = self.one(kind)
            if status:
                return n, status, why
        raise AssertionError(f"{most} of {kind}, and none was refused")

    def close(self):
        for fd in self.kept:
            os.close(fd)
        self.c.close()


# kind, option, term in the message, number that fits in addition to the base
KINDS = (("pd", "max-pds-per-uid", "protection domains", 9),
         ("cq", "max-cqs-per-uid", "completion queues", 9),
         ("qp", "max-qps-per-uid", "queue pairs", 10),
         ("srq", "max-srqs-per-uid", "shared receive queues", 10),
         ("mr", "max-mrs-per-uid", "memory regions and windows", 10),
         ("mw", "max-mrs-per-uid", "memory regions and windows", 10),
         ("ah", "max-ahs-per-uid", "address handles", 10),
         ("mcast", "max-mcast-per-uid", "multicast memberships", 10),
         ("channel", "max-channels-per-uid", "completion channels", 10))


def nothing_left(daemon):
    lib.until("no client is left", lambda: not daemon.show("client")["client"])


def objects(daemon):
    """Runs twice: the next client reuses what the previous one freed."""
    for kind, option, what, most in KINDS:
        with lib.case(f"{kind}: a user is stopped at its limit, others are not"):
            for _ in range(2):
                alice, bob, root = (Maker(daemon, uid) for uid in (ALICE, BOB, ROOT))
                for maker in (alice, bob, root):
                    maker.base()
                n, status, why = alice.fill(kind)
                assert (n, status) == (most, errno.ENOMEM), (n, status, why)
                for word in (f"uid {ALICE} ", what, "may hold 10 ", f"option {option})"):
                    assert word in why, (word, why)
                # A second program of the same user has the same limit.
                again = Maker(daemon, ALICE)
                if kind not in ("pd", "cq"):
                    assert kind == "mcast" or again.c.make("ALLOC_PD")[0] == 0
                if kind in ("pd", "channel", "cq"):
                    assert again.one(kind)[0] == errno.ENOMEM
                again.close()
                assert bob.one(kind)[0] == 0
                for _ in range(12):  # users' limits do not apply to root
                    assert root.one(kind)[0] == 0
                for maker in (alice, bob, root):
                    maker.close()
                nothing_left(daemon)


def small():
    daemon = lib.public_daemon(*(word for option in {k[1] for k in KINDS} for word in (f"--{option}", "10")))
    objects(daemon)
    daemon.stop()


def totals():
    """All users but root together leave one sixteenth of the total."""
    daemon = lib.public_daemon("--max-qps", "32", "--max-qps-per-uid", "20")
    with lib.case("the last queue pairs are reserved for root"):
        makers = [Maker(daemon, uid) for uid in (ALICE, BOB, ROOT)]
        for maker in makers:
            maker.base()
        made = [maker.fill("qp") for maker in makers]
        assert [m[0] for m in made] == [20, 10, 2], made
        assert "uids other than root" in made[1][2] and "option max-qps)" in made[1][2], made
        assert "all clients may hold 32 together (option max-qps)" in made[2][2], made
        for maker in makers:
            maker.close()
        nothing_left(daemon)
    daemon.stop()


def connect(daemon):
    """Connects as soon as the backlog of unaccepted connections has space."""
    def attempt():
        with contextlib.suppress(BlockingIOError):
            return control.Connection(daemon.socket)
        return None
    return lib.until("a connection", attempt, every=0.001)


def crowd():
    """Silent connections of several users."""
    daemon = lib.public_daemon("--max-clients", "64", "--max-new-per-uid", "20", "--hello-timeout", "3")
    crowd_of = [control.Connection(daemon.socket)]  # root's own, silent too
    with lib.case("1000 connections without HELLO block nobody"):
        for uid in (ALICE, ALICE - 2, ALICE - 3, ALICE - 4):
            with control.as_uid(uid):
                crowd_of += [connect(daemon) for _ in range(250)]
        assert daemon.show("device")["device"]
        c = client(daemon, ROOT)
        c.close()
        lib.until("a log line", lambda: "(option max-new-per-uid)" in daemon.proc.output())
    with lib.case("a silent connection is closed"):
        for c in crowd_of:
            c.sock.settimeout(60)
            try:
                assert c.sock.recv(1) == b""
            except ConnectionResetError:
                pass
            c.close()
        assert "no HELLO within 3 s (option hello-timeout)" in daemon.proc.output()
        for uid in (ALICE, BOB):
            client(daemon, uid).close()
    with lib.case("connections of a user after HELLO are limited, too"):
        observers = []
        for _ in range(70):
            with control.as_uid(ALICE):
                observers.append(control.Connection(daemon.socket))
            if observers[-1].hello("") is control.CLIENT_ENDED:
                break
        assert len(observers) == 49, len(observers)
        client(daemon, BOB).close()
        for o in observers:
            o.close()
    daemon.stop()


def memory():
    daemon = lib.public_daemon("--max-reg-mem-per-uid", "1024", "--max-queue-mem-per-uid", "20",
                   "--max-reg-mem", "3000")
    big = control.memfd(256 << 20)
    with lib.case("a memfd counts each time that it is registered"):
        alice, bob = Maker(daemon, ALICE, big), Maker(daemon, BOB, big)
        for maker in (alice, bob):
            maker.base()
        for _ in range(4):
            assert alice.region(256 << 20)[0] == 0
        status, why = alice.region(control.PAGE)
        assert status == errno.ENOMEM
        assert (f"uid {ALICE} holds 1024 and wants 1 more MiB of registered memory; a uid may hold "
                "1024 (option max-reg-mem-per-uid)") == why, why
        lib.until("a log line", lambda: why in daemon.proc.output())
        assert bob.region(256 << 20)[0] == 0
    with lib.case("a region that shrinks, moves or is deregistered frees its quota"):
        def rereg(handle, length):
            body = struct.pack("<II", handle, 1) + control.region(0, length=length)
            return unmapped(lambda: (alice.c.do("REREG_MR", body, [big]),))[0]
        assert rereg(0, control.PAGE) == errno.ENOMEM  # the new region is allocated before the old one is freed
        assert alice.c.do("DEREG_MR", control.one(3)) == 0
        assert rereg(0, control.PAGE) == 0
        refused = alice.region(511 << 20)
        assert refused[0] not in (0, errno.ENOMEM), refused  # longer than the memfd
        assert alice.region(256 << 20)[0] == 0
        assert alice.region(256 << 20)[0] == errno.ENOMEM
        alice.close()
        bob.close()
        nothing_left(daemon)
        again = Maker(daemon, ALICE, big)
        again.base()
        for _ in range(4):
            assert again.region(256 << 20)[0] == 0
        again.close()
    os.close(big)
    with lib.case("queue memory has a limit per user"):
        for _ in range(2):
            alice, bob = Maker(daemon, ALICE), Maker(daemon, BOB)
            n, status, why = alice.fill("queue-mem")
            assert status == errno.ENOMEM and 0 < n <= 10, (n, status, why)
            assert "MiB of queue memory" in why and "(option max-queue-mem-per-uid)" in why, why
            assert bob.one("queue-mem")[0] == 0
            alice.close()
            bob.close()
            nothing_left(daemon)
    with lib.case("the error names a client's limit, too"):
        root = Maker(daemon, ROOT)
        _, status, why = root.fill("queue-mem")
        assert status == errno.ENOMEM and "(option client-mem)" in why, (status, why)
        root.close()
    daemon.stop()


def descriptors():
    daemon = lib.public_daemon("--max-fds", "64")
    with lib.case("the last descriptors are reserved for root"):
        makers = [Maker(daemon, uid) for uid in (ALICE, BOB)]
        made = [maker.fill("channel") for maker in makers]
        assert [m[1] for m in made] == [errno.ENOMEM] * 2, made
        assert "(option max-fds-per-uid)" in made[0][2] and "(option max-fds)" in made[1][2], made
        assert daemon.show("client")["client"]
        for maker in makers:
            maker.close()
        nothing_left(daemon)
    daemon.stop()


def segments():
    daemon = lib.public_daemon("--max-maps-per-uid", "10")
    with lib.case("the memory of rings counts as mappings"):
        for _ in range(2):
            alice, bob = Maker(daemon, ALICE), Maker(daemon, BOB)
            n, status, why = alice.fill("queue-mem")
            # the context itself uses one
            assert (n, status) == (9, errno.ENOMEM), (n, status, why)
            assert "(option max-maps-per-uid)" in why, why
            with control.as_uid(ALICE):
                refused = control.Connection(daemon.socket)
            assert refused.hello("uroce0")[0] == errno.ENOMEM
            refused.close()
            assert bob.one("queue-mem")[0] == 0
            alice.close()
            bob.close()
            nothing_left(daemon)
    daemon.stop()


def subordinate():
    """The uids of a user's rootless containers have one limit together with the user."""
    ns = lib.netns()
    etc = pathlib.Path("/etc/netns", ns)  # ip netns exec mounts its files over those of /etc
    etc.mkdir(parents=True)
    lib.processes.at_end(shutil.rmtree, etc)
    (etc / "subuid").write_text(f"{ALICE}:700000:65536\n")
    daemon = lib.public_daemon("--max-qps-per-uid", "10", ns=ns)
    with lib.case("subordinate uids count as their owner"):
        makers = [Maker(daemon, uid) for uid in (ALICE, 700000, 765535, BOB)]
        for maker in makers:
            maker.base()
        made = [maker.fill("qp") for maker in makers]
        assert [m[:2] for m in made] == [(10, errno.ENOMEM), (0, errno.ENOMEM), (0, errno.ENOMEM), (10, errno.ENOMEM)], made
        assert all(f"uid {ALICE} " in m[2] for m in made[:3]), made
        tool = lib.public_copy() / "app/urocectl/urocectl"
        become = ("setpriv", "--reuid=700000", "--regid=700000", "--clear-groups")
        shown = json.loads(lib.sh(*become, tool, "--socket", daemon.socket, "--json", "show", "qp"))["qp"]
        assert len(shown) == 20 and not any("qpn" in row for row in shown), shown  # it may not see its owner's
        for maker in makers:
            maker.close()
        nothing_left(daemon)
    with lib.case("another owner of subordinate uids counts without a restart"):
        (etc / "subuid").write_text(f"{BOB}:700000:65536\n")
        bob = Maker(daemon, BOB)
        bob.base()
        assert bob.fill("qp")[0] == 10

        def of_bob():
            maker = Maker(daemon, 700000)
            maker.base()
            made = maker.fill("qp")
            maker.close()
            return made[0] == 0 and f"uid {BOB} " in made[2]

        lib.until("uids of the range count as those of their new owner", of_bob)
        bob.close()
        nothing_left(daemon)
    daemon.stop()
    daemon = lib.public_daemon("--max-qps-per-uid", "10", "--quota-by", "uid", ns=ns)
    with lib.case("quota-by=uid: each has its own limit"):
        makers = [Maker(daemon, uid) for uid in (ALICE, 700000)]
        for maker in makers:
            maker.base()
        assert [maker.fill("qp")[0] for maker in makers] == [10, 10]
        for maker in makers:
            maker.close()
    daemon.stop()


def hierarchies():
    """Those of control groups here: version 2, and one of version 1."""
    top = pathlib.Path("/sys/fs/cgroup")
    tops = [path for path in (top, *sorted(top.glob("*"))) if (path / "cgroup.procs").exists()]
    version = {(path / "cgroup.controllers").exists(): path for path in reversed(tops)}
    return [(2 if new else 1, path) for new, path in sorted(version.items(), reverse=True)]


def groups_in(top):
    """Two new control groups, removed at the end, or none if this machine does not let the test make any."""
    found = []
    for name in ("a", "b"):
        group = top / f"uroce-test-{os.getpid()}-{name}"
        try:
            group.mkdir()
        except OSError:
            return []
        lib.processes.at_end(group.rmdir)
        found.append(group)
    return found


def control_groups():
    made = [(version, groups) for version, top in hierarchies() if (groups := groups_in(top))]
    if not made:
        lib.skip_case("quota-by=cgroup: users of control groups", "no control group can be made here")
    for version, groups in made:
        by_groups(version, groups)


def by_groups(version, groups):
    """quota-by=cgroup: containers of one uid are different users."""
    home = groups[0].parent / pathlib.Path("/proc/self/cgroup").read_text(encoding="ascii").split(
        "0::/" if (groups[0].parent / "cgroup.controllers").exists() else f":{groups[0].parent.name}:/")[1].split("\n")[0]
    daemon = lib.public_daemon("--max-qps-per-uid", "10", "--quota-by", "cgroup")
    tool = [lib.public_copy() / "app/urocectl/urocectl", "--socket", daemon.socket, "--json", "show", "qp"]
    become = ("setpriv", f"--reuid={ALICE}", f"--regid={ALICE}", "--clear-groups")
    with lib.case(f"cgroup v{version}: containers of one uid have their own limits, and do not see each other's objects"):
        makers = []
        try:
            for group in groups:
                (group / "cgroup.procs").write_text(str(os.getpid()))
                makers.append(Maker(daemon, ALICE))
                makers[-1].base()
                assert makers[-1].fill("qp")[:2] == (10, errno.ENOMEM)
            shown = json.loads(lib.sh(*become, *tool))["qp"]
            assert len(shown) == 20 and sum("qpn" in row for row in shown) == 10, shown
        finally:
            (home / "cgroup.procs").write_text(str(os.getpid()))
        assert sum("qpn" in row for row in json.loads(lib.sh(*tool))["qp"]) == 20
    with lib.case(f"cgroup v{version}: root sees which control group a user is; metrics have the sums"):
        full = [row["cgroup"] for row in daemon.show("quota")["quota"]
                if row["uid"] == ALICE and row["resource"] == "qps" and row["used"] == 10]
        assert len(full) == 2 and all(group.name in text for group, text in zip(groups, sorted(full))), (groups, full)
        assert sorted(row["cgroup"] for row in daemon.show("client")["client"] if row["uid"] == ALICE) == sorted(full)
        text = lib.sh(lib.public_copy() / "app/urocectl/urocectl", "--socket", daemon.socket, "metrics")
        assert 'uroce_objects{kind="qps"} 20' in text, text
        for maker in makers:
            maker.close()
        nothing_left(daemon)
    daemon.stop()


def neighbours():
    devs = [f"name=uroce{i},port=net_ring_pair{end},addr=10.9.0.{101 + i}/24,mtu=4096"
            for i, end in enumerate("ab")]
    daemon = lib.Daemon([], devs, lib.netns(), ("--pair", "pair", "--socket-mode", "0666"),
                        socket=lib.public_socket())

    def handle(maker, gid, sgid_index):
        assert maker.c.make("CREATE_AH", struct.pack("<II", 0, 0)
                            + control.address(gid, sgid_index))[0] == 0
    with lib.case("requests for absent neighbours do not delay other users' requests"):
        alice, bob = Maker(daemon, ALICE), Maker(daemon, BOB)
        for maker in (alice, bob):
            maker.base()
        for i in range(3000):
            handle(alice, b"\xfe\x80" + bytes(6) + struct.pack(">Q", 0x100000 + i), 0)
        lib.until("all count as silent", lambda: all(n["asked"] >= 3 for n in daemon.show("neigh")["neigh"]))
        handle(bob, control.ipv4_gid("10.9.0.102"), 1)
        lib.until("a reply", lambda: [n for n in daemon.show("neigh")["neigh"] if
                                        n["address"] == "10.9.0.102"
                                        and n["state"] == "known"])
        alice.close()
        bob.close()
        nothing_left(daemon)
    daemon.stop()


def turns():
    daemon = lib.public_daemon("--max-clients", "200")
    with lib.case("slow requests delay their own user, not the others"):
        alice, bob = Maker(daemon, ALICE), Maker(daemon, BOB)
        alice.base()
        small = control.qp(0, 0, 0, caps=(1, 1, 1, 1, 0))
        for _ in range(300):
            assert alice.c.do("CREATE_QP", small) == 0
        observers = []
        for _ in range(50):
            with control.as_uid(ALICE):
                observers.append(control.Connection(daemon.socket))
            assert observers[-1].hello("")[0] == 0
        replies = control.Arrivals((*observers, bob.c))
        with daemon.stopped():
            for c in observers:
                c.send("SHOW", struct.pack("<32sII16x", b"qp", 0, 0))
            bob.c.send("QUERY_CLOCK")
        before = replies.order().index(bob.c)
        print(f"# {before} requests of another user were served before")
        assert before <= 5, f"{before} of {len(observers)} requests of another user were served before"
        for c in observers:
            c.close()
        alice.close()
        bob.close()
        nothing_left(daemon)
    daemon.stop()


def main():
    lib.need_root()
    small()
    totals()
    crowd()
    memory()
    descriptors()
    segments()
    if os.path.exists("/etc/subuid"):  # else there is nothing to mount over
        subordinate()
    control_groups()
    neighbours()
    turns()
    lib.finish()


main()
