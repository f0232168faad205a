#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""urocectl install shows the devices to every program, without uroce-run; uninstall undoes all of it.
In a mount namespace of the test's own with /dev and /etc of its own: the host sees nothing of it."""
import lib

# /dev, /run and /etc/libibverbs.d as they are, but to be changed without anybody noticing.
ENTER = """set -e
mount --make-rprivate /
for dir in /etc/libibverbs.d /run; do
	mkdir -p {tmp}$dir; mount -t tmpfs tmpfs {tmp}$dir; cp -a $dir/. {tmp}$dir 2>/dev/null || true
	mount --bind {tmp}$dir $dir
done
mkdir {tmp}/dev; mount -t tmpfs tmpfs {tmp}/dev
for node in null zero full random urandom tty; do
	touch {tmp}/dev/$node; mount --bind /dev/$node {tmp}/dev/$node
done
mkdir {tmp}/dev/shm; mount --bind /dev/shm {tmp}/dev/shm; mount --rbind {tmp}/dev /dev
look() {{
	find /dev /etc/libibverbs.d /run /sys/class -maxdepth 2 2>/dev/null | sort
	cat /etc/libibverbs.d/*; grep -c . /proc/self/mountinfo
}}
export UROCE_SOCKET={socket}
{body}
"""
INSTALLED = """
look >{tmp}/before
{ctl} install
ibv_devinfo -d uroce0 | grep PORT_ACTIVE
setpriv --reuid 65534 --regid 65534 --clear-groups ibv_devices | grep uroce1
ibv_rc_pingpong -d uroce1 -g 1 -c -p {port} & sleep 1
ibv_rc_pingpong -d uroce0 -g 1 -c -p {port} 127.0.0.1
wait $!
if {ctl} install 2>{tmp}/again; then exit 9; fi
grep -q 'installed before' {tmp}/again
{ctl} uninstall
look >{tmp}/after
diff {tmp}/before {tmp}/after
{ctl} uninstall
look >{tmp}/after
diff {tmp}/before {tmp}/after
if ibv_devinfo 2>{tmp}/none; then exit 8; fi
"""
REFUSED = """
look >{tmp}/before
mkdir /dev/infiniband; touch /dev/infiniband/uverbs0
if {ctl} install 2>{tmp}/msg; then exit 9; fi
grep -q 'kernel has RDMA devices' {tmp}/msg
{ctl} uninstall
[ -e /dev/infiniband/uverbs0 ]
rm -r /dev/infiniband
if setpriv --reuid 65534 --regid 65534 --clear-groups {ctl} install; then exit 7; fi
if {ctl} install twice; then exit 6; fi
if {ctl} --socket /nowhere install; then exit 5; fi
look >{tmp}/after
diff {tmp}/before {tmp}/after
"""


def run(daemon, body):
    tmp = lib.tmpdir()
    words = {"tmp": tmp, "socket": daemon.socket, "ctl": lib.UROCECTL, "port": lib.tcp_port()}
    script = ENTER.format(body=body.format(**words), **words)
    proc = lib.spawn(["unshare", "--mount", "bash", "-c", script], ns=daemon.ns)
    rc = proc.wait(60)
    assert rc == 0, f"status {rc}:\n{proc.output()}"


def main():
    lib.need_root()
    link = lib.link_ring()
    daemon = link.a.daemon
    daemon.socket.parent.chmod(0o755)
    daemon.socket.chmod(0o666)
    with lib.case("urocectl install: programs run without uroce-run; uninstalled: all as before"):
        run(daemon, INSTALLED)
    with lib.case("urocectl install: devices of the kernel's own, ordinary users, no daemon: refused, nothing left"):
        run(daemon, REFUSED)
    with lib.case("nothing is left, the daemon ends cleanly"):
        link.nothing_left()
        link.stop()
    lib.finish()


main()
