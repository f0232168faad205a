#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""memif: a server survives clients that come and die, and starts where another one was killed."""
import os
import signal
import socket

import lib


def start(role, path):
    return lib.Daemon([f"net_memif0,role={role},socket={path},socket-abstract=no,bsize=4608"],
                      [f"name=uroce0,port=net_memif0,addr=10.9.0.{1 if role == 'server' else 2}/24,mtu=4096"],
                      extra=lib.ONE_WORKER)


def waiting(path):
    """Number of connections that the server has not accepted."""
    lines = [line.split() for line in lib.sh("ss", "-xlH").splitlines() if str(path) in line]
    assert len(lines) == 1, lines
    return int(lines[0][2])


def dead_clients(server, path):
    """Clients that have ended when the server accepts them: it cannot send its first message."""
    for data in (b"", b"x"):
        for _ in range(10):
            os.kill(server.proc.pid, signal.SIGSTOP)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                client.connect(str(path))
                if data:
                    client.send(data)
            before = server.sockets()
            os.kill(server.proc.pid, signal.SIGCONT)
            lib.until("the server answers", lambda: server.show("device"))
            # (one more waits than the backlog allows: a connect to a stopped server would hang)
            lib.until("it has accepted the connection", lambda: waiting(path) == 0)
            lib.until("it has closed the connection", lambda before=before: server.sockets() <= before)
    assert server.proc.poll() is None, server.proc.tail()


def main():
    lib.need_root()
    path = lib.tmpdir() / "memif.sock"
    server = start("server", path)
    with lib.case("clients that end before the server accepts them"):
        dead_clients(server, path)
    with lib.case("then a client connects and moves data"):
        client = start("client", path)
        sides = [lib.Side(server, "uroce0", "127.0.0.1"), lib.Side(client, "uroce0", "127.0.0.1")]
        link = lib.Link("memif", *sides, 4096)
        lib.until("the link is up", client.link_up)
        lib.verbs_pair(link.a, link.b, "ibv_rc_pingpong", ["-d", "{dev}", "-g", "1", "-n", "200"])
    with lib.case("a second server on the same socket is refused by name"):
        proc = lib.spawn([lib.UROCED, "--socket", lib.tmpdir() / "s", "--file-prefix", lib.unique("ur"), "--no-huge",
                          "--vdev", f"net_memif0,role=server,socket={path},socket-abstract=no",
                          "--dev", "name=uroce0,port=net_memif0"])
        assert proc.wait(60) == 1, proc.output()
        assert f"socket={path}: another process listens on it" in proc.output(), proc.output()
    with lib.case("a server starts again after it was killed, and the client finds it"):
        server.proc.kill()
        assert path.exists()
        server = start("server", path)
        lib.until("the link is up", lambda: client.link_up() and server.link_up())
    with lib.case("the daemons end cleanly"):
        client.stop()
        server.stop()
    lib.finish()


main()
