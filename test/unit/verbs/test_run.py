#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-run against a fake daemon: the program sees the devices, and the host stays unchanged.

test_run.py UROCE_RUN PROVIDER FAKE_UROCED SWAP_LIBRARY DYNAMIC_UROCE_RUN
"""
import errno
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest



def lock(errors, argv):
    """Executes argv where these system calls fail: {name: errno}."""
    import seccomp
    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    if os.geteuid() == 0:
        rules.set_attr(seccomp.Attr.CTL_NNP, False)  # set-user-id programs remain so
    for name, error in errors.items():
        arguments = (seccomp.Arg(0, seccomp.EQ, socket.AF_NETLINK), seccomp.Arg(2, seccomp.EQ, 20)) if name == "socket" else ()
        rules.add_rule(seccomp.ERRNO(error), name, *arguments)
    rules.load()
    os.execvp(argv[0], argv)


if sys.argv[1] == "lock":
    lock(json.loads(sys.argv[2]), sys.argv[3:])
RUN, PROVIDER, FAKE, SWAP, DYNAMIC = (os.path.abspath(a) for a in sys.argv[1:6])
# A sanitized provider needs its run-time first in the process; ignore leaks of other libraries.
SANITIZER = {}
if os.environ.get("UROCE_SANITIZED") == "1":
    LIBS = [subprocess.check_output(["gcc", f"-print-file-name=lib{n}.so"], text=True).strip()
            for n in ("asan", "ubsan")]
    SANITIZER = {"LD_PRELOAD": " ".join(LIBS), "ASAN_OPTIONS": "detect_leaks=0"}
NOBODY = 65534


def text_of(path):
    with open(path) as file:
        return file.read()


def host_view():
    """Host state that must not change, limited to uroce's because others mount and write here too."""
    ours = [line for line in text_of("/proc/self/mountinfo").split("\n") if " uroce " in line]
    return ours, [(d, os.path.exists(f"{d}/infiniband")) for d in ("/dev", "/sys/class")]


class WithDaemon(unittest.TestCase):
    """With a fake daemon, its socket in a folder."""

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="uroce-run-test-")
        os.chmod(self.dir.name, 0o755)
        self.sock = os.path.join(self.dir.name, "sock")
        self.fake = subprocess.Popen([FAKE, self.sock], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(self.fake.stdout.readline(), b"ready\n")
        os.chmod(self.sock, 0o666)

    def tearDown(self):
        self.fake.stdin.close()
        self.fake.wait(300)
        self.fake.stdout.close()
        self.dir.cleanup()


class Run(WithDaemon):
    """The view in a mount namespace."""
    view = ("--view=namespace",)

    def run_(self, *args, env=None, cwd="/", **kw):
        env = {**os.environ, **SANITIZER, "UROCE_SOCKET": self.sock, **(env or {})}
        return subprocess.run([RUN, "--provider", PROVIDER, *self.view, *args], env=env, cwd=cwd, text=True,
                              capture_output=True, timeout=300, **kw)

    def ok(self, *args, **kw):
        done = self.run_(*args, **kw)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def ordinary_user(self):
        """Arguments of subprocess.run that make its process one. Skips the test where such a process cannot have this view (in
        a chroot no ordinary user has namespaces), or not read the build tree."""
        who = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        if "namespace" in self.view[0] and subprocess.run(["unshare", "-Um", "true"], **who, capture_output=True).returncode:
            self.skipTest("no user namespaces for ordinary users here")
        if subprocess.run(["test", "-x", RUN, "-a", "-r", PROVIDER], **who).returncode:
            self.skipTest("the build tree is not readable by others")
        return who

    def check_view(self, **kw):
        """The files that libibverbs and others read exist, and so do the host's."""
        def cat(path):
            return self.ok("cat", path, **kw).strip()
        ib = "/sys/class/infiniband/uroce0"
        self.assertEqual(cat("/sys/class/infiniband_verbs/uverbs0/ibdev"), "uroce0")
        self.assertEqual(cat(f"{ib}/node_guid"), "0200:c0ff:fe00:0001")
        self.assertEqual(cat(f"{ib}/ports/1/gids/1"), "0000:0000:0000:0000:0000:ffff:c000:0201")
        self.assertEqual(cat(f"{ib}/ports/1/gids/3"), "0000:" * 7 + "0000")
        self.assertEqual(cat(f"{ib}/ports/1/gid_attrs/types/1"), "RoCE v2")
        self.assertEqual(cat(f"{ib}/ports/1/pkeys/0"), "0xffff")
        self.assertEqual(cat(f"{ib}/ports/1/pkeys/1"), "0x0000")
        self.assertEqual(self.ok("ls", f"{ib}/device/net", **kw), "lo\n")
        # Files that the kernel has forevery RoCE port and that ibstat reads.
        port = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "100 Gb/sec (4X EDR)",
                "link_layer": "Ethernet", "cap_mask": "0x04010000", "lid": "0x0",
                "lid_mask_count": "0", "sm_lid": "0x0", "sm_sl": "0"}
        for name, value in port.items():
            self.assertEqual(cat(f"{ib}/ports/1/{name}"), value, name)
        self.assertEqual(cat(f"{ib}/ports/1/gid_attrs/ndevs/1"), "lo")
        self.assertEqual(cat(f"{ib}/device/vendor"), "0x1234")
        self.assertEqual(cat(f"{ib}/device/numa_node"), "-1")
        online = cat("/sys/devices/system/cpu/online")
        self.assertEqual(cat(f"{ib}/device/local_cpulist"), online)
        mask = sum(1 << cpu for part in online.split(",")
                   for cpu in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1))
        self.assertEqual(int(cat(f"{ib}/device/local_cpus").replace(",", ""), 16), mask)
        # With a modalias libibverbs would choose the NIC's provider.
        self.assertEqual(self.ok("find", f"{ib}/", "-name", "modalias", **kw), "")
        self.assertEqual(cat("/sys/class/net/lo/mtu"), text_of("/sys/class/net/lo/mtu").strip())
        self.assertEqual(self.ok("sh", "-c", "echo x > /dev/null; test -c /dev/infiniband/uverbs0",
                                 **kw), "")
        # rdma_cm: a node that accepts no command, and what librdmacm reads first.
        self.assertEqual(cat("/sys/class/misc/rdma_cm/abi_version"), "4")
        self.assertEqual(cat("/sys/class/misc/rdma_cm/dev"), "1:7")
        self.assertEqual(self.ok("sh", "-c", "test -c /dev/infiniband/rdma_cm && "
                                 "! echo x 2>/dev/null >/dev/infiniband/rdma_cm", **kw), "")
        # All of the host's entries remain, and the scratch folder on /tmp is gone.
        for path in "/dev", "/sys/class", "/sys/class/misc":
            seen = set(self.ok("ls", "-A", path, **kw).split("\n"))
            self.assertLessEqual(set(os.listdir(path)), seen)
        self.assertEqual(self.ok("ls", self.dir.name, **kw), "sock\n")
        self.assertIn("uroce0", self.ok("ibv_devices", **kw))
        self.assertIn("192.0.2.1", self.ok("ibv_devinfo", "-v", **kw))

    def test_every_libibverbs_finds_the_provider(self):
        """Whatever number its private ABI has, and whatever the provider's file is called."""
        driver = self.ok("cat", "/etc/libibverbs.d/uroce.driver").split()[1]
        for abi in (33, 34, 57, 59, 64, 65, 66):
            self.assertEqual(self.ok("readlink", "-f", f"{driver}-rdmav{abi}.so").strip(), os.path.realpath(PROVIDER))
        renamed = os.path.join(self.dir.name, "provider.so")
        shutil.copy(PROVIDER, renamed)
        shutil.copy(os.path.join(os.path.dirname(PROVIDER), "liburoce-preload.so"), self.dir.name)
        self.assertIn("uroce0", self.ok("--provider", renamed, "ibv_devinfo"))

    @unittest.skipIf(os.geteuid(), "needs root (mounts)")
    def test_kept_files_stay_as_they_are(self):
        """Those of urocectl install are replaced in the view only."""
        config = "/etc/libibverbs.d"
        script = f"mount -t tmpfs tmpfs {config}; echo driver old >{config}/uroce.driver; echo driver other >{config}/other.driver; " \
                 f'mkdir {config}/uroce; "$@"; cat {config}/uroce.driver'
        env = {**os.environ, **SANITIZER, "UROCE_SOCKET": self.sock}
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", RUN, "--provider", PROVIDER, *self.view, "--keep",
                               "sh", "-c", f"ls {config}; cat {config}/other.driver {config}/uroce.driver"], env=env, text=True,
                              capture_output=True, timeout=300)
        self.assertEqual(done.stderr, "")
        *names, other, ours, kept = done.stdout.splitlines()
        self.assertLessEqual({"other.driver", "uroce.driver"}, set(names))
        self.assertEqual((other, kept), ("driver other", "driver old"))
        self.assertRegex(ours, "driver /.*/liburoce$")

    def test_live_files_are_the_daemons(self):
        """Files that the daemon keeps beside its socket show their current contents."""
        live = os.path.join(self.dir.name, "sock.sysfs", "uroce0")
        os.makedirs(os.path.join(live, "counters"))
        port = "/sys/class/infiniband/uroce0/ports/1"
        for name, value in (("state", "1: DOWN"), ("phys_state", "2: Polling"),
                            ("counters/port_rcv_data", "1")):
            with open(os.path.join(live, name), "w") as file:
                file.write(value + "\n")
        seen = self.ok("sh", "-c", f"cat {port}/state {port}/counters/port_rcv_data; "
                       f"echo 2 >{live}/counters/port_rcv_data; cat {port}/counters/port_rcv_data")
        self.assertEqual(seen, "1: DOWN\n1\n2\n")

    def test_view(self):
        before = host_view()
        self.check_view()
        self.assertEqual(host_view(), before)

    @unittest.skipIf(os.geteuid(), "only root can become another user")
    def test_view_of_an_ordinary_user(self):
        who = self.ordinary_user()
        before = host_view()
        self.assertEqual(self.ok("id", "-u", **who), f"{NOBODY}\n")
        self.check_view(**who)
        self.assertEqual(host_view(), before)

    @unittest.skipIf(os.geteuid(), "needs root (network namespaces)")
    def test_inside_a_network_namespace(self):
        name = f"urt{os.getpid()}"
        subprocess.run(["ip", "netns", "add", name], check=True)
        try:
            env = {**os.environ, **SANITIZER, "UROCE_SOCKET": self.sock}
            done = subprocess.run(["ip", "netns", "exec", name, RUN, "--provider", PROVIDER,
                                   *self.view, "ibv_devices"], env=env, text=True, capture_output=True, timeout=300)
            self.assertIn("uroce0", done.stdout, done.stderr)
        finally:
            subprocess.run(["ip", "netns", "del", name], check=True)

    def test_the_kernels_rdma_core_is_not_asked(self):
        """Whatever it would answer: here another error, because this kernel may have no RDMA core."""
        program = """
import errno, socket
try:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20)
except OSError as error:
    print(errno.errorcode[error.errno])
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE).close()
"""
        self.assertEqual(self.locked({"socket": errno.EACCES}, "/usr/bin/python3", "-c", program), "EPROTONOSUPPORT\n")

    def direct(self, *options):
        """A program that makes its system calls itself, as in Go, from direct.c."""
        path = os.path.join(self.dir.name, "direct")
        subprocess.run(["gcc", *options, "-o", path, os.path.join(os.path.dirname(os.path.abspath(__file__)), "direct.c")],
                       check=True)
        return path

    SEEN_DIRECTLY = ["/sys/class/infiniband: uroce0", "/sys/class/infiniband_verbs: uverbs0",
                     "/sys/class/infiniband/uroce0/node_guid: 0200:c0ff:fe00:0001",
                     "/sys/class/infiniband/uroce0/ports/1/state: 4: ACTIVE",
                     "/etc/libibverbs.d/uroce.driver: driver /etc/libibverbs.d/uroce/liburoce",
                     "/dev/infiniband/uverbs0: open", "/dev/infiniband/rdma_cm: open", "netlink: EPROTONOSUPPORT"]

    def test_programs_without_libc_see_the_devices(self):
        for options in (["-static"], ["-DGO"]):
            self.assertEqual(self.ok(self.direct(*options)).splitlines(), self.SEEN_DIRECTLY, options)

    def locked(self, errors, *args):
        """Runs args under uroce-run where these system calls fail (socket: those to the RDMA core)."""
        lock = [sys.executable, os.path.abspath(__file__), "lock", json.dumps(errors)]
        env = {**os.environ, **SANITIZER, "UROCE_SOCKET": self.sock}
        done = subprocess.run([*lock, RUN, "--provider", PROVIDER, *self.view, *args], env=env, text=True,
                              capture_output=True, timeout=300)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def on_nic(self, folder, *options):
        """What programs find as the device of uroce0, on an interface (lo) whose device is folder of /sys/devices."""
        nic = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"
        fake = f"""set -e
            mount -t tmpfs none /sys/devices
            mount -t tmpfs none /sys/class/net
            mkdir -p {nic}/virtio3 /sys/devices/platform/nic /sys/class/net/lo
            ln -s {folder} /sys/class/net/lo/device
            for value in vendor:0x1af4 device:0x1041 class:0x020000 numa_node:1 local_cpulist:4-7 modalias:pci:v00001AF4; do
                echo ${{value#*:}} > {nic}/${{value%%:*}}
            done
            ln -s /sys/bus/pci {nic}/subsystem
            exec "$@" """
        script = """import os, subprocess
device = "/sys/class/infiniband/uroce0/device"
def text(name):
    return open(f"{device}/{name}").read().strip() if os.path.exists(f"{device}/{name}") else ""
print(os.path.realpath(device), *(text(name) for name in ("vendor", "device", "class", "numa_node")))
print(os.path.basename(os.path.realpath(f"{device}/subsystem")))
print("uroce0" in subprocess.check_output(["ibv_devices"], text=True))"""
        env = {**os.environ, **SANITIZER, "UROCE_SOCKET": self.sock}
        return subprocess.run(["unshare", "-m", "sh", "-c", fake, "sh", RUN, "--provider", PROVIDER, *self.view, *options,
                               sys.executable, "-c", script], env=env, text=True, check=True, timeout=300,
                              stdout=subprocess.PIPE).stdout.splitlines()

    def test_device_of_a_nic(self):
        """It resolves to the NIC's PCI device below /sys/devices, as NCCL and hwloc expect."""
        if os.geteuid():
            self.skipTest("only root can mount a NIC's files")
        nic = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"
        for folder in (nic, f"{nic}/virtio3"):
            self.assertEqual(self.on_nic(folder), [f"{nic} 0x1af4 0x1041 0x020000 1", "pci", "True"], folder)

    def test_device_where_others_are_seen(self):
        """No folder with a modalias, by which libibverbs would choose another provider; nor without a PCI device."""
        if os.geteuid():
            self.skipTest("only root can mount a NIC's files")
        nic = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"
        for folder, options, numa in ((nic, ("--keep",), "1"), ("/sys/devices/platform/nic", (), "-1")):
            where, *rest = self.on_nic(folder, *options)
            self.assertRegex(where, f"/infiniband/uroce0/.* 0x1234 0x.* {numa}$", folder)
            self.assertEqual(rest, ["subsystem", "True"])

    def test_socket_option_is_handed_on(self):
        out = self.ok("--socket", "sock", "sh", "-c", "echo $UROCE_SOCKET; cd /; ibv_devinfo",
                      cwd=self.dir.name, env={"UROCE_SOCKET": "/nonexistent"})
        self.assertTrue(out.startswith(self.sock + "\n"), out)
        self.assertIn("uroce0", out)

    def test_arguments_and_exit_code_are_the_programs(self):
        self.assertEqual(self.ok("printf", "%s|", "--help", "-x", "a b"), "--help|-x|a b|")
        self.assertEqual(self.run_("sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(self.run_("no-such-program").returncode, 127)
        self.assertEqual(self.run_("/etc/passwd").returncode, 126)

    def refused(self, code, *words, args=(), env=None):
        done = self.run_(*args, env=env)
        self.assertEqual(done.returncode, code)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, done.stderr)

    def test_wrong_options_are_named(self):
        self.refused(2, "--frobnicate", args=("--frobnicate", "true"))
        self.refused(2, "-q", args=("-q", "true"))
        self.refused(2, "--socket", args=("--socket",))
        self.refused(2, "no program" if "auto" in self.view[0] else "--view are for a program")
        for option in ("--keep", "--view=namespace"):
            self.refused(2, "--keep and --view are for a program", args=(option, "--container", "all"))
        self.refused(2, "--view", "auto namespace preload", args=("--view=chroot", "true"))

    def test_no_daemon_is_said_so(self):
        self.refused(1, "/nonexistent", "No such file", args=("true",),
                     env={"UROCE_SOCKET": "/nonexistent"})

    def test_a_daemon_that_starts_is_waited_for(self):
        """As after `uroced &` in a script: a process has its name, but does not listen yet, or never listens: its main thread
        has the name of a daemon that starts, then that of one that is ready. Like uroced it cannot be attached to
        (PR_SET_DUMPABLE 0), so that its folder in /proc belongs to root."""
        folder = os.path.join(self.dir.name, "late")
        os.mkdir(folder)
        who = {}
        if os.geteuid() == 0:
            who = self.ordinary_user()
            os.chown(folder, NOBODY, NOBODY)
        sock = os.path.join(folder, "sock")
        begin = "import ctypes, sys, threading; prctl = ctypes.CDLL(None).prctl; prctl(4, 0, 0, 0, 0)\n"
        alone = begin + "print('starts', flush=True); sys.stdin.read()"
        threads = begin + ("prctl(15, b'uroced-starting'); threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
                           "print('starts', flush=True); sys.stdin.readline(); prctl(15, b'uroced'); sys.stdin.read()")
        for listens, python, option in ((True, alone, ["--socket", sock]), (False, threads, [f"--socket={sock}"])):
            starting = subprocess.Popen(["uroced", "-c", python, *option], executable=shutil.which("python3", path="/usr/bin"),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, **who)
            self.assertEqual(starting.stdout.readline(), b"starts\n")
            env = {**os.environ, **SANITIZER, "UROCE_SOCKET": sock}
            run = subprocess.Popen([RUN, "--provider", PROVIDER, *self.view, "true"], env=env, text=True,
                                   stderr=subprocess.PIPE, **who)
            self.assertIn("waiting for uroced", run.stderr.readline())
            daemon = subprocess.Popen([FAKE, sock], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **who) if listens else None
            if not listens:
                starting.stdin.write(b"ready\n")
                starting.stdin.flush()
            said = run.communicate(timeout=300)[1]
            self.assertEqual((run.returncode, "no uroced at" in said), (0, False) if listens else (1, True), said)
            if listens:
                daemon.communicate()
            starting.stdin.close()
            starting.wait(300)
            starting.stdout.close()

    @unittest.skipIf(os.geteuid(), "only root can become another user")
    def test_other_daemons_are_not_waited_for(self):
        """One of another user, and one that sees other files."""
        sock = os.path.join(self.dir.name, "never")
        for prefix, who in (([], {"user": NOBODY}), (["unshare", "--mount"], {})):
            other = subprocess.Popen([*prefix, "bash", "-c", 'exec -a uroced sh -c "read x" sh "$@"', "bash", "--socket", sock],
                                     stdin=subprocess.PIPE, **who)
            while not text_of(f"/proc/{other.pid}/cmdline").startswith("uroced"):
                self.assertIsNone(other.poll())
                time.sleep(0.01)
            done = self.run_("true", env={"UROCE_SOCKET": sock})
            self.assertEqual(done.returncode, 1)
            self.assertNotIn("waiting", done.stderr)
            other.communicate()

    def test_bad_provider(self):
        done = subprocess.run([RUN, "--provider", "/nonexistent.so", "true"], capture_output=True,
                              text=True, timeout=300, env={**os.environ, **SANITIZER})
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nonexistent.so", done.stderr)

    def test_help(self):
        self.assertIn("--socket", self.ok("--help"))


class RunPreloaded(Run):
    """The same by the preloaded library."""
    view = ("--view=preload",)

    def setUp(self):
        super().setUp()
        os.environ["XDG_RUNTIME_DIR"] = "/nowhere"

    def test_programs_without_libc_see_the_devices(self):
        """They do not; a warning names the program and the reason. What they find is the kernel's."""
        for options, says in ((["-static"], "is statically linked and does not load"),
                              (["-DGO"], "is a Go program, whose system calls bypass")):
            program = self.direct(*options)
            done = self.run_(program)
            self.assertEqual(done.returncode, 0)
            self.assertEqual(done.stderr, f"uroce-run: warning: {program} {says} the library that shows the devices; "
                             "there is no mount namespace: --view=preload was given\n")
            self.assertEqual(done.stdout, subprocess.run([program], text=True, capture_output=True, check=True).stdout)
        self.ok(self.direct())  # a dynamic program is not warned of

    def test_what_it_cannot_serve_is_named(self):
        for user, mode, says in ((NOBODY, 0o4755, True), (NOBODY, 0o755, False), (0, 0o4755, os.geteuid() != 0)):
            copy = os.path.join(self.dir.name, f"{user}-{mode:o}")
            shutil.copy("/bin/true", copy)
            if os.geteuid() == 0:
                os.chown(copy, user, 0)
            elif user != os.geteuid():
                continue
            os.chmod(copy, mode)
            self.assertEqual(f"{copy} is set-user-id" in self.run_(copy).stderr, says, (user, oct(mode)))

    def test_hostile_folder(self):
        """A folder of another user in the place of the view is not used."""
        if os.geteuid():
            self.skipTest("only root can become another user")
        who = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        runtime = os.path.join(self.dir.name, "runtime")
        os.makedirs(os.path.join(runtime, f"uroce-view-{NOBODY}"))
        os.chmod(runtime, 0o777)
        env = {"XDG_RUNTIME_DIR": runtime}
        self.assertNotIn(runtime, self.ok("sh", "-c", "echo $UROCE_VIEW", env=env, **who))
        os.rmdir(os.path.join(runtime, f"uroce-view-{NOBODY}"))
        self.assertIn(runtime, self.ok("sh", "-c", "echo $UROCE_VIEW", env=env, **who))
        os.chmod(os.path.join(runtime, f"uroce-view-{NOBODY}"), 0o777)
        self.assertNotIn(runtime, self.ok("sh", "-c", "echo $UROCE_VIEW", env=env, **who))

    def test_folders_go_with_their_programs(self):
        """The next run removes a folder after its last program, and not before, whatever the program closes."""
        who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        runtime = os.path.join(self.dir.name, "runtime")
        own = os.path.join(runtime, f"uroce-view-{who.get('user', os.geteuid())}")
        os.mkdir(runtime)
        os.chmod(runtime, 0o777)
        env = {**os.environ, **SANITIZER, "UROCE_SOCKET": self.sock, "XDG_RUNTIME_DIR": runtime}

        def run(which):
            """Each copy of the provider has its folder, because its path is in the hash."""
            to = os.path.join(self.dir.name, which)
            if not os.path.isdir(to):
                os.mkdir(to)
                os.chmod(to, 0o755)
                for name in (os.path.basename(PROVIDER), "liburoce-preload.so"):
                    shutil.copy(os.path.join(os.path.dirname(PROVIDER), name), to)
            return [RUN, "--provider", os.path.join(to, os.path.basename(PROVIDER)), *self.view]

        def start(which, script):
            program = subprocess.Popen([*run(which), "bash", "-c", script], env=env, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True, **who)
            return program, program.stdout.readline().strip()

        def folders():
            """After a run of another program."""
            subprocess.run([*run("another"), "true"], env=env, check=True, timeout=300, **who)
            return {os.path.join(own, name) for name in os.listdir(own)}

        closes = "for f in /proc/self/fd/*; do f=${f##*/}; [ $f -gt 2 ] && eval \"exec $f>&-\"; done; "
        replaced, one = start("one", "exec bash -c 'echo $UROCE_VIEW; read x'")
        closed, two = start("two", f"{closes} echo $UROCE_VIEW; read x")
        parent, three = start("three", "bash -c 'echo $UROCE_VIEW; read x; exit' <&0 & wait")
        parent.kill()  # its child lives
        parent.wait()
        self.assertEqual(len({one, two, three}), 3)
        self.assertLess({one, two, three}, folders())
        replaced.kill()
        replaced.communicate()
        self.assertEqual(folders() & {one, two, three}, {two, three})
        closed.communicate()
        self.assertEqual(folders() & {one, two, three}, {three})
        parent.stdin.close()
        self.assertEqual(parent.stdout.read(), "")  # the child has ended: its end of the pipe is closed
        while three in folders():
            pass  # the kernel ends the lock after the pipe; the test's time-out ends a hang
        self.assertEqual(len(folders()), 1)
        parent.stdout.close()

    def test_many_runs_at_once(self):
        """Runs that make and remove the same folders: each program sees the devices."""
        runtime = os.path.join(self.dir.name, "runtime")
        os.mkdir(runtime, 0o700)
        env = {**os.environ, **SANITIZER, "UROCE_SOCKET": self.sock, "XDG_RUNTIME_DIR": runtime}
        keep = ([], ["--keep"])  # two folders: each run removes the other one if it is unused
        view = os.path.join(runtime if os.geteuid() else "/run", f"uroce-view-{os.geteuid()}")
        before = set(os.listdir(view)) if os.path.isdir(view) else set()  # of earlier versions
        for _ in range(5):
            programs = [subprocess.Popen([RUN, "--provider", PROVIDER, *self.view, *keep[i % 2], "ls", "/sys/class/infiniband"],
                                         env=env, stdout=subprocess.PIPE, text=True) for i in range(12)]
            for program in programs:
                self.assertIn("uroce0", program.communicate(timeout=300)[0])
                self.assertEqual(program.returncode, 0)
        self.ok("true", env=env)
        self.assertLessEqual(len(set(os.listdir(view)) - before), 1)

    def test_other_preloaded_libraries_remain(self):
        said = self.ok("sh", "-c", "echo $LD_PRELOAD", env={"LD_PRELOAD": f"{SANITIZER.get('LD_PRELOAD', '')} libc.so.6"})
        self.assertIn(f"libc.so.6:{os.path.dirname(PROVIDER)}/liburoce-preload.so", said)


class RunAnywhere(Run):
    """uroce-run chooses by itself."""
    view = ("--view=auto",)
    NAMESPACES = {"unshare": errno.EPERM}
    # Ubuntu's AppArmor rule: the namespace is made, but has no capability
    MOUNTS = {name: errno.EACCES for name in ("mount", "move_mount", "fsopen", "fsmount", "open_tree")}

    def test_auto_prefers_a_namespace(self):
        self.assertEqual(self.ok("sh", "-c", "echo $UROCE_VIEW"), "\n")

    def test_refused_namespaces(self):
        for refused in (self.NAMESPACES, self.MOUNTS, {"mount": errno.EINVAL}, {"fsopen": errno.ENOSYS}):
            self.assertIn("uroce-view", self.locked(refused, "sh", "-c", "echo $UROCE_VIEW"), refused)
            self.assertIn("uroce0", self.locked(refused, "ibv_devices"), refused)

    def test_refused_namespaces_are_told(self):
        lock = [sys.executable, os.path.abspath(__file__), "lock", json.dumps(self.NAMESPACES)]
        env = {**os.environ, **SANITIZER, "UROCE_SOCKET": self.sock, "UROCE_VERBOSE": "1"}
        done = subprocess.run([*lock, RUN, "--provider", PROVIDER, "true"], env=env, text=True, capture_output=True,
                              timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"shown by \S+/liburoce-preload.so with files in \S+ \(no private mount namespace: "
                         "Operation not permitted")
        done = subprocess.run([*lock, RUN, "--provider", PROVIDER, "--view=namespace", "true"], env=env, text=True,
                              capture_output=True, timeout=300)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no private mount namespace", done.stderr)

    @unittest.skipIf(os.geteuid(), "needs root (chroot)")
    def test_chroot_whose_root_is_no_mount_point(self):
        """There mounts cannot be made private, and ordinary users get no user namespace."""
        root = os.path.join(self.dir.name, "root")
        binds = ["usr", "etc", "dev", "proc", "sys", os.path.dirname(RUN)[1:], os.path.dirname(PROVIDER)[1:], self.dir.name[1:]]
        script = "set -e; for dir in $2; do mkdir -p $1/$dir; mount --rbind /$dir $1/$dir; done; mkdir -p $1/tmp; " \
                 "for link in bin sbin lib lib64; do ln -s usr/$link $1/$link; done; shift 2; exec \"$@\""
        env = {**os.environ, **SANITIZER, "UROCE_SOCKET": self.sock, "UROCE_VERBOSE": "1"}
        for who in ([], ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]):
            shutil.rmtree(root, ignore_errors=True)
            os.mkdir(root)
            done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", root, " ".join(binds), "chroot", root, *who,
                                   RUN, "--provider", PROVIDER, "ibv_devices"], env=env, text=True, capture_output=True,
                                  timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("uroce0", done.stdout)
            self.assertRegex(done.stderr, r"liburoce-preload.so with files in \S+ \((cannot make mounts private: Invalid "
                             r"argument|no private mount namespace: Operation not permitted)")

    @unittest.skipIf(os.geteuid(), "needs root (mounts)")
    def test_no_folder_of_drivers(self):
        """Debian's libibverbs1 without ibverbs-providers has no /etc/libibverbs.d that a mount could cover."""
        env = {**os.environ, **SANITIZER, "UROCE_SOCKET": self.sock, "UROCE_VERBOSE": "1"}
        done = subprocess.run(["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /etc; exec "$@"', "sh", RUN, "--provider",
                               PROVIDER, "ibv_devices"], env=env, text=True, capture_output=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("uroce0", done.stdout)
        self.assertRegex(done.stderr, r"liburoce-preload.so with files in \S+ \(no /etc/libibverbs.d: ")

    def test_a_kernel_without_seccomp(self):
        """Then the namespace has a preloaded library, too, which refuses netlink sockets."""
        said = self.locked({"seccomp": errno.ENOSYS}, "sh", "-c", "echo $LD_PRELOAD $UROCE_VIEW")
        self.assertTrue(said.endswith("/liburoce-preload.so\n"), said)


@unittest.skipIf(os.geteuid(), "needs root (mounts)")
class Hook(WithDaemon):
    """uroce-run --container: mounts in the root of a container, which a hostile program may have made or shares."""

    # the mount namespace is that of a container: the host's root is still visible, nothing propagates
    SCRIPT = """mount -t tmpfs tmpfs "$1"
        mkdir -p "$1/tmp" "$1/dev" "$1/etc/libibverbs.d" "$1/sys" "$1/victim/libibverbs.d" "$1/proc"
        mknod -m 666 "$1/dev/full" c 1 7; mknod -m 666 "$1/dev/null" c 1 3; ln -s /proc/self/fd "$1/dev/fd"
        mount -t sysfs sysfs "$1/sys"
        eval "$2"
        LD_PRELOAD="$3" SWAP="$4" "$5" --provider "$6" --container all <"$7" || exit 3
        grep -o " $1/[^ ]*" /proc/self/mountinfo | sort
        eval "$8"
    """

    def setUp(self):
        super().setUp()
        self.root = os.path.join(self.dir.name, "root")
        os.mkdir(self.root)
        with open(os.path.join(self.dir.name, "config.json"), "w") as config:
            json.dump({"root": {"path": "root"}}, config)
        self.state = os.path.join(self.dir.name, "state")
        with open(self.state, "w") as state:
            json.dump({"bundle": self.dir.name}, state)

    def hook(self, before="", swap="", then=""):
        preload = " ".join(filter(None, [SANITIZER.get("LD_PRELOAD"), SWAP if swap else ""]))
        env = {**os.environ, **SANITIZER, "LD_PRELOAD": "", "UROCE_SOCKET": self.sock}
        return subprocess.run(["unshare", "--mount", "sh", "-c", self.SCRIPT, "sh", self.root, before, preload, swap,
                               DYNAMIC if swap else RUN, PROVIDER, self.state, then],
                              env=env, text=True, capture_output=True, timeout=300)

    def mounts(self, done):
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [line.strip().removeprefix(self.root) for line in done.stdout.split("\n") if line.startswith(" ")]

    def test_container_sees_the_devices(self):
        done = self.hook(then=f'ls {self.root}/dev/infiniband {self.root}/etc/libibverbs.d {self.root}/etc/libibverbs.d/uroce {self.root}/tmp; '
                         f'readlink {self.root}/dev/fd; cat {self.root}/sys/class/infiniband/uroce0/hca_type')
        seen = self.mounts(done)
        self.assertLessEqual({"/sys", "/sys/class", "/dev", "/dev/null", "/etc/libibverbs.d"}, set(seen))
        self.assertNotIn("/tmp", seen)
        words = done.stdout.split()
        for word in ("uverbs0", "uroce.driver", "/proc/self/fd", "uroce", "liburoce-preload.so"):
            self.assertIn(word, words)

    def test_renamed_folders_do_not_lead_it_elsewhere(self):
        """What it has checked is what it mounts over, whatever has the name by then."""
        seen = self.mounts(self.hook(swap="/dev:/etc/libibverbs.d:/etc"))
        self.assertFalse([path for path in seen if path.startswith("/victim")], seen)
        self.assertLessEqual({"/dev.was", "/dev.was/null", "/etc.was/libibverbs.d.was"}, set(seen))

    def test_links_are_refused(self):
        for path in ("tmp", "dev", "etc/libibverbs.d", "etc", "sys"):
            umount = f"umount {self.root}/sys; " if path == "sys" else ""
            done = self.hook(f"{umount}rm -r {self.root}/{path}; ln -s /victim {self.root}/{path}")
            self.assertEqual((done.returncode, done.stdout), (3, ""), path)
            self.assertIn(" of the container: a symbolic link, which could lead out of the container", done.stderr)
        done = self.hook(f"ln -sf /dev/sda {self.root}/dev/full")
        self.assertEqual(done.returncode, 3)
        self.assertIn("/dev/full of the container: a symbolic link", done.stderr)

    def test_missing_folders_are_named(self):
        for path, word in (("dev", "/dev of the container: No such file"), ("tmp", "/tmp of the container: No such file"),
                           ("etc/libibverbs.d", "no /etc/libibverbs.d")):
            done = self.hook(f"rm -r {self.root}/{path}")
            self.assertEqual((done.returncode, done.stdout), (3, ""), path)
            self.assertIn(word, done.stderr)
        done = self.hook(f"umount {self.root}/sys")
        self.assertEqual(done.returncode, 3)
        self.assertIn("/sys of the container is not a sysfs", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
