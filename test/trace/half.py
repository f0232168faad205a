# SPDX-License-Identifier: BSD-3-Clause
"""The rules of one direction of an RC connection: requests one way, responses the other.

PSNs here are unwrapped, not modulo 2^24: see pairs.near.
"""
import collections

import frames
from pairs import near

# RNR timer values (NAK-11) in microseconds
RNR_US = (655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920, 2560, 3840,
          5120, 7680, 10240, 15360, 20480, 30720, 40960, 61440, 81920, 122880, 163840, 245760,
          327680, 491520)
MTUS = (256, 512, 1024, 2048, 4096)
PROBE_NS = 100_000  # minimum silence before a probe (lib/qp/loss.h)
OPENS = {0: "SEND", 6: "WRITE"}                        # FIRST
CONTINUES = {1: "SEND", 2: "SEND", 3: "SEND", 22: "SEND", 7: "WRITE", 8: "WRITE", 9: "WRITE"}
CLOSES = {2, 3, 22, 8, 9}
TAKES_RECV = {0, 4, 5, 9, 11, 23}                      # may find an empty receive queue (NAK-10)
WHOLE = {2, 3, 8, 9, 15, 22}                           # payload must not be empty


class Read:
    """A READ request; its responses have PSNs start .. end - 1."""

    def __init__(self, frame, start, mtu):
        self.start, self.frame = start, frame
        self.address, _, self.length = frame.reth
        self.end = start + max(1, -(-self.length // (mtu or 4096)))
        self.seen = start  # first response not yet seen
        self.next = start  # PSN after the last response seen
        self.back = start  # where it continues behind responses to a duplicate of its first part


class Half:
    """Call request() and response() in capture order, then end()."""

    def __init__(self, mtu, lossy, timeout_ns, report):
        self.mtu, self.lossy, self.timeout_ns, self.report = mtu, lossy, timeout_ns, report
        self.next = None          # PSN after the last one sent
        self.high = None          # PSN after the highest one sent
        self.sent = {}            # PSN -> last request frame with it
        self.reads = []
        self.naked = set()        # NAKed PSNs not yet retransmitted
        self.una, self.progress = None, 0
        self.acked = None         # highest PSN in an ACK
        self.message = None       # unfinished message: (kind, bytes left or None)
        self.rnr = {}             # PSN -> (time, frame) of a pending RNR NAK
        self.seq_naks = {}        # NAKed PSN -> furthest PSN received by then
        self.furthest = 0         # furthest PSN received
        self.fatal = None
        self.wanted = {}          # PSN -> request with AckReq, no response yet
        self.atomics = {}
        self.epsn = None          # the responder's, if it received all captured frames
        self.waits = False        # responder sent an RNR NAK for epsn
        self.gaps = set()
        self.malformed = set()    # PSNs of malformed requests (24 bits)
        self.counts = collections.Counter()

    # --- requests ---

    def request(self, f):
        if self.next is None:
            self.next = self.high = self.una = self.epsn = f.psn + (1 << 24)
        psn = near(f.psn, self.next)
        if psn == self.next:
            pass
        elif psn > self.next:
            if psn > max(self.una, self.high):
                self.report(f, "REQ-05-psn", self.next & 0xFFFFFF, f.psn)
            elif psn != self.high and psn > self.una:
                self.report(f, "REQ-05-psn", f"{self.next & 0xFFFFFF} or acknowledged", f.psn)
        else:
            self.rewound(f, psn)
        again = psn < self.high
        self.counts["retransmitted_packets"] += again
        span = self.span(f, psn)
        if again:
            self.same(f, psn)
        else:
            self.sequence(f)
        self.arrives(f, psn, span)
        self.next = psn + span
        self.high = max(self.high, self.next)
        self.naked.discard(psn)
        self.sent[psn] = f
        if f.ackreq and (self.fatal is None or psn < self.fatal):
            self.wanted[psn] = f

    def span(self, f, psn):
        """Number of PSNs that a request uses; records a READ."""
        if f.opcode != 12:
            return 1
        read = Read(f, psn, self.mtu)
        self.reads = [*self.reads[-600:], read]
        return read.end - psn

    def reading(self, psn):
        """READs with a response of this PSN, oldest first."""
        return [r for r in self.reads if r.start <= psn < r.end]

    def rewound(self, f, psn):
        silent = f.time - max(self.progress, self.sent[psn].time if psn in self.sent else 0)
        reads = self.reading(psn) if f.opcode == 12 else []
        first_missing = [r for r in reads if psn == r.seen or self.lossy and psn <= r.seen]
        first_missing = first_missing or self.lossy and self.went_on(psn)
        if psn in self.rnr:
            self.rnr_kept(f, psn)
        elif any(psn <= nak for nak in self.naked):
            self.naked = {nak for nak in self.naked if nak < psn}
        elif silent < self.timeout_ns and not first_missing and not self.probe(f, psn):
            self.report(f, "REQ-05-rewind", "a NAK, RNR NAK, probe or time-out before this PSN",
                        f"{f.psn} after {silent // 1000} us")

    def probe(self, f, psn):
        """Ignores progress: the sender may not have processed a captured response yet."""
        return psn in self.sent and f.time - self.sent[psn].time >= PROBE_NS

    def went_on(self, psn):
        """
        For responses lost after the capture: the requester may have found a READ or atomic at or before psn
        missing, and may have received its retransmitted response up to psn.
        """
        return any(p in self.sent and self.sent[p].opcode in {12, *frames.ATOMIC}
                   for p in range(psn - 64, min(psn, self.una) + 1))

    def rnr_kept(self, f, psn):
        since, nak = self.rnr.pop(psn)
        least = RNR_US[nak.syndrome & 31]
        if f.time - since < least * 1000 and not self.lossy:
            self.report(f, "REQ-06-rnr", f"at least {least} us", f"{(f.time - since) // 1000} us")

    def same(self, f, psn):
        """A retransmitted request equals the original; a READ may be reread from a packet boundary (REQ-08)."""
        old = self.sent.get(psn)
        if f.opcode == 12:
            for r in self.reading(psn)[:1]:
                skip = (psn - r.start) * (self.mtu or 0)
                address, key, length = want = (r.address + skip, r.frame.reth[1], r.length - skip)
                part = f.reth[2] < length and f.reth[2] % (self.mtu or 1) == 0
                if f.reth != want and not (part and f.reth[:2] == (address, key)):
                    self.report(f, "REQ-08-reread", want, f.reth)
        elif old is not None and (old.opcode, old.rest) != (f.opcode, f.rest):
            self.report(f, "REQ-04-same", f"frame {old.number} again", f.role)

    def sequence(self, f):
        """FIRST, MIDDLE, LAST come in order, and their payloads add up to the RETH length."""
        kind = self.message[0] if self.message else None
        if f.opcode in CONTINUES:
            if CONTINUES[f.opcode] != kind:
                self.report(f, "WIRE-01-sequence", f"after {kind or 'no first packet'}", f.role)
                self.message = None
                return
            left = self.message[1]
            left = None if left is None else left - len(f.payload)
            if left is not None and (left < 0 or f.opcode in CLOSES and left):
                self.report(f, "WIRE-05-dmalen", f"{self.message[1]} bytes left", len(f.payload))
                left = None
            self.message = None if f.opcode in CLOSES else (kind, left)
            return
        if kind:
            self.report(f, "WIRE-01-sequence", f"middle or last of {kind}", f.role)
        self.message = None
        if f.opcode in OPENS:
            self.message = (OPENS[f.opcode],
                            f.reth[2] - len(f.payload) if f.opcode == 6 else None)
        elif f.opcode in (10, 11) and f.reth[2] != len(f.payload):
            self.report(f, "WIRE-05-dmalen", f.reth[2], len(f.payload))

    def arrives(self, f, psn, span):
        """The responder's state after this request, if no frames are lost after the capture."""
        self.second_pass(psn)
        if psn == self.epsn:
            self.epsn, self.waits = psn + span, False
        elif psn > self.epsn:
            self.counts["gaps"] += 1
            if not self.waits:
                self.gaps.add(self.epsn)
        else:
            self.counts["duplicate_requests"] += 1

    def second_pass(self, psn):
        """Allows a second NAK of a gap: a packet that the responder had already seen or skipped at the first NAK
        shows that the sender has gone back."""
        for nak in [p for p, furthest in self.seq_naks.items() if p < psn <= furthest]:
            del self.seq_naks[nak]
        self.furthest = max(self.furthest, psn)

    # --- responses ---

    def response(self, f):
        if f.opcode == 17 and f.syndrome == 0x61 and f.psn in self.malformed:
            # NAK-07: response to a malformed request, which was not passed to request()
            self.counts["fatal_naks"] += 1
            self.wanted.clear()
            self.fatal = near(f.psn, self.high - 1 if self.high else f.psn + (1 << 24))
            return
        if self.high is None:
            self.report(f, "RSP-02-ghost", "an earlier request", f"{f.role} {f.psn}")
            return
        psn = near(f.psn, self.high - 1)
        if self.fatal is not None and psn >= self.fatal:
            self.report(f, "NAK-06-quiet", f"nothing after the NAK of {self.fatal & 0xFFFFFF}",
                        f"{f.role} {f.psn}")
        elif f.opcode == 17:
            self.acknowledge(f, psn)
        elif psn >= self.high:
            self.report(f, "RSP-02-ghost", f"below {self.high & 0xFFFFFF}", f"{f.role} {f.psn}")
        elif f.opcode == 18:
            self.atomic(f, psn)
        else:
            self.read_response(f, psn)

    def answered(self, f, psn):
        """Acknowledges everything up to psn."""
        if psn + 1 > self.una:
            self.una, self.progress = psn + 1, f.time
        self.wanted = {p: r for p, r in self.wanted.items() if p > psn}

    def acknowledge(self, f, psn):
        kind = f.syndrome >> 5
        if kind == 0:
            self.counts["acks"] += 1
            if psn >= self.high:
                self.report(f, "RSP-02-ghost", f"below {self.high & 0xFFFFFF}", f"ACK {f.psn}")
                return
            if self.acked is not None and psn < self.acked:
                self.report(f, "RSP-02-regress", f"{self.acked & 0xFFFFFF} or later", f.psn)
                return
            self.acked = psn
            self.answered(f, psn)
        elif kind == 1:
            self.counts["rnr_naks"] += 1
            self.nak_taken(f, "rnr_naks")
            self.rnr_nak(f, psn)
        elif kind == 3 and f.syndrome & 31 == 0:
            self.counts["seq_naks"] += 1
            self.nak_taken(f, "seq_naks")
            self.seq_nak(f, psn)
        elif kind == 3 and f.syndrome & 31 <= 4:
            self.counts["fatal_naks"] += 1
            self.fatal_nak(f, psn)
        else:
            self.report(f, "NAK-01-kind", "a defined syndrome", hex(f.syndrome))

    def nak_taken(self, f, kind):
        """A requester that waits ignores NAKs. If its time is over, it may have sent again: a request and a NAK that
        cross each other are captured in either order."""
        self.counts["taken_" + kind] += not self.rnr
        self.counts["unsure_" + kind] += any(f.time - since >= RNR_US[nak.syndrome & 31] * 1000
                                             for since, nak in self.rnr.values())

    def nakable(self, psn):
        return self.una <= psn < self.high

    def rnr_nak(self, f, psn):
        request = self.sent.get(psn)
        if not self.nakable(psn) or request is None or request.opcode not in TAKES_RECV:
            self.report(f, "NAK-10-psn", "the PSN of a request that needs a receive WQE", f.psn)
            return
        self.rnr.setdefault(psn, (f.time, f))
        self.answered(f, psn - 1)
        self.wanted.clear()
        self.epsn, self.waits = psn, True

    def seq_nak(self, f, psn):
        exact = self.lossy or psn in self.gaps
        # A gap shows only once a later packet arrives.
        if psn < self.una or psn + 1 >= self.high or not exact:
            self.report(f, "NAK-04-psn", "the first missing PSN, a later one sent", f.psn)
            return
        if psn in self.seq_naks:
            self.report(f, "NAK-04-once", "one NAK a gap", f.psn)
            return
        self.seq_naks[psn] = self.furthest
        self.naked.add(psn)
        self.answered(f, psn - 1)
        self.wanted.clear()

    def fatal_nak(self, f, psn):
        self.wanted.clear()
        if not self.nakable(psn):
            self.report(f, "NAK-05-psn", f"from {self.una & 0xFFFFFF} on, sent before", f.psn)
            return
        self.fatal = psn

    def atomic(self, f, psn):
        request = self.sent.get(psn)
        if request is None or request.opcode not in frames.ATOMIC:
            self.report(f, "RSP-01-atomic", "the PSN of an atomic", f.psn)
            return
        value = f.rest[4:12]
        if self.atomics.setdefault(psn, value) != value:
            self.report(f, "RSP-01-atomic", self.atomics[psn].hex(), value.hex())
        self.answered(f, psn)

    def read_response(self, f, psn):
        self.counts["read_responses"] += 1
        reads = self.reading(psn)
        if not reads:
            self.report(f, "RSP-01-read-psn", "a PSN of a READ", f.psn)
            return
        # Responses start at the READ's first PSN and follow one by one. A duplicate of an earlier READ, or of a part
        # of this one that ends before it does, may interrupt them.
        if all(psn not in (r.start, r.next, r.back) for r in reads):
            self.report(f, "RSP-01-read-psn", reads[0].next & 0xFFFFFF, f.psn)
        for r in reads:
            if psn < r.next:
                r.back = r.next
            r.next = psn + 1
        self.read_shape(f, psn, reads)
        for r in reads:
            if psn == r.seen:
                r.seen += 1
        self.answered(f, psn)

    def read_shape(self, f, psn, reads):
        """Opcode and length match the position in the READ; a reread READ may resume with MIDDLE."""
        first = reads[0]
        size = min(self.mtu or 4096, first.length - (psn - first.start) * (self.mtu or 4096))
        if len(f.payload) != size:
            self.report(f, "RSP-01-read-length", size, len(f.payload))
        allowed = set()
        for r in reads:
            last = psn == r.end - 1
            allowed.add((16 if last else 13) if psn == r.start else 15 if last else 14)
        if f.opcode not in allowed:
            self.report(f, "WIRE-01-sequence",
                        " or ".join(frames.ROLES[o] for o in sorted(allowed)), f.role)

    def end(self):
        if not self.lossy:
            for psn, f in list(self.wanted.items())[:1]:
                self.report(f, "RSP-02-ackreq", f"an answer to PSN {psn & 0xFFFFFF}", "none")
