# SPDX-License-Identifier: BSD-3-Clause
"""Links for measurements, and the programs at their ends."""
import contextlib
import os

import machine
import processes


def start(argv, ns=None, env=None):
    """A process whose standard output is separate from standard error, so that it can be parsed."""
    return processes.Proc(argv, ns, env, apart=True)


def pair(server, client, port, timeout=60):
    """Runs a server and, when it listens on port, a client; both arguments are functions that start a
    process. Returns the client's output if both succeed."""
    return processes.run_pair(server, client, port, timeout).good().client.output()


class Veth:
    """Two namespaces joined by a veth pair; both ends are eth0, with 10.9.0.1 and 10.9.0.2."""

    def __init__(self, mtu):
        self.ns = (processes.netns(), processes.netns())
        processes.veth(self.ns[0], "10.9.0.1/24", self.ns[1], "10.9.0.2/24", mtu)
        self.server_host = "10.9.0.2"

    def remove(self):
        for ns in self.ns:
            processes.remove_netns(ns)


class Local:
    """
    uroce's link within a host: one daemon with one device that connects to itself.
    placed  the worker runs on the last CPU and both programs on the first, as doc/tuning.md recommends
            for two programs that wait for each other; otherwise the scheduler decides
    """

    def __init__(self, placed=False):
        dev = "name=uroce0,port=net_ring0,addr=10.9.0.101/24,mtu=4096"
        cpus = sorted(os.sched_getaffinity(0))
        placed = placed and len(cpus) > 1
        self.daemon = processes.Daemon(machine.program("uroced"), ["net_ring0"], [dev], processes.netns(),
                                       ("--lcores", cpus[-1]) if placed else ())
        self.before = ("taskset", "-c", str(cpus[0])) if placed else ()
        self.server_host = "127.0.0.1"

    def start(self, argv, env=None):
        """A verbs program on this link."""
        run = [machine.program("uroce-run"), "--socket", self.daemon.socket, *self.before, *argv]
        return start(run, self.daemon.ns, env)

    def close(self):
        with contextlib.suppress(TimeoutError):
            self.daemon.proc.term()
        self.daemon.proc.kill()
