#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Unmodified programs of other Debian releases, in unprivileged containers of podman, on one daemon of this machine:
with `urocectl cdi`, and by `uroce-run` from a mounted folder. Each release has its own glibc, libibverbs and librdmacm,
and all get the same provider file.

long_distros.py [RELEASE ..]. The releases' files are in the build folder's distros/, made by mmdebstrap at the first
run (2 GB); delete a folder there to make it again."""
import json
import os
import pathlib
import re
import shutil
import sys

import container_kit
import debian_root
import lib
import perftool
import pyverbs_run

RELEASES = ("bullseye", "bookworm", "trixie", "forky", "sid")
ADDRESSES = ("10.9.0.101", "10.9.0.102")
LOOP = "uroce2"  # a device connected to itself, for pyverbs' tests
UNPRIVILEGED = ("--network", "none", "--user", "1000:1000", "--cap-drop", "all", "--security-opt", "no-new-privileges",
                "--read-only")
SCRIPTS = ("cm_addrinfo.py", "pyverbs/constants.py", "pyverbs/imports.py", "pyverbs/smoke.py")
PERFTEST = ("-x", "1", "-F", "-n", "500", *perftool.PATIENT)


class Container:
    """An idle container of a release. options, env: of podman run and podman exec."""

    def __init__(self, podman, release, options, env):
        self.podman, self.release, self.env, self.prefix = podman, release, [f"--env={pair}" for pair in env], ()
        self.main, self.name = podman.spawn(*UNPRIVILEGED, *options, "--rootfs", f"{debian_root.programs_of(release)}:O", "sleep", "infinity")
        self.pid = lib.until("the container runs", self.find_pid, every=0.2)

    def find_pid(self):
        assert self.main.poll() is None, self.main.output()
        shown = lib.subprocess.run([*map(str, self.podman.base), "inspect", self.name], text=True, capture_output=True,
                                   check=False)
        state = json.loads(shown.stdout)[0]["State"] if shown.returncode == 0 else {}
        return state.get("Running") and state["Pid"]

    def spawn(self, *argv):
        return lib.Proc([*self.podman.base, "exec", *self.env, self.name, *self.prefix, *argv])

    def run(self, *argv):
        """Output of a program, which must succeed."""
        return self.spawn(*argv).result(lib.processes.HANGS_S)

    def listens(self, port):
        """Whether a program in the container listens on this TCP port."""
        rows = [line.split() for table in ("tcp", "tcp6")
                for line in pathlib.Path(f"/proc/{self.pid}/net/{table}").read_text().splitlines()]
        return any(row[3:4] == ["0A"] and row[1].endswith(f":{port:04X}") for row in rows)

    def pair(self, listens, server_argv, client_argv):
        """Runs both ends of a program; listens(): whether the server is ready. Returns the client's output."""
        server = self.spawn(*server_argv)
        lib.until("the server listens", lambda: server.poll() is not None or listens(), every=0.2)
        assert server.poll() is None, server.output()
        said = self.run(*client_argv)
        return said + server.result(lib.processes.HANGS_S)

    def over_tcp(self, tool, *argv):
        """A program whose ends first connect by TCP."""
        port = lib.tcp_port()
        argv = (tool, "-p", port, *argv)
        return self.pair(lambda: self.listens(port), (*argv, "-d", "uroce1"), (*argv, "-d", "uroce0", "127.0.0.1"))

    def over_cm(self, daemon, server_argv, client_argv):
        """A program whose ends connect by rdma_cm."""
        return self.pair(lambda: any(i["state"] == "LISTEN" for i in daemon.show("cm")["cm"]), server_argv, client_argv)


def devinfo(container, _):
    said = container.run("ibv_devinfo", "-v")
    assert said.count("PORT_ACTIVE (4)") == 3 and "uroce1\n" in said and "::ffff:10.9.0.101" in said, said


def pingpong(*options):
    def run(container, _):
        said = container.over_tcp("ibv_rc_pingpong", "-g", "1", *options)
        assert said.count("1000 iters in") == 2, said
    return run


def write_bw(container, _):
    said = container.over_tcp("ib_write_bw", *PERFTEST)
    assert "BW average" in said, said


def write_bw_cm(container, daemon):
    port = lib.tcp_port()
    argv = ("ib_write_bw", "-R", "-p", port, *PERFTEST)
    said = container.over_cm(daemon, (*argv, "-d", "uroce1"), (*argv, "-d", "uroce0", ADDRESSES[1]))
    assert "BW average" in said, said


def rping(container, daemon):
    common = ("rping", "-p", lib.tcp_port(), "-C", "20", "-V")
    # The client of rdma-core 65 may hang at its end: its thread polls the channel and then reads an event, which
    # rdma_destroy_id may have dropped meanwhile. The server still checks that all messages came.
    bound = ("sh", "-c", 'timeout 40 "$@" || [ $? = 124 ]', "sh") if container.release in ("forky", "sid") else ()
    container.over_cm(daemon, (*common, "-s", "-a", ADDRESSES[1]),
                      (*bound, *common, "-c", "-a", ADDRESSES[1], "-I", ADDRESSES[0]))


def pyverbs(container, _):
    said = container.run("/usr/bin/python3", "/scripts/smoke.py", "uroce0", "uroce1")
    assert "pyverbs: good" in said, said


def pyverbs_tests(container, _):
    """Those that its package has. The names in core.txt are of rdma-core 44."""
    script = "cd /pyverbs; ! grep -q -e --gid tests/args_parser.py || set -- --port 1 --gid 1; " \
             f'PATH=/scripts:$PATH exec /usr/bin/python3 -B tests/run_tests.py --dev {LOOP} -v "$@"'
    proc = container.spawn("sh", "-c", script)
    rc = proc.wait(4 * lib.processes.HANGS_S)
    found = {name: what for name, what in pyverbs_run.verdicts(proc.output()).items() if not UNSURE.search(name)}
    core = [name for name in CORE if name in found]
    bad = {name: what for name, what in found.items() if what in ("FAIL", "ERROR") or (name in core and what != "ok")}
    assert rc in (0, 1) and not bad and len(core) > len(CORE) // 2, f"status {rc}, {len(core)} of core.txt, {bad}\n{proc.output()[-3000:]}"
    print(f"# {container.release}: {sum(what == 'ok' for what in found.values())} of pyverbs' tests pass")


def imports(container, _):
    said = container.run("/usr/bin/python3", "/scripts/imports.py", "uroce0")
    assert "imports: good" in said, said


def ucmatose(container, daemon):
    common = ("ucmatose", "-p", lib.tcp_port())
    container.over_cm(daemon, (*common, "-b", ADDRESSES[1]), (*common, "-b", ADDRESSES[0], "-s", ADDRESSES[1]))


def addrinfo(container, _):
    said = container.run("/usr/bin/python3", "/scripts/cm_addrinfo.py", ADDRESSES[1], "4791").strip()
    core = int(container.run("dpkg-query", "-Wf", "${Version}", "rdmacm-utils").split(".")[0])
    assert said == f"addrinfo: {'good' if core >= ADDRINFO_SINCE else 'none'}", (core, said)


def has_ucx(container):
    """Whether the release's UCX has verbs: Debian builds 1.23~rc1, of forky and sid, without."""
    found = bool(container.run("sh", "-c", "find /usr/lib -name 'libuct_ib.so*'"))
    assert found or container.release in ("forky", "sid"), "no libuct_ib.so"
    return found


def ucx(tls):
    """Between both devices. ucx_perftest checks no data: mpi() does."""
    def run(container, _):
        if not has_ucx(container):
            return "no verbs"
        port = lib.tcp_port()
        shown = container.spawn("ucx_perftest", "-h")
        shown.wait(lib.processes.HANGS_S)
        # with MPI it takes an input that is no terminal for the work of mpirun
        argv = ("ucx_perftest", *(("-P", "0") if "MPI mode" in shown.output() else ()), "-p", port)
        for test, size in (("tag_lat", 8), ("tag_bw", 65536), ("ucp_get", 1 << 20), ("ucp_fadd", 8)):
            said = container.pair(lambda: container.listens(port),
                                  ("env", f"UCX_TLS={tls}", "UCX_NET_DEVICES=uroce1:1", *argv),
                                  ("env", f"UCX_TLS={tls}", "UCX_NET_DEVICES=uroce0:1", *argv,
                                   "-t", test, "-s", size, "-n", "200", "-w", "20", "127.0.0.1"))
            assert re.search(r"^Final:\s+200\b", said, re.M), said
    return run


def mpi(container, _):
    """Two ranks on one device over UCX, which compare every byte. The program is of this machine's Open MPI, whose ABI
    the later ones have."""
    if container.release == "bullseye":
        return "older libc"
    if not has_ucx(container):
        return "no verbs"
    said = container.run("env", "HOME=/tmp", "UCX_TLS=rc,self", "UCX_NET_DEVICES=uroce0:1", "mpirun", "-n", "2",
                         "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ucx", "/scripts/mpi_check")
    assert re.search(r"mpi check: 2 ranks, \d{7,} bytes compared", said), said
    return None


PROGRAMS = {"ibv_devinfo": devinfo, "ibv_rc_pingpong": pingpong(), "ibv_rc_pingpong -N": pingpong("-N"),
            "ibv_rc_pingpong -e": pingpong("-e"), "ib_write_bw": write_bw, "ib_write_bw -R": write_bw_cm, "rping": rping,
            "ucmatose": ucmatose, "pyverbs": pyverbs, "pyverbs, import of a context": imports, "pyverbs' own tests": pyverbs_tests,
            "rdma_resolve_addrinfo": addrinfo, "ucx_perftest, rc": ucx("rc"), "ucx_perftest, ud": ucx("ud"),
            "mpirun over UCX": mpi}
table = {}  # program: release: verdict
ADDRINFO_SINCE = 60  # librdmacm has these functions
# ATOMIC WRITE; huge pages, of which the machine may have none; in rdma-core 33, flags chosen at random
UNSURE = re.compile(r"atomic_write|huge|test_qp\.QPTest\..*_ud_qp")
CORE = (lib.HERE / "pyverbs/core.txt").read_text().split()
UNDER_RUN = ("ibv_devinfo", "ibv_rc_pingpong -N", "rping", "rdma_resolve_addrinfo")


def check(release, name, program, *args):
    """A case, for the table, too."""
    row = table.setdefault(name, {})
    row[release] = "FAILED"
    with lib.case(f"{release}: {name}"):
        row[release] = program(*args) or "ok"


def print_table(releases):
    print("#", f"{'':46}", *(f"{release:8}" for release in releases))
    for name, row in table.items():
        print("#", f"{name:46}", *(f"{row.get(release, '-'):8}" for release in releases))


def scripts_folder():
    """A folder with SCRIPTS for a container."""
    folder = lib.tmpdir()
    folder.chmod(0o755)
    for name in SCRIPTS:
        shutil.copy(lib.HERE / name, folder)
    lib.sh("mpicc", "-o", folder / "mpi_check", lib.HERE / "mpi/check.c")
    return folder


def with_cdi(podman, release, daemon, spec):
    """The release's programs in a container that has the devices."""
    scripts = scripts_folder()
    # the tests of later releases ask it for the device's interface
    (scripts / "rdma").write_text("#!/bin/sh\necho []\n")
    (scripts / "rdma").chmod(0o755)
    tests = pyverbs_run.unpack(debian_root.programs_of(release) / "usr/share/doc/rdma-core/tests")
    for folder in (tests, tests / "tests"):
        folder.chmod(0o755)
    with lib.case(f"{release}: a container with the devices"):
        # podman 4.3 gives the container's own program what the file says, but not those of podman exec
        env = json.loads(spec.read_text())["containerEdits"]["env"]
        container = Container(podman, release, ("--device", "uroce.dev/rdma=all", "-v", f"{scripts}:/scripts:ro", "-v",
                                                  f"{tests}:/pyverbs:ro"), env)
        version = "dpkg-query -Wf '${binary:Package} ${Version} ' libc6 libibverbs1 perftest"
        print("#", release, container.run("sh", "-c", version))
    for name, program in PROGRAMS.items():
        check(release, name, program, container, daemon)


def with_run(podman, release, daemon):
    """Some of them in a container that has only uroce-run, the socket, and the scripts."""
    programs = lib.tmpdir()
    for path in ("app/uroce-run/uroce-run", "drivers/verbs/liburoce-rdmav34.so", "drivers/verbs/liburoce-preload.so"):
        shutil.copy(lib.BUILD / path, programs)
    programs.chmod(0o755)
    folder = daemon.socket.parent
    container = Container(podman, release, ("-v", f"{programs}:/opt/uroce:ro", "-v", f"{folder}:{folder}",
                                              "-v", f"{scripts_folder()}:/scripts:ro"),
                          (f"UROCE_SOCKET={daemon.socket}",))
    for view in ("preload", "namespace"):
        container.prefix = ("/opt/uroce/uroce-run", f"--view={view}")
        for name in UNDER_RUN:
            check(release, f"uroce-run --view={view} {name}", PROGRAMS[name], container, daemon)


def main(releases):
    lib.need_root()
    container_kit.private_mounts()
    container_kit.install()
    container_kit.private_null()
    container_kit.empty("/var/run/cdi")
    spec = container_kit.empty("/etc/cdi") / "uroce.json"
    lib.subprocess.run(["umount", "/sys/fs/cgroup/unified"], capture_output=True, check=False)  # crun takes no hybrid
    devs = [f"name=uroce{i},port=net_ring_p{end},addr={ADDRESSES[i]}/24" for i, end in enumerate("ab")]
    devs.append(f"name={LOOP},port=net_ring0,addr=10.10.0.1/24")
    daemon = lib.Daemon(["net_ring0"], devs, None, ("--pair", "p", "--socket-mode", "0666", "--max-pds", "400"))
    daemon.socket.parent.chmod(0o755)
    lib.sh(lib.UROCECTL, "--socket", daemon.socket, "cdi", "--output", spec)
    podman = container_kit.Podman("crun")
    for release in releases:
        with_cdi(podman, release, daemon, spec)
        with_run(podman, release, daemon)
        podman.remove()
    print_table(releases)
    with lib.case("nothing is left, the daemon ends cleanly"):
        lib.until("no object is left", lambda: not any(daemon.objects().values()))
        daemon.stop()
    lib.finish()


main(sys.argv[1:] or RELEASES)
