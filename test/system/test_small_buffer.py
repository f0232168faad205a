#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Port udp with the receive buffer of an ordinary user (net.core.rmem_max=212992): the daemon tells its peer, whose
WRITEs then have a window that fits it. While the receiving daemon is stopped, that fills and no more is sent."""
import lib
import perftool
from hostlink import ADDRESSES, pingpong, spaces

SMALL = lib.BUILD / "test/system/libsmallbuffer.so"
STOPS = 5
BUFFER = 2 * 212992  # the kernel doubles it for its own overhead
WINDOW = {1024: 293, 4096: 76}  # packets of three quarters of it


def link_small(mtu):
    sides = []
    for ns, (v4, _) in zip(spaces(mtu), ADDRESSES):
        daemon = lib.Daemon([], ["name=uroce0,port=udp,iface=eth0"], ns, lib.ONE_WORKER,
                            before=("env", "ASAN_OPTIONS=verify_asan_link_order=0", f"LD_PRELOAD={SMALL}"))
        sides.append(lib.Side(daemon, "uroce0", v4))
    return lib.Link(f"udp, MTU {mtu}", *sides, 4096 if mtu > 4200 else 1024)


def only_qp(side):
    qp, = side.daemon.show("qp")["qp"]
    return side.daemon.ctl("show", "qp", qp["qpn"])["qp"][0]


def in_flight(qp):
    return (qp["next_psn"] - qp["una_psn"]) % (1 << 24)


def moves(link):
    """Waits until packets are acknowledged."""
    before = only_qp(link.a)["una_psn"]
    lib.until("progress", lambda: only_qp(link.a)["una_psn"] != before)


def writes(link):
    pingpong(link, "-g", "1", "-n", "10")  # they agree on selective repeat
    port = lib.tcp_port()
    args = ["ib_write_bw", "-d", "uroce0", "-x", "1", "-F", *perftool.PATIENT, "-m", str(link.mtu), "-p", str(port),
            "-s", str(1 << 20), "-D", "3600"]
    server = link.b.spawn(args)
    lib.until("the server listens", lambda: server.listens(port))
    client = link.a.spawn([*args, link.b.host])
    lib.until("two queue pairs", lambda: all(len(side.daemon.show("qp")["qp"]) == 1 for side in (link.a, link.b)))
    moves(link)
    lib.until("the peer's buffer is known", lambda: only_qp(link.a)["sr"] == "on")
    qp = only_qp(link.a)
    assert qp["peer_buffer"] == link.b.daemon.show("port")["port"][0]["udp"]["rx_buffer_bytes"] == BUFFER, qp
    for _ in range(STOPS):
        with link.b.daemon.stopped():
            lib.until("the window is full", lambda: in_flight(qp := only_qp(link.a)) >= qp["window"])
            assert in_flight(only_qp(link.a)) <= WINDOW[link.mtu], only_qp(link.a)
        moves(link)
    print(f"# {link.b.daemon.show('port')['port'][0]['udp']['rx_socket_full']} datagrams did not fit")
    client.kill()
    server.kill()
    link.nothing_left()


def main():
    lib.need_root()
    for mtu in (1500, 9000):
        link = link_small(mtu)
        with lib.case(f"{link.kind}: WRITEs of 1 MiB"):
            writes(link)
        link.end()
    lib.finish()


main()
