# SPDX-License-Identifier: BSD-3-Clause
"""The reason that each side of an error matrix row must report, in vendor_err and in urocectl show qp. The names are
read from include/uroce/errors.h, so that this header is tested, too."""
import json
import re

import lib

ERRORS_H = lib.HERE.parent.parent / "include/uroce/errors.h"
WORDS = {int(value, 16): word
         for value, word in re.findall(r'X\((0x[0-9a-f]+), \w+, "(\w+)"', ERRORS_H.read_text())}
MOVED = "moved_by_program"

# By cause: the reason at the requester and at the responder; None: no error there.
INV, ACC, OP = "nak_invalid_request", "nak_remote_access", "nak_remote_operation"
REASONS = {
    "NONE": (None, None),
    "RECV_SHORT": (INV, "recv_too_small"),
    "RECV_LKEY": (OP, "recv_lkey_unknown"),
    "RECV_READONLY": (OP, "recv_lkey_rights"),
    "RECV_OTHER_PD": (OP, "recv_lkey_pd"),
    "RECV_RANGE": (OP, "recv_lkey_bounds"),
    "RECV_DEREG": (OP, "recv_lkey_unknown"),
    "RECV_NONE": ("rnr_retries", "no_recv"),
    "RKEY_BAD": (ACC, "rkey_unknown"),
    "RKEY_OTHER_PD": (ACC, "rkey_pd"),
    "RKEY_DEREG": (ACC, "rkey_unknown"),
    "RKEY_NO_RIGHT": (ACC, "rkey_rights"),
    "RKEY_PAST_END": (ACC, "rkey_bounds"),
    "RKEY_BEFORE": (ACC, "rkey_bounds"),
    "RKEY_WRAP": (ACC, "rkey_bounds"),
    "MISALIGNED": (INV, "atomic_misaligned"),
    "MW_INVALIDATED": (ACC, "window_unbound"),
    "MW_FREED": (ACC, "rkey_unknown"),
    "MW_OTHER_QP": (ACC, "window_other_qp"),
    "MW_RANGE": (ACC, "rkey_bounds"),
    "MW_NO_RIGHT": (ACC, "rkey_rights"),
    "INV_BAD": (ACC, "inv_rkey_unknown"),
    "INV_REGION": (ACC, "inv_not_window"),
    "INV_OTHER_QP": (ACC, "inv_window_other_qp"),
    "QP_NO_RIGHT": (INV, "qp_access_flags"),
    "DEPTH_ZERO": (INV, "read_depth"),
    "DEPTH_OVERRUN": (INV, "read_depth"),
    "RKEY_BAD_RECV_NONE": (ACC, "rkey_unknown"),
    "LKEY_BAD": ("lkey_unknown", None),
    "LKEY_OTHER_PD": ("lkey_pd", None),
    "LKEY_DEREG": ("lkey_unknown", None),
    "LKEY_READONLY": ("lkey_rights", None),
    "LKEY_RANGE": ("lkey_bounds", None),
    "TOO_LONG": ("wr_too_long", None),
    "ATOMIC_LENGTH": ("atomic_length", None),
    "NO_CREDIT": ("no_read_credit", None),
    "BAD_OPCODE": (None, None),  # ibv_post_send refuses it
    "BIND_LKEY": ("bind_lkey_unknown", None),
    "BIND_OTHER_PD": ("bind_lkey_pd", None),
    "BIND_NO_RIGHT": ("bind_lkey_rights", None),
    "BIND_READONLY": ("bind_lkey_rights", None),
    "BIND_RANGE": ("bind_lkey_bounds", None),
    "BIND_TWICE": ("bind_twice", None),
    "BIND_EMPTY": ("bind_empty", None),
    "BIND_STALE": ("bind_window_unknown", None),
    "BIND_WINDOW_PD": ("bind_window_pd", None),
    "INVALIDATE_BAD": ("inv_rkey_unknown", None),
    "INVALIDATE_REGION": ("inv_not_window", None),
    "INVALIDATE_UNBOUND": ("inv_window_unbound", None),
    "INVALIDATE_OTHER_QP": ("inv_window_other_qp", None),
    "PEER_NONE": ("no_response", None),
    "PEER_DESTROYED": ("no_response", None),
    "PEER_ERR": ("no_response", None),
    "PEER_RESET": ("no_response", None),
    "QKEY_WRONG": (None, "wrong_qkey"),
    "AH_OTHER_PD": ("ah_pd", None),
    "BY_HAND": (None, None),  # moved_by_program is not an error
}


def expected(row):
    """(requester's, responder's) reason of a row."""
    name, (req, rsp) = row["row"], REASONS[row["cause"]]
    if "_of_nothing_bad_rkey" in name or name.endswith("_unused"):
        return None, None  # the key is not checked, because nothing is accessed with it
    if name.startswith("ud_") and row["cause"] == "TOO_LONG":
        return "datagram_too_long", None
    if name.startswith(("uc_", "ud_")) and rsp:
        return None, rsp  # the requester gets no report of it
    return req, rsp


def check_side(row, side, want, folder):
    """Compares vendor_err of all completions of one side, and show qp, with the reason wanted."""
    seen = row[side]
    statuses = [status for queue in ("sends", "receives") for _, status in seen[queue]]
    for status, code in zip(statuses, seen["vendor"], strict=True):
        assert (code == 0) == (status == "SUCCESS"), f"{side}: {status} with vendor_err {code:#x}"
    words = {WORDS.get(code, hex(code)) for code in seen["vendor"] if code}
    assert words <= {want, MOVED}, f"{side}: vendor_err {words}, not {want}"
    if any(status not in ("SUCCESS", "FLUSH") for status in statuses):
        assert want in words, f"{side}: vendor_err {words}, not {want}"
    path = folder / f"{row['row']}.json"
    if row["cause"] == "PEER_DESTROYED" and side == "responder":
        return
    qp = json.loads(path.read_text())["qp"][0]
    assert qp["last_error"] == want, f"{side}: show qp says {qp['last_error']}, not {want}: {qp}"
    if want:
        assert qp["last_error_text"] and qp["last_error_remedy"], qp
        assert qp["last_error_side"] == side, qp
        assert not row["row"].startswith(("send", "write", "read")) or qp["last_error_operation"], qp
    else:
        assert qp["error"] in (None, MOVED), qp


def check_row(row, folders):
    want = expected(row)
    check_side(row, "requester", want[0], folders[0])
    check_side(row, "responder", want[1], folders[1])
