# SPDX-License-Identifier: BSD-3-Clause
"""Pairs flows into connections. A frame names only its destination QPN, so pairs are learned."""
import collections


def near(psn, at):
    """The number closest to at whose low 24 bits are psn (WIRE-06)."""
    return at + ((psn - at + 0x800000) & 0xFFFFFF) - 0x800000


def source_port(lqpn, rqpn):
    """The UDP source port by the kernel's convention (WIRE-02; rdma_calc_flow_label)."""
    v = lqpn * rqpn
    v ^= v >> 20
    v ^= v >> 40
    v &= 0xFFFFF
    return (v & 0x3FFF) ^ ((v & 0xFC000) >> 14) | 0xC000


def flow_of(frame):
    return frame.src, frame.dst, frame.qpn


def score(there, back):
    """Rates back as the reverse of there: responses to PSNs requested before, minus other responses."""
    asked, good = set(), 0
    for frame, is_back in merged(there, back):
        if frame.request and not is_back:
            asked.add(frame.psn)
        elif is_back and frame.rc and not frame.request and frame.opcode in (17, 18, 13, 16):
            good += 1 if frame.psn in asked else -1
    return good


def merged(there, back):
    both = [(f, False) for f in there] + [(f, True) for f in back]
    return sorted(both, key=lambda pair: pair[0].number)


def learn(frames):
    """Pairs the flows of RC frames: a list of (flow there, flow back or None), each flow in one pair."""
    flows = collections.defaultdict(list)
    for frame in frames:
        if frame.rc:
            flows[flow_of(frame)].append(frame)
    ranked = []
    for a in flows:
        for b in flows:
            if a <= b and (a[0], a[1]) == (b[1], b[0]) and (a != b or a[0] == a[1]):
                hashed = flows[a][0].sport == flows[b][0].sport == source_port(a[2], b[2])
                value = score(flows[a], flows[b]) + score(flows[b], flows[a])
                ranked.append((hashed, value, a, b))
    pairs, left = [], set(flows)
    for hashed, value, a, b in sorted(ranked, reverse=True, key=lambda r: r[:2]):
        if {a, b} <= left and (hashed or value > 0):
            pairs.append((a, b))
            left -= {a, b}
    return pairs + [(a, None) for a in left]
