#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""check.py --inside on handmade captures: the counts are exact, and the matching rule alone reports a wrong or
missing frame."""
import ipaddress
import json
import pathlib
import re
import struct
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import check  # pylint: disable=wrong-import-position
import frames  # pylint: disable=wrong-import-position

HERE_IP, THERE_IP = "10.0.0.1", "10.0.0.2"
HERE_QP, THERE_QP = 0x11, 0x12
MAC = bytes.fromhex("020000000001")
OPCODE = {name: number for number, name in frames.ROLES.items()}
MTU, US, MS = 1024, 1000, 10**6
TIMEOUT = 4096 << 14  # ACK timeout of code 14
KEY = 0x1234
_cases = []


def frame(sent, role, psn, rest=b"", payload=b"", ackreq=False):
    """A frame of the connection with a correct ICRC."""
    src, dst, qpn = ((HERE_IP, THERE_IP, THERE_QP) if sent else (THERE_IP, HERE_IP, HERE_QP))
    body = rest + payload + bytes(-len(payload) % 4)
    bth = struct.pack(">BBHII", OPCODE[role], 0x40 | -len(payload) % 4 << 4, 0xFFFF, qpn,
                      psn | ackreq << 31)
    udp = struct.pack(">HHHH", 0xC000, 4791, 8 + 12 + len(body) + 4, 0)
    ip = bytearray(struct.pack(">BBHHHBBH", 0x45, 0, 20 + 8 + 12 + len(body) + 4, 0, 0x4000, 64,
                               17, 0))
    ip += ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed
    ip[10:12] = struct.pack(">H", 0xFFFF - frames.ip_sum(bytes(ip)))
    ends = (b"\x02", b"\x01") if sent else (b"\x01", b"\x02")
    macs = MAC[:5] + ends[0] + MAC[:5] + ends[1]
    whole = macs + b"\x08\x00" + bytes(ip) + udp + bth + body + b"\0\0\0\0"
    return whole[:-4] + frames.icrc(whole)


def reth(length, offset=0):
    return struct.pack(">QII", 0x10000 + offset, KEY, length)


def aeth(syndrome=31):
    return struct.pack(">I", syndrome << 24)


DATA = bytes(range(256)) * 4
ADD = struct.pack(">QIQQ", 0x20000, KEY, 1, 0)
BROUGHT = aeth() + struct.pack(">Q", 7)

# (label, ns after the previous row, sent by the capturing device, role, psn, rest, payload)
REQUESTER = [
    ("first", 0, True, "WRITE_FIRST", 100, reth(1500), DATA),
    ("last", 0, True, "WRITE_LAST", 101, b"", DATA[:476]),
    ("read", 0, True, "READ_REQ", 102, reth(2048), b""),
    ("send", 0, True, "SEND_ONLY", 104, b"", DATA[:8]),
    ("add", 0, True, "FETCH_ADD", 105, ADD, b""),
    ("ack", US, False, "ACK", 101, aeth(), b""),
    ("response", 0, False, "RESP_FIRST", 102, aeth(), DATA),
    ("past", 0, False, "ACK", 104, aeth(), b""),                  # a READ response is missing
    ("past2", 0, False, "ACK", 104, aeth(), b""),
    ("reread", 0, True, "READ_REQ", 103, reth(1024, MTU), b""),
    ("send2", 0, True, "SEND_ONLY", 104, b"", DATA[:8]),
    ("add2", 0, True, "FETCH_ADD", 105, ADD, b""),
    ("nak", US, False, "ACK", 104, aeth(0x60), b""),              # and is still missing
    ("reread2", 0, True, "READ_REQ", 103, reth(1024, MTU), b""),
    ("send3", 0, True, "SEND_ONLY", 104, b"", DATA[:8]),
    ("response2", US, False, "RESP_ONLY", 103, aeth(), DATA),
    ("rnr", 0, False, "ACK", 104, aeth(0x21), b""),               # 10 us
    ("late nak", 0, False, "ACK", 104, aeth(0x60), b""),
    ("send4", 10 * US, True, "SEND_ONLY", 104, b"", DATA[:8]),
    ("add3", 0, True, "FETCH_ADD", 105, ADD, b""),
    ("ack2", US, False, "ACK", 104, aeth(), b""),
    ("probe", 150 * US, True, "FETCH_ADD", 105, ADD, b""),        # does not move the ACK timeout
    ("probe2", 200 * US, True, "FETCH_ADD", 105, ADD, b""),
    ("again", TIMEOUT - 350 * US, True, "FETCH_ADD", 105, ADD, b""),
    ("brought", US, False, "ATOMIC_ACK", 105, BROUGHT, b""),
    ("stale", 0, False, "ACK", 101, aeth(), b""),
    ("new", 0, True, "SEND_ONLY", 106, b"", DATA[:8]),
]
REQUESTER_COUNTS = {"tx_roce": 16, "rx_roce": 11, "retransmitted_packets": 10, "ack_timeouts": 1,
                    "sent_probes": 2,
                    "rcvd_seq_naks": 1, "rcvd_rnr_naks": 1, "read_response_gaps": 1,
                    "stale_responses": 1, "rcvd_fatal_naks": 0}
# The READ's repeated last response may have triggered a reread, but the NAK did too: ambiguous.
GAP_AND_NAK = [
    ("read", 0, True, "READ_REQ", 100, reth(3072), b""),
    ("send", 0, True, "SEND_ONLY", 103, b"", DATA[:8]),
    ("response", US, False, "RESP_FIRST", 100, aeth(), DATA),
    ("gap", 0, False, "RESP_LAST", 102, aeth(), DATA),
    ("reread", 0, True, "READ_REQ", 101, reth(2048, MTU), b""),
    ("send2", 0, True, "SEND_ONLY", 103, b"", DATA[:8]),
    ("gap again", US, False, "RESP_LAST", 102, aeth(), DATA),
    ("nak", 0, False, "ACK", 103, aeth(0x60), b""),
    ("reread2", 0, True, "READ_REQ", 101, reth(2048, MTU), b""),
]
# Ambiguous as well: a probe is due at the time of the reread.
GAP_OR_PROBE = [
    *GAP_AND_NAK[:6],
    ("gap again", 90 * US, False, "RESP_LAST", 102, aeth(), DATA),
    ("reread2", 15 * US, True, "READ_REQ", 101, reth(2048, MTU), b""),
]
# A probe is due when the response comes. It was counted if it came first, also if its packet had to wait to be sent.
LATE_RESPONSE = [
    ("send", 0, True, "SEND_ONLY", 104, b"", DATA[:8]),
    ("ack", 110 * US, False, "ACK", 104, aeth(), b""),
    ("send2", 0, True, "SEND_ONLY", 105, b"", DATA[:8]),
    ("ack2", 90 * US, False, "ACK", 105, aeth(), b""),
]
# The probe of a READ requests one response, and the next requests follow where they would have without it. If its
# response comes first, all others are requested again.
READ_PROBE = [
    ("read", 0, True, "READ_REQ", 100, reth(4096), b""),
    ("response", US, False, "RESP_FIRST", 100, aeth(), DATA),
    ("probe", 110 * US, True, "READ_REQ", 101, reth(1024, MTU), b""),
    ("send", 0, True, "SEND_ONLY", 104, b"", DATA[:8]),
    ("alone", US, False, "RESP_ONLY", 101, aeth(), DATA),
    ("reread", 0, True, "READ_REQ", 102, reth(2048, 2 * MTU), b""),
    ("send2", 0, True, "SEND_ONLY", 104, b"", DATA[:8]),
    ("response2", US, False, "RESP_FIRST", 102, aeth(), DATA),
    ("response3", US, False, "RESP_LAST", 103, aeth(), DATA),
    ("ack", US, False, "ACK", 104, aeth(), b""),
]
# The READ is requested again, all else follows from the rows of UNSURE.
LOST_READ = [
    ("read", 0, True, "READ_REQ", 100, reth(3072), b""),
    ("send", 0, True, "SEND_ONLY", 103, b"", DATA[:8]),
    ("gap", US, False, "ACK", 103, aeth(), b""),
    ("reread", 0, True, "READ_REQ", 100, reth(3072), b""),
    ("send2", 0, True, "SEND_ONLY", 103, b"", DATA[:8]),
]
# A later response shows the gap again. Here a probe is due as well, and only the first moves next back.
GAP_OR_READ_PROBE = [
    *LOST_READ,
    ("gap again", 150 * US, False, "RESP_MIDDLE", 101, b"", DATA),
    ("reread2", 0, True, "READ_REQ", 100, reth(3072), b""),
]
GONE_ON = ("new", 0, True, "SEND_ONLY", 104, b"", DATA[:8])
SEND3 = ("send3", 0, True, "SEND_ONLY", 103, b"", DATA[:8])
# A probe of a SEND is due when its response comes: it may have moved next back before.
LATE_PROBE = [
    ("send", 0, True, "SEND_ONLY", 100, b"", DATA[:8]),
    ("send2", 0, True, "SEND_ONLY", 101, b"", DATA[:8]),
    ("ack", 110 * US, False, "ACK", 100, aeth(), b""),
    ("send3", 0, True, "SEND_ONLY", 101, b"", DATA[:8]),
]
# (label, rows, the rules broken, by how many gaps and probes the counters may be above or below the counts)
UNSURE = [
    ("a probe, then progress, then its packet", LATE_PROBE, set(), (0, 0), (0, 1)),
    ("without the probe", [*LATE_PROBE[:2], ("ack", 90 * US, *LATE_PROBE[2][2:]), *LATE_PROBE[3:]],
     {"REQ-05-rewind"}, (0, 0), (0, 0)),
    ("a gap or the probe of a READ: next moves back", [*GAP_OR_READ_PROBE, SEND3], set(), (-1, 0), (0, 1)),
    ("a gap or the probe of a READ: next stays", [*GAP_OR_READ_PROBE, GONE_ON], set(), (-1, 0), (0, 1)),
    ("a gap alone does not let next stay", [
        *LOST_READ, ("gap again", 50 * US, *GAP_OR_READ_PROBE[5][2:]), GAP_OR_READ_PROBE[6], GONE_ON],
     {"REQ-05-psn"}, (0, 0), (0, 0)),
    ("next stays after a second probe", [
        *GAP_OR_READ_PROBE, ("reread3", 200 * US, *GAP_OR_READ_PROBE[6][2:]), GONE_ON], set(), (-1, 0), (0, 1)),
    ("after a probe any response shows a gap", [
        *GAP_OR_READ_PROBE, ("ack", 50 * US, False, "ACK", 103, aeth(), b""),
        ("reread3", 0, True, "READ_REQ", 100, reth(3072), b""), SEND3], set(), (-1, 0), (0, 1)),
    ("a gap shown twice before it is requested", [
        *LOST_READ, ("gap again", 90 * US, *GAP_OR_READ_PROBE[5][2:]),
        ("once more", 150 * US, *GAP_OR_READ_PROBE[5][2:]), GAP_OR_READ_PROBE[6], SEND3],
     set(), (-1, 1), (0, 1)),
    ("a gap shown again, then the responses", [
        *LOST_READ, ("gap again", 50 * US, *GAP_OR_READ_PROBE[5][2:]),
        ("one", 0, False, "RESP_FIRST", 100, aeth(), DATA), ("two", 0, False, "RESP_MIDDLE", 101, b"", DATA),
        ("three", 0, False, "RESP_LAST", 102, aeth(), DATA), ("ack", 0, False, "ACK", 103, aeth(), b""),
        GONE_ON], set(), (0, 1), (0, 0)),
    ("a gap shown again at the end", [
        *LOST_READ, ("gap again", 50 * US, *GAP_OR_READ_PROBE[5][2:])], set(), (0, 1), (0, 0)),
    ("a READ's probe that asks for one response", [
        *READ_PROBE[:2], ("send", 0, True, "SEND_ONLY", 104, b"", DATA[:8]),
        ("gap", US, False, "RESP_LAST", 103, aeth(), DATA),
        ("reread", 0, True, "READ_REQ", 101, reth(3072, MTU), b""), ("send2", 0, True, "SEND_ONLY", 104, b"", DATA[:8]),
        ("gap again", 150 * US, False, "RESP_LAST", 103, aeth(), DATA),
        ("probe", 0, True, "READ_REQ", 101, reth(1024, MTU), b""),
        ("alone", US, False, "RESP_ONLY", 101, aeth(), DATA),
        ("reread2", 0, True, "READ_REQ", 102, reth(2048, 2 * MTU), b"")], set(), (0, 0), (0, 0)),
]
RESPONDER = [
    ("first", 0, False, "WRITE_FIRST", 500, reth(1500), DATA),
    ("last", 0, False, "WRITE_LAST", 501, b"", DATA[:476]),
    ("ack", 0, True, "ACK", 501, aeth(), b""),
    ("early", US, False, "SEND_ONLY", 503, b"", DATA[:8]),
    ("nak", 0, True, "ACK", 502, aeth(0x60), b""),
    ("early2", US, False, "SEND_ONLY", 504, b"", DATA[:8]),
    ("early again", US, False, "SEND_ONLY", 503, b"", DATA[:8]),  # and 502 is missing again
    ("nak again", 0, True, "ACK", 502, aeth(0x60), b""),
    ("missed", US, False, "SEND_ONLY", 502, b"", DATA[:8]),
    ("behind", 0, False, "SEND_ONLY", 503, b"", DATA[:8]),
    ("ack2", 0, True, "ACK", 503, aeth(), b""),
    ("twice", US, False, "SEND_ONLY", 502, b"", DATA[:8]),
    ("ack3", 0, True, "ACK", 503, aeth(), b""),
    ("read", US, False, "READ_REQ", 504, reth(2048), b""),
    ("response", 0, True, "RESP_FIRST", 504, aeth(), DATA),
    ("response2", 0, True, "RESP_LAST", 505, aeth(), DATA),
    ("reread", US, False, "READ_REQ", 505, reth(1024, MTU), b""),
    ("response3", 0, True, "RESP_ONLY", 505, aeth(), DATA),
    ("no receive", US, False, "SEND_ONLY", 506, b"", DATA[:8]),
    ("behind it", 0, False, "SEND_ONLY", 507, b"", DATA[:8]),
    ("rnr", 0, True, "ACK", 506, aeth(0x21), b""),
    ("now", 20 * US, False, "SEND_ONLY", 506, b"", DATA[:8]),
    ("add", 0, False, "FETCH_ADD", 507, ADD, b""),
    ("brought", 0, True, "ATOMIC_ACK", 507, BROUGHT, b""),
    ("add twice", US, False, "FETCH_ADD", 507, ADD, b""),
    ("brought again", 0, True, "ATOMIC_ACK", 507, BROUGHT, b""),
]
RESPONDER_COUNTS = {"tx_roce": 11, "rx_roce": 15, "duplicate_requests": 3,
                    "out_of_sequence_requests": 4, "sent_acks": 3, "sent_seq_naks": 2,
                    "sent_rnr_naks": 1, "sent_fatal_naks": 0, "sent_read_responses": 3}
ASKS = {"last", "send", "missed", "behind", "now", "add", "new"}  # rows with AckReq


def capture(path, rows, lost=0):
    time, found = 10**18, []
    for label, wait, sent, role, psn, rest, payload in rows:
        time += wait
        ask = label in ASKS and OPCODE[role] not in frames.RESPONSES
        found.append((time, frame(sent, role, psn, rest, payload, ask), sent))
    frames.ng_writer(path, found, lost)


def checked(rows):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "x.pcapng"
        capture(path, rows)
        checker = check.Checker(ack_timeout=14, inside=True)
        checker.read(path)
    return checker


def at(rows, label):
    return next(i for i, row in enumerate(rows) if row[0] == label)


def put(rows, label, **change):
    """The rows with one row changed."""
    names = ("label", "wait", "sent", "role", "psn", "rest", "payload")
    i = at(rows, label)
    row = dict(zip(names, rows[i])) | change
    return [*rows[:i], tuple(row.values()), *rows[i + 1:]]


def without(rows, *labels):
    return [row for row in rows if row[0] not in labels]


def twice(rows, label):
    i = at(rows, label)
    return [*rows[:i + 1], rows[i], *rows[i + 1:]]


def swapped(rows, one, two):
    i, j = at(rows, one), at(rows, two)
    rows = list(rows)
    rows[i], rows[j] = rows[j], rows[i]
    return rows


# Each row: the violated rule, and the rows that break it.
SPOILT = [
    # sends a later PSN without a reason to skip
    ("REQ-05-psn", put(REQUESTER, "new", psn=107)),
    # retransmits an acknowledged PSN
    ("REQ-05-psn", put(REQUESTER, "new", psn=104)),
    # goes back further than the first unacknowledged PSN
    ("REQ-05-psn", put(REQUESTER, "again", psn=103, role="READ_REQ", rest=reth(1024, MTU))),
    # probes too early; probes again before twice that time
    ("REQ-05-rewind", put(REQUESTER, "probe", wait=99 * US)),
    ("REQ-05-rewind", put(REQUESTER, "probe2", wait=199 * US)),
    # goes back without a NAK or a missing response
    ("REQ-05-rewind", without(REQUESTER, "nak")),
    ("REQ-05-rewind", without(REQUESTER, "past", "past2")),
    # retransmits before the RNR timer expires
    ("REQ-06-rnr", put(REQUESTER, "send4", wait=10 * US - 1)),
    # requests the rest of a READ again, although its probe was not answered, or an original response came first
    ("REQ-05-psn", without(READ_PROBE, "alone")),
    ("REQ-05-rewind", put(READ_PROBE, "alone", role="RESP_MIDDLE", rest=b"")),
    ("REQ-04-same", put(REQUESTER, "send4", payload=DATA[1:9])),
    ("REQ-08-reread", put(REQUESTER, "reread", rest=reth(1024))),
    # READ data as the response to a SEND
    ("REQ-09-kind",
     put(REQUESTER, "ack2", role="RESP_ONLY", payload=DATA)[:at(REQUESTER, "probe")]),
    ("WIRE-01-sequence", put(REQUESTER, "new", role="SEND_LAST")),
    # not the ePSN; nothing arrived after it; NAKed twice
    ("NAK-04-psn", put(RESPONDER, "nak", psn=501)),
    ("NAK-04-psn", put(RESPONDER, "brought again", role="ACK", psn=508, rest=aeth(0x60))),
    ("NAK-04-once", put(RESPONDER, "early2", sent=True, role="ACK", psn=502, rest=aeth(0x60),
                        payload=b"")),
    ("NAK-10-psn", put(RESPONDER, "brought again", role="ACK", psn=505, rest=aeth(0x21))),
    # ACKs less than before, more than was executed, and nothing at all
    ("RSP-02-regress", put(RESPONDER, "ack3", psn=502)),
    ("RSP-02-ghost", put(RESPONDER, "ack2", psn=504)),
    ("RSP-02-ackreq", without(RESPONDER, "brought", "add twice", "brought again")),
    # ACKs a PSN after a READ, before the READ's data
    ("RSP-03-order", put(RESPONDER, "response2", role="ACK", psn=505, payload=b"")),
    ("RSP-01-read-psn", swapped(RESPONDER, "response", "response2")),
    ("RSP-01-read-length", put(RESPONDER, "response3", payload=DATA[:512])),
    ("RSP-01-atomic", put(RESPONDER, "brought again", rest=aeth() + struct.pack(">Q", 8))),
]


def case(name, good, why=""):
    _cases.append(good)
    print(f"{'ok' if good else 'not ok'} {len(_cases)} - {name}" + ("" if good else f" # {why}"))


def test_counts():
    for name, rows, want in (("requester", REQUESTER, REQUESTER_COUNTS),
                             ("responder", RESPONDER, RESPONDER_COUNTS)):
        checker = checked(rows)
        counts = checker.counts["device"]
        wrong = {k: counts[k] for k, v in want.items() if counts[k] != v}
        case(f"{name}: no violation", not checker.violations, checker.violations)
        case(f"{name}: the counts", not wrong, wrong)


def test_rules():
    for rule, rows in SPOILT:
        got = {v["rule"] for v in checked(rows).violations}
        case(f"{rule}", got == {rule}, got)
    named = set(re.findall(r'"((?:WIRE|REQ|RSP|NAK)-\d\d-[a-z-]+)"',
                           (HERE / "inside.py").read_text()))
    missing = named - {rule for rule, _ in SPOILT}
    case("every rule of inside.py has a capture that breaks it", named and not missing, missing)


def test_unclear_starts():
    """The first expected PSN follows from the requests received, or from the NAK of a lost one."""
    checker = checked([RESPONDER[1], *RESPONDER])
    case("the second frame came first", not checker.violations and
         checker.counts["device"]["out_of_sequence_requests"] == 5, checker.violations)
    rows = [(*RESPONDER[1][:1], 0, *RESPONDER[1][2:]),
            ("missing", 0, True, "ACK", 500, aeth(0x60), b""), *RESPONDER]
    checker = checked(rows)
    case("the first frame was lost", not checker.violations and
         checker.counts["device"]["out_of_sequence_requests"] == 5, checker.violations)


INTERRUPTED = [  # the end of one READ is reread during the next READ's responses
    ("one", 0, False, "READ_REQ", 500, reth(2048), b""),
    ("two", 0, False, "READ_REQ", 502, reth(2048, 4 * MTU), b""),
    ("one a", 0, True, "RESP_FIRST", 500, aeth(), DATA),
    ("one b", 0, True, "RESP_LAST", 501, aeth(), DATA),
    ("two a", 0, True, "RESP_FIRST", 502, aeth(), DATA),
    ("again", US, False, "READ_REQ", 501, reth(1024, MTU), b""),
    ("one c", 0, True, "RESP_ONLY", 501, aeth(), DATA),
    ("two b", 0, True, "RESP_LAST", 503, aeth(), DATA),
]


PROBED = [  # a probe requests the first response of a READ again while the READ's others are being sent
    ("read", 0, False, "READ_REQ", 500, reth(4 * MTU), b""),
    ("a", 0, True, "RESP_FIRST", 500, aeth(), DATA),
    ("b", 0, True, "RESP_MIDDLE", 501, b"", DATA),
    ("probe", US, False, "READ_REQ", 500, reth(MTU), b""),
    ("a again", 0, True, "RESP_ONLY", 500, aeth(), DATA),
    ("c", 0, True, "RESP_MIDDLE", 502, b"", DATA),
    ("d", 0, True, "RESP_LAST", 503, aeth(), DATA),
]


def test_interrupted_read():
    for name, rows, missing in (("a duplicate", INTERRUPTED, ["two a"]), ("its own probe", PROBED, ["b", "c"])):
        checker = checked(rows)
        case(f"a READ continues behind {name}", not checker.violations, checker.violations)
        for label in missing:
            got = {v["rule"] for v in checked(without(rows, label)).violations}
            case(f"but not without '{label}'", got == {"RSP-01-read-psn"}, got)


def stats(counts, **more):
    drops = {name: counts.get(name, 0) + more.get(name, 0)
             for name in (*check.SPOILT, *check.NO_QP, *check.REFUSED)}
    names = {*check.INSIDE_SENT, *check.INSIDE_GOT, *check.INSIDE_PORT, "excused_timeouts"}
    return {"stats": [{"device": "d", "total": {n: counts.get(n, 0) + more.get(n, 0) for n in names}}],
            "drops": [{"device": "d", "total": drops}]}


def test_unsure():
    """What the capture cannot tell: the counters may differ by as much, not more."""
    for label, rows, rules, gaps, probes in UNSURE:
        counts = checked(rows).counts["device"]
        zero = stats(dict.fromkeys((*check.INSIDE_SENT, *check.INSIDE_GOT, *check.INSIDE_PORT, *check.SPOILT), 0))
        got = {v["rule"] for v in checked(rows).violations}
        case(label, got == rules, got)
        for name, (least, most) in (("read_response_gaps", gaps), ("sent_probes", probes)):
            ranged = []
            for more in range(-3, 4):
                checker = checked(rows)
                checker.violations.clear()
                checker.inside_counters(zero, stats(counts, **{name: more}), "d")
                ranged += [] if checker.violations else [more]
            case(f"{label}: {name}", ranged == list(range(least, most + 1)), ranged)


def test_counters():
    """Compares with a daemon whose counters are off by one."""
    for name in (*check.INSIDE_SENT, *check.INSIDE_GOT, *check.INSIDE_PORT, *check.SPOILT):
        checker = checked(RESPONDER)
        zero = stats({n: 0 for n in (*check.INSIDE_SENT, *check.INSIDE_GOT, *check.INSIDE_PORT,
                                     *check.SPOILT, *check.NO_QP)})
        counts = checker.counts["device"]
        checker.inside_counters(zero, stats(counts), "d")
        good = not checker.violations
        checker.inside_counters(zero, stats(counts, **{name: 1}), "d")
        got = [v["rule"] for v in checker.violations]
        case(f"{name}, one too many", good and got == [f"stats-{name}"], got)
    for more, good in ((0, True), (1, True), (2, False)):
        checker = checked(GAP_AND_NAK)
        checker.inside_counters(zero, stats(checker.counts["device"], read_response_gaps=more), "d")
        case(f"a gap shown twice, then a NAK, {more} more counted",
             (not checker.violations) == good, checker.violations)
    for gaps, probes, good in ((0, 0, True), (-1, 1, True), (-2, 0, False), (0, 2, False)):
        checker = checked(GAP_OR_PROBE)
        checker.inside_counters(zero, stats(checker.counts["device"], read_response_gaps=gaps,
                                            sent_probes=probes), "d")
        case(f"a gap shown twice when a probe is due, {gaps} gaps and {probes} probes more",
             (not checker.violations) == good, checker.violations)
    checker = checked(READ_PROBE)
    case("the probe of a READ", not checker.violations and
         [checker.counts["device"][n] for n in ("sent_probes", "read_response_gaps", "ack_timeouts")] == [1, 1, 0],
         checker.violations or checker.counts["device"])
    for probes, good in ((0, True), (1, True), (2, False)):
        checker = checked(LATE_RESPONSE)
        checker.inside_counters(zero, stats(checker.counts["device"], sent_probes=probes), "d")
        case(f"a response when a probe is due, {probes} probes more", (not checker.violations) == good,
             checker.violations)
    for excused, good in ((0, False), (1, True)):
        checker = checked(REQUESTER)
        checker.inside_counters(zero, stats(checker.counts["device"], ack_timeouts=-1, sent_probes=1,
                                            excused_timeouts=excused), "d")
        case(f"an ACK timeout that was a probe, {excused} excused", (not checker.violations) == good,
             checker.violations)
    checker = checked(RESPONDER)
    checker.inside_counters(zero, stats(checker.counts["device"], rx_roce=-1, bad_qpn=1), "d")
    case("a frame whose QP was gone", not checker.violations, checker.violations)
    checker.inside_counters(zero, stats(checker.counts["device"], rx_roce=-1), "d")
    case("a frame that was not counted", len(checker.violations) == 1, checker.violations)


def spoil(at_byte, bit, data=None):
    data = bytearray(data or frame(False, "SEND_ONLY", 500, b"", DATA[:8]))
    data[at_byte] ^= 1 << bit
    return bytes(data)


def test_spoilt():
    """The drop reason for each place where a bit flips."""
    udp, bth = 34, 42
    for why, data in ((None, frame(False, "ACK", 1, aeth())), ("bad_ip", spoil(14, 5)),
                      ("bad_ip", spoil(30, 0)), ("fragment", spoil(20, 5)),
                      ("ip_protocol", spoil(23, 0)), ("udp_port", spoil(udp + 3, 1)),
                      ("slow_path", spoil(23, 4)), ("ethertype", spoil(12, 6)),
                      ("bad_udp_length", spoil(udp + 5, 0)), ("bad_tver", spoil(bth + 1, 0)),
                      ("runt", spoil(bth, 4)), ("bad_icrc", spoil(bth, 7)),
                      ("bad_icrc", spoil(bth + 11, 0)), ("bad_icrc", spoil(-1, 0)),
                      (None, spoil(bth + 4, 3)), (None, spoil(udp + 7, 3))):
        got = frames.spoilt(data)
        case(f"spoilt: {why}", got == why, got)


def test_refused_files():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "x.pcapng"
        for what, lost, cut in (("frames were lost", 3, None), ("not a whole one", 0, 70)):
            capture(path, REQUESTER, lost)
            path.write_bytes(path.read_bytes()[:cut])
            try:
                checker = check.Checker(inside=True)
                checker.read(path)
                case(what, False, json.dumps(checker.violations))
            except ValueError as error:
                case(what, what in str(error), error)


def test_frames_lost_by_the_injector():
    comments = ("", "QP 5; impaired: dropped (rule 1)", "QP 5; impaired: delayed; dropped: bad_icrc",
                "impaired: waited for the link, dropped by the full queue of the link")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "x.pcapng"
        frames.ng_writer(path, [(1, b"x" * 61, False, text) for text in comments])
        got = [number for number, *_ in frames.records(path)]
    case("frames that the injector dropped were not received", got == [1, 3], got)


def main():
    for test in (test_counts, test_rules, test_unclear_starts, test_interrupted_read, test_counters,
                 test_unsure, test_spoilt, test_refused_files, test_frames_lost_by_the_injector):
        test()
    print(f"1..{len(_cases)}")
    return 0 if all(_cases) else 1


sys.exit(main())
