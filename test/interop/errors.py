# SPDX-License-Identifier: BSD-3-Clause
"""The matrix of errors (test/system/errors) between uroce and rxe, in both directions.

DEVIATIONS lists what rxe of Linux 6.1 does differently. The test asserts these results, so a row that becomes
right, or wrong in another way, fails. NOT_RUN lists rows that test nothing of uroce or crash the guest, with the
reason. All other rows must match the matrix. doc/interop.md describes the tables.

rxe raises no asynchronous QP event except for the last WQE of an SRQ, so errmatrix runs with --no-events.
"""
import concurrent.futures
import fnmatch
import json
import shutil

from guest import lib

ERRMATRIX = lib.BUILD / "test/system/errors/errmatrix"
PATIENCE_S = 2   # of rows in which a completion or event never comes
F = "FLUSH"


def flushed(*statuses, n):
    """A queue's completions: these statuses, then n flushed ones."""
    return " ".join([*statuses, *[F] * n])


GOOD = "SUCCESS"
CHANGED = "differs from the expected content"
# Results when the responder accepts an invalid request; 5 sends were posted.
TAKEN = {"requester sends": flushed(*[GOOD] * 5, n=1), "requester state": "RTS",
         "requester memory": CHANGED, "responder receives": flushed(GOOD, GOOD, n=4),
         "responder state": "RTS", "responder memory": CHANGED}
BAD_WQE = {"responder receives": flushed(GOOD, "LOC_QP_OP_ERR", n=4)}
OTHER_STATUS = {"responder receives": flushed(GOOD, "REM_ACCESS_ERR", n=4)}
SQE_IS_ERR = {"requester state": "ERR", "responder receives": flushed(GOOD, n=5),
              "responder memory": CHANGED}

# way -> pattern of row names -> the results that differ from the matrix
DEVIATIONS = {
    "uroce -> rxe": {
        # rxe reports an operation error for every bad receive WQE, even one that is only too short.
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
        # rxe takes the receive before it checks the R_Key.
        "write_imm_bad_rkey_no_recv": {
            "requester sends": flushed(GOOD, "RNR_RETRY_EXC_ERR", n=4),
            "responder state": "RTS"},
        # rxe checks the region's range but not the window's.
        "write_window_range": TAKEN,
        # rxe checks max_dest_rd_atomic only for 0.
        "read_depth_overrun": {**TAKEN, "requester sends": flushed(*[GOOD] * 6, n=1)},
        # rxe invalidates the window of another QP.
        "send_inv_window_other_qp": {
            **TAKEN, "responder receives": flushed(GOOD, GOOD, GOOD, n=3)},
        # UC drops such a message and continues; uroce reports the error (CQE-07, EVT-03).
        "uc_write_bad_rkey": {
            "responder receives": flushed(GOOD, GOOD, n=4), "responder state": "RTS",
            "responder memory": CHANGED},
        "uc_write_imm_bad_rkey": {
            "responder receives": flushed(GOOD, GOOD, n=4), "responder state": "RTS",
            "responder memory": CHANGED},
    },
    "rxe -> uroce": {
        # rxe's provider refuses the post.
        "*_misaligned": {"requester post": "errno 22", "requester sends": flushed(GOOD, n=1),
                         "requester state": "RTS", "responder state": "RTS",
                         "responder events": "none"},
        # rxe sends the request and uroce refuses it.
        "read_too_long": {"requester sends": flushed(GOOD, "REM_INV_REQ_ERR", n=4),
                          "responder events": "QP_REQ_ERR", "responder state": "ERR"},
        # rxe never sends nor completes it.
        "read_no_credit": {"requester sends": flushed(GOOD, n=5), "requester state": "RTS"},
        # rxe never completes a receive posted in ERR.
        "send_in_err": {"requester receives": flushed(n=2)},
        # rxe has no SQE state: local errors on UC and UD end in ERR.
        "uc_send_own_bad_lkey": {**SQE_IS_ERR,
                                 "requester sends": flushed(GOOD, "LOC_QP_OP_ERR", n=3)},
        "ud_send_own_bad_lkey": {**SQE_IS_ERR,
                                 "requester sends": flushed(GOOD, "LOC_QP_OP_ERR", n=2)},
        # rxe accepts operations of other QP types and completes them in error.
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
    """Returns the names of rows without a deviation, and name -> deviation for the others. If several patterns
    match, the longest one counts."""
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
    """Returns {"responder state": "RTS"} for "responder state: RTS, not ERR"."""
    out = {}
    for problem in row["problems"]:
        what, rest = problem.split(": ", 1)
        out[what] = rest.rsplit(", not ", 1)[0] if "memory" not in what else rest
    return out


def run_rows(ours, rxe, way, names, patience):
    """Runs rows one way; returns each row's result by name."""
    uroce_asks = way == "uroce -> rxe"
    asks, answers = (ours, rxe) if uroce_asks else (rxe, ours)
    port = lib.tcp_port()
    file = f"rows{port}"
    (rxe.guest.share / file).write_text("\n".join(names) + "\n")

    def argv(side, *more):
        if side is rxe:
            return ["./errmatrix", "-d", rxe.dev, "--no-events", *more]
        return [str(ERRMATRIX), "-d", ours.dev, *more]

    common = ["-p", str(port), "--patience", str(patience)]
    rows = file if asks is rxe else str(rxe.guest.share / file)
    pair = lib.run_pair(
        lambda: answers.spawn(argv(answers, *common)),
        lambda: asks.spawn(argv(asks, *common, "--json", "--timeout", "18", "--rows", rows,
                                answers.host)), port, 90)
    assert pair.server_rc == 0 and pair.client_rc in (0, 1), (
        f"responder {pair.server_rc}:\n{pair.server.output()[-1500:]}\n"
        f"requester {pair.client_rc}:\n{pair.client.output()[-1500:]}")
    seen = [json.loads(line) for line in pair.client.output().splitlines() if line[:1] == "{"]
    return {row["row"]: row for row in seen}


def judge(name, call, names, differ):
    """Cases: the run of these rows, which call returns; then each row."""
    seen = {}
    with lib.case(name):
        seen = call()
        assert set(seen) == set(names), set(names) - set(seen)
    way = name.split(":")[0]
    for row_name, row in seen.items():
        with lib.case(f"{way}: {row_name}{' (as rxe has it)' * (row_name in differ)}"):
            assert differences(row) == differ.get(row_name, {}), "\n".join([*row["problems"], json.dumps(row)])


def run(ours, rxe):
    """Runs the whole matrix. ours: a lib.Side; rxe: run.py's GuestSide. The rows that differ mostly wait for what never
    comes: both ways run beside each other."""
    shutil.copy(ERRMATRIX, rxe.guest.share / "errmatrix")
    names = lib.sh(ERRMATRIX, "--list").split()
    plans = {way: plan(way, names) for way in DEVIATIONS}
    for way, (plain, _) in plans.items():
        judge(f"{way}: errors, {len(plain)} rows", lambda way=way, plain=plain: run_rows(ours, rxe, way, plain, 15),
              plain, {})
    with concurrent.futures.ThreadPoolExecutor(len(plans)) as pool:
        runs = {way: pool.submit(run_rows, ours, rxe, way, list(differ), PATIENCE_S) for way, (_, differ) in plans.items()}
        for way, (_, differ) in plans.items():
            judge(f"{way}: errors, {len(differ)} rows where rxe differs", runs[way].result, differ, differ)
