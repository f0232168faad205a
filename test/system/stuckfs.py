# SPDX-License-Identifier: BSD-3-Clause
"""A FUSE file system with a server that goes silent, after include/uapi/linux/fuse.h. Its one folder contains every
file name. The server never replies to the operations named in a file's name (flush, release, read, write, statfs,
getattr). Closing such a file or touching its pages blocks forever; not even SIGKILL ends that. For files named
"hole" the inner pages wait for StuckFs.answer; for files named "slow" each inner page arrives SLOW_S late."""
import ctypes
import os
import select
import signal
import struct
import subprocess
import time

import lib

LOOKUP, FORGET, GETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FLUSH, INIT, INTERRUPT, BATCH_FORGET = (
    1, 2, 3, 14, 15, 16, 17, 18, 25, 26, 36, 42)
NAMES = {"flush": FLUSH, "release": RELEASE, "read": READ, "write": WRITE, "statfs": STATFS,
         "getattr": GETATTR}
SIZE = 1 << 20
FOREVER = 1 << 30
ENOSYS = 38
MNT_DETACH = 2
SLOW_S = 0.3


def attributes(node):
    folder = node == 1
    mode = 0o40777 if folder else 0o100666
    return struct.pack("<6Q3I7I", node, 0 if folder else SIZE, 0, 0, 0, 0, 0, 0, 0, mode, 1,
                       os.geteuid(), os.getegid(), 0, 4096, 0)


class Late:
    """Reads answered later: after the signal or after SLOW_S."""

    def __init__(self, fuse):
        self.fuse, self.holes, self.slow = fuse, [], []
        self.answered = False
        signal.signal(signal.SIGUSR1, self.answer)

    def answer(self, *_):
        self.answered = True
        while self.holes:
            self.reply(*self.holes.pop())

    def reply(self, unique, size):
        os.write(self.fuse, struct.pack("<IiQ", 16 + size, 0, unique) + bytes(size))

    def takes(self, name, unique, offset, size):
        if offset in (0, SIZE - 4096):
            return False
        if "slow" in name:
            self.slow.append((time.monotonic() + SLOW_S, unique, size))
        elif "hole" in name and not self.answered:
            self.holes.append((unique, size))
        else:
            return False
        return True

    def wait(self):
        """Waits until the FUSE descriptor is readable; sends due replies."""
        while True:
            now = time.monotonic()
            while self.slow and self.slow[0][0] <= now:
                self.reply(*self.slow.pop(0)[1:])
            rest = self.slow[0][0] - now if self.slow else None
            if select.select([self.fuse], [], [], rest)[0]:
                return


def serve(fuse):
    """Serves requests until the unmount."""
    names = {}
    late = Late(fuse)
    while True:
        try:
            late.wait()
            msg = os.read(fuse, 1 << 20)
        except OSError:
            return
        op, unique, node = struct.unpack_from("<IQQ", msg, 4)
        body, error = b"", 0
        if op in (FORGET, INTERRUPT, BATCH_FORGET):
            continue
        if any(NAMES[word] == op for word in NAMES if word in names.get(node, "")):
            continue
        if op == INIT:
            body = struct.pack("<4I2H2I2HI7I", 7, 31, 0, 0, 16, 12, 1 << 17, 1, 1, 0, 0, *[0] * 7)
        elif op == LOOKUP:
            name = msg[40:-1].decode()
            new = next((n for n, known in names.items() if known == name), len(names) + 2)
            names[new] = name
            body = struct.pack("<4Q2I", new, 0, FOREVER, FOREVER, 0, 0) + attributes(new)
        elif op == GETATTR:
            body = struct.pack("<Q2I", FOREVER, 0, 0) + attributes(node)
        elif op == OPEN:
            body = struct.pack("<QII", 0, 0, 0)
        elif op == READ:
            _, offset, size = struct.unpack_from("<QQI", msg, 40)
            if late.takes(names.get(node, ""), unique, offset, size):
                continue
            body = bytes(size)
        elif op == WRITE:
            body = struct.pack("<II", struct.unpack_from("<QQI", msg, 40)[2], 0)
        elif op == STATFS:
            body = struct.pack("<5Q10I", *[0] * 5, 4096, 255, 4096, *[0] * 7)
        elif op not in (FLUSH, RELEASE):
            error = -ENOSYS
        os.write(fuse, struct.pack("<IiQ", 16 + len(body), error, unique) + body)


class StuckFs:
    """The mount and its server process. Users of its files may hang until the server ends."""

    def __init__(self):
        self.path = lib.tmpdir() / "mnt"
        self.path.mkdir()
        self.path.parent.chmod(0o711)
        libc = ctypes.CDLL(None, use_errno=True)
        fuse = os.open("/dev/fuse", os.O_RDWR)
        options = (f"fd={fuse},rootmode=40000,user_id={os.geteuid()},group_id={os.getegid()},"
                   "allow_other")
        if libc.mount(b"stuck", str(self.path).encode(), b"fuse", 6, options.encode()):
            raise OSError(ctypes.get_errno(), "mount")
        self.pid = os.fork()
        if self.pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            try:
                serve(fuse)
            finally:
                os._exit(0)
        os.close(fuse)
        lib.at_end(self.end)

    def file(self, hangs):
        """Path of a new file that hangs in the named operation."""
        return self.path / f"{hangs}-{lib.unique('f')}"

    def answer(self):
        """Completes reads of holes, pending and future."""
        os.kill(self.pid, signal.SIGUSR1)

    def end(self):
        """Ends the server: all pending operations fail with an error."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0
            subprocess.run(["umount", "-l", self.path], capture_output=True, check=False)


def available():
    return os.path.exists("/dev/fuse") and "\tfuse\n" in open(
        "/proc/filesystems", encoding="ascii").read()
