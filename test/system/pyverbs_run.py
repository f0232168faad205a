# SPDX-License-Identifier: BSD-3-Clause
"""Unpacks and runs pyverbs' own tests from the documentation of Debian's rdma-core."""
import gzip
import pathlib
import re
import shlex
import shutil

import lib

PACKAGED = pathlib.Path("/usr/share/doc/rdma-core/tests")


def unpack(packaged=PACKAGED):
    """A folder in which `python3 tests/run_tests.py` works. packaged: the tests as the package has them."""
    folder = lib.tmpdir()
    (folder / "tests").mkdir()
    for path in packaged.iterdir():
        if path.suffix == ".gz":
            (folder / "tests" / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        else:
            shutil.copy(path, folder / "tests" / path.name)
    if lib.UID:
        (folder / "tests").chmod(0o755)
        folder.chmod(0o755)
    return folder


def verdicts(text):
    """Full name of a test -> ok, FAIL, ERROR or skipped 'why'. Ignores output of the tests themselves."""
    found = {}
    body = re.split(r"^={70}$|^-{70}$", text, flags=re.M)[0]
    for chunk in re.split(r"^(?=test_\w+ \()", body, flags=re.M):
        name = re.match(r"(test_\w+) \((\S+)\)", chunk)
        ends = re.findall(r"(ok|FAIL|ERROR|skipped .*)$", chunk, re.M)
        if name and ends:
            found[name[2] if name[2].endswith(name[1]) else f"{name[2]}.{name[1]}"] = ends[-1]
    return found


def run(side, folder, names=(), timeout=120):
    """Runs the tests whose names contain one of names (or match it, if it has a *), or all tests; returns name ->
    verdict."""
    wanted = [word for name in names for word in ("-k", shlex.quote(name))]
    script = (f"cd {folder} && exec /usr/bin/python3 tests/run_tests.py --dev {side.dev} "
              f"--port 1 --gid 1 -v " + " ".join(wanted))
    proc = side.spawn(["sh", "-c", script], env={"PYTHONDONTWRITEBYTECODE": "1"})
    rc = proc.wait(timeout)
    found = verdicts(proc.output())
    bad = {name: what for name, what in found.items() if what in ("FAIL", "ERROR")}
    assert rc == 0 and found and not bad, f"status {rc}, {bad}\n{proc.output()[-6000:]}"
    return found
