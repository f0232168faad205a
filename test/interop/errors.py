# SPDX-License-Identifier: BSD-3-Clause
"""The matrix of errors (test/system/errors) between uroce and rxe, each way round.

A row is run as it is, or it is in one of the tables below. DEVIATIONS says what rxe of Linux 6.1
does instead, and that is what is asserted: a row that became right, or wrong in another way, fails.
NOT_RUN are rows that tell nothing about uroce, or that the guest does not survive; each with why.
doc/interop.md says in words what the tables say.

rxe raises no asynchronous event of a queue pair, except for the last WQE of an SRQ: errmatrix is told so
with --no-events.
"""
import fnmatch
import json
import shutil

from guest import lib

ERRMATRIX = lib.BUILD / "test/system/errors/errmatrix"
PATIENCE_S = 2   # of rows where something never comes
F = "FLUSH"


def flushed(*statuses, n):
    """A queue's completions: statuses, and n that were flushed."""
    return " ".join([*statuses, *[F] * n])


GOOD = "SUCCESS"
CHANGED = "changed where it must not be, or not where it must"
# What a responder sees that takes as good what it should have refused; 5 sends were posted.
TAKEN = {"requester sends": flushed(*[GOOD] * 5, n=1), "requester state": "RTS",
         "requester memory": CHANGED, "responder receives": flushed(GOOD, GOOD, n=4),
         "responder state": "RTS", "responder memory": CHANGED}
BAD_WQE = {"responder receives": flushed(GOOD, "LOC_QP_OP_ERR", n=4)}
OTHER_STATUS = {"responder receives": flushed(GOOD, "REM_ACCESS_ERR", n=4)}
SQE_IS_ERR = {"requester state": "ERR", "responder receives": flushed(GOOD, n=5),
              "responder memory": CHANGED}

# way -> pattern of row names -> what is seen of the things that are not as they should be
DEVIATIONS = {
    "uroce -> rxe": {
        # Every bad receive WQE is an operation error to it, a short one too.
        "send_recv_*": BAD_WQE,
        "send_long_recv_range": BAD_WQE,
        "send_imm_recv_*": BAD_WQE,
        "send_inv_recv_lkey": BAD_WQE,
        "send*_recv_short": {**BAD_WQE, "requester sends": flushed(GOOD, "REM_OP_ERR", n=4)},
        "send_srq_recv_lkey": {"responder receives": "SUCCESS LOC_QP_OP_ERR"},
        "send_srq_recv_short": {"responder receives": "SUCCESS LOC_QP_OP_ERR",
                                "requester sends": flushed(GOOD, "REM_OP_ERR", n=4)},
        "uc_send*_recv_*": BAD_WQE,
        "ud_send*_recv_*": BAD_WQE,
        "ud_send_recv_short": {**BAD_WQE, "responder state": "ERR", "responder memory": CHANGED},
        "write_imm_bad_rkey": OTHER_STATUS,
        "write_imm_other_pd": OTHER_STATUS,
        "write_imm_deregistered": OTHER_STATUS,
        "write_imm_no_right": OTHER_STATUS,
        "write_imm_past_end": OTHER_STATUS,
        "write_imm_before_start": OTHER_STATUS,
        "write_imm_wrap": OTHER_STATUS,
        "write_imm_window_*": OTHER_STATUS,
        # The receive is asked for before the R_Key.
        "write_imm_bad_rkey_no_recv": {
            "requester sends": flushed(GOOD, "RNR_RETRY_EXC_ERR", n=4),
            "responder state": "RTS"},
        # A window's own range is not looked at, only its region's.
        "write_window_range": TAKEN,
        # max_dest_rd_atomic is looked at only for being 0.
        "read_depth_overrun": {**TAKEN, "requester sends": flushed(*[GOOD] * 6, n=1)},
        # The window of another queue pair is invalidated all the same.
        "send_inv_window_other_qp": {
            **TAKEN, "responder receives": flushed(GOOD, GOOD, GOOD, n=3)},
        # UC drops such a message and goes on; uroce reports the error (CQE-07, EVT-03).
        "uc_write_bad_rkey": {
            "responder receives": flushed(GOOD, GOOD, n=4), "responder state": "RTS",
            "responder memory": CHANGED},
        "uc_write_imm_bad_rkey": {
            "responder receives": flushed(GOOD, GOOD, n=4), "responder state": "RTS",
            "responder memory": CHANGED},
    },
    "rxe -> uroce": {
        # Refused by rxe's provider.
        "*_misaligned": {"requester post": "errno 22", "requester sends": flushed(GOOD, n=1),
                         "requester state": "RTS", "responder state": "RTS",
                         "responder events": "none"},
        # Goes out; uroce refuses it.
        "read_too_long": {"requester sends": flushed(GOOD, "REM_INV_REQ_ERR", n=4),
                          "responder events": "QP_REQ_ERR", "responder state": "ERR"},
        # Never sent, never completed.
        "read_no_credit": {"requester sends": flushed(GOOD, n=5), "requester state": "RTS"},
        # A receive that is posted in ERR stays there.
        "send_in_err": {"requester receives": flushed(n=2)},
        # There is no SQE: local errors on UC and UD end in ERR.
        "uc_send_own_bad_lkey": {**SQE_IS_ERR,
                                 "requester sends": flushed(GOOD, "LOC_QP_OP_ERR", n=3)},
        "ud_send_own_bad_lkey": {**SQE_IS_ERR,
                                 "requester sends": flushed(GOOD, "LOC_QP_OP_ERR", n=2)},
        # Foreign operations are taken, and end in error.
        "uc_read": {"requester post": "errno 0", "requester state": "ERR",
                    "requester sends": flushed(GOOD, "LOC_QP_OP_ERR", n=3)},
        "uc_send_inv": {"requester post": "errno 0", "requester state": "ERR",
                        "requester sends": flushed(GOOD, "LOC_QP_OP_ERR", n=3)},
        "ud_write": {"requester post": "errno 0", "requester state": "ERR",
                     "requester sends": flushed(GOOD, "LOC_QP_OP_ERR", n=2)},
        "ud_read": {"requester post": "errno 0", "requester state": "ERR",
                    "requester sends": flushed(GOOD, "LOC_QP_OP_ERR", n=2)},
    },
}

NOT_RUN = {
    "uroce -> rxe": {
        "send_inv_bad_rkey": "rxe acknowledges it, if asked to, before it finds the key wrong: the end depends on "
                             "whether uroce had another message to ask with",
        "send_inv_region": "as send_inv_bad_rkey",
        "write_imm_window_range": "as write_window_range",
        "read_window_range": "as write_window_range",
        "fetch_add_window_range": "as write_window_range",
        "cmp_swap_depth_overrun": "as read_depth_overrun",
        "fetch_add_depth_overrun": "as read_depth_overrun",
        "uc_write_past_end": "as uc_write_bad_rkey",
        "uc_write_no_right": "as uc_write_bad_rkey",
        "uc_write_imm_long_bad_rkey": "as uc_write_bad_rkey",
        "*_own_*": "uroce's own errors: rxe meets none of them",
        "bind_mw_*": "uroce's own errors: rxe meets none of them",
        "local_inv_*": "uroce's own errors: rxe meets none of them",
        "u[cd]_write_too_long": "uroce's own errors: rxe meets none of them",
    },
    "rxe -> uroce": {
        "local_inv_unbound": "rxe's kernel panics",
        "*_depth_overrun": "the emulated rxe may send the second READ after the first is answered",
        "ud_bind_mw": "the program crashes on rxe, it seems in its provider",
        "ud_local_inv": "not tried: ud_bind_mw crashes",
        "bind_mw_*": "rxe's own errors: uroce meets none of them, and rxe ends them in many ways",
        "local_inv_*": "rxe's own errors: uroce meets none of them",
        "*_own_*": "rxe's own errors: uroce meets none of them, and rxe ends them in many ways",
        "*_too_long": "rxe's own errors: uroce meets none of them, and rxe ends them in many ways",
        "*_of_16_bytes": "rxe takes 8 of the 16 bytes",
        "cmp_swap_no_credit": "as read_no_credit",
        "fetch_add_no_credit": "as read_no_credit",
        "write_imm_in_err": "as send_in_err",
        "read_in_err": "as send_in_err",
        "fetch_add_in_err": "as send_in_err",
        "uc_*bind_mw_*": "as uc_send_own_bad_lkey",
        "uc_local_inv_*": "as uc_send_own_bad_lkey",
        "ud_send_ah_other_pd": "as ud_send_own_bad_lkey",
        "uc_cmp_swap": "as uc_read",
        "uc_fetch_add": "as uc_read",
        "ud_*write_imm": "as ud_write",
        "ud_cmp_swap": "as ud_read",
        "ud_fetch_add": "as ud_read",
        "ud_send_inv": "as ud_read",
    },
}


def plan(way, names):
    """Names of rows to run as they are, and name -> deviation of those that are known to differ. Of
    several patterns that fit the longest one counts."""
    plain, differ = [], {}
    table = {**NOT_RUN[way], **DEVIATIONS[way]}
    assert len(table) == len(NOT_RUN[way]) + len(DEVIATIONS[way]), "a pattern is in both tables"
    for name in names:
        fits = [p for p in table if fnmatch.fnmatchcase(name, p)]
        what = table[max(fits, key=len)] if fits else None
        if what is None:
            plain.append(name)
        elif isinstance(what, dict):
            differ[name] = what
    return plain, differ


def differences(row):
    """{"responder state": "RTS"} of "responder state: RTS, not ERR"."""
    out = {}
    for problem in row["problems"]:
        what, rest = problem.split(": ", 1)
        out[what] = rest.rsplit(", not ", 1)[0] if "memory" not in what else rest
    return out


def run_rows(ours, rxe, way, names, patience):
    """Runs rows one way; what was seen, by row."""
    uroce_asks = way == "uroce -> rxe"
    asks, answers = (ours, rxe) if uroce_asks else (rxe, ours)
    (rxe.guest.share / "rows").write_text("\n".join(names) + "\n")
    port = lib.tcp_port()

    def argv(side, *more):
        if side is rxe:
            return ["./errmatrix", "-d", rxe.dev, "--no-events", *more]
        return [str(ERRMATRIX), "-d", ours.dev, *more]

    common = ["-p", str(port), "--patience", str(patience)]
    rows = "rows" if asks is rxe else str(rxe.guest.share / "rows")
    pair = lib.run_pair(
        lambda: answers.spawn(argv(answers, *common)),
        lambda: asks.spawn(argv(asks, *common, "--json", "--timeout", "18", "--rows", rows,
                                answers.host)), port, 90)
    assert pair.server_rc == 0 and pair.client_rc in (0, 1), (
        f"responder {pair.server_rc}:\n{pair.server.output()[-1500:]}\n"
        f"requester {pair.client_rc}:\n{pair.client.output()[-1500:]}")
    seen = [json.loads(line) for line in pair.client.output().splitlines() if line[:1] == "{"]
    return {row["row"]: row for row in seen}


def one_way(ours, rxe, way, names):
    plain, differ = plan(way, names)
    for rows, patience in ((plain, 15), (list(differ), PATIENCE_S)):
        seen = {}
        with lib.case(f"{way}: errors, {len(rows)} rows{' where rxe differs' * (rows != plain)}"):
            seen = run_rows(ours, rxe, way, rows, patience)
            assert set(seen) == set(rows), set(rows) - set(seen)
        for name, row in seen.items():
            with lib.case(f"{way}: {name}{' (as rxe has it)' * (name in differ)}"):
                assert differences(row) == differ.get(name, {}), "\n".join(
                    [*row["problems"], json.dumps(row)])


def run(ours, rxe):
    """The whole of it: ours a lib.Side, rxe run.py's GuestSide."""
    shutil.copy(ERRMATRIX, rxe.guest.share / "errmatrix")
    names = lib.sh(ERRMATRIX, "--list").split()
    for way in DEVIATIONS:
        one_way(ours, rxe, way, names)
