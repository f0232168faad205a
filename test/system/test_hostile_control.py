#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A user gives the control thread work that is long: other users' requests are served in between."""
import errno
import os
import resource

import cmclient
import control
import lib

ALICE, BOB = 65534, 65533
REGIONS, PDS = 20000, 10
IDS = 4000


def client(daemon, uid):
    with control.as_uid(uid):
        return control.Client(daemon.socket, "uroce0")


def pds(c, most):
    """Allocates PDs up to the limit."""
    n = 0
    while c.do("ALLOC_PD") == 0:
        n += 1
        assert n <= most
    return n


def end_of_a_session(daemon):
    """The end of a client with many regions. Its PDs are freed last: another client of its user waits for one, and the
    later request of another user is served before."""
    alice, waits, bob = client(daemon, ALICE), client(daemon, ALICE), client(daemon, BOB)
    assert pds(alice, PDS) > 0
    fd = control.memfd()
    for _ in range(REGIONS):
        assert alice.do("REG_MR", control.region(0, length=control.PAGE), [fd]) == 0
    os.close(fd)
    assert waits.do("ALLOC_PD") == errno.ENOMEM
    replies = control.Arrivals((waits, bob))
    with daemon.stopped():
        alice.close()
        waits.send("ALLOC_PD")
        bob.send("ALLOC_PD")
    assert replies.order() == [bob, waits], f"{REGIONS} regions were freed in one turn"
    assert bob.receive()[0] == waits.receive()[0] == 0
    for c in (waits, bob):
        c.close()


def end_of_a_channel(daemon):
    """The end of an rdma_cm channel with many ids, each of which looks an absent neighbour up. The user may have one
    channel: a request for another, which comes after the end, is handled before the last id is freed."""
    bob = client(daemon, BOB)
    with control.as_uid(ALICE):
        again = control.Connection(daemon.socket)
        assert again.hello("")[0] == 0
        channel = cmclient.Channel(daemon.socket)
    for uid in range(IDS):
        channel.resolve_addr(channel.create(uid), cmclient.sockaddr("10.9.0.77", 7471), timeout_ms=600000)
    with daemon.stopped():
        channel.close()
        bob.send("ALLOC_PD")
        again.send("CM_OPEN", bytes(16))
    assert bob.receive()[0] == 0
    assert again.receive()[0] == errno.ENOMEM, "the channel was freed in one turn"

    def freed():
        status, _, fds = again.call("CM_OPEN", bytes(16))
        for fd in fds:
            os.close(fd)
        return status == 0
    lib.until("the channel is freed", freed)
    again.close()
    bob.close()


def main():
    lib.need_root()
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    daemon = lib.public_daemon("--max-pds-per-uid", str(PDS), "--max-mrs-per-uid", str(REGIONS), "--max-cm-channels-per-uid", "1")
    with lib.case("the end of a session with many regions does not hold up others"):
        end_of_a_session(daemon)
    with lib.case("the end of a channel with many lookups does not hold up others"):
        end_of_a_channel(daemon)
    lib.until("no client is left", lambda: not daemon.show("client")["client"])
    daemon.stop()
    lib.finish()


main()
