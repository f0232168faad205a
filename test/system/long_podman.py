#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Two containers of podman (runc), each with an ordinary user's `uroced` without options or capabilities, on a veth
pair that this test moves into them; perftest between them. The containers use this machine's /usr."""
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess

import lib
import perftool

USER = 1000
PROGRAMS = ("app/uroced/uroced", "app/uroce-run/uroce-run", "app/urocectl/urocectl",
            "drivers/verbs/liburoce-rdmav34.so", "drivers/verbs/liburoce-preload.so")
ADDRESSES = ("10.9.0.1", "10.9.0.2")


def limit(which):
    hard = resource.getrlimit(which)[1]
    return 1 << 20 if hard == resource.RLIM_INFINITY else hard


class Podman:
    """podman with private folders; removes its containers at the end."""

    def __init__(self):
        self.folder = lib.tmpdir()
        self.base = ["podman", "--root", self.folder / "root", "--runroot", self.folder / "run", "--cgroup-manager",
                     "cgroupfs", "--runtime", "runc"]
        self.programs = self.folder / "uroce"
        self.programs.mkdir()
        for path in PROGRAMS:
            shutil.copy(lib.BUILD / path, self.programs)
            (self.programs / pathlib.Path(path).name).chmod(0o755)
        self.folder.chmod(0o755)
        self.names = []
        lib.processes.at_end(self.remove)

    def __call__(self, *argv):
        return lib.sh(*self.base, *argv)

    def remove(self):
        for name in self.names:
            subprocess.run([*self.base, "rm", "-f", "-t", "0", name], capture_output=True, check=False)

    def start(self):
        """An idle container without network and capabilities; returns its name and its pid."""
        name = lib.processes.unique("uroce")
        skeleton = self.folder / name
        for inside in ("usr", "etc/libibverbs.d", "opt/uroce", "proc", "sys", "dev", "run", "tmp"):
            (skeleton / inside).mkdir(parents=True)
        (skeleton / "tmp").chmod(0o1777)
        for link in ("bin", "sbin", "lib", "lib64"):
            (skeleton / link).symlink_to(f"usr/{link}")
        shutil.copy("/etc/ld.so.cache", skeleton / "etc")
        shutil.copytree("/etc/alternatives", skeleton / "etc/alternatives", symlinks=True)
        limits = [f"--ulimit={kind}={n}:{n}" for kind, n in (("nofile", limit(resource.RLIMIT_NOFILE)),
                                                             ("nproc", min(limit(resource.RLIMIT_NPROC), 4096)))]
        self.names.append(name)
        self("run", "-d", "--name", name, "--network", "none", "--user", f"{USER}:{USER}", "--cap-drop", "all",
             "--security-opt", "no-new-privileges", *limits, "-v", "/usr:/usr:ro", "-v",
             "/etc/libibverbs.d:/etc/libibverbs.d:ro", "-v", f"{self.programs}:/opt/uroce:ro", "--rootfs", skeleton,
             "sleep", "600")
        return name, json.loads(self("inspect", name))[0]["State"]["Pid"]

    def spawn(self, name, *argv):
        return lib.Proc([*self.base, "exec", name, *argv])


def join(pids):
    """A veth pair between the network namespaces of two processes."""
    for pid in pids:
        os.symlink(f"/proc/{pid}/ns/net", f"/run/netns/p{pid}")
        lib.processes.at_end(os.unlink, f"/run/netns/p{pid}")
    first, second = (f"p{pid}" for pid in pids)
    lib.veth(first, f"{ADDRESSES[0]}/24", second, f"{ADDRESSES[1]}/24", 1500)


def unprivileged(pid):
    """The container's processes have no capability and are not root."""
    for task in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split() + [str(pid)]:
        status = pathlib.Path(f"/proc/{task}/status").read_text()
        assert re.search(r"^Cap(Eff|Prm|Bnd):\s*0+$", status, re.M), status
        assert re.search(rf"^Uid:\s*{USER}\s+{USER}\s", status, re.M), status


def main():
    lib.need_root()
    os.makedirs("/run/netns", exist_ok=True)
    podman = Podman()
    with lib.case("two containers, no capabilities"):
        sides = [podman.start() for _ in ADDRESSES]
        join([pid for _, pid in sides])
        for _, pid in sides:
            unprivileged(pid)
    with lib.case("uroced without options in each"):
        daemons = [podman.spawn(name, "/opt/uroce/uroced") for name, _ in sides]
        for daemon in daemons:
            lib.until("uroced is ready", lambda d=daemon: "uroced: ready" in d.output() or d.poll() is not None, 30)
            assert "device uroce0 on udp:eth0, device uroce_lo on udp:lo" in daemon.output(), daemon.output()
    for tool in ("ibv_rc_pingpong", "ib_write_bw", "ib_send_lat"):
        with lib.case(f"{tool} between the containers"):
            args = ("-g", "1") if tool == "ibv_rc_pingpong" else ("-x", "1", "-F", *perftool.PATIENT)
            run = ("/opt/uroce/uroce-run", tool, *args, "-n", "500")
            server = podman.spawn(sides[1][0], *run)
            listening = pathlib.Path(f"/proc/{sides[1][1]}/net/tcp")
            port = 18515
            lib.until("the server listens", lambda: f":{port:04X} 00000000:0000 0A" in listening.read_text()
                      + pathlib.Path(f"/proc/{sides[1][1]}/net/tcp6").read_text().replace("0" * 24, "")
                      or server.poll() is not None, 30)
            podman.spawn(sides[0][0], *run, ADDRESSES[1]).result(60)
            server.result(30)
    lib.finish()


main()
