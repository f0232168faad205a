#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Observers (urocectl) that send random SHOW, IMPAIR, CAPTURE and SET messages, as root and as an ordinary user: each
message gets its reply or ends its connection, only root changes anything, and a client beside them is not affected."""
import json
import os
import pathlib
import random
import re
import struct

import control
import lib

ALICE = 65534
STEPS = 600 if lib.SHORT else 3000
SEED = int(os.environ.get("UROCE_OBSERVERS_SEED", 1))
FIELDS = pathlib.Path(__file__).resolve().parents[2] / "app/uroced/fields.h"
TOPICS = [*re.findall(r"^(?:TOPIC|GROUP)\((\w+)", FIELDS.read_text(), re.M), "trace", "nothing", ""]
DEVICES = ("uroce0", "uroce1", "uroce2", "")
FAULTS = ("drop=1%,seed=3", "dup=2%", "reorder=1%,delay=10us", "rule:opcode=0xd1,action=drop;drop=1%,seed=3", "rate=1G,queue=64K",
          "corrupt=100%", "rule:", "drop=", "=,;:", "")
VALUES = ("10.9.0.77/24", "10.9.0.1/24", "fd00::9/64", "fd00::9/129", "dcqcn", "swift:", "fixed:window=3", "timely", "on", "off", "auto",
          "0", "1", "-1", "debug", "error", "qps", "mrs", "")
NUMBERS = (0, 1, 2, 0xffffff, 1 << 24, 0xffffffff)


class Observer:
    """Sends messages at random, from a seed."""

    def __init__(self, path, rng, uid):
        self.path, self.rng, self.uid = path, rng, uid
        self.changed = self.replies = 0
        self.files = [os.memfd_create("file"), *os.pipe()]
        self.connect()

    def connect(self):
        with control.as_uid(self.uid):
            self.connection = control.Connection(self.path)
            assert self.connection.hello("")[0] == 0

    def number(self):
        return self.rng.choice(NUMBERS) if self.rng.random() < 0.9 else self.rng.getrandbits(32)

    def show(self):
        return "SHOW", struct.pack("<32s4I8x", self.rng.choice(TOPICS).encode(), self.number(), self.rng.randrange(3),
                                   *(self.rng.choice((0, 0, self.number())) for _ in range(2))), ()

    def impair(self):
        flags = self.rng.randrange(4)
        return "IMPAIR", struct.pack("<32s512sI4x", self.rng.choice(DEVICES).encode(), self.rng.choice(FAULTS).encode(), flags), ()

    def capture(self):
        flags, fds = self.rng.randrange(4), [self.rng.choice(self.files)] if self.rng.random() < 0.5 else []
        return "CAPTURE", struct.pack("<32sII8x", self.rng.choice(DEVICES).encode(), flags, self.number()), fds

    def set(self):
        what = self.rng.choice((*range(8), 16, 17, self.number()))
        return "SET", struct.pack("<32s64s3I4x", self.rng.choice(DEVICES).encode(), self.rng.choice(VALUES).encode(), what,
                                  self.number(), self.number()), ()

    def step(self):
        op, body, fds = self.rng.choice((self.show, self.impair, self.capture, self.set))()
        body = bytearray(body)
        if self.rng.random() < 0.3:
            for _ in range(self.rng.randint(1, 4)):
                body[self.rng.randrange(len(body))] = self.rng.randrange(256)
        if self.rng.random() < 0.02:
            del body[self.rng.randrange(len(body)):]
        reply = self.connection.call(op, bytes(body), fds)
        if reply is control.CLIENT_ENDED:
            self.connection.close()
            self.connect()
            return
        status, rest, got = reply
        for fd in got:
            os.close(fd)
        self.replies += status == 0
        # The offsets of done in the reply of SET, and of bytes in that of IMPAIR.
        done = struct.unpack_from("<I", rest, 4)[0] if op == "SET" and status == 0 else 0
        self.changed += done
        assert not (self.uid and done), (op, bytes(body))
        if self.uid and op == "CAPTURE" and struct.unpack_from("<I", body, 32)[0] in (1, 2):
            assert status != 0, bytes(body)

    def close(self):
        self.connection.close()
        for fd in self.files:
            os.close(fd)


def start():
    """A daemon whose socket every user can reach, with two devices."""
    devs = [f"name=uroce{i},port=net_ring_x{end},addr=10.9.0.{1 + i}/24" for i, end in enumerate("ab")]
    return lib.Daemon([], devs, lib.netns(), (*lib.ONE_WORKER, "--pair", "x", "--socket-mode", "0666"), socket=lib.public_socket())


def by_number(daemon):
    """A user asks for one of its objects by a number, which only QPs have: there are no rows of other kinds."""
    with control.as_uid(ALICE):
        client, observer = control.Client(daemon.socket, "uroce0"), control.Connection(daemon.socket)
        assert observer.hello("")[0] == 0
    fd = control.memfd()
    for op, body, fds in (("ALLOC_PD", b"", ()), ("CREATE_CQ", control.cq(), ()), ("CREATE_QP", control.qp(0, 0, 0), ()),
                          ("REG_MR", control.region(0), [fd]), ("CREATE_SRQ", struct.pack("<QIIII8x", 3, 0, 16, 1, 0), ()),
                          ("ALLOC_MW", struct.pack("<II8x", 0, 1), ()),
                          ("CREATE_AH", struct.pack("<II", 0, 0) + control.address(control.ipv4_gid("10.9.0.1")), ())):
        assert client.make(op, body, fds)[0] == 0, op
    for topic in TOPICS:
        for number in NUMBERS:
            reply = observer.call("SHOW", struct.pack("<32s4I8x", topic.encode(), number, 1, 0, 0))
            assert reply is not control.CLIENT_ENDED, (topic, number)
            for got in reply[2]:
                if topic in ("pd", "cq", "mr", "srq", "mw", "ah"):
                    assert json.loads(os.pread(got, 1 << 20, 0)) == {topic: []}
                os.close(got)
    os.close(fd)
    observer.close()
    client.close()
    daemon.alive()


def main():
    lib.need_root()
    daemon = start()
    with lib.case("one object of a topic that has no numbers"):
        by_number(daemon)
    client = control.Client(daemon.socket, "uroce0")
    assert client.make("ALLOC_PD")[0] == 0
    for uid in (ALICE, 0):
        with lib.case(f"random messages of uid {uid}"):
            observer = Observer(daemon.socket, random.Random(SEED), uid)
            for _ in range(STEPS):
                observer.step()
            observer.close()
            print(f"# {observer.replies} of {STEPS} were answered, {observer.changed} changes")
            assert observer.replies > STEPS / 20 and bool(observer.changed) == (uid == 0)
            daemon.alive()
            assert client.make("CREATE_CQ", control.cq())[0] == 0
    client.close()
    with lib.case("nothing is left, the daemon ends cleanly"):
        lib.until("no client is left", lambda: not any(daemon.objects().values()))
        daemon.stop()
    lib.finish()


main()
