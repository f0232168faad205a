# SPDX-License-Identifier: BSD-3-Clause
"""Programs of Debian packages that are not installed, because their installation starts a server; roots of releases in
which uroce is installed."""
import ctypes
import functools
import os
import re
import subprocess

import lib
from debian_root import Root

# Pings from one program to another, as a user would; {0} is where the programs are, {1} and {2} are devices.
PINGS = """{0}uroce-run ibv_rc_pingpong -g 1 -d {1} >/tmp/server 2>&1 &
until {0}uroce-run ibv_rc_pingpong -g 1 -d {2} 127.0.0.1; do kill -0 $!; sleep 0.2; done
wait $!
"""
PONGS = "1000 iters in"  # in the output of both ends
# What makes a daemon's threads call more functions of libc, whose versions make different system calls.
EXERCISE = """for what in device port gid neigh client quota pd qp cq srq mr mw ah cm worker stats drops cm_stats daemon config trace; do
	BIN/urocectl show $what
done
BIN/urocectl capture uroce_lo start /tmp/frames.pcapng
PINGS
BIN/urocectl impair uroce_lo clear
BIN/urocectl capture uroce_lo stop
BIN/urocectl doctor || true
BIN/urocectl --json show daemon
"""


def exercise(programs):
    """Commands for the user's daemon, for assert_sandboxed(). programs: where they are, as in PINGS."""
    copied = PINGS.format(f"UROCE_MR_MODE=copy {programs}", "uroce_lo", "uroce_lo")
    return EXERCISE.replace("BIN/", programs).replace("PINGS", copied)


def assert_sandboxed(said):
    """The daemon that said this at the end of exercise() has filters, which have refused nothing."""
    found = re.findall(r'"sandbox": ?"(\w+)"', said) + re.findall(r'"refused_calls": ?(\d+)', said)
    assert found == ["on", "0"], (found, said[-2000:])


@functools.cache
def extracted(package):
    """A folder with the package's files, or None if it cannot be downloaded."""
    folder = lib.tmpdir()
    get = f"apt-get -qq -o APT::Sandbox::User=root download {package} && dpkg-deb -x {package}_*.deb ."
    done = subprocess.run(["sh", "-c", get], cwd=folder, capture_output=True, check=False)
    return folder if done.returncode == 0 else None


class Bare(Root):
    """A root for what is installed without compiling."""

    def install(self, *packages):
        self.run("sh", "-ec", f"apt-get -q update\napt-get -q -y install {' '.join(packages)}")

    def apart(self, *argv):
        """run() in a separate network namespace."""
        libc = ctypes.CDLL(None, use_errno=True)
        name = lib.netns()

        def enter():
            with open(f"/run/netns/{name}", "rb") as there:
                if libc.setns(there.fileno(), 0):
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self.preexec = enter
        try:
            return self.run(*argv)
        finally:
            self.preexec = None
