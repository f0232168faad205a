#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""`uroced` without options, as an ordinary user without capabilities: devices on the host's interfaces, and a control
socket that the clients of that user find."""
import functools
import json
import os
import pathlib
import re
import shutil

import lib

USER = 60000 + os.getpid() % 4000  # no other test's: each user has a folder in /tmp
UNPRIVILEGED = ("setpriv", "--reuid", USER, "--regid", USER, "--clear-groups",
                "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs")
IN_TMP = pathlib.Path(f"/tmp/uroce-{USER}")


@functools.cache
def programs():
    """A folder with what an ordinary user needs."""
    folder = lib.tmpdir()
    folder.chmod(0o755)
    for path in ("app/uroced/uroced", "app/uroce-run/uroce-run", "app/urocectl/urocectl",
                 "drivers/verbs/liburoce-rdmav34.so", "drivers/verbs/liburoce-preload.so"):
        shutil.copy(lib.BUILD / path, folder)
        (folder / pathlib.Path(path).name).chmod(0o755)
    return folder


class Host:
    """A network namespace whose user has the folder runtime, or none."""

    def __init__(self, runtime=True):
        self.ns = lib.netns()
        lib.sh("ip", "-n", self.ns, "link", "set", "lo", "up")
        self.env = {"XDG_RUNTIME_DIR": ""}
        if runtime:
            folder = lib.tmpdir()
            os.chown(folder, USER, USER)
            self.env["XDG_RUNTIME_DIR"] = str(folder)

    def spawn(self, program, *argv):
        return lib.Proc([*UNPRIVILEGED, programs() / program, *argv], self.ns, {**lib.asan_env(), **self.env})

    def start(self):
        """`uroced`; returns the process and its last line."""
        proc = self.spawn("uroced")
        lib.until("uroced is ready", lambda: "uroced: ready" in proc.output() or proc.poll() is not None)
        assert proc.poll() is None, proc.output()
        return proc, next(line for line in proc.output().splitlines() if "uroced: ready" in line)

    def devices(self):
        return re.findall(r"^\s+(uroce\S+)", self.spawn("uroce-run", "ibv_devinfo", "-l").result(60), re.M)


def stop(proc):
    assert proc.term() == 0, proc.output()


def pair(server, client, address, *argv):
    """Runs both ends of a program under uroce-run."""
    port = lib.tcp_port()
    argv = ("uroce-run", *argv, "-p", port)
    return lib.run_pair(lambda: server.spawn(*argv), lambda: client.spawn(*argv, address), port, 60).good()


def one_command():
    """No interface but lo: a device, and both ends of a ping-pong on it."""
    host = Host()
    proc, line = host.start()
    assert "device uroce_lo on udp:lo;" in line, line
    assert f"socket {host.env['XDG_RUNTIME_DIR']}/uroce/uroced.sock;" in line, line
    # EAL tells of huge pages that the machine has and it cannot use.
    words = [words for words in proc.output().splitlines() if not re.match("EAL: .*hugepage", words)]
    assert len(words) <= 3, f"many words:\n{proc.output()}"
    assert host.devices() == ["uroce_lo"], host.devices()
    assert "uroce_lo" in host.spawn("urocectl", "show", "device").result(60)
    pair(host, host, "127.0.0.1", "ibv_rc_pingpong", "-d", "uroce_lo", "-g", "1")
    stop(proc)
    assert not pathlib.Path(host.env["XDG_RUNTIME_DIR"], "uroce").exists(), "left its folder behind"


def group(host, address):
    """mckey: a member receives what a sender on the same address sends to a group."""
    argv = ("uroce-run", "mckey", "-m", "239.1.2.3", "-b", address, "-C", "10")
    member = host.spawn("uroce-run", "stdbuf", "-oL", *argv[1:])
    lib.until("the member waits", lambda: "receiving data" in member.output() or member.poll() is not None)
    host.spawn(*argv, "-s").result(60)
    member.result(60)


def datagrams():
    """UD between programs on the loopback address, which is the datagrams' source, too."""
    host = Host()
    proc, _ = host.start()
    pair(host, host, "127.0.0.1", "ibv_ud_pingpong", "-d", "uroce_lo", "-g", "1")
    server = host.spawn("uroce-run", "udaddy", "-b", "127.0.0.1")
    lib.until("udaddy listens", lambda: json.loads(
        host.spawn("urocectl", "--json", "show", "cm").result(60))["cm"] or server.poll() is not None)
    host.spawn("uroce-run", "udaddy", "-s", "127.0.0.1").result(60)
    server.result(60)
    group(host, "127.0.0.1")
    stop(proc)


def which_interfaces():
    """The default route's interface comes first; interfaces that are down or link-local are left out."""
    host, other = Host(), lib.netns()
    for name, addr, up in (("one", "10.9.1.1/24", True), ("two", "10.9.2.1/24", True), ("ll", "169.254.1.1/16", True),
                           ("bare", None, True), ("off", "10.9.3.1/24", False)):
        lib.sh("ip", "-n", host.ns, "link", "add", name, "type", "veth", "peer", "name", name, "netns", other)
        lib.sh("ip", "-n", other, "link", "set", "dev", name, "up")
        if addr:
            lib.sh("ip", "-n", host.ns, "addr", "add", addr, "dev", name)
        if up:
            lib.sh("ip", "-n", host.ns, "link", "set", name, "up")
    lib.sh("ip", "-n", host.ns, "route", "add", "default", "via", "10.9.2.9")
    proc, line = host.start()
    found = re.findall(r"device (\S+) on udp:([^,;]*)", line)
    assert found == [("uroce0", "two"), ("uroce1", "one"), ("uroce_lo", "lo")], line
    assert host.devices() == ["uroce0", "uroce1", "uroce_lo"], host.devices()
    stop(proc)


def two_machines():
    """The quick start of README.md: two machines, two commands each."""
    a, b = Host(), Host()
    lib.veth(a.ns, "10.9.0.1/24", b.ns, "10.9.0.2/24", 1500)
    daemons = [a.start()[0], b.start()[0]]
    said = pair(b, a, "10.9.0.2", "ib_write_bw", "-x", "1", "-n", "200").client.output()
    assert re.search(r"^\s*65536\s+200\s", said, re.M), said
    # programs of one thread get their own memory adopted, without a userfaultfd (doc/memory.md)
    server = b.spawn("uroce-run", "ib_write_bw", "-x", "1", "-D", "3600")
    lib.until("the server listens", lambda: server.listens(18515))
    client = a.spawn("uroce-run", "ib_write_bw", "-x", "1", "-D", "3600", "10.9.0.2")
    regions = lib.until("a region is registered", lambda: json.loads(
        b.spawn("urocectl", "--json", "show", "mr").result(60))["mr"])
    assert {region["path"] for region in regions} == {"adopted"}, regions
    assert client.poll() is None and server.poll() is None, client.tail() + server.tail()
    for proc in (client, server):
        proc.kill()
    for proc in daemons:
        stop(proc)


def folder_in_tmp():
    """Without XDG_RUNTIME_DIR the socket is in a folder of /tmp, which must be the user's own."""
    host = Host(runtime=False)
    assert not IN_TMP.exists()
    proc, line = host.start()
    assert f"socket {IN_TMP}/uroced.sock;" in line, line
    assert host.devices() == ["uroce_lo"], host.devices()
    stop(proc)
    assert not IN_TMP.exists()


def foreign_folder():
    """A folder that another user made, or may write to, is neither used nor trusted."""
    host = Host(runtime=False)
    try:
        IN_TMP.mkdir()
        for owner, mode in ((USER + 1, 0o777), (USER, 0o777)):
            os.chown(IN_TMP, owner, owner)
            IN_TMP.chmod(mode)
            refused = host.spawn("uroced")
            assert refused.wait(60) == 1, refused.output()
            assert f"the folder of {IN_TMP}/uroced.sock belongs to another user" in refused.output(), refused.output()
            # a daemon of another user there, which takes connections
            trap = lib.Proc(["setpriv", "--reuid", owner, "--regid", owner, "--clear-groups", programs() / "uroced",
                             "--socket", IN_TMP / "uroced.sock", "--socket-mode", "0666"], host.ns)
            lib.until("it is ready", lambda trap=trap: "uroced: ready" in trap.output() or trap.poll() is not None)
            assert trap.poll() is None, trap.output()
            refused = host.spawn("uroce-run", "ibv_devinfo", "-l")
            assert refused.wait(60) != 0, refused.output()
            assert "nor at /run/uroce/uroced.sock: No such file" in refused.output(), refused.output()
            stop(trap)
    finally:
        shutil.rmtree(IN_TMP, ignore_errors=True)


def main():
    lib.need_root()
    with lib.case("one command, no network"):
        one_command()
    with lib.case("datagrams on the loopback address"):
        datagrams()
    with lib.case("which interfaces"):
        which_interfaces()
    with lib.case("two machines, two commands each"):
        two_machines()
    with lib.case("the folder in /tmp"):
        folder_in_tmp()
    with lib.case("a folder of another user"):
        foreign_folder()
    lib.finish()


main()
