#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Holds the rules of conformance.md sections 3 to 6 against captures of a run; see README.md.

check.py [--json] [--lossy-after-capture | --inside] [--ack-timeout CODE]
         [--stats BEFORE.json AFTER.json --device DEV --address IP] FILE.pcap...
Exit status: 0 nothing found, 1 violations, 2 wrong use.
"""
import argparse
import collections
import json
import sys

import frames
import half
import inside
import pairs

# Drop reasons that come before the QP lookup, and those of the QP lookup.
SPOILT = ("runt", "bad_ip", "fragment", "bad_udp_length", "bad_tver", "bad_icrc", "ethertype",
          "ip_protocol", "ipv6_extension", "udp_port", "bad_vlan")
NO_QP = ("bad_qpn", "qp_state")
# Reasons why a QP refuses a frame addressed to it. Captures do not show which frames these are.
REFUSED = ("out_of_sequence", "duplicate_ignored", "stale_response", "no_recv_wqe", "bad_qkey",
           "message_aborted")
# Counters determined by a capture of every frame of a device; UNDETERMINED says why the others are not.
DETERMINED = ("tx_roce", "rx_roce", "retransmitted_packets", "rcvd_seq_naks", "rcvd_rnr_naks",
              "rcvd_fatal_naks", "duplicate_requests", "sent_acks", "sent_seq_naks",
              "sent_rnr_naks", "sent_fatal_naks", "sent_read_responses")
UNSURE = ("rcvd_seq_naks", "rcvd_rnr_naks")  # up to some frames that may have crossed others (half.py, nak_taken)
UNDETERMINED = {
    "rx_frames": "ARP, ND and strangers' frames are counted too, and not captured",
    "rx_bytes": "as rx_frames",
    "tx_port_down": "such frames are not sent",
    "tx_no_neighbour": "as tx_port_down",
    "tx_control_lost": "as tx_port_down",
    "multicast_refused": "what a member takes is not on the wire",
    "multicast_bad_pkey": "as multicast_refused",
    "lost_messages": "only UC's",
    "wrong_keys": "a capture does not tell which keys there are",
    "tx_frames": "neighbour discovery is counted too",
    "tx_bytes": "as tx_frames",
    "tx_busy": "a refused burst leaves no frame",
    "rx_handoff": "which worker owns a QP is not on the wire",
    "loopback": "such frames do not reach a port",
    "slow_path": "ARP, ND and ICMP are not captured",
    "doorbells": "not on the wire",
    "send_wqes": "local operations and failed WQEs send nothing",
    "cqes": "which WQEs are signaled is not on the wire",
    "req_cqe_error": "flushed WQEs leave no frame",
    "req_cqe_flush_error": "as req_cqe_error",
    "req_remote_access_errors": "as req_cqe_error",
    "req_remote_invalid_request": "as req_cqe_error",
    "resp_cqe_error": "as req_cqe_error",
    "resp_cqe_flush_error": "as req_cqe_error",
    "resp_local_length_error": "as req_cqe_error",
    "resp_remote_access_errors": "part of sent_fatal_naks",
    "cq_events": "not on the wire",
    "ack_timeouts": "a rewind does not say its cause when a NAK crossed it",
    "excused_timeouts": "whether a worker ran is not on the wire",
    "sent_probes": "as ack_timeouts",
    "rp_cnp_handled": "the policy fixed takes no congestion notifications",
    "rp_cnp_ignored": "the drop reason cnp counts it",
    "np_cnp_sent": "the interval is on the clock of the daemon",
    "np_ecn_marked_roce_packets": "marks are set on the way, behind the capture of the sender",
    "spurious_probes": "whether the second answer is to a probe depends on when it was handled",
    "retry_exceeded": "a requester gives up in silence",
    "read_response_gaps": "a response lost before the capture looks like one never sent",
    "stale_responses": "depends on when an answer was handled, not on when it came",
    "path_migrations": "one of the two sides sets MigReq, the other follows without a packet",
    "failed_path_migrations": "nothing is sent",
    "sent_sacks": "the captures are of daemons with sr=off",
    "rcvd_sacks": "the captures are of daemons with sr=off",
    "held_requests": "the captures are of daemons with sr=off",
    "discarded_held_requests": "the captures are of daemons with sr=off",
    "selective_retransmissions": "the captures are of daemons with sr=off",
    "spurious_retransmissions": "the captures are of daemons with sr=off",
    "selective_repeat_fallbacks": "the captures are of daemons with sr=off",
    "out_of_sequence_requests": "depends on which frame the responder waited for when it came",
}


# Counters that a capture inside a device determines besides. INSIDE_SENT count the device's own frames; INSIDE_GOT
# also depend on whether a frame's QP still existed, INSIDE_DOUBTFUL on RNR NAKs that were never sent.
INSIDE_SENT = ("tx_frames", "tx_bytes", "tx_roce", "retransmitted_packets", "sent_acks",
               "sent_seq_naks", "sent_rnr_naks", "sent_fatal_naks", "sent_read_responses")
INSIDE_GOT = ("rcvd_seq_naks", "rcvd_rnr_naks", "rcvd_fatal_naks", "read_response_gaps",
              "stale_responses", "ack_timeouts", "sent_probes", "duplicate_requests",
              "out_of_sequence_requests", "rx_roce")
INSIDE_DOUBTFUL = ("duplicate_requests", "out_of_sequence_requests")
INSIDE_PORT = ("rx_frames", "rx_bytes", "slow_path")


class Checker:
    """
    Violations and counts of captures that belong to one run. inside: the captures were made inside one device,
    after anything that could change or drop frames on the way there.
    """

    def __init__(self, lossy=False, ack_timeout=8, inside=False):
        self.lossy = lossy
        self.inside = inside
        self.address = None       # the device's address
        self.doubtful = 0
        self.doubtful_gaps = 0
        self.gaps_or_probes = 0
        self.late_responses = 0
        self.timeout_ns = 4096 << ack_timeout
        self.violations = []
        self.counts = collections.defaultdict(collections.Counter)  # by address
        self.malformed = collections.defaultdict(set)  # flow -> PSNs of malformed requests (NAK-07)
        self.frames = self.connections = 0

    def report(self, frame, connection, rule, expected, seen):
        self.violations.append({"file": frame.file, "frame": frame.number, "connection": connection,
                                "rule": rule, "seen": str(seen), "expected": str(expected)})

    def read(self, path):
        """Checks one capture."""
        found = list(self.inner(path) if self.inside else self.outer(path))
        self.frames += len(found)
        good = [f for f in found if self.each(f)]
        for there, back in pairs.learn(good):
            self.connections += 1
            self.connection(there, back, good)

    @staticmethod
    def outer(path):
        for number, time, data in frames.reader(path):
            frame = frames.decode(number, time, data)
            if frame is not None:
                frame.file = str(path)
                yield frame

    def inner(self, path):
        """Yields the frames that the device sent or received intact; counts the others."""
        mine = self.counts["device"]
        mac = next((data[6:12] for _, _, data, sent in frames.records(path) if sent), None)
        for number, time, data, sent in frames.records(path):
            if sent is None:
                raise ValueError(f"{path}: frame {number} does not say if it was sent or received")
            mine["tx_frames" if sent else "rx_frames"] += 1
            mine["tx_bytes" if sent else "rx_bytes"] += len(data)
            why = None if sent else "not_ours" if not data[0] & 1 and data[:6] != mac else (
                frames.spoilt(data))
            if why is not None:
                mine[why] += 1
                continue
            frame = frames.decode(number, time, data)
            if frame is not None:
                frame.file, frame.sent = str(path), sent
                self.address = frame.src if sent else frame.dst
                yield frame

    def each(self, f):
        """Checks the rules of a single frame. Returns True if the rules of its connection apply."""
        def bad(rule, expected, seen):
            self.report(f, f"{f.src} > {f.dst} qp {f.qpn}", rule, expected, seen)

        if not f.icrc_good:
            bad("WIRE-03-icrc", "the ICRC of annex A17", "another")
            return False
        if f.dport != frames.PORT or f.sport < 0xC000:
            bad("WIRE-02-port", "49152..65535 > 4791", f"{f.sport} > {f.dport}")
        if not f.dont_fragment:
            bad("WIRE-02-df", "DF set", "clear")
        if f.opcode not in frames.KNOWN:
            bad("WIRE-01-opcode", "a defined opcode", hex(f.opcode))
            self.malformed[pairs.flow_of(f)].add(f.psn)
            return False
        if f.bth[1] & 15 or f.bth[4] & 0x3F or f.bth[8] & 0x7F or (
                f.opcode in frames.AETH and f.rest[0] & 0x80):
            bad("WIRE-04-reserved", "TVer and reserved bits 0", f.bth.hex())
        if f.rc and (f.body < f.pad or f.body % 4 or f.pad and f.opcode in frames.FULL):
            bad("WIRE-04-pad", "payload and pad a multiple of 4", f"{f.body} with pad {f.pad}")
            if f.body < f.pad or f.body % 4:
                self.malformed[pairs.flow_of(f)].add(f.psn)
                return False
        if f.opcode in frames.BARE and f.body:
            bad("WIRE-04-bare", "nothing behind the headers", f"{f.body} bytes")
            self.malformed[pairs.flow_of(f)].add(f.psn)
            return False
        self.counts[f.src]["tx_roce"] += 1
        self.counts[f.dst]["rx_roce"] += 1
        return f.rc

    def connection(self, there, back, good):
        """Checks the rules of a connection: a pair of flows."""
        flows = [[f for f in good if f.rc and pairs.flow_of(f) == flow] for flow in (there, back)]
        name = f"{there[0]} qp {back[2] if back else '?'} <> {there[1]} qp {there[2]}"

        def report(frame, rule, expected, seen):
            self.report(frame, name, rule, expected, seen)

        mtu = self.payloads(flows[0] + flows[1], report)
        if self.inside:
            self.one_end(list(pairs.merged(*flows)), mtu, report)
            return
        halves = [half.Half(mtu, self.lossy, self.timeout_ns, report) for _ in range(2)]
        for one, flow, other in zip(halves, (there, back), (back, there)):
            one.malformed = {psn for bent, psns in self.malformed.items() for psn in psns
                             if bent == flow or flow is None and bent[:2] == other[1::-1]}
        for f, is_back in pairs.merged(*flows):
            if f.sport != flows[is_back][0].sport:
                report(f, "WIRE-02-port", f"{flows[is_back][0].sport} as before", f.sport)
            if f.request:
                halves[is_back].request(f)
            else:
                halves[not is_back].response(f)
        for i, one in enumerate(halves):
            one.end()
            self.count(one.counts, there[i], there[1 - i])

    def one_end(self, both, mtu, report):
        """Checks what a device sent, and counts, given what it received."""
        got = [f for f, _ in both if not f.sent and f.request]
        answers = [f for f, _ in both if f.sent and not f.request]
        rnr = [(f.number, f.psn) for f in answers if f.opcode == 17 and f.syndrome >> 5 == 1]
        requester = inside.Requester(mtu, self.timeout_ns, report)
        responder = inside.Responder(mtu, report, rnr, first_psn(got, answers))
        for f, _ in both:
            if f.sent == f.request:
                getattr(requester, "request" if f.sent else "response")(f)
            else:
                getattr(responder, "response" if f.sent else "request")(f)
        responder.end()
        mine = self.counts["device"]
        self.count(requester.counts, "device", "nobody")
        self.count(responder.counts, "nobody", "device")
        for name in ("ack_timeouts", "sent_probes", "read_response_gaps", "stale_responses"):
            mine[name] += requester.counts[name]
        mine["out_of_sequence_requests"] += responder.counts["out_of_sequence_requests"]
        mine["tx_roce"] += sum(f.sent for f, _ in both)
        mine["rx_roce"] += sum(not f.sent for f, _ in both)
        self.doubtful += responder.doubtful
        self.doubtful_gaps += requester.doubtful_gaps + (requester.shown is not None)
        self.gaps_or_probes += requester.gaps_or_probes
        self.late_responses += requester.late_responses

    @staticmethod
    def payloads(both, report):
        """Returns the path MTU: the most common size of full packets. Reports payloads that contradict it
        (WIRE-05)."""
        sizes = collections.Counter(len(f.payload) for f in both if f.opcode in frames.FULL)
        mtu = sizes.most_common(1)[0][0] if sizes else None
        if mtu is not None and mtu not in half.MTUS:
            report(next(f for f in both if f.opcode in frames.FULL), "WIRE-05-payload",
                   "a path MTU", mtu)
            return None
        for f in both:
            size = len(f.payload)
            wrong = (size != mtu if f.opcode in frames.FULL else
                     size > (mtu or 4096) or f.opcode in half.WHOLE and size == 0)
            if wrong:
                report(f, "WIRE-05-payload", f"as {f.role} and path MTU {mtu} say", size)
        return mtu

    def count(self, counts, requester, responder):
        rows = ((requester, "retransmitted_packets", "retransmitted_packets"),
                (requester, "taken_seq_naks", "rcvd_seq_naks"),
                (requester, "taken_rnr_naks", "rcvd_rnr_naks"),
                (requester, "unsure_seq_naks", "unsure_seq_naks"),
                (requester, "unsure_rnr_naks", "unsure_rnr_naks"),
                (requester, "fatal_naks", "rcvd_fatal_naks"),
                (responder, "duplicate_requests", "duplicate_requests"),
                (responder, "acks", "sent_acks"), (responder, "seq_naks", "sent_seq_naks"),
                (responder, "rnr_naks", "sent_rnr_naks"),
                (responder, "fatal_naks", "sent_fatal_naks"),
                (responder, "read_responses", "sent_read_responses"))
        for address, what, name in rows:
            self.counts[address][name] += counts[what]

    def inside_counters(self, before, after, device):
        """Compares a device's counters with captures inside it: equal, except as INSIDE_.. allow."""
        was, now = ({what: {d["device"]: d["total"] for d in s[what]}[device]
                     for what in ("stats", "drops")} for s in (before, after))
        stats = {name: now["stats"][name] - was["stats"][name] for name in now["stats"]}
        drops = {name: now["drops"][name] - was["drops"][name] for name in now["drops"]}
        gone = sum(drops[name] for name in NO_QP)
        excused = stats["excused_timeouts"]  # probes, which look like ACK timeouts: a worker had not run
        for name in INSIDE_SENT + INSIDE_GOT + INSIDE_PORT + SPOILT:
            told = self.counts["device"][name]
            said = drops[name] if name in SPOILT else stats[name]
            if name == "rx_roce":
                said += sum(drops[why] for why in REFUSED)
            slack = gone if name in INSIDE_GOT else 0
            below = above = self.doubtful if name in INSIDE_DOUBTFUL else 0
            if name == "read_response_gaps":
                below, above = self.gaps_or_probes, self.doubtful_gaps
            elif name == "sent_probes":
                above = self.gaps_or_probes + self.late_responses + excused
            elif name == "ack_timeouts":
                below = excused
            if not told - slack - below <= said <= told + above:
                self.violations.append({"file": "", "frame": 0, "connection": device,
                                        "rule": f"stats-{name}", "seen": str(said),
                                        "expected": f"{told} (less {slack + below}, or {above} more)"})

    def counters(self, before, after, device, address):
        """OBS: the changes between two `show stats` equal the counts of the captures."""
        was, now = ({d["device"]: d["total"] for d in s["stats"]}[device] for s in (before, after))
        refused = sum(sign * d["total"][why] for s, sign in ((before, -1), (after, 1))
                      for d in s.get("drops", ()) if d["device"] == device for why in REFUSED)
        for name in DETERMINED:
            told = self.counts[address][name]
            said = now[name] - was[name] + (refused if name == "rx_roce" else 0)
            unsure = self.counts[address][name.replace("rcvd_", "unsure_")] if name in UNSURE else 0
            if not told <= said <= told + unsure:
                self.violations.append({"file": "", "frame": 0, "connection": f"{device} {address}",
                                        "rule": f"stats-{name}", "seen": str(said),
                                        "expected": f"{told}" + (f" (or {unsure} more)" if unsure else "")})


def first_psn(got, answers):
    """The first PSN that a responder expects: the lowest PSN received before its first response, or the PSN that
    response reports missing."""
    if not got:
        return 1 << 24
    first = answers[0] if answers else None
    early = [pairs.near(f.psn, got[0].psn + (1 << 24)) for f in got
             if first is None or f.number < first.number]
    if first is not None and first.opcode == 17 and first.syndrome == 0x60:
        early.append(pairs.near(first.psn, got[0].psn + (1 << 24)))
    return min(early)


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--lossy-after-capture", action="store_true",
                        help="frames in the capture may not have arrived")
    parser.add_argument("--inside", action="store_true",
                        help="captures of urocectl inside one device: what it got and made")
    parser.add_argument("--ack-timeout", type=int, default=8, choices=range(1, 32),
                        help="shortest ACK time-out of a QP, as the verbs' code (default 8: 1 ms)")
    parser.add_argument("--stats", nargs=2, metavar=("BEFORE", "AFTER"))
    parser.add_argument("--device")
    parser.add_argument("--address", help="the device's, in the captures")
    parser.add_argument("--why", action="store_true", help="list the counters not compared and why")
    parser.add_argument("files", nargs="*")
    args = parser.parse_args(argv)
    if args.why:
        print("\n".join(f"{name:26} {why}" for name, why in UNDETERMINED.items()))
        return 0
    if not args.files or args.stats and not (args.device and (args.address or args.inside)):
        parser.error("needs FILE; --stats needs --device, and --address but for --inside")
    if args.inside and args.lossy_after_capture:
        parser.error("--inside: nothing is lost behind the capture")
    if args.stats and args.lossy_after_capture:
        parser.error("--stats needs a capture of what arrived")
    checker = Checker(args.lossy_after_capture, args.ack_timeout, args.inside)
    try:
        for path in args.files:
            checker.read(path)
        if args.stats and args.inside:
            checker.inside_counters(*map(load, args.stats), args.device)
        elif args.stats:
            checker.counters(*map(load, args.stats), args.device, args.address)
    except (OSError, ValueError, KeyError) as error:
        parser.error(repr(error))
    return show(checker, args.json)


def show(checker, as_json):
    found = checker.violations
    if as_json:
        print(json.dumps({"frames": checker.frames, "connections": checker.connections,
                          "violations": found, "counts": checker.counts}))
        return 1 if found else 0
    for v in found:
        print(f"{v['file']}:{v['frame']}: {v['connection']}: {v['rule']}: seen {v['seen']}, "
              f"expected {v['expected']}")
    rules = collections.Counter(v["rule"] for v in found)
    print(f"{checker.frames} frames, {checker.connections} connections, {len(found)} violations"
          + "".join(f", {rule} {n}" for rule, n in sorted(rules.items())))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
