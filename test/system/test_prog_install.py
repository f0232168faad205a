#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""urocectl install shows the devices to every program without uroce-run: root's, and those of users in the socket's
group. uninstall restores everything: files with modes, owners and contents, nodes, mounts.

Runs first in a mount namespace with private /dev, /run and /etc/libibverbs.d; then for a few seconds on the machine
itself, unless it has RDMA devices. A guard process outlives the test and uninstalls even if the test is killed."""
import hashlib
import json
import os
import pathlib
import stat
import subprocess
import sys
import sysconfig

import lib

GROUP = 57771  # its members may use the socket
USER = ["setpriv", "--reuid", "65534", "--regid", "65534"]
# Trees compared completely, and folders compared by entries only: other programs create network devices and sockets
# meanwhile.
SYSTEM = ("/etc", f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}/libibverbs")
NEW = ("/dev/infiniband", "/run/uroce-system", "/run/modprobe.d", "/sys/class/infiniband",
       "/sys/class/infiniband_verbs", "/sys/class/misc/rdma_cm")
TREES = (*SYSTEM, *NEW)
FOLDERS = ("/", "/dev", "/sys/class", "/sys", "/run/uroce")

# Private copies of /dev, /run and /etc/libibverbs.d, and the socket in its default place.
ENTER = """mount --make-rprivate /
for dir in /etc/libibverbs.d /run; do
	mkdir -p {tmp}$dir; mount -t tmpfs tmpfs {tmp}$dir; cp -a $dir/. {tmp}$dir 2>/dev/null || true
	mount --bind {tmp}$dir $dir
done
mkdir {tmp}/dev; mount -t tmpfs -o mode=0755 tmpfs {tmp}/dev
for node in null zero full random urandom tty; do
	touch {tmp}/dev/$node; mount --bind /dev/$node {tmp}/dev/$node
done
mkdir {tmp}/dev/shm; mount --bind /dev/shm {tmp}/dev/shm; mount --rbind {tmp}/dev /dev
mkdir -p /run/uroce; mount --bind {socket_dir} /run/uroce
unset UROCE_SOCKET
"""
HEAD = """set -e
export UROCE_SOCKET={socket}
look() {{ {look} >{tmp}/$1; }}
listening() {{
	until grep -q ":$(printf %04X {port}) 0*:0000 0A" /proc/net/tcp /proc/net/tcp6; do kill -0 $!; sleep 0.05; done
}}
pingpong() {{
	"$@" ibv_rc_pingpong -d uroce1 -g 1 -c -p {port} &
	listening
	"$@" ibv_rc_pingpong -d uroce0 -g 1 -c -p {port} 127.0.0.1
	wait $!
}}
# (the group is supplementary: no file belongs to it)
member="{user} --groups {group}"
stranger="{user} --clear-groups"
"""
INSTALLED = """
look before
{ctl} install
ibv_devinfo -d uroce0 | grep PORT_ACTIVE
ibstat uroce0 | grep 'State: Active'
ibstatus uroce0 | grep '4: ACTIVE'
sent() {{ cat /sys/class/infiniband/uroce0/ports/1/counters/port_xmit_packets; }}
first=$(sent)
$member ibv_devices | grep uroce1
[ $(cat /sys/class/misc/rdma_cm/abi_version) = 4 ]
[ -c /dev/infiniband/rdma_cm ]
grep -q 'install net-pf-16-proto-20 /bin/false' /run/modprobe.d/uroce.conf
pingpong env
pingpong $member
$member rping -s -a 10.9.0.102 -p {port} -C 10 -V &
until {ctl} --json show cm | grep -q '"LISTEN"'; do kill -0 $!; sleep 0.05; done
$member rping -c -a 10.9.0.102 -I 10.9.0.101 -p {port} -C 10 -V
wait $!
$member ib_write_bw -F -x 1 -n 100 -d uroce1 -p {port} >/dev/null &
listening
$member ib_write_bw -F -x 1 -n 100 -d uroce0 -p {port} 127.0.0.1
wait $!
for second in $(seq 60); do [ $(sent) -gt $first ] && break; sleep 1; done
[ $(sent) -gt $first ]
$member ucx_info -d | grep -A1 'Transport: rc_verbs' | grep uroce0
if $stranger ibv_devinfo -d uroce0 2>{tmp}/stranger; then exit 7; fi
grep -q 'cannot reach uroced.*Permission denied; its --socket-mode and --socket-group' {tmp}/stranger
if {ctl} install 2>{tmp}/again; then exit 9; fi
grep -q 'installed before' {tmp}/again
look during
if cmp -s {tmp}/before {tmp}/during; then exit 6; fi
{ctl} uninstall
look after
diff {tmp}/before {tmp}/after
{ctl} uninstall
look after
diff {tmp}/before {tmp}/after
if ibv_devinfo 2>{tmp}/none; then exit 8; fi
"""
REFUSED = """
look before
mkdir /dev/infiniband; touch /dev/infiniband/uverbs0
if {ctl} install 2>{tmp}/msg; then exit 9; fi
grep -q 'kernel has RDMA devices' {tmp}/msg
{ctl} uninstall
[ -e /dev/infiniband/uverbs0 ]
rm -r /dev/infiniband
if $member {ctl} install; then exit 7; fi
if {ctl} install twice; then exit 6; fi
if {ctl} --socket /nowhere install; then exit 5; fi
look after
diff {tmp}/before {tmp}/after
"""
# the state of an install that was killed halfway
HALF_WAY = """
look before
{ctl} install
umount /sys/class
rm /etc/libibverbs.d/uroce.driver
{ctl} uninstall
look after
diff {tmp}/before {tmp}/after
mkdir -p /run/uroce-system/class/infiniband
{ctl} uninstall
look after
diff {tmp}/before {tmp}/after
"""


def entry(path):
    """All properties of a folder entry, including the contents."""
    at = os.lstat(path)
    said = [path, stat.filemode(at.st_mode), at.st_uid, at.st_gid, at.st_rdev]
    if stat.S_ISLNK(at.st_mode):
        said.append(os.readlink(path))
    elif stat.S_ISREG(at.st_mode):
        said.append(hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest())
    return said


def look():
    """Prints everything that an install may change, including mounts, but not those of ip netns."""
    paths = set()
    for tree in TREES:
        for top, folders, files in os.walk(tree):
            paths.update(os.path.join(top, name) for name in [*folders, *files, "."])
    for folder in FOLDERS:
        if os.path.isdir(folder):
            paths.update(os.path.join(folder, name) for name in os.listdir(folder))
    for path in sorted(paths):
        print(json.dumps(entry(path)))
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        if not words[4].startswith(("/run/netns", "/tmp")):
            print(json.dumps([*words[2:6], *words[words.index("-"):]]))


def run(daemon, *parts, private=True):
    tmp = lib.tmpdir()
    words = {"tmp": tmp, "socket": daemon.socket, "socket_dir": daemon.socket.parent,
             "ctl": lib.public_copy() / "app/urocectl/urocectl", "port": lib.tcp_port(),
             "look": f"{sys.executable} {__file__} look", "user": " ".join(USER), "group": GROUP}
    script = "".join(part.format(**words) for part in (HEAD, *parts))
    proc = lib.spawn([*(["unshare", "--mount"] if private else []), "bash", "-c", script])
    rc = proc.wait(180)
    assert rc == 0, f"status {rc}:\n{proc.output()}"


def on_the_machine(daemon):
    """The guard uninstalls at the end of its input, at the latest when this process ends."""
    guard = subprocess.Popen(
        ["sh", "-c", f"exec 9<{lib.UROCE_RUN}; cat >/dev/null; exec /proc/self/fd/9 --uninstall"],
        stdin=subprocess.PIPE, start_new_session=True)
    try:
        run(daemon, INSTALLED, private=False)
    finally:
        guard.stdin.close()
        guard.wait(60)


def main():
    lib.need_root()
    lib.public_copy()
    devs = [f"name=uroce{i},port=net_ring_pair{end},addr=10.9.0.{101 + i}/24,mtu=4096"
            for i, end in enumerate("ab")]
    # no network namespace: ip(8) would mount a separate /sys for it
    daemon = lib.Daemon([], devs, None, ("--pair", "pair", "--socket-mode", "0660",
                                         "--socket-group", str(GROUP)))
    daemon.socket.parent.chmod(0o755)
    with lib.case("urocectl install: programs run without uroce-run; uninstalled: all as before"):
        run(daemon, ENTER, INSTALLED)
    with lib.case("urocectl install: kernel RDMA devices, ordinary users, no daemon: refused, nothing left"):
        run(daemon, ENTER, REFUSED)
    with lib.case("urocectl uninstall: after an install that was killed halfway"):
        run(daemon, ENTER, HALF_WAY)
    if any(os.path.exists(tree) for tree in NEW):
        print("# not on the machine itself: it has RDMA devices")
    else:
        with lib.case("urocectl install: on the machine itself; uninstalled: all as before"):
            on_the_machine(daemon)
    with lib.case("nothing is left, the daemon ends cleanly"):
        lib.until("no object is left", lambda: not any(daemon.objects().values()))
        daemon.stop()
    lib.finish()


if sys.argv[1:] == ["look"]:
    look()
else:
    main()
