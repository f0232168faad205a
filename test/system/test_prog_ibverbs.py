#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's ibverbs-utils. -c: the program itself checks the data."""
import re
import signal

import lib

PINGPONG = {
    "ibv_rc_pingpong": (["-n", "200"], ["-s", "1", "-n", "200"], ["-s", "1048576", "-n", "20"],
                        ["-m", "256", "-s", "10000", "-n", "50"], ["-r", "1", "-n", "50"],
                        ["-e", "-n", "200"], ["-N", "-n", "200"], ["-l", "3", "-n", "200"],
                        ["-t", "-n", "200"], ["-t", "-N", "-n", "200"]),
    "ibv_uc_pingpong": (["-n", "200"], ["-s", "1", "-n", "200"], ["-s", "1048576", "-n", "20"],
                        ["-m", "1024", "-s", "10000", "-n", "50"], ["-e", "-n", "200"]),
    "ibv_ud_pingpong": (["-n", "200"], ["-s", "1", "-n", "200"], ["-s", "4096", "-n", "200"],
                        ["-e", "-n", "200"]),
    "ibv_srq_pingpong": (["-n", "500"], ["-q", "1", "-n", "100"], ["-q", "32", "-n", "1000"],
                         ["-s", "100000", "-n", "100"], ["-e", "-n", "500"]),
}
# Features that the device reports as missing: the program ends with this message.
REFUSED = {
    ("ibv_rc_pingpong", "-o"): "The device isn't ODP capable",
    ("ibv_rc_pingpong", "-j"): "Device doesn't support dm allocation",
    ("ibv_xsrq_pingpong",): "XRC",
}


def output(side, *argv):
    proc = side.spawn(argv)
    rc = proc.wait(60)
    assert rc == 0, f"{argv}: status {rc}\n{proc.output()}"
    return proc.output()


def describe(link):
    for side in (link.a, link.b):
        with lib.case(f"ibv_devices: {side.host}"):
            assert re.search(rf"^\s+{side.dev}\s+[0-9a-f]{{16}}$", output(side, "ibv_devices"),
                             re.M)
    with lib.case("ibv_devinfo: -v"):
        text = output(link.a, "ibv_devinfo", "-v")
        for line in (r"hca_id:\s+uroce0", r"transport:\s+InfiniBand \(0\)",
                     r"state:\s+PORT_ACTIVE", r"link_layer:\s+Ethernet", r"active_mtu:\s+4096",
                     r"atomic_cap:\s+ATOMIC_", r"GID\[\s*1\]:\s+::ffff:10\.9\.0\.101"):
            assert re.search(line, text), f"no {line} in:\n{text}"
    with lib.case("ibv_devinfo: -l"):
        assert "uroce0" in output(link.a, "ibv_devinfo", "-l")


def pingpong(link):
    for tool, shapes in PINGPONG.items():
        for args in shapes:
            with lib.case(f"{tool}: -c {' '.join(args)}"):
                own = [] if "-m" in args or tool == "ibv_ud_pingpong" else ["-m", str(link.mtu)]
                lib.verbs_pair(link.b, link.a, tool,
                               ["-d", "{dev}", "-g", "1", "-c", *own, *args])
    with lib.case("ibv_rc_pingpong: -c -g 0"):
        lib.verbs_pair(link.b, link.a, "ibv_rc_pingpong", ["-d", "{dev}", "-g", "0", "-c"])


def refused(link):
    for (tool, *args), message in REFUSED.items():
        with lib.case(f"{tool}: {' '.join(args)} ends with a clear message (not supported)"):
            proc = link.a.spawn([tool, "-d", link.a.dev, "-g", "1", *args])
            rc = proc.wait(60)
            assert rc > 0 and message in proc.output(), f"status {rc}: {proc.output()}"


def asyncwatch():
    """Each end of a memif sees the other come and go."""
    link = lib.link_memif()
    proc = link.a.spawn(["stdbuf", "-oL", "ibv_asyncwatch", "-d", link.a.dev])
    lib.until("ibv_asyncwatch waits", lambda: "async event FD" in proc.output())
    link.b.daemon.stop()
    lib.until("the event for the port's failure", lambda: "IBV_EVENT_PORT_ERR" in proc.output())
    again = lib.Daemon(link.b.daemon.vdevs, link.b.daemon.devs, link.b.daemon.ns)
    lib.until("its return, too", lambda: "IBV_EVENT_PORT_ACTIVE" in proc.output())
    proc.popen.send_signal(signal.SIGINT)
    proc.wait(60)
    again.stop()
    link.a.daemon.stop()


def main():
    lib.need_root()
    link = lib.link_veth()
    describe(link)
    pingpong(link)
    refused(link)
    with lib.case("ibv_asyncwatch: port error and port active"):
        asyncwatch()
    link.end()
    lib.finish()


main()
