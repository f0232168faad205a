#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Installs what scripts/release.sh makes without compiling: the tarball, unpacked by an ordinary user in roots that have
nothing but libibverbs and its examples; the image, as daemon and client in two containers of podman.

release_install.py [RELEASE ..]  in roots of these releases
release_install.py arm64         tarball and packages for arm64, by a cross build; programs run by qemu-user

UROCE_RELEASE=DIR: tests what is in this folder already."""
import os
import pathlib
import re
import shutil
import sys
import time

import container_kit
import debian
import debian_root
import lib

RELEASES = ("bullseye", "bookworm", "trixie", "sid")
USER = 1000
IMAGE_MB = 60  # at most
# of libc, or found in ../lib
LIBRARIES = r"lib(c|m|dl|pthread|isal|ibverbs|rdmacm)\.so\.\d+|ld-linux-[\w-]*\.so\.\d"
# some of lib/dpdk/meson.build's
DRIVERS = ("net_af_packet", "net_af_xdp", "net_memif", "net_tap", "net_ena", "net_virtio", "net_i40e", "net_ice", "net_ixgbe")
# as in README.md
UNPACKED = "tar -xf uroce-*.tar.xz\ncd uroce-*/\nbin/uroced --daemon\n"


def made(*what):
    """The folder with what release.sh makes."""
    if "UROCE_RELEASE" in os.environ:
        return pathlib.Path(os.environ["UROCE_RELEASE"])
    output = lib.tmpdir()
    lib.sh("env", f"UROCE_ROOTS={debian_root.ROOTS}", debian_root.SOURCE / "scripts/release.sh", "--output", output, *what,
           timeout=3000)
    return output


def only(folder, pattern):
    found = list(folder.glob(pattern))
    assert len(found) == 1, (pattern, found)
    return found[0]


def check_programs(tarball, machine="X86-64"):
    """No program needs a library besides libc's, which are in every root, and libibverbs'; drivers are in the daemon."""
    folder = lib.tmpdir()
    lib.sh("tar", "-xf", tarball, "-C", folder)
    programs = [path for path in folder.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    assert {path.name for path in programs} >= {"uroced", "urocectl", "uroce-run", "uroce-bench", "rcdata"}, programs
    for path in programs:
        assert machine in lib.sh("readelf", "-h", "-W", path), path
        for needed in re.findall(r"\(NEEDED\).*\[(.+)\]", lib.sh("readelf", "-d", "-W", path)):
            assert re.fullmatch(LIBRARIES, needed), f"{path.name} needs {needed}"
    if machine != "X86-64":
        return  # DPDK has fewer drivers there
    drivers = re.findall(rb'PMD_INFO_STRING= {"name": "(\w+)"', only(folder, "*/bin/uroced").read_bytes())
    assert set(DRIVERS) <= {driver.decode() for driver in drivers}, drivers


def unpacked(release, tarball):
    root = debian.Bare.made(lib.tmpdir() / release, release)
    home = root.folder / "home/user"
    home.mkdir()
    shutil.copy(tarball, home)
    os.chown(home, USER, USER)
    start = time.time()
    root.install("ibverbs-utils", "xz-utils")
    installed = time.time()
    pings = debian.PINGS.format("bin/", "uroce_lo", "uroce_lo")
    said = root.apart("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "env", "HOME=/home/user", "bash", "-ec",
                      f"cd\n{UNPACKED}{pings}echo transferred at $EPOCHREALTIME\n{debian.exercise('bin/')}")
    end = float(re.search(r"^transferred at (\S+)$", said, re.MULTILINE)[1])
    print(f"# {release}: {installed - start:.1f} s to install libibverbs and its examples, then {end - installed:.1f} s to "
          "unpack, start the daemon, and for two programs to transfer")
    assert debian.PONGS in said, said
    debian.assert_sandboxed(said)


def in_containers(image):
    """The daemon in one container, both ends of a ping-pong in another."""
    podman = container_kit.Podman("runc")
    locked = ("--user", f"{USER}:{USER}", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--read-only", "--network",
              "none")
    loaded = podman("load", "-q", "-i", image, timeout=600).split()[-1]
    lib.processes.at_end(podman, "rmi", "-f", loaded)
    run = lib.tmpdir()
    os.chown(run, USER, USER)
    share = ("-v", f"{run}:/run/uroce")
    devs = [f"--dev=name=uroce{i},port=net_ring_p{end},addr=10.9.0.10{i}/24" for i, end in enumerate("ab")]
    daemon, _ = podman.spawn(*locked, *share, loaded, "--pair", "p", *devs, "--socket", "/run/uroce/uroced.sock")
    lib.until("uroced is ready", lambda: "uroced: ready" in daemon.output() or daemon.poll() is not None)
    assert daemon.poll() is None, daemon.output()
    said = podman.run(*locked, *share, "--tmpfs", "/tmp", "--entrypoint", "sh", loaded, "-ec",
                      debian.PINGS.format("", "uroce0", "uroce1"), timeout=lib.processes.HANGS_S)
    assert debian.PONGS in said, said


def kubernetes(image):
    """The image of the DaemonSet has what its two containers start."""
    podman = container_kit.Podman("runc")
    loaded = podman("load", "-q", "-i", image, timeout=600).split()[-1]
    lib.processes.at_end(podman, "rmi", "-f", loaded)
    said = podman.run("--read-only", "--cap-drop", "all", "--network", "none", loaded, "sh", "-ec",
                      "uroce-device-plugin --help; uroced --version; uroce-run --help; urocectl --help")
    assert "--kubelet-dir" in said, said


ARM64 = """cd /root
tar -xf uroce-*-linux-aarch64.tar.xz
cd uroce-*/
bin/uroced --version
bin/urocectl --help | head -3
bin/uroced --no-huge --pair p --dev name=uroce0,port=net_ring_pa,addr=10.9.0.1/24 >/tmp/uroced 2>&1 &
until grep -q 'uroced: ready' /tmp/uroced; do kill -0 $! || { cat /tmp/uroced; exit 1; }; sleep 0.5; done
bin/urocectl show device
bin/uroce-run --view preload ibv_devinfo
""" + debian.PINGS.format("bin/", "uroce0", "uroce0").replace("uroce-run", "uroce-run --view preload") + "cat /tmp/server"


def arm64():
    """By qemu-user, which has no seccomp filters, so the programs' devices are shown by the preloaded library."""
    if not debian_root.ForeignRoot.works():
        lib.skip("no binfmt_misc in a user namespace, which Linux 6.7 brought")
    with lib.case("arm64: release.sh makes a tarball and packages"):
        output = made("--arch", "arm64", "tarball", "deb12")
        tarball = only(output, "uroce-*-linux-aarch64.tar.xz")
        assert only(output, "debian12/uroce_*_arm64.deb") and only(output, "debian12/liburoce-ibverbs_*_arm64.deb")
    with lib.case("arm64: programs are of that architecture, and need libc and libibverbs only"):
        check_programs(tarball, "AArch64")
    root = debian_root.ForeignRoot.made(lib.tmpdir() / "arm64", "bookworm", "--architectures=amd64,arm64",
                                        "--include=qemu-user-static,xz-utils,libibverbs1:arm64,librdmacm1:arm64,ibverbs-utils:arm64")
    shutil.copy(tarball, root.folder / "root")
    with lib.case("arm64: the daemon starts, Debian's ibv_devinfo shows its device, and two programs transfer"):
        said = root.run("bash", "-ec", ARM64)
        assert "hca_id:\turoce0" in said and "PORT_ACTIVE" in said and said.count(debian.PONGS) == 2, said
    lib.finish()


def main(releases):
    lib.need_root()
    if releases == ["arm64"]:
        arm64()
        return
    container_kit.private_mounts()
    container_kit.install()
    with lib.case("release.sh makes a tarball and an image"):
        output = made("tarball", "image")
        tarball, image = only(output, "uroce-*-linux-*.tar.xz"), only(output, "uroce-*-image-*.tar")
        for path in (tarball, image, only(output, "uroce-*-kubernetes-*.tar")):
            print(f"# {path.name}: {path.stat().st_size / 1e6:.1f} MB")
        assert image.stat().st_size <= IMAGE_MB * 1e6
    with lib.case("programs need libc and libibverbs only, and have drivers"):
        check_programs(tarball)
    for release in releases:
        with lib.case(f"{release}: an ordinary user unpacks the tarball and two programs transfer; system calls are filtered"):
            unpacked(release, tarball)
    with lib.case("a daemon in a container of the image serves programs in another"):
        in_containers(image)
    with lib.case("the image for Kubernetes has the device plugin"):
        kubernetes(only(output, "uroce-*-kubernetes-*.tar"))
    lib.finish()


main(sys.argv[1:] or RELEASES)
