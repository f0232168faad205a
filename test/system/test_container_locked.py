#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""doc/ci.md's pod: an ordinary user without capabilities, no-new-privileges, a read-only root, and Docker's default
seccomp profile, which refuses namespaces and mounts. The daemon runs in the same pod."""
import container_kit
import lib
import perftool

USER = 1000
LOCKED = ("--user", f"{USER}:{USER}", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--read-only",
          "--read-only-tmpfs=false")


class Pod:
    """Containers with this machine's /usr that share a network, processes (shareProcessNamespace: true) and a volume on /tmp
    (emptyDir)."""

    def __init__(self, podman):
        self.podman = podman
        self.profile = container_kit.docker_profile()
        self.shared = lib.tmpdir()
        self.shared.chmod(0o777)
        self.first = None

    def container(self, script):
        """Starts a container that runs the script."""
        shared = [f"--{space}=container:{self.first}" for space in ("network", "pid")] if self.first else ["--network=none"]
        proc, name = self.podman.spawn(
            *shared, *LOCKED, "--security-opt", f"seccomp={self.profile}", *container_kit.usr(),
            f"-v={lib.public_copy()}:/opt:ro", f"-v={self.shared}:/tmp", "--env",
            "PATH=/opt/app/uroced:/opt/app/uroce-run:/opt/app/urocectl:/usr/bin:/usr/sbin", "--rootfs", container_kit.skeleton(),
            "sh", "-c", script)
        self.first = self.first or name
        return proc


def said(pod, script):
    return pod.container(script).result(100)


def main():
    lib.need_root()
    container_kit.private_mounts()
    container_kit.install()
    pod = Pod(container_kit.Podman("runc"))
    with lib.case("uroced without options"):
        daemon = pod.container("exec uroced")
        lib.until("uroced is ready", lambda: "uroced: ready" in daemon.output() or daemon.poll() is not None)
        assert "device uroce_lo on udp:lo" in daemon.output(), daemon.output()
    with lib.case("namespaces are refused, and uroce-run uses the preloaded library"):
        out = said(pod, "unshare -Um true; UROCE_VERBOSE=1 uroce-run ibv_devices; grep -E 'Cap(Eff|Bnd)|Seccomp:|NoNew' "
                   "/proc/self/status; ! touch /x")
        assert "unshare failed: Operation not permitted" in out, out
        assert "liburoce-preload.so with files in /dev/shm/" in out and "uroce_lo" in out, out
        assert "CapBnd:\t0000000000000000" in out and "Seccomp:\t2" in out and "NoNewPrivs:\t1" in out, out
        assert "Read-only file system" in out, out
    tool = "ib_write_bw -d uroce_lo -x 1 -F -n 500 " + " ".join(perftool.PATIENT)
    listening = ("until grep -q ':4853 0*:0000 0A' /proc/net/tcp /proc/net/tcp6; do kill -0 $!; sleep 0.1; done")
    with lib.case("perftest beside the daemon"):
        out = said(pod, f"set -e; uroce-run {tool} & {listening}; uroce-run {tool} 127.0.0.1; wait $!")
        assert out.count("BW average") == 2, out
    with lib.case("rping: connections by rdma_cm"):
        out = said(pod, "set -e; uroce-run rping -s -a 127.0.0.1 -C 5 -v & until urocectl show cm | grep -q LISTEN; do "
                   "kill -0 $!; sleep 0.1; done; uroce-run rping -c -a 127.0.0.1 -C 5 -v; wait $!")
        assert out.count("ping data: ") == 10, out
    with lib.case("the daemon ends cleanly"):
        daemon.term()
    lib.finish()


main()
