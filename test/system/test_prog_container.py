#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""doc/containers.md's recipe: the daemon runs outside, on huge pages. Clients run without privileges in separate
user, mount, pid, network and IPC namespaces. They get only the folder of the socket, and over the socket the
descriptors of the daemon's segments. The daemon identifies clients by the kernel's peer credentials, so pid 2 of
two containers are two clients."""
import pathlib

import lib
import perftool

# The client's root file system: an empty tmpfs with bind mounts of the system's folders, a /dev with the few nodes
# that programs need, a /proc of its pid namespace, and the socket's folder.
INIT = """set -e
root={root}
mount -t tmpfs -o size=64m tmpfs $root
mkdir -p $root/proc $root/tmp $root/run/uroce $root/opt/uroce $root/dev/shm
for dir in usr bin sbin lib lib64 etc sys; do
	[ -e /$dir ] || continue
	if [ -L /$dir ]; then ln -s $(readlink /$dir) $root/$dir; continue; fi
	mkdir -p $root/$dir
	mount --rbind /$dir $root/$dir
done
for node in null zero full random urandom; do
	touch $root/dev/$node
	mount --bind /dev/$node $root/dev/$node
done
mount -t tmpfs -o size=16m tmpfs $root/dev/shm
mount --bind {build} $root/opt/uroce
mount -t proc proc $root/proc
mount --bind {socket_dir} $root/run/uroce
ip link set lo up 2>/dev/null || true
exec chroot $root {command}
"""
USER = 65534
UNSHARE = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "unshare", "--user",
           "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--ipc"]


def contained(daemon, argv, *extra, ns=None):
    """Starts argv in a separate container."""
    root = lib.tmpdir()
    root.chmod(0o755)
    command = " ".join(str(a) for a in ["/opt/uroce/app/uroce-run/uroce-run", *argv])
    script = INIT.format(root=root, build=lib.public_copy(), command=command,
                         socket_dir=daemon.socket.parent)
    path = "UROCE_SOCKET=/run/uroce/uroced.sock"
    return lib.spawn([*UNSHARE, *extra, "env", path, "sh", "-c", script], ns=ns)


def open_to(daemon):
    daemon.socket.parent.chmod(0o755)
    daemon.socket.chmod(0o666)


def run(daemon, *argv):
    proc = contained(daemon, argv, "--net")
    rc = proc.wait(60)
    assert rc == 0, f"{argv}: status {rc}\n{proc.output()}"
    return proc.output()


def pingpong(link, tool, *args):
    port = lib.tcp_port()
    argv = [tool, "-g", "1", "-c", "-p", str(port), *args]
    ns = link.a.daemon.ns  # the programs exchange addresses by TCP, so they share a network
    server = contained(link.b.daemon, [*argv, "-d", link.b.dev], ns=ns)
    lib.until("the server listens", lambda: server.listens(port) or server.poll() is not None)
    client = contained(link.a.daemon, [*argv, "-d", link.a.dev, "127.0.0.1"], ns=ns)
    rcs = client.wait(60), server.wait(60)
    assert rcs == (0, 0), f"{rcs}\n{client.output()}\n{server.output()}"


def connected(link):
    """rping connects by rdma_cm alone: each container has a separate network namespace without an address."""
    port = lib.tcp_port()
    argv = ["rping", "-a", "10.9.0.101", "-p", port, "-C", "20", "-V", "-S", "1000"]
    server = contained(link.a.daemon, [*argv, "-s"], "--net")
    lib.until("the server listens", lambda: server.poll() is not None or
              any(row["state"] == "LISTEN" for row in link.a.daemon.show("cm")["cm"]))
    client = contained(link.b.daemon, [*argv, "-c", "-I", "10.9.0.102"], "--net")
    rcs = client.wait(60), server.wait(60)
    assert rcs == (0, 0), f"{rcs}\n{client.output()}\n{server.output()}"


def huge(link):
    """A client uses its own huge pages and the daemon's, without a hugetlbfs."""
    proc = contained(link.a.daemon, ["/opt/uroce/test/system/hugeclient", "uroce0"], "--net")
    lib.tap(proc, "container", 60)
    assert "huge pages" in link.a.daemon.proc.output(), link.a.daemon.proc.output()


def main():
    lib.need_root()
    with perftool.huge_pages(128):  # the daemon takes 100
        containers(lib.link_ring(("--mem", "64"), huge=True))
    lib.finish()


def containers(link):
    open_to(link.a.daemon)
    huge(link)
    with lib.case("container: ibv_devinfo, user, mount, pid, network and IPC namespaces"):
        assert "PORT_ACTIVE" in run(link.a.daemon, "ibv_devinfo", "-d", "uroce0")
    for tool, *args in (("ibv_rc_pingpong", "-n", "200"), ("ibv_rc_pingpong", "-e", "-n", "200"),
                        ("ibv_rc_pingpong", "-s", "1000000", "-n", "20"),
                        ("ibv_ud_pingpong", "-n", "200"), ("ibv_srq_pingpong", "-n", "200")):
        with lib.case(f"container: {tool} -c {' '.join(args)}, both ends contained"):
            pingpong(link, tool, *args)
    with lib.case("container: rping -C 20 -V -S 1000, both ends contained, no common network"):
        connected(link)
    with lib.case("container: /dev/uverbs0 and the rest exist only inside"):
        assert not pathlib.Path("/sys/class/infiniband/uroce0").exists()
    link.end()


main()
