#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""pyverbs of any rdma-core: a message from the first of two devices to the second, posted by ibv_wr_*.

smoke.py DEVICE DEVICE"""
import sys

import pyverbs.device
from constants import e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QPAttr, QPCap, QPEx, QPInitAttrEx
from pyverbs.wr import SGE, RecvWR

GID, SIZE = 1, 4096
TEXT = b"from pyverbs"


class End:
    """One device with a connected QP."""

    def __init__(self, name):
        self.ctx = pyverbs.device.Context(name=name)
        assert self.ctx.query_port(1).state == e.IBV_PORT_ACTIVE, name
        self.pd = PD(self.ctx)
        self.mr = MR(self.pd, SIZE, e.IBV_ACCESS_LOCAL_WRITE)
        self.cq = CQ(self.ctx, 16)
        cap = QPCap(max_send_wr=4, max_recv_wr=4, max_send_sge=1, max_recv_sge=1)
        init = QPInitAttrEx(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap, pd=self.pd, sq_sig_all=1,
                            comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                            send_ops_flags=e.IBV_QP_EX_WITH_SEND)
        self.qp = QPEx(self.ctx, init)

    def connect(self, peer):
        attr = QPAttr(port_num=1)
        attr.dest_qp_num = peer.qp.qp_num
        attr.path_mtu = e.IBV_MTU_1024
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 18, 7, 7
        route = GlobalRoute(dgid=peer.ctx.query_gid(1, GID), sgid_index=GID)
        attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=route)
        self.qp.to_rts(attr)

    def completion(self):
        count = 0
        while not count:
            count, done = self.cq.poll(1)
        assert done[0].status == e.IBV_WC_SUCCESS, done[0]
        return done[0]


def main(names):
    sender, receiver = (End(name) for name in names)
    sender.connect(receiver)
    receiver.connect(sender)
    receiver.qp.post_recv(RecvWR(wr_id=1, num_sge=1, sg=[SGE(receiver.mr.buf, SIZE, receiver.mr.lkey)]))
    sender.mr.write(TEXT, len(TEXT))
    sender.qp.wr_start()
    sender.qp.wr_id = 2
    sender.qp.wr_send()
    sender.qp.wr_set_sge(SGE(sender.mr.buf, len(TEXT), sender.mr.lkey))
    sender.qp.wr_complete()
    assert sender.completion().wr_id == 2
    assert receiver.completion().byte_len == len(TEXT)
    assert receiver.mr.read(len(TEXT), 0) == TEXT
    print("pyverbs: good")


main(sys.argv[1:3])
