#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The checker accepts rxe's captures except for the deviations listed here. A capture with one error fails by that
error's rule alone."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import check  # pylint: disable=wrong-import-position
import frames  # pylint: disable=wrong-import-position
import half  # pylint: disable=wrong-import-position

PCAPS = HERE.parent / "pcaps"
# Known deviations of the captures, by rule.
DEVIATES = {
    # No QP has that QPN, so nothing is acknowledged.
    "rc_retry_exceeded": {"RSP-02-ackreq"},
    # Handmade frames that probe what rxe accepts: a wrong ICRC, reserved bits, DF clear, another source port, one
    # PSN with other bytes.
    "tap_host_view": {"WIRE-03-icrc", "WIRE-04-reserved", "WIRE-02-df", "WIRE-02-port",
                      "REQ-04-same"},
}
MS = 10**6


class Capture:
    """Frames of a capture that a test modifies."""

    def __init__(self, name):
        self.frames = [[time, bytearray(data)] for _, time, data in
                       frames.reader(PCAPS / f"{name}.pcap")]

    def at(self, role, nth=0):
        """Index of the nth frame of a role."""
        return [i for i, (time, data) in enumerate(self.frames)
                if frames.decode(i, time, bytes(data)).role == role][nth]

    def put(self, i, offset, *values, repair=True):
        """Changes bytes, counted from the BTH, and recomputes the ICRC."""
        data = self.frames[i][1]
        at = frames.udp_offset(data) + 8 + offset
        data[at:at + len(values)] = bytes(values)
        return self.mend(i) if repair else self

    def mend(self, i):
        data = self.frames[i][1]
        udp = frames.udp_offset(data)
        end = udp + int.from_bytes(data[udp + 4:udp + 6], "big")
        data[end - 4:end] = frames.icrc(data)
        return self

    def psn(self, i, change):
        """Adds to a PSN."""
        data = self.frames[i][1]
        at = frames.udp_offset(data) + 8 + 9
        new = int.from_bytes(data[at:at + 3], "big") + change
        return self.put(i, 9, *(new & 0xFFFFFF).to_bytes(3, "big"))

    def cut(self, i, n):
        """Removes n bytes from the end of a payload."""
        data = self.frames[i][1]
        udp = frames.udp_offset(data)
        del data[udp + int.from_bytes(data[udp + 4:udp + 6], "big") - n:]
        at = frames.ip_offset(data)
        field = at + 2 if data[at] >> 4 == 4 else at + 4
        for where in (field, udp + 4):
            size = int.from_bytes(data[where:where + 2], "big") - n
            data[where:where + 2] = size.to_bytes(2, "big")
        return self.mend(i)

    def again(self, i, later=1000):
        """Inserts a copy of a frame right after it."""
        time, data = self.frames[i]
        self.frames.insert(i + 1, [time + later, bytearray(data)])
        return self

    def drop(self, *numbers):
        self.frames = [f for i, f in enumerate(self.frames) if i not in numbers]
        return self

    def bits(self, i, offset, mask):
        data = self.frames[i][1]
        return self.put(i, offset, data[frames.udp_offset(data) + 8 + offset] ^ mask)

    def udp(self, i, offset, *values):
        data = self.frames[i][1]
        at = frames.udp_offset(data) + offset
        data[at:at + len(values)] = bytes(values)
        return self.mend(i)

    def no_df(self, i):
        data = self.frames[i][1]
        data[frames.ip_offset(data) + 6] &= ~0x40
        return self.mend(i)

    def shift(self, first, ns):
        """Moves all frames from first on later (or earlier)."""
        for f in self.frames[first:]:
            f[0] += ns
        return self

    def follow(self, i, ns):
        """Moves frame i and all after it, so that frame i comes ns after its predecessor."""
        return self.shift(i, self.frames[i - 1][0] + ns - self.frames[i][0])


def on(name, change, *args):
    """A changed capture: change(capture, index of a frame of a role, ..)."""
    capture = Capture(name)
    return change(capture, *(capture.at(*((a,) if isinstance(a, str) else a)) for a in args))


def rules(capture, lossy=False):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "x.pcap"
        frames.writer(path, capture.frames)
        checker = check.Checker(lossy)
        checker.read(path)
    return {v["rule"] for v in checker.violations}


# Each row: the violated rule, lossy, capture, change, frames by (role, nth).
SPOILT = [
    ("WIRE-01-opcode", True, "rc_loss_ack", lambda c, i: c.put(i, 0, 0x1F), ("ACK", -1)),
    ("WIRE-01-sequence", False, "rc_write", lambda c, i: c.put(i, 0, 1), "WRITE_MIDDLE"),
    ("WIRE-01-sequence", False, "rc_read_psn_wrap", lambda c, i: c.put(i, 0, 15), "RESP_FIRST"),
    ("WIRE-02-port", False, "rc_send", lambda c, i: c.udp(i, 2, 0x12, 0xB8), ("ACK", 0)),
    ("WIRE-02-port", False, "rc_send", lambda c, i: c.udp(i, 0, 0x12), "SEND_ONLY"),
    ("WIRE-02-port", False, "rc_send", lambda c, i: c.udp(i, 0, 0xC1, 0x77), ("SEND_ONLY", 2)),
    ("WIRE-02-df", False, "rc_send", Capture.no_df, "SEND_ONLY"),
    ("WIRE-03-icrc", True, "rc_loss_ack", lambda c, i: c.put(i, 13, 0xA5, repair=False),
     ("ACK", -1)),
    ("WIRE-04-reserved", False, "rc_send", lambda c, i: c.bits(i, 4, 1), "ACK"),
    ("WIRE-04-reserved", False, "rc_send", lambda c, i: c.bits(i, 8, 2), "ACK"),
    ("WIRE-04-reserved", False, "rc_send", lambda c, i: c.bits(i, 1, 1), "ACK"),
    ("WIRE-04-pad", True, "rc_loss_middle", lambda c, i: c.bits(i, 1, 0x10), ("WRITE_MIDDLE", -1)),
    # The fatal NAK responds to an invalid request and breaks no rule (NAK-07).
    ("WIRE-01-opcode", False, "nak_access_rkey",
     lambda c, i, nak: c.put(i, 0, 0x1F).put(nak, 12, 0x61), "WRITE_ONLY", "ACK"),
    ("WIRE-04-pad", False, "nak_access_rkey", lambda c, i, nak: c.cut(i, 1).put(nak, 12, 0x61),
     "WRITE_ONLY", "ACK"),
    ("WIRE-04-bare", False, "nak_access_rkey",
     lambda c, i, nak: c.put(i, 0, 12).put(nak, 12, 0x61), "WRITE_ONLY", "ACK"),
    ("WIRE-05-payload", False, "rc_send_imm", lambda c, i: c.cut(i, 4), "SEND_MIDDLE"),
    ("WIRE-05-dmalen", False, "rc_write", lambda c, i: c.put(i, 27, 3), "WRITE_FIRST"),
    ("WIRE-05-dmalen", False, "rc_write", lambda c, i: c.put(i, 26, 9), "WRITE_ONLY"),
    ("REQ-04-same", True, "rc_loss_middle", lambda c, i: c.bits(i, 12, 1), ("WRITE_MIDDLE", -1)),
    ("REQ-05-psn", False, "rc_ack_coalescing", lambda c, i, ack: c.psn(i, 1).psn(ack, 1),
     ("WRITE_ONLY", -1), ("ACK", -1)),
    ("REQ-05-rewind", True, "rc_loss_only", lambda c, i: c.follow(i, MS // 20), ("WRITE_ONLY", -1)),
    ("REQ-06-rnr", False, "rc_rnr", lambda c, i: c.shift(i, -5 * MS), ("SEND_ONLY", 1)),
    ("REQ-08-reread", True, "rc_loss_read_resp", lambda c, i: c.bits(i, 18, 4), ("READ_REQ", 1)),
    ("RSP-01-read-psn", False, "rc_read_psn_wrap", lambda c, i: c.drop(i), ("RESP_MIDDLE", 0)),
    ("RSP-01-read-length", False, "mtu_sweep_256", lambda c, i: c.cut(i, 4), "RESP_LAST"),
    ("RSP-01-atomic", False, "rc_atomics", lambda c, i: c.again(i).bits(i + 1, 20, 1),
     "ATOMIC_ACK"),
    ("RSP-02-regress", False, "rc_send", lambda c, i: c.psn(i, -1).again(i).psn(i, 1), ("ACK", -1)),
    ("RSP-02-ghost", False, "rc_send", lambda c, i: c.again(i).psn(i + 1, 1), ("ACK", -1)),
    ("RSP-02-ackreq", False, "rc_send", lambda c, i: c.drop(i), ("ACK", -1)),
    ("NAK-01-kind", False, "rc_send", lambda c, i: c.again(i).put(i + 1, 12, 0x6A), ("ACK", 0)),
    ("NAK-04-psn", False, "rc_send", lambda c, i: c.again(i).put(i + 1, 12, 0x60), ("ACK", -1)),
    ("NAK-04-psn", True, "rc_loss_middle", lambda c, i: c.again(i).psn(i + 1, 60), ("ACK", 0)),
    ("NAK-04-once", True, "rc_loss_middle", Capture.again, ("ACK", 0)),
    ("NAK-05-psn", False, "nak_access_rkey", lambda c, i: c.psn(i, 1), "ACK"),
    ("NAK-06-quiet", False, "nak_access_rkey", lambda c, i: c.again(i).put(i + 1, 12, 31), "ACK"),
    ("NAK-10-psn", False, "rc_rnr", lambda c, i: c.again(i).psn(i + 1, 1), "ACK"),
]
_cases = []


def case(name, good, why=""):
    _cases.append(good)
    print(f"{'ok' if good else 'not ok'} {len(_cases)} - {name}" + ("" if good else f" # {why}"))


def test_captures():
    for path in sorted(PCAPS.glob("*.pcap")):
        meta = path.with_suffix(".json")
        lossy = meta.exists() and bool(json.loads(meta.read_text()).get("drop_first_of_every_two"))
        got = rules(Capture(path.stem), lossy)
        case(f"rxe: {path.stem}", got == DEVIATES.get(path.stem, set()), got)


def test_mutations():
    for rule, lossy, name, change, *at in SPOILT:
        got = rules(on(name, change, *at), lossy)
        case(f"{rule} in {name}", got == {rule}, got)


def test_every_rule_is_spoilt():
    """Every rule has a capture that breaks it."""
    # test_inside.py covers the rules of inside.py.
    source = (HERE / "check.py").read_text() + (HERE / "half.py").read_text()
    named = set(re.findall(r'"((?:WIRE|REQ|RSP|NAK)-\d\d-[a-z-]+)"', source))
    missing = named - {row[0] for row in SPOILT}
    case("every rule has a capture that breaks it", named and not missing, missing)


def test_counters():
    """Compares the counts of a capture with a correct daemon and with one that counts one too many."""
    checker = check.Checker(lossy=True)
    checker.read(PCAPS / "rc_loss_middle.pcap")
    counts = checker.counts["10.78.0.1"]
    want = {"tx_roce": 10, "rx_roce": 2, "retransmitted_packets": 4, "rcvd_seq_naks": 1}
    case("counts of rc_loss_middle", all(counts[k] == v for k, v in want.items()), counts)

    def stats(**more):
        total = {name: counts[name] + 7 + more.get(name, 0) for name in check.DETERMINED}
        return {"stats": [{"device": "d", "total": total}]}

    zero = {"stats": [{"device": "d", "total": dict.fromkeys(check.DETERMINED, 7)}]}
    checker.counters(zero, stats(), "d", "10.78.0.1")
    case("equal counters pass", not checker.violations, checker.violations)
    for name in check.DETERMINED:
        checker.violations.clear()
        checker.counters(zero, stats(**{name: 1}), "d", "10.78.0.1")
        got = [v["rule"] for v in checker.violations]
        case(f"{name}, one too many", got == [f"stats-{name}"], got)


def rnr_again(later):
    """The checker of a capture with a second RNR NAK, so many ns behind the first."""
    capture = on("rc_rnr", lambda c, i: c.again(i, later), "ACK")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "x.pcap"
        frames.writer(path, capture.frames)
        checker = check.Checker()
        checker.read(path)
    return checker


def test_rnr_again():
    """A request sent twice before the RNR NAK arrives gets two of them; the requester takes the first. Of one that
    comes when the wait may be over, but the next request is not in the capture yet, nobody knows."""
    checker = rnr_again(1000)
    counts = {name: sum(c[name] for c in checker.counts.values()) for name in ("sent_rnr_naks", "rcvd_rnr_naks")}
    case("a second RNR NAK is sent, but not taken", counts["sent_rnr_naks"] == counts["rcvd_rnr_naks"] + 1, counts)
    case("two RNR NAKs break no rule", not checker.violations, checker.violations)
    capture = Capture("rc_rnr")
    wait = capture.frames[capture.at("ACK") + 1][0] - capture.frames[capture.at("ACK")][0]
    for later, most in ((1000, 0), (wait - 1000, 1)):
        checker = rnr_again(later)
        address = max(checker.counts, key=lambda a: checker.counts[a]["rcvd_rnr_naks"])
        told = {name: checker.counts[address][name] for name in check.DETERMINED}
        for more in range(3):
            checker.violations.clear()
            after = {**told, "rcvd_rnr_naks": told["rcvd_rnr_naks"] + more}
            checker.counters(*({"stats": [{"device": "d", "total": t}]} for t in (dict.fromkeys(told, 0), after)), "d",
                             address)
            case(f"a second RNR NAK {later // 1000} us later, {more} more taken",
                 bool(checker.violations) == (more > most), checker.violations)


def test_tables():
    header = (HERE.parent.parent / "lib/counters/counters.h").read_text().split("DROP_LIST", maxsplit=1)[0]
    named = set(re.findall(r'X\([A-Z_]+,\s*"([a-z_]+)"', header))
    told = {*check.DETERMINED, *check.UNDETERMINED}
    case("every counter is compared, or it is said why not", named == told, named ^ told)
    case("NAK-11 has 32 codes", len(half.RNR_US) == 32)


def test_program():
    def status(*args):
        return subprocess.run([sys.executable, HERE / "check.py", *args], timeout=300, check=False,
                              capture_output=True).returncode

    case("exit status 0", status(PCAPS / "rc_send.pcap") == 0)
    case("exit status 1", status("--json", PCAPS / "tap_host_view.pcap") == 1)
    case("exit status 2", status("--stats", "a", "b", PCAPS / "rc_send.pcap") == 2)


def main():
    for test in (test_captures, test_mutations, test_every_rule_is_spoilt, test_counters, test_rnr_again,
                 test_tables, test_program):
        test()
    print(f"1..{len(_cases)}")
    return 0 if all(_cases) else 1


sys.exit(main())
