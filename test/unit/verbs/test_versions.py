#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The provider in a process whose libibverbs is unknown to it: it says so in one line and does nothing.

test_versions.py PROVIDER FAKE_OF_ABI_99 FAKE_WITHOUT_QP_EX FAKE_OF_ABI_33"""
import errno
import os
import subprocess
import sys
import unittest

PROVIDER, FAKE_99, FAKE_NO_EX, FAKE_33 = (os.path.abspath(path) for path in sys.argv[1:5])
PROGRAM = """
import ctypes, sys
fake = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
ctypes.CDLL(sys.argv[2])
print(fake.fake_registered() & 255)
if len(sys.argv) > 3:
    print(fake.fake_open(int(sys.argv[3])))
"""
AS_KNOWN, LONGER_CONTEXT, MORE_OPERATIONS = range(3)


def sanitizer():
    """The run-time that a sanitized provider needs first in the process."""
    if os.environ.get("UROCE_SANITIZED") != "1":
        return {}
    libs = [subprocess.check_output(["gcc", f"-print-file-name=lib{name}.so"], text=True).strip() for name in ("asan", "ubsan")]
    return {"LD_PRELOAD": " ".join(libs), "ASAN_OPTIONS": "detect_leaks=0"}


class Versions(unittest.TestCase):
    def load(self, fake, *mode):
        """Output, and what was said on standard error without the hooks' complaints."""
        done = subprocess.run(["/usr/bin/python3", "-c", PROGRAM, fake, PROVIDER, *map(str, mode)], text=True, capture_output=True,
                              env={**os.environ, **sanitizer(), "UROCE_SOCKET": "/nonexistent"}, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = [line for line in done.stderr.splitlines() if "cannot redirect calls" not in line]
        return done.stdout.split(), said, done.stderr

    def test_an_unknown_private_abi_is_named(self):
        out, said, everything = self.load(FAKE_99)
        self.assertEqual(out, ["0"])
        self.assertEqual(len(said), 1, said)
        self.assertIn("no devices: libibverbs.so.1 has private ABI 99; uroce knows 33, 34, 57, 59, 64, 65", said[0])
        self.assertNotIn("redirect", everything)  # nothing of this libibverbs is changed

    def test_queue_pairs_without_a_known_end_are_refused(self):
        out, said, everything = self.load(FAKE_NO_EX)
        self.assertEqual(out, ["0"])
        self.assertEqual(len(said), 1, said)
        self.assertIn("libibverbs.so.1 (private ABI 34, like rdma-core 33) has unknown queue pairs", said[0])
        self.assertNotIn("redirect", everything)

    def test_contexts_of_another_layout_are_refused(self):
        for mode, what in ((LONGER_CONTEXT, "contexts"), (MORE_OPERATIONS, "operations")):
            out, said, _ = self.load(FAKE_33, mode)
            self.assertEqual(out, ["1", str(errno.EPROTONOSUPPORT)])
            self.assertEqual(len(said), 1, said)
            self.assertIn(f"libibverbs.so.1 (private ABI 33, like rdma-core 33) has unknown {what}", said[0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
