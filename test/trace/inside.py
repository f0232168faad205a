# SPDX-License-Identifier: BSD-3-Clause
"""One end of an RC connection, from a capture inside that end (`urocectl capture`): the frames it received and
sent, in its order. They determine its counters and duties on any network.

Pass Requester the requests sent and the responses received, Responder the requests received and the responses sent,
in capture order; then call end(). PSNs here are unwrapped: see pairs.near.
"""
import frames
import half
from pairs import near


class Requester(half.Half):
    """Follows the engine's cursor, una <= next <= high, and counts each event that moves next back."""

    def __init__(self, mtu, timeout_ns, report):
        super().__init__(mtu, False, timeout_ns, report)
        self.fetches = []         # READs and atomics in order: [first PSN without response, end, first PSN]
        self.alone = None         # the response that the last probe of a READ requested
        self.rnr_until = None     # end of the RNR wait
        self.read_gap = False     # a READ's missing data was requested again
        self.deadline = None      # when the ACK timeout expires
        self.quiet = 0            # when the current silence began
        self.least = half.PROBE_NS  # minimum quiet time before the next probe
        self.asked = False        # as read_gap, since the last progress
        self.gap_psn = 0          # the PSN that showed the gap in a READ's data
        self.shown = None         # when a response last showed the gap once more
        self.shown_psn = 0        # that response's PSN
        self.other = None         # where next may be instead: a READ was requested again by a gap or a probe
        self.unsure = False       # whether read_gap holds, for the same reason
        self.late = False         # a probe was due before the last progress
        self.doubtful_gaps = 0    # shown, but hidden by another event
        self.gaps_or_probes = 0   # shown, and a probe was due as well
        self.late_responses = 0   # a probe was due before progress: counted, its packet perhaps not sent any more

    def request(self, f):
        if self.next is None:
            self.next = self.high = self.una = f.psn + (1 << 24)
        psn, upto = near(f.psn, self.next), 0
        if psn != self.next and psn == self.other:
            self.next = psn
        self.other, other = None, self.other
        if psn != self.next:
            upto = self.unforeseen(f, psn, other)
        elif psn == self.una:  # there, a gap that moved next back does not show
            self.doubtful_gaps += self.shown is not None
        self.shown, self.late = None, False
        if self.rnr_until is not None:
            if f.time < self.rnr_until:
                self.report(f, "REQ-06-rnr", f"not for another {self.rnr_until - f.time} ns",
                            f"{f.role} {f.psn}")
            self.rnr_until = self.deadline = None
        span = self.span(f, psn)
        if psn < self.high:
            self.counts["retransmitted_packets"] += 1
            self.same(f, psn)
        else:
            self.sequence(f)
            if f.opcode == 12 or f.opcode in frames.ATOMIC:
                self.fetches.append([psn, psn + span, psn])
        self.sent[psn] = f
        self.next = max(psn + span, upto)
        self.high = max(self.high, self.next)
        if self.deadline is None:
            self.deadline = f.time + self.timeout_ns
            self.quiet = f.time

    def unforeseen(self, f, psn, other):
        """A request other than next: a gap shown again, a probe or the ACK timeout must explain it. Returns the PSN
        that follows next, if it is not the one behind the request: the probe of a READ does not move it. Sets other
        if both may be; the argument is its value before."""
        due = self.due(f.time)
        at_end = f.opcode == 12 and self.high in (self.next, other)
        alone = due and at_end and self.asks_one(f)
        if psn != self.una or psn > self.next:
            self.report(f, "REQ-05-psn", f"{self.next & 0xFFFFFF}, or {self.una & 0xFFFFFF} again",
                        f.psn)
        elif self.shown is not None and f.time - self.shown < half.PROBE_NS and not alone:
            self.counts["read_response_gaps"] += 1
            self.gap_psn, self.quiet = self.shown_psn, self.shown
            self.gaps_or_probes += due
            self.unsure = due
            self.other = self.high if due and at_end else None
        elif self.late or due or self.timed_out(f.time):
            self.doubtful_gaps += self.shown is not None and not alone
            return self.retried(f, psn, at_end)
        else:
            self.report(f, "REQ-05-rewind", "a NAK, RNR NAK, probe or time-out before this PSN",
                        f"{f.psn}, time-out in {(self.deadline or 0) - f.time} ns")
            self.rewind()
        return 0

    def retried(self, f, psn, at_end):
        """A probe, or the ACK timeout. A probe is not counted here if there was progress before its packet."""
        probe = self.late or f.time < self.deadline
        if not self.late:
            self.counts["sent_probes" if probe else "ack_timeouts"] += 1
        self.read_gap = self.unsure = False
        if not probe:
            self.rewind()
            return 0
        if not self.late:  # a probe leaves the ACK timeout alone
            self.least, self.quiet = 2 * self.least, f.time
        stays = at_end and self.next == self.high
        if at_end and not stays:
            self.other = self.high
        if at_end and self.fetches and self.fetches[0][0] != self.fetches[0][2]:
            self.alone = psn
            if stays:
                self.other = psn + 1
        return self.high if stays else 0

    def due(self, time):
        """Whether a probe may have been sent by now."""
        return self.rnr_until is None and self.deadline is not None and time - self.quiet >= self.least

    def timed_out(self, time):
        return self.rnr_until is None and self.deadline is not None and time >= self.deadline

    def asks_one(self, f):
        """Whether f requests one response of a READ that misses several, as a probe does."""
        rest = self.fetches[0] if self.fetches else (0, 0, 0)
        return rest[0] != rest[2] and half.Read(f, rest[0], self.mtu).end == rest[0] + 1 < rest[1]

    def span(self, f, psn):
        if f.opcode != 12:
            return 1
        read = half.Read(f, psn, self.mtu)
        self.reads = [r for r in self.reads if r.end > self.una] + [read]
        return read.end - psn

    def rewind(self):
        self.next, self.other, self.unsure = self.una, None, False
        if self.rnr_until is None:
            self.deadline = None

    def until(self, upto, time):
        """Acknowledges everything before upto, but no READ or atomic: only their data acknowledges them."""
        was = self.una
        if self.fetches:
            upto = min(upto, self.fetches[0][0])
        self.una = max(self.una, upto)
        if self.una != was:
            self.moved(time, was)

    def moved(self, time, was):
        for psn in range(was, self.una):
            self.sent.pop(psn, None)
        self.read_gap = self.asked = self.unsure = False
        late = self.due(time)
        self.late_responses += late
        self.late |= late
        self.quiet, self.least = time, half.PROBE_NS
        if self.next < self.una:
            other = self.other
            self.rewind()
            self.other = other
        if self.rnr_until is None:
            self.deadline = time + self.timeout_ns if self.next != self.una else None

    def response(self, f):
        psn = near(f.psn, self.una) if self.una is not None else 0
        if self.una is None or psn < self.una or psn >= self.high:
            self.counts["stale_responses"] += 1
            return
        ack = f.opcode == 17
        kind = f.syndrome >> 5 if ack else None
        if kind == 3 and f.syndrome & 31 > 4 or kind == 2:
            self.counts["stale_responses"] += 1
            return
        upto = psn + (kind == 0)
        self.until(upto, f.time)
        if kind == 3 and f.syndrome & 31 == 0:
            self.sequence_nak()
        elif self.una != upto:
            self.gap(f, psn, not ack)
        elif kind == 1:
            self.rnr_wait(f)
        elif kind == 3:
            self.counts["fatal_naks"] += 1
        elif not ack:
            self.fetched(f, psn)

    def sequence_nak(self):
        if self.rnr_until is None:
            self.counts["taken_seq_naks"] += 1
            self.least = half.PROBE_NS
            self.rewind()
            self.doubt()

    def rnr_wait(self, f):
        if self.rnr_until is None:
            self.counts["taken_rnr_naks"] += 1
            self.rnr_until = f.time + half.RNR_US[f.syndrome & 31] * 1000
            self.least = half.PROBE_NS
            self.rewind()
            self.doubt()

    def doubt(self):
        """Another event moved next back, which hides whether a gap shown just before did so too."""
        self.doubtful_gaps += self.shown is not None
        self.shown = None

    def gap(self, f, psn, data):
        if self.rnr_until is not None:
            return
        if not self.read_gap:
            self.counts["read_response_gaps"] += 1
            self.late_responses += self.due(f.time)
            self.next, self.other, self.unsure = self.una, None, False
            self.quiet = f.time
            if not self.asked or self.deadline is None:
                self.deadline = f.time + self.timeout_ns
            self.read_gap = self.asked = True
            self.gap_psn = psn
            self.doubt()
        elif self.next != self.una and (self.unsure or self.due(f.time) or data and psn <= self.gap_psn):
            # Requests the data again if that was a round trip ago, which only the sender knows, or a probe.
            self.doubtful_gaps += self.shown not in (None, f.time)
            self.shown = f.time
            self.shown_psn = psn

    def fetched(self, f, psn):
        """The data of PSN una has arrived."""
        if not self.fetches or self.fetches[0][0] != psn:
            self.report(f, "REQ-09-kind", "the answer to a SEND or WRITE", f.role)
            return
        self.fetches[0][0] += 1
        if self.fetches[0][0] == self.fetches[0][1]:
            del self.fetches[0]
        self.una = psn + 1
        self.moved(f.time, psn)
        alone, self.alone = self.alone, None
        if alone == psn and f.opcode == 16 and self.una != self.next == self.high:
            self.gap(f, self.una, True)  # the probe's response has overtaken the others: they are lost

    def end(self):
        pass


class Responder(half.Half):
    """Follows ePSN and pending responses. rnr_naks: (frame number, PSN) of each RNR NAK sent; they tell whether an
    earlier request was executed."""

    def __init__(self, mtu, report, rnr_naks, first_psn):
        super().__init__(mtu, False, 0, report)
        self.rnr_naks = rnr_naks
        self.epsn = self.una = first_psn
        self.early = None         # latest PSN received ahead of epsn
        self.unanswered = set()   # PSNs received since the last frame sent
        self.doubtful = 0

    def request(self, f):
        psn = near(f.psn, self.epsn)
        span = 1
        self.second_pass(psn)
        if psn <= self.epsn:
            span = self.span(f, psn)
            self.sent[psn] = f
        if psn < self.epsn:
            self.counts["duplicate_requests"] += 1
            # An RNR NAK is dropped if its request is retransmitted first and finds a receive.
            self.doubtful += psn in self.unanswered and f.opcode in half.TAKES_RECV
        elif psn > self.epsn:
            self.counts["out_of_sequence_requests"] += 1
            self.early = psn
        else:
            self.expected(f, psn, span)
        self.unanswered.add(psn)
        # Keep what may be requested again or still needs a response.
        self.high = self.epsn

    def span(self, f, psn):
        if f.opcode != 12:
            return 1
        read = half.Read(f, psn, self.mtu)
        self.reads = [*self.reads[-127:], read]
        return read.end - psn

    def expected(self, f, psn, span):
        if f.opcode in half.TAKES_RECV and self.refused(f, psn):
            return
        self.sequence(f)
        self.epsn = psn + span
        if f.opcode == 12:
            self.reads[-1].first = True
        if f.ackreq:
            self.wanted[psn] = f
        if self.early is not None and self.early < self.epsn:
            self.early = None
        for old in [p for p in list(self.sent)[:2] if p < psn - 1024]:
            del self.sent[old]

    def refused(self, f, psn):
        """Whether an RNR NAK for this request follows in the capture."""
        while self.rnr_naks and self.rnr_naks[0][0] < f.number:
            del self.rnr_naks[0]
        return any(near(p, self.epsn) == psn for _, p in self.rnr_naks[:64])

    def response(self, f):
        self.unanswered.clear()
        psn = near(f.psn, self.epsn)
        self.in_order(f, psn)
        super().response(f)

    def in_order(self, f, psn):
        """RSP-03: an ACK, RNR NAK or sequence NAK does not overtake responses of earlier READs."""
        if f.opcode == 17:
            upto = psn + (f.syndrome >> 5 == 0)
            late = [r for r in self.reads if getattr(r, "first", False) and r.seen < r.end
                    and r.seen < upto]
            if late and (f.syndrome >> 5 != 3 or f.syndrome == 0x60):
                self.report(f, "RSP-03-order", f"the responses from {late[0].seen & 0xFFFFFF} on",
                            f"ACK {f.psn}")

    def nakable(self, psn):
        return self.una <= psn <= self.epsn

    def rnr_nak(self, f, psn):
        request = self.sent.get(psn)
        if psn != self.epsn or request is None or request.opcode not in half.TAKES_RECV:
            self.report(f, "NAK-10-psn", f"the request that is expected, {self.epsn & 0xFFFFFF}",
                        f.psn)
            return
        self.answered(f, psn - 1)
        self.wanted.clear()

    def seq_nak(self, f, psn):
        if psn != self.epsn or self.early is None:
            self.report(f, "NAK-04-psn", f"the first missing, {self.epsn & 0xFFFFFF}, a later one "
                        "having come", f.psn)
            return
        if psn in self.seq_naks:
            self.report(f, "NAK-04-once", "one NAK a gap", f.psn)
            return
        self.seq_naks[psn] = self.furthest
        self.answered(f, psn - 1)
        self.wanted.clear()
