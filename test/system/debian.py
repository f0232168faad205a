# SPDX-License-Identifier: BSD-3-Clause
"""Programs of Debian packages that are not installed, because their installation starts a server."""
import functools
import subprocess

import lib


@functools.cache
def extracted(package):
    """A folder with the package's files, or None if it cannot be downloaded."""
    folder = lib.tmpdir()
    get = f"apt-get -qq -o APT::Sandbox::User=root download {package} && dpkg-deb -x {package}_*.deb ."
    done = subprocess.run(["sh", "-c", get], cwd=folder, capture_output=True, check=False)
    return folder if done.returncode == 0 else None
