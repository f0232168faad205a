#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Daemons, or single workers, stop for a while: a connection survives longer than its retries allow, because
nothing was lost and the peer was not silent (REQ-04)."""
import contextlib
import ctypes
import os
import pathlib
import select
import time

import control
import lib

# Six ACK timeouts of 4.096 us x 2^18. A pause is longer than two of them, and shorter than all even if it lasts 3 s
# longer than meant, on a busy machine.
TIMEOUT, RETRIES = 18, 5
TOTAL_S = (RETRIES + 1) * 4.096e-6 * 2 ** TIMEOUT
PAUSE_S = 0.4 * TOTAL_S

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000  # waitpid of a thread
SYS_PPOLL = 271


@contextlib.contextmanager
def stopped_thread(tid):
    """Stops one thread of another process, while its other threads run."""
    libc = ctypes.CDLL(None, use_errno=True)

    def ptrace(request):
        if libc.ptrace(ctypes.c_long(request), ctypes.c_long(tid), None, None):
            raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of {tid}")
    ptrace(PTRACE_SEIZE)
    ptrace(PTRACE_INTERRUPT)
    os.waitpid(tid, WALL)
    try:
        yield
    finally:
        ptrace(PTRACE_DETACH)


def is_asleep(daemon, tid):
    """Was the stopped thread in ppoll, where a worker sleeps and uses no memory of clients?"""
    call = pathlib.Path(f"/proc/{daemon.proc.pid}/task/{tid}/syscall").read_text().split()[0]
    return call == str(SYS_PPOLL)


def workers(daemon):
    """Thread ids of a daemon's workers, in worker order."""
    tasks = pathlib.Path(f"/proc/{daemon.proc.pid}/task")
    names = {int(task.name): (task / "comm").read_text().strip() for task in tasks.iterdir()}
    return sorted((tid for tid, name in names.items() if "worker" in name), key=names.get)


@contextlib.contextmanager
def traffic(link, *plan):
    """rcdata from link.a to link.b; it must succeed."""
    own = ["-d", "{dev}", "--timeout", str(TIMEOUT), "--retry", str(RETRIES)]
    port = lib.tcp_port()

    def argv(side, *more):
        return [lib.RCDATA, *(a.replace("{dev}", side.dev) for a in own), "-p", str(port), *more]
    server = link.b.spawn(argv(link.b))
    lib.until("the server listens", lambda: server.listens(port))
    client = link.a.spawn(argv(link.a, "--duration", "3600000", *plan, link.b.host))
    sent = link.a.daemon.counters()["send_wqes"]
    lib.until("traffic", lambda: link.a.daemon.counters()["send_wqes"] > sent + 100)
    yield
    lib.enough(server, client)
    rcs = server.wait(60), client.wait(60)
    assert rcs == (0, 0), f"{rcs}:\n{server.tail()}\n{client.tail()}"


def others_are_served(daemon, dev, tid):
    """A client that destroys objects or ends waits for the stopped worker; another client does not."""
    path = str(daemon.socket)
    waits, ends, other = (control.Client(path, dev) for _ in range(3))
    for c in (waits, ends, other):
        assert c.do("ALLOC_PD") == 0
        assert c.make("CREATE_CQ", control.cq())[0] == 0
    qps = [waits.make("CREATE_QP", control.qp(0, 0, 0))[1] for _ in range(2)]
    for c in (ends, other):
        assert c.make("CREATE_QP", control.qp(0, 0, 0))[0] == 0
    region = other.make("REG_MR", control.region(0), [control.memfd()])[1]
    with stopped_thread(tid):
        for qp in qps:  # one on each worker; the second is processed after the first is gone
            waits.send("DESTROY_QP", control.one(qp))
        ends.close()
        for _ in range(100):
            status, cq, _ = other.make("CREATE_CQ", control.cq())
            assert status == 0, status
            assert other.do("DESTROY_CQ", control.one(cq)) == 0
        assert not select.select([waits.sock], [], [], 0.2)[0], "reply before its worker released the QP"
        other.send("DEREG_MR", control.one(region))
        if is_asleep(daemon, tid):
            assert select.select([other.sock], [], [], 20)[0], "no reply although the stopped worker was asleep"
        else:
            assert not select.select([other.sock], [], [], 0.2)[0], "reply although the stopped worker may use the region"
    assert [waits.receive()[0] for _ in qps] == [0, 0]
    assert other.receive()[0] == 0
    waits.close()
    other.close()
    lib.until("the sessions end", lambda: not daemon.show("qp")["qp"])


def main():
    lib.need_root()
    link = lib.link_veth(extra=lib.TWO_WORKERS)
    tids = workers(link.a.daemon)
    assert len(tids) == 2, tids
    with lib.case("REQ-04: frames that another worker has not sent use up no retry"):
        with traffic(link, "--qps", "2", "--oneway"):
            with stopped_thread(tids[0]):
                time.sleep(2 * TOTAL_S)
            assert link.a.daemon.counters()["excused_timeouts"] > 0
    for name, side in (("requesters", link.a), ("responders", link.b)):
        with lib.case(f"REQ-04: a pause of the {name}' daemon shorter than the retries"):
            with traffic(link, "--qps", "4"):
                for _ in range(2):
                    with side.daemon.stopped():
                        time.sleep(PAUSE_S)
                    time.sleep(PAUSE_S / 3)
    with lib.case("a stopped worker does not delay other clients' requests"):
        others_are_served(link.a.daemon, link.a.dev, tids[0])
    link.end()
    lib.finish()


main()
