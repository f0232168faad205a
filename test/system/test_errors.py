#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""errmatrix, the matrix of errors: every row between two daemons, within one device, with two workers, and (RC) on
a network with loss, where errors must still be correct."""
import json
import pathlib
import re
import subprocess
import tempfile

import error_reasons
import lib

ERRMATRIX = lib.BUILD / "test/system/errors/errmatrix"
# The row for the tests that lose one chosen packet; errmatrix sends a good SEND before it.
WRITE_BAD_RKEY = "write_bad_rkey"


def matrix(link, *plan, look=None, env=()):
    """Runs the matrix, responder on b and requester on a; returns both sides' results by row, and the responder's
    output. look: folders of a and of b that get the output of show qp at the end of each row. env: for the responder,
    words of env(1)."""
    port = lib.tcp_port()

    def argv(side):
        given = [ERRMATRIX, "-d", side.dev, "-p", str(port)]
        return [*given, "--look", look_script(side, look[side is link.b])] if look else given

    pair = lib.run_pair(lambda: link.b.spawn([*env, *argv(link.b)]),
                        lambda: link.a.spawn([*argv(link.a), "--json", *plan, link.b.host]),
                        port, 3 * lib.processes.HANGS_S)
    seen = [json.loads(line) for line in pair.client.output().splitlines() if line[:1] == "{"]
    assert pair.server_rc == 0 and pair.client_rc in (0, 1) and seen, (
        f"responder {pair.server_rc}:\n{pair.server.tail()}\n"
        f"requester {pair.client_rc}:\n{pair.client.tail()}")
    return {row["row"]: row for row in seen}, pair.server.output()


def rows(link, *plan, **options):
    return matrix(link, *plan, **options)[0]


def look_script(side, folder):
    """A program that errmatrix runs: it saves the daemon's view of the queue pair."""
    script = folder / "look.sh"
    script.write_text(f'#!/bin/sh\n{lib.UROCECTL} --socket {side.daemon.socket} --json show qp "$2" > {folder}/"$1".json\n')
    script.chmod(0o755)
    return str(script)


# Requirements: CQE-16
def reasons(link):
    """Each row is named on both sides, by vendor_err and by show qp."""
    with tempfile.TemporaryDirectory(prefix="uroce-why-") as top:
        folders = [pathlib.Path(top, side) for side in "ab"]
        for folder in folders:
            folder.mkdir()
        seen = {}
        with lib.case("reasons: the matrix ran"):
            seen = rows(link, look=folders)
        for name, row in seen.items():
            with lib.case(f"reasons: {name}"):
                error_reasons.check_row(row, folders)
    traces(link)


def trace(side, *words, json_text=True, **options):
    argv = [lib.UROCECTL, "--socket", side.daemon.socket, *(["--json"] if json_text else []), "trace", *words]
    return subprocess.run(argv, text=True, capture_output=True, timeout=60, **options)


def traces(link):
    """urocectl trace shows destroyed queue pairs; other users see none of them."""
    with lib.case("trace: the failed queue pairs that were destroyed are listed"):
        listed = json.loads(trace(link.b).stdout)["trace"]
        assert 0 < len(listed) <= 256 and all(qp["destroyed"] for qp in listed), listed
        failed = [qp for qp in listed if qp["type"] == "RC" and qp["last_error"] == "rkey_unknown"]
        assert failed and all(qp["program"] == "errmatrix" for qp in failed), listed
        assert not any("records" in qp for qp in listed)
    with lib.case("trace: the events of one queue pair, in words"):
        one = json.loads(trace(link.b, str(failed[-1]["qpn"])).stdout)["trace"][-1]
        kinds = [record["what"] for record in one["records"]]
        assert "failed" in kinds and "nak_sent" in kinds and kinds[0] == "state", one
        times = [record["time_ns"] for record in one["records"]]
        assert times == sorted(times), times
        text = trace(link.b, str(failed[-1]["qpn"]), json_text=False).stdout
        for words in ("the R_Key names no region", "sent NAK remote access error", "state RTR > RTS", "destroyed"):
            assert words in text, text
    with lib.case("trace: another user sees nothing of them"):
        socket = pathlib.Path(link.b.daemon.socket)
        socket.parent.chmod(0o711)
        socket.chmod(0o666)
        done = trace(link.b, str(failed[-1]["qpn"]), user=65534, group=65534)
        assert done.returncode == 1 and "no QP" in done.stderr, (done.stdout, done.stderr)
        assert json.loads(trace(link.b, user=65534, group=65534).stdout)["trace"] == []


def good(row):
    assert row["ok"], "\n".join([*row["problems"], json.dumps(row)])


def statuses(row, side, queue):
    return [status for _, status in row[side][queue]]


def check(label, link, *plan):
    """One TAP line per row; returns the results."""
    seen = {}
    with lib.case(f"{label}: the matrix ran"):
        seen = rows(link, *plan)
    for name, row in seen.items():
        with lib.case(f"{label}: {name}"):
            good(row)
    return seen


def impair(side, spec):
    """Runs urocectl impair; returns its counters."""
    return side.daemon.impair(side.dev, *(("set", spec) if spec else ("show",)))


def lossy(link):
    """Loses 1% of the frames each way. A NAK is sent once: if it is lost, the requester times out."""
    for seed, side in enumerate((link.a, link.b), 1):
        impair(side, f"drop=1%,dup=1%,seed={seed}")
    seen = check(f"{link.kind}, 1% lost", link, "--lossy")
    with lib.case(f"{link.kind}, 1% lost: as many NAKs are missing as were lost, at most"):
        dropped = [impair(side, None)["drop"] for side in (link.a, link.b)]
        # Rows without a responding peer end in RETRY_EXC_ERR even without loss.
        missing = [name for name, row in seen.items() if "_peer" not in name and
                   "RETRY_EXC_ERR" in statuses(row, "requester", "sends")]
        assert sum(dropped) > 0 and len(missing) <= dropped[0], (dropped, missing)


def request_lost(link):
    """The invalid request is lost; the responder refuses its retransmission."""
    impair(link.a, "drop=0%")
    impair(link.b, "rule:opcode=RC_WRITE_ONLY,nth=1,count=1,action=drop")
    row = rows(link, "--lossy", "--only", WRITE_BAD_RKEY)[WRITE_BAD_RKEY]
    assert impair(link.b, None)["rules"][0]["acted"] == 1
    good(row)
    assert statuses(row, "requester", "sends")[1] == "REM_ACCESS_ERR", row


def event_reason(link):
    """With UROCE_VERBOSE a program prints why it gets an asynchronous event."""
    seen, said = matrix(link, "--only", WRITE_BAD_RKEY, env=["env", "UROCE_VERBOSE=1"])
    good(seen[WRITE_BAD_RKEY])
    assert re.search(r"^uroce: asynchronous event '.*access.*': the R_Key names no region or window "
                     r"\(rkey_unknown, vendor_err 0x101\)$", said, re.M), said


def failures_counted(link, before):
    """Each failed completion and refused access of one row is counted once, by its side."""
    after = [side.daemon.counters("stats") for side in (link.a, link.b)]
    grown = [{name: now[name] - old[name] for name in now if "_error" in name or "_invalid" in name}
             for now, old in zip(after, before)]
    assert grown[0]["req_remote_access_errors"] == 1 and grown[1]["resp_remote_access_errors"] == 1, grown
    for side, kind in ((grown[0], "req"), (grown[1], "resp")):
        assert side[f"{kind}_cqe_error"] >= side[f"{kind}_cqe_flush_error"], grown
    assert grown[0]["req_cqe_error"] - grown[0]["req_cqe_flush_error"] == 1, grown
    assert grown[0]["req_remote_invalid_request"] == grown[1]["resp_local_length_error"] == 0, grown


def nak_lost(link):
    """The responder's NAK is lost, which has the PSN after that of the good SEND. The responder is in ERR and sends
    nothing more (QP-19)."""
    for side in (link.a, link.b):  # a probe would be answered by another ACK
        side.daemon.ctl("probe", "set", "off", "dev", side.dev)
    impair(link.a, "rule:opcode=RC_ACK,psn=0xffffff,action=drop")
    impair(link.b, "drop=0%")
    row = rows(link, "--lossy", "--only", WRITE_BAD_RKEY)[WRITE_BAD_RKEY]
    assert impair(link.a, None)["rules"][0]["acted"] == 1
    good(row)
    assert statuses(row, "requester", "sends")[1] == "RETRY_EXC_ERR", row
    assert row["responder"]["events"] == ["QP_ACCESS_ERR"], row


def end(link):
    link.end(link.kind)


def main():
    lib.need_root()
    link = lib.link_veth()
    check(link.kind, link)
    reasons(link)
    with lib.case("UROCE_VERBOSE: the reason of an asynchronous event"):
        event_reason(link)
    with lib.case("counters: one refused WRITE, by side and status"):
        before = [side.daemon.counters("stats") for side in (link.a, link.b)]
        rows(link, "--only", WRITE_BAD_RKEY)
        failures_counted(link, before)
    check(f"{link.kind}, path MTU 256", link, "--mtu", "256", "--only", "_long_")
    lossy(link)
    # Requirements: CQE-10, REQ-04
    with lib.case("request lost: its retransmission gets the same error"):
        request_lost(link)
    # Requirements: CQE-12, NAK-12, QP-19
    with lib.case("nak lost: the requester gives up, as with a silent peer"):
        nak_lost(link)
    end(link)
    link = lib.link_loop()
    check(link.kind, link)
    end(link)
    link = lib.link_ring(extra=lib.TWO_WORKERS)
    check(f"{link.kind}, two workers", link)
    end(link)
    lib.finish()


main()
