#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""`urocectl cdi`: an unprivileged container gets RDMA by `podman run --device uroce.dev/rdma=NAME`, with an image that
has Debian's rdma-core and perftest and nothing from uroce; with runc and with crun, run by root and by an ordinary user (rootless podman)."""
import json
import subprocess
import tarfile

import container_kit
import lib
import perftool

KIND = "uroce.dev/rdma"
PLAIN = ("--user", "1000:1000", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--read-only")


def ctl(*argv):
    return subprocess.run([lib.UROCECTL, *argv], text=True, capture_output=True, check=False)


def device(name):
    return ("--device", f"{KIND}={name}")


def bare_image(**links):
    """An image without libibverbs, or with an empty folder for it; links: which folder leads where."""
    folder = lib.tmpdir()
    with tarfile.open(folder / "bare.tar", "w") as tar:
        for name in ("tmp", "etc", "bin", *(["etc/libibverbs.d"] if links else [])):
            member = tarfile.TarInfo(name)
            target = links.get(name.replace("/", "_").replace(".", "_"))
            member.type, member.linkname = (tarfile.SYMTYPE, target) if target else (tarfile.DIRTYPE, "")
            member.mode = 0o755
            tar.addfile(member)
    folder.chmod(0o755)
    return folder / "bare.tar"


def write_file(spec_dir, daemon):
    path = spec_dir / "uroce.json"
    done = ctl("--socket", str(daemon.socket), "cdi", "--output", str(path))
    assert done.returncode == 0 and done.stdout == "", done
    spec = json.loads(path.read_text())
    assert spec["kind"] == KIND, spec
    assert [d["name"] for d in spec["devices"]] == ["uroce0", "uroce1", "all"], spec
    hooks = [hook for d in spec["devices"] for hook in d["containerEdits"]["hooks"]]
    # without it, runtimes give the hook, a program of the host, the image's environment with its LD_PRELOAD
    assert [hook["env"] for hook in hooks] == [["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]] * 3, hooks
    # the library that refuses the kernel's RDMA core; the test run by a stock kernel shows what it is for
    preload = "LD_PRELOAD=/etc/libibverbs.d/uroce/liburoce-preload.so"
    assert spec["containerEdits"]["env"] == [preload, f"UROCE_SOCKET={daemon.socket}"], spec
    assert spec == json.loads(ctl("--socket", str(daemon.socket), "cdi").stdout)
    assert [p.name for p in spec_dir.iterdir()] == ["uroce.json"]


def wrong_use(daemon):
    socket = ("--socket", str(daemon.socket))
    done = ctl(*socket, "cdi", "surplus")
    assert done.returncode == 2 and "unexpected argument 'surplus'" in done.stderr, done
    done = ctl(*socket, "--output", "/dev/null", "show", "qp")
    assert done.returncode == 2 and "--output is only for cdi" in done.stderr, done
    done = ctl(*socket, "cdi", "--output", "/proc/nowhere/uroce.json")
    assert done.returncode == 1 and "cannot write /proc/nowhere/uroce.json" in done.stderr, done
    done = ctl("--socket", "/nowhere", "cdi")
    assert done.returncode == 1 and "no daemon at /nowhere" in done.stderr, done
    done = subprocess.run([lib.UROCE_RUN, "--socket", daemon.socket, "--container", "all"], text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 1 and "no state of a container" in done.stderr, done


def transfer(podman, *options):
    """ib_write_bw from one container to another; they share a network, because its ends connect by TCP first."""
    port = lib.tcp_port()
    tool = ("ib_write_bw", "-x", "1", "-F", "-n", "500", "-p", port, *perftool.PATIENT)
    server, name = podman.spawn("--network", "none", *options, *device("uroce0"), "rdma", *tool)
    lib.until("the server listens", lambda: container_kit.listening(server, podman, name, port), every=0.5)
    assert server.poll() is None, server.output()
    said = podman.run("--network", f"container:{name}", *options, *device("uroce1"), "rdma", *tool, "127.0.0.1")
    server.result(60)
    assert "BW average" in said, said


def seen(podman, *options):
    """Names of the devices in a container with these options."""
    script = "ls /sys/class/infiniband; ls /sys/class/net >&2; test -e /dev/null; ibv_devices | tail -n +3"
    lines = podman.run("--network", "none", *PLAIN, *options, "rdma", "sh", "-c", script).split("\n")
    return sorted({word for line in lines for word in line.split()[:1] if word.startswith("uroce")})


def as_root(runtime, daemon):
    podman = container_kit.Podman(runtime)
    podman("import", "-q", container_kit.image(), "rdma")
    with lib.case(f"{runtime}: ib_write_bw between unprivileged containers"):
        transfer(podman, *PLAIN)
    with lib.case(f"{runtime}: a container sees the devices that it requested, and its own interfaces"):
        assert seen(podman, *device("uroce1")) == ["uroce1"]
        assert seen(podman, *device("uroce1"), *device("uroce0")) == ["uroce0", "uroce1"]
        assert seen(podman, *device("all")) == ["uroce0", "uroce1"]
        assert podman.run("--network", "none", *device("all"), "rdma", "ls", "/sys/class/net").split() == ["lo"]
    with lib.case(f"{runtime}: the container's programs have the preloaded library"):
        assert "liburoce-preload.so" in podman.run("--network", "none", *PLAIN, *device("all"), "rdma", "grep", "uroce-preload",
                                                   "/proc/self/maps")
    with lib.case(f"{runtime}: counters in the container's sysfs are the daemon's"):
        path = "/sys/class/infiniband/uroce0/ports/1/counters/port_xmit_packets"
        sent = int(podman.run("--network", "none", *PLAIN, *device("all"), "rdma", "cat", path))
        assert sent > 0 and daemon.counters()
    with lib.case(f"{runtime}: a device that the file does not have, an image without libibverbs: refused with the reason"):
        assert "uroce9" in podman.refuses("--network", "none", *device("uroce9"), "rdma", "true")
        podman("import", "-q", bare_image(), "bare")
        said = podman.refuses("--network", "none", *device("uroce0"), "bare", "/bin/true")
        assert "libibverbs1" in said or (runtime == "crun" and "exit code: 1" in said), said  # crun hides a hook's output
    for name, links in (("/tmp", {"tmp": "/proc/1/root/var/tmp"}),
                        ("/etc/libibverbs.d", {"etc_libibverbs_d": "/proc/1/root/etc/libibverbs.d"})):
        with lib.case(f"{runtime}: an image whose {name} leads out of the container is refused"):
            podman("import", "-q", bare_image(**links), "hostile")
            said = podman.refuses("--network", "none", *device("uroce0"), "hostile", "/bin/true")
            assert f"{name} of the container" in said or (runtime == "crun" and ("exit code: 1" in said or "openat2" in said)), said
    return podman


def ordinary_user():
    """A user with ids for its containers, for this mount namespace."""
    with open("/etc/passwd", encoding="utf-8") as passwd, open("/etc/group", encoding="utf-8") as group:
        users, groups = passwd.read(), group.read()
    container_kit.replace("/etc/passwd", f"{users}rootless:x:{container_kit.USER}:{container_kit.USER}::/:/bin/sh\n")
    container_kit.replace("/etc/group", f"{groups}rootless:x:{container_kit.USER}:\n")
    for name in ("/etc/subuid", "/etc/subgid"):
        container_kit.replace(name, f"rootless:{container_kit.SUBIDS}\n")


def rootless(runtime):
    """Rootless podman, with mapped ids."""
    podman = container_kit.Podman(runtime, rootless=True)
    podman("import", "-q", container_kit.image(), "rdma")
    with lib.case(f"rootless podman with {runtime}: ib_write_bw between containers"):
        transfer(podman)
    with lib.case(f"rootless podman with {runtime}: the container sees the device that it requested"):
        assert seen(podman, *device("uroce1")) == ["uroce1"]


def main():
    lib.need_root()
    container_kit.private_mounts()
    container_kit.install()
    container_kit.private_null()
    spec_dir = container_kit.empty("/etc/cdi")
    container_kit.empty("/var/run/cdi")
    subprocess.run(["umount", "/sys/fs/cgroup/unified"], capture_output=True, check=False)  # crun takes no hybrid
    devs = [f"name=uroce{i},port=net_ring_p{end},addr=10.9.0.{101 + i}/24" for i, end in enumerate("ab")]
    daemon = lib.Daemon([], devs, None, ("--pair", "p", "--socket-mode", "0666"))
    daemon.socket.parent.chmod(0o755)
    with lib.case("urocectl cdi: the file has every device and the name all"):
        write_file(spec_dir, daemon)
    with lib.case("urocectl cdi, uroce-run --container: wrong use is refused with the reason"):
        wrong_use(daemon)
    podman = as_root("runc", daemon)
    as_root("crun", daemon)
    ordinary_user()
    for runtime in ("crun", "runc"):
        rootless(runtime)
    with lib.case("nothing is left, the daemon ends cleanly"):
        lib.until("no object is left", lambda: not any(daemon.objects().values()))
        daemon.stop()
    with lib.case("without a daemon the container does not start, and the error says why"):
        said = podman.refuses("--network", "none", *device("uroce0"), "rdma", "true")
        assert "no uroced at" in said, said
    lib.finish()


main()
