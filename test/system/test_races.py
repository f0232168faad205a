#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A daemon built with ThreadSanitizer under load: programs connect, transfer and end in parallel, some of them killed
in mid-traffic, while urocectl shows and changes everything. The daemon must report no race.

UROCE_TSAN: the build folder of such a daemon. UROCE_BUILD: an ordinary build, for clients and urocectl.
UROCE_RACES_SECONDS: how long.
"""
import contextlib
import itertools
import os
import pathlib
import random
import re
import subprocess
import sys
import threading
import time

import lib

SECONDS = float(os.environ.get("UROCE_RACES_SECONDS", "40"))
SUPPRESSIONS = lib.HERE.parent / "unit/tsan.supp"
SHOWN = ("device", "port", "gid", "neigh", "qp", "cq", "mr", "client", "stats", "drops")
PROGRAMS = (
    ("ibv_rc_pingpong", "-g", "1", "-n", "100", "-s", "4097"),
    ("ibv_rc_pingpong", "-g", "1", "-n", "100", "-e"),
    ("ibv_uc_pingpong", "-g", "1", "-n", "100", "-s", "2000"),
    ("ibv_ud_pingpong", "-g", "1", "-n", "100", "-s", "1000"),
    ("ibv_srq_pingpong", "-g", "1", "-n", "50", "-q", "6", "-s", "3000"),
    ("ib_write_bw", "-x", "1", "-F", "-n", "500", "-s", "8192", "-q", "4"),
    ("ib_read_lat", "-x", "1", "-F", "-n", "200", "-s", "4096"),
    ("ib_atomic_lat", "-x", "1", "-F", "-n", "200"),
    ("ib_send_bw", "-x", "1", "-F", "-n", "300", "-s", "1000", "-e"),
)

# The daemon is many times slower than usual, so a program's retries may run out (RETRY_EXC_ERR).
TOO_SLOW = ("retry counter exceeded", "Failed status 12")


def tsan_options(log):
    return {"TSAN_OPTIONS": f"suppressions={SUPPRESSIONS} history_size=4 exitcode=0 log_path={log}"}


def link_two_workers(log):
    """One daemon with two devices joined by rings, and two workers, each with QPs on both devices."""
    devs = [f"name=uroce{i},port=net_ring_pair{end},addr=10.9.0.{101 + i}/24,mtu=4096" for i, end in enumerate("ab")]
    program = pathlib.Path(os.environ["UROCE_TSAN"]).resolve() / "app/uroced/uroced"
    before = ("env", *(f"{name}={value}" for name, value in tsan_options(log).items()))
    path = lib.tmpdir() / "uroced.sock"
    daemon = lib.Daemon([], devs, lib.netns(), ("--pair", "pair", "--workers", "2", "--max-qps", "512"),
                        socket=path, program=program, before=before)
    return lib.Link("ring", lib.Side(daemon, "uroce0", "127.0.0.1"), lib.Side(daemon, "uroce1", "127.0.0.1"), 4096)


class Load:
    """Threads that run until the end or a failure; counts what each has done."""

    def __init__(self, link):
        self.link, self.end = link, time.monotonic() + SECONDS
        self.done, self.failed, self.lock = {}, [], threading.Lock()

    def over(self):
        return self.failed or time.monotonic() > self.end

    def repeat(self, name, call):
        """Calls call(round) until the end."""
        try:
            for i in itertools.count():
                if self.over():
                    return
                call(i)
                with self.lock:
                    self.done[name] = self.done.get(name, 0) + 1
        except Exception as error:  # shown by the main thread
            self.failed.append(f"{name}: {error}")

    def run(self, jobs):
        threads = [threading.Thread(target=self.repeat, args=job) for job in jobs.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not self.failed, "\n".join(self.failed)


def transfers(link, seed):
    """One program after the other between the devices, or within one."""
    rng = random.Random(seed)

    def call(_):
        tool, *args = rng.choice(PROGRAMS)
        server, client = rng.choice(((link.a, link.b), (link.b, link.a), (link.a, link.a)))
        try:
            lib.verbs_pair(server, client, tool, ["-d", "{dev}", *args])
        except lib.processes.Failed as error:
            if not any(text in str(error) for text in TOO_SLOW):
                raise
    return call


def killed(link):
    """A transfer whose client, or server, is killed in the middle."""
    def call(i):
        port = lib.tcp_port()
        argv = ["-x", "1", "-F", "-D", "30", "-s", "65536", "-q", "4", "-p", str(port)]
        server = link.a.spawn(["ib_write_bw", "-d", "uroce0", *argv])
        with contextlib.ExitStack() as ends:
            ends.callback(server.kill)
            lib.until("the server listens", lambda: server.listens(port))
            client = link.b.spawn(["ib_write_bw", "-d", "uroce1", *argv, "127.0.0.1"])
            ends.callback(client.kill)
            time.sleep(1 + i % 3)
            (server if i % 2 else client).kill()
    return call


def ctl(link, *words):
    done = subprocess.run([lib.UROCECTL, "--socket", link.a.daemon.socket, *words], text=True, capture_output=True,
                          timeout=120)
    assert done.returncode == 0, f"urocectl {' '.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout


def shows(link):
    """Everything that urocectl shows, and all of one QP."""
    def call(_):
        for what in SHOWN:
            text = ctl(link, "show", what)
        qpn = re.search(r"\b0x[0-9a-f]+\b", ctl(link, "show", "qp"))
        if qpn:
            with contextlib.suppress(AssertionError):  # the QP may have gone
                ctl(link, "show", "qp", qpn[0])
        return text
    return call


def changes(link):
    """Addresses, P_Keys, faults and captures that come and go."""
    file = lib.tmpdir() / "capture.pcapng"

    def call(_):
        ctl(link, "addr", "add", "10.9.0.77/24", "dev", "uroce1")
        ctl(link, "pkey", "set", "0x8123", "dev", "uroce0", "index", "3")
        ctl(link, "impair", "uroce0", "set", "dup=1%,reorder=1%")
        ctl(link, "capture", "uroce1", "start", str(file))
        time.sleep(0.3)
        ctl(link, "capture", "uroce1", "stop")
        ctl(link, "impair", "uroce0", "clear")
        ctl(link, "pkey", "del", "dev", "uroce0", "index", "3")
        ctl(link, "addr", "del", "10.9.0.77/24", "dev", "uroce1")
    return call


def telemetry(link):
    """Metrics and DPDK's telemetry, whose callbacks run on separate threads."""
    argv = link.a.daemon.proc.argv
    prefix = argv[argv.index("--file-prefix") + 1]
    asked = "/uroce/stats,uroce0\n/uroce/port,uroce1\n/uroce/qps\n/uroce/worker,1\n/ethdev/stats,0\nquit\n"

    def call(_):
        done = subprocess.run(["dpdk-telemetry.py", "-f", prefix], input=asked, text=True, capture_output=True,
                              timeout=120)
        assert '"/uroce/qps"' in done.stdout, done.stdout + done.stderr
        text = subprocess.run([lib.UROCECTL, "--socket", link.a.daemon.socket, "metrics"], text=True, capture_output=True,
                              timeout=60, check=True).stdout
        assert "uroce_port_up" in text, text
    return call


def reports(log):
    """The sanitizer's reports, one file per process."""
    return [path.read_text(errors="replace") for path in log.parent.glob(f"{log.name}.*")]


def main():
    lib.need_root()
    if "UROCE_TSAN" not in os.environ:
        lib.skip("needs a daemon built with ThreadSanitizer (UROCE_TSAN)")
    log = lib.tmpdir() / "tsan"
    link = link_two_workers(log)
    load = Load(link)
    with lib.case("programs, urocectl and changes in parallel"):
        load.run({"transfers": transfers(link, 1), "more transfers": transfers(link, 2), "kills": killed(link),
                  "shows": shows(link), "changes": changes(link), "telemetry": telemetry(link)})
        print(f"# {load.done}", file=sys.stderr)
        assert len(load.done) == 6, f"not every kind of load finished once: {load.done}"
    link.end()
    with lib.case("no race was reported"):
        found = reports(log)
        assert not found, f"{len(found)} files:\n" + "\n".join(found)[:20000]
    lib.finish()


main()
