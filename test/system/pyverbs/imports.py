# SPDX-License-Identifier: BSD-3-Clause
"""Imports a context by its descriptor in another process, and tests what the daemon refuses. Run under uroce-run:
imports.py DEVICE. It starts itself again with descriptor and handles."""
import errno
import os
import subprocess
import sys

from constants import e
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError


def refused(code, make):
    try:
        make()
    except PyverbsRDMAError as ex:
        assert ex.error_code == code, ex
        return
    raise AssertionError(f"not refused with {code}")


def importer(fd, pd_handle, mr_handle, rkey):
    get_device_list()  # loads the provider, which the descriptor needs
    ctx = Context(cmd_fd=fd)
    pd = PD(ctx, handle=pd_handle)
    mr = MR(pd, handle=mr_handle)
    assert mr.rkey == rkey, (mr.rkey, rkey)
    refused(errno.ENOENT, lambda: PD(ctx, handle=pd_handle + 77))
    refused(errno.ENOENT, lambda: MR(pd, handle=mr_handle + 77))
    other = PD(ctx)
    refused(errno.EINVAL, lambda: MR(other, handle=mr_handle))
    other.close()
    mr.unimport()
    pd.unimport()
    for _ in range(500):  # more than the daemon has PDs
        PD(ctx, handle=pd_handle).unimport()
    null = os.open("/dev/null", os.O_RDWR)
    refused(errno.EINVAL, lambda: Context(cmd_fd=null))
    file = os.open(__file__, os.O_RDONLY)
    refused(errno.EINVAL, lambda: Context(cmd_fd=file))


def main():
    if len(sys.argv) > 2:
        importer(*(int(word) for word in sys.argv[1:]))
        return
    ctx = Context(name=sys.argv[1])
    pd = PD(ctx)
    mr = MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)
    fd = os.dup(ctx.cmd_fd)
    os.set_inheritable(fd, True)
    words = [str(n) for n in (fd, pd.handle, mr.handle, mr.rkey)]
    subprocess.run([sys.executable, __file__, *words], close_fds=False, check=True)
    mr.close()
    pd.close()
    print("imports: good")


main()
