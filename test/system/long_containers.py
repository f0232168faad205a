#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the commands of doc/containers.md, 'With podman and two mounts', literally, in a mount namespace where /opt and /run/uroce
are empty folders."""
import os
import resource

import lib

DOC = lib.HERE.parent.parent / "doc/containers.md"
# Adapts the test machine and gives podman a separate folder.
PRELUDE = """set -e
mount -t tmpfs tmpfs /opt
mkdir -p /run/uroce
mount -t tmpfs tmpfs /run/uroce
umount /sys/fs/cgroup/unified 2>/dev/null || true # crun takes no hybrid of cgroups v1 and v2
podman() {{
	set -- "$@"
	verb=$1
	shift
	limits=
	[ "$verb" != run ] || limits="--ulimit nofile={files}:{files} --ulimit nproc={procs}:{procs}"
	command podman --root {folder}/root --runroot {folder}/run --cgroup-manager cgroupfs \\
		$verb $limits "$@"
}}
trap 'command kill $(jobs -p)' EXIT
"""


def commands():
    """The block under the heading."""
    text = DOC.read_text().split("## With podman and two mounts\n", 1)[1]
    return text.split("```sh\n", 1)[1].split("```\n", 1)[0]


def limit(which):
    hard = resource.getrlimit(which)[1]
    return 1 << 20 if hard == resource.RLIM_INFINITY else hard


def main():
    lib.need_root()
    folder = lib.tmpdir()
    os.symlink(lib.BUILD, folder / "build")
    prelude = PRELUDE.format(folder=folder, files=limit(resource.RLIMIT_NOFILE),
                             procs=min(limit(resource.RLIMIT_NPROC), 4096))
    script = folder / "script"
    script.write_text(prelude + f"cd {folder}\n" + commands())
    with lib.case("doc/containers.md, 'With podman and two mounts', unchanged"):
        proc = lib.spawn(["unshare", "-m", "bash", script])
        rc = proc.wait(600)
        said = proc.output()
        assert rc == 0, said
        assert said.count("PORT_ACTIVE") >= 2, said
        assert "1000 iters in" in said, said
    lib.finish()


main()
