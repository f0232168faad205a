#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A daemon started without systemd drops the capabilities that its ports and its broker do not need, in every thread,
and no program that it executes gets them back."""
import os
import pathlib
import signal
import subprocess
from unittest import mock

import contained
import control
import hostlink
import lib

USER = 65534
SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd")
BROKER = {"sys_ptrace", "dac_override", "checkpoint_restore", "sys_nice"}
ALWAYS = {"dac_override", "ipc_lock"}
# what Docker gives root
DOCKER = set("chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw sys_chroot mknod audit_write "
             "setfcap".split())
IN_CONTAINER = ("setpriv", "--bounding-set", ",".join(["-all", *(f"+{cap}" for cap in sorted(DOCKER))]), "--inh-caps", "-all")
PAIR = ["name=uroce0,port=net_ring_xa,addr=10.9.0.1/24", "name=uroce1,port=net_ring_xb,addr=10.9.0.2/24"]


def names(mask):
    return {name for number, name in enumerate(contained.CAPS) if int(mask, 16) >> number & 1}


def threads(pid):
    """The status of each thread: field -> text."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        yield dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines())


def have():
    """Capabilities that this test itself has: root of a container may lack some."""
    return names(next(threads(os.getpid()))["CapPrm"])


def children_of(daemon):
    tasks = pathlib.Path(f"/proc/{daemon.proc.pid}/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]


def broker_of(daemon):
    """Pids of the daemon's broker: one; none or both between two."""
    return [pid for pid in children_of(daemon) if "broker" in lib.cmdline(pid)]


def starter_of(daemon):
    """Pid of the process that starts brokers. A new broker looks like it for a moment."""
    (pid,) = lib.until("one starter", lambda: len(found := set(children_of(daemon)) - set(broker_of(daemon))) == 1 and found)
    return pid


def holds(pid, effective, permitted, bounding):
    """Every thread of a process has exactly these capabilities, and no_new_privs: it cannot regain others. Returns the
    number of threads."""
    count = 0
    for status in threads(pid):
        got = {name: names(status[name]) for name in SETS}
        assert got["CapEff"] == effective & have(), (status["Name"], got["CapEff"])
        assert got["CapPrm"] == permitted & have() and got["CapBnd"] == bounding & have(), (status["Name"], got)
        assert status["NoNewPrivs"].strip() == "1", status["Name"]
        count += 1
    return count


def kept(daemon, ports):
    """ports: capabilities of the daemon's ports and options."""
    both = ALWAYS | ports | BROKER
    assert holds(daemon.proc.pid, ALWAYS | ports, ALWAYS | ports, both) > 2
    (broker,) = broker_of(daemon)
    lib.until("the broker has dropped what the daemon gave it",
              lambda: names(next(threads(broker))["CapPrm"]) == BROKER & have())
    holds(broker, BROKER, BROKER, both)
    assert holds(starter_of(daemon), both, both, both) == 1
    shown = daemon.show("daemon")["daemon"][0]
    assert set(shown["capabilities"].split()) == (ALWAYS | ports) & have(), shown
    assert set(shown["broker_capabilities"].split()) == BROKER & have(), shown


def programs(link):
    for mode in ("adopt", "copy"):
        with mock.patch.dict(os.environ, UROCE_MR_MODE=mode):
            hostlink.pingpong(link, "-g", "1", "-s", "65536", "-n", "50")


def pair(before=()):
    lib.UID = USER
    daemon = lib.Daemon([], PAIR, lib.netns(), (*lib.ONE_WORKER, "--pair", "x"), before=before)
    return lib.Link("pair", *(lib.Side(daemon, f"uroce{i}", "127.0.0.1") for i in range(2)), 1024)


def broker_again(link):
    """The next broker has the same capabilities as the first, and reaches memory of another user."""
    daemon = link.a.daemon
    (first,) = broker_of(daemon)
    os.kill(first, signal.SIGKILL)

    def another():
        control.Client(daemon.socket, "uroce0").close()
        return first not in broker_of(daemon) and len(broker_of(daemon)) == 1

    lib.until("another broker", another, every=0.2)
    kept(daemon, {"chown"})
    programs(link)


def over_veth(spec, ports):
    lib.UID = 0
    sides = [lib.Side(lib.Daemon([lib.af_packet("eth0")] if "af_packet" in spec else [], [spec.format(i=i)], ns), "uroce0",
                      hostlink.ADDRESSES[i - 1][0]) for i, ns in enumerate(hostlink.spaces(9000), 1)]
    link = lib.Link("veth", *sides, 4096)
    programs(link)
    for side in sides:
        kept(side.daemon, ports)
    link.stop()


def no_looking():
    """Root without SYS_PTRACE, as in a container: the daemon runs, and serves programs by adopted memory."""
    link = pair(("setpriv", "--bounding-set", "-sys_ptrace,-checkpoint_restore", "--inh-caps", "-all"))
    with mock.patch.dict(os.environ, UROCE_MR_MODE="adopt"):
        hostlink.pingpong(link, "-g", "1", "-n", "20")
    status = next(threads(link.a.daemon.proc.pid))
    assert not names(status["CapPrm"]) & {"sys_ptrace", "sys_admin", "sys_module"}, status
    link.stop()


class Inside(lib.Side):
    """A side whose programs have the capabilities of IN_CONTAINER, and may not enter a user namespace."""

    def spawn(self, argv, env=None):
        return self.daemon.client(["--view=preload", *argv], env, IN_CONTAINER)


def in_container():
    """Root of a container, without SYS_PTRACE: the broker keeps what it has, because Linux lets it read the memory of
    programs only if they have no other capabilities."""
    lib.UID = 0
    daemon = lib.Daemon([], PAIR, lib.netns(), (*lib.ONE_WORKER, "--pair", "x"), before=IN_CONTAINER)
    link = lib.Link("pair", *(Inside(daemon, f"uroce{i}", "127.0.0.1") for i in range(2)), 1024)
    programs(link)
    link.a.spawn([lib.BUILD / "test/system/paused", link.a.dev]).result(lib.processes.HANGS_S)
    (broker,) = broker_of(daemon)
    assert names(next(threads(broker))["CapEff"]) == DOCKER & have()
    for status in threads(daemon.proc.pid):
        assert names(status["CapPrm"]) == ALWAYS & DOCKER & have(), status
    link.stop()


def of_user(*options):
    lib.UID = USER
    folder = lib.tmpdir()
    os.chown(folder, USER, USER)
    return lib.Daemon([], PAIR, lib.netns(), (*lib.ONE_WORKER, "--pair", "x", *options), socket=folder / "uroced.sock",
                      program=lib.public_copy() / "app/uroced/uroced", before=lib.as_user())


def readable(pid):
    """Does another process of the user read this one's memory?"""
    return subprocess.run([*(str(a) for a in lib.as_user()), "cat", f"/proc/{pid}/maps"], capture_output=True).returncode == 0


def memory():
    daemon = of_user()
    (broker,) = broker_of(daemon)
    lib.until("the broker has begun", lambda: not readable(broker))
    for pid in (daemon.proc.pid, starter_of(daemon)):
        assert not readable(pid), pid
    daemon.stop()
    daemon = of_user("--core-dumps")
    assert readable(daemon.proc.pid)
    daemon.stop()


def ordinary():
    """A daemon of an ordinary user has nothing to drop; its broker copies memory of the same user."""
    daemon = of_user()
    link = lib.Link("pair", *(lib.Side(daemon, f"uroce{i}", "127.0.0.1") for i in range(2)), 1024)
    programs(link)
    for status in threads(daemon.proc.pid):
        assert not names(status["CapPrm"]) and status["NoNewPrivs"].strip() == "1", status
    link.stop()


def main():
    lib.need_root()
    with lib.case("pair: only what files and the broker need"):
        link = pair()
        kept(link.a.daemon, {"chown"})  # --socket-group
    with lib.case("programs of another user"):
        programs(link)
    with lib.case("a broker that was killed"):
        broker_again(link)
    link.end("pair")
    for spec, ports in (("name=uroce0,port=udp,iface=eth0", {"net_admin"}),
                        ("name=uroce0,port=packet,iface=eth0,share=yes", {"net_admin", "net_raw"}),
                        ("name=uroce0,port=net_af_packet0,addr=10.9.0.10{i}/24", {"net_admin", "net_raw"})):
        with lib.case(f"{spec.split(',')[1]}: {', '.join(sorted(ports))}"):
            over_veth(spec, ports)
    with lib.case("a daemon of an ordinary user"):
        ordinary()
    with lib.case("processes of the same user do not read its memory"):
        memory()
    with lib.case("root without SYS_PTRACE"):
        no_looking()
    with lib.case("root of a container, and its programs"):
        in_container()
    lib.finish()


if __name__ == "__main__":
    main()
