#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""urocectl with wrong words: each error names the word, the reason and what is legal, and the exit status is that of
urocectl(8). bash completion of every command."""
import os
import re
import subprocess

import cli
import lib

LEVELS = "error, warning, notice, info, debug"
MANY = [w for i in range(9) for w in ("pid", str(i))]

# Wrong words, and parts of the error. Found without a daemon: status 2.
WRONG = [
    ([], "no command; legal: show watch top trace set addr pkey cc probe impair capture rdma doctor metrics cdi"),
    (["shwo"], "unknown command 'shwo'; legal: show watch"),
    (["--jsn", "show", "qp"], "unknown option --jsn (--help lists them)"),
    (["-x"], "unknown option -x"),
    (["-jx"], "unknown option -jx"),
    (["--socket"], "option --socket: needs a value PATH"),
    (["--json=maybe", "show", "qp"], "'maybe' is not yes or no"),
    (["show"], "show: nothing to show; legal: show device port gid"),
    (["show", "qps"], "show: unknown 'qps'; legal: device port gid"),
    (["show", "qp", "-n", "3"], "option --iterations is only for top and watch"),
    (["show", "-b", "qp"], "option --batch is only for top"),
    (["show", "-p", "qp"], "option --pretty is only for rdma"),
    (["show", "qp", "abc"], "QPN 'abc' is not a number from 0 to 0xffffff"),
    (["show", "qp", "0x1000000"], "QPN '0x1000000' is not a number"),
    (["show", "qp", "1", "2"], "show qp: unexpected argument '2'; legal: dev NAME, qpn N, pid N"),
    (["show", "mr", "1"], "show mr: unexpected argument '1'; legal: dev NAME, pid N, uid N"),
    (["show", "config", "x"], "show config: unexpected argument 'x'; legal: nothing more"),
    (["show", "qp", "dev"], "show qp: 'dev' needs a value: dev NAME"),
    (["show", "qp", "pid", "x"], "show qp: pid 'x' is not a number from 0 to 4194304"),
    (["show", "qp", "qpn", "x1"], "show qp: qpn 'x1' is not a number from 0 to 16777215"),
    (["show", "worker", "worker", "99"], "worker '99' is not a number from 0 to"),
    (["show", "qp", "dev", "x" * 40], "is longer than 31 bytes"),
    (["show", "qp", *MANY], "show qp: pid is given twice"),
    (["show", "stats", "dev", "uroce0", "dev", "uroce1"], "show stats: dev is given twice"),
    (["show", "qp", "state", "READY"], "show qp: unknown state 'READY'; legal: RESET INIT RTR RTS SQD SQE ERR"),
    (["show", "qp", "state", "RT"], "unknown state 'RT'"),
    (["show", "qp", "state", ""], "unknown state ''"),
    (["show", "qp", "type", "XRC"], "show qp: unknown type 'XRC'; legal: RC UC UD"),
    (["show", "neigh", "state", "stale"], "show neigh: unknown state 'stale'; legal: known asking"),
    (["show", "gid", "type", "v1"], "show gid: unknown type 'v1'; legal: RoCEv2"),
    (["show", "cm", "state", "OPEN"], "show cm: unknown state 'OPEN'; legal: IDLE BOUND LISTEN"),
    (["watch", "qp", "state", "x"], "watch: unknown state 'x'; legal: RESET"),
    (["trace", "type", "x"], "trace: unknown type 'x'; legal: RC UC UD"),
    (["show", "gid", "pid", "1"], "show gid: unexpected argument 'pid'; legal: dev NAME, type TYPE"),
    (["trace", "x"], "QPN 'x' is not a number from 0 to 0xffffff"),
    (["trace", "1", "2"], "trace: unexpected argument '2'"),
    (["trace", "pid"], "trace: 'pid' needs a value: pid N"),
    (["watch"], "watch: nothing to watch; legal: watch device port"),
    (["watch", "foo"], "watch: unknown 'foo'; legal: device port"),
    (["watch", "qp", "interval"], "watch qp: 'interval' needs a value"),
    (["watch", "qp", "interval", "0"], "watch: interval '0' is not a number of seconds from 0.1 to 3600"),
    (["watch", "qp", "interval", "nan"], "interval 'nan' is not"),
    (["watch", "qp", "count", "0"], "watch: count '0' is not a number from 1 to 1000000000"),
    (["watch", "qp", "interval", "1", "interval", "2"], "watch: interval is given twice"),
    (["watch", "qp", "count", "1", "count", "2"], "watch: count is given twice"),
    (["watch", "-n", "1", "qp", "count", "2"], "watch: count is given twice"),
    (["watch", "qp", "frob"], "unexpected argument 'frob'; legal: dev NAME, qpn N"),
    (["watch", "config", "frob"], "legal: interval S, count N"),
    (["watch", "qp", "-n", "0"], "option --iterations: '0' is not a number from 1 to 1000000000"),
    (["top", "sort"], "top: 'sort' needs a value"),
    (["top", "sort", "name"], "sort key 'name' is unknown; legal: tx rx sends receives pid qpn"),
    (["top", "x"], "top: unexpected argument 'x'; legal: interval S, count N, sort KEY"),
    (["top", "interval", "9999"], "top: interval '9999' is not a number of seconds from 0.1 to 3600"),
    (["top", "sort", "tx", "count", "1", "sort", "rx"], "top: sort is given twice"),
    (["set"], "set: nothing to set; legal: addr, pkey, cc, probe, worker, balance, log-level, quota, help"),
    (["set", "mtu", "1"], "set: unknown 'mtu'; legal: addr, pkey, cc, probe, worker, balance, log-level, quota, help"),
    (["set", "balance"], "set balance: needs on or off"),
    (["set", "balance", "on", "now"], "set balance: unexpected argument 'now'"),
    (["set", "log-level"], "set log-level: needs LEVEL; legal: " + LEVELS),
    (["set", "log-level", "loud"], "set log-level: unknown 'loud'; legal: " + LEVELS),
    (["set", "log-level", "debug", "x"], "set log-level: unexpected argument 'x'"),
    (["set", "quota"], "set quota: needs RESOURCE N"),
    (["set", "quota", "qps"], "set quota: needs RESOURCE N"),
    (["set", "quota", "qps", "0"], "set quota qps: '0' is not a number from 1 to 4294967295"),
    (["set", "quota", "qps", "-5"], "set quota qps: '-5' is not a number from 1 to 4294967295"),
    (["-5"], "unknown command '-5'; legal: show"),
    (["set", "quota", "qps", "5", "6"], "set quota: unexpected argument '6'"),
    (["set", "quota", "q" * 70, "5"], "is longer than 63 bytes"),
    (["set", "addr"], "nothing to do; legal: addr add|del IP/LEN dev DEVICE"),
    (["set", "addr", "frob"], "unknown 'frob'; legal: add, del"),
    (["set", "pkey", "zero", "dev", "uroce0", "index", "1"], "P_Key 'zero' is not a key from 0x0001 to 0xffff"),
    (["set", "pkey", "none", "dev", "uroce0"], "no index N; legal: pkey set KEY"),
    (["addr"], "addr: nothing to do; legal: addr add|del IP/LEN dev DEVICE"),
    (["addr", "put"], "addr: unknown 'put'; legal: add, del"),
    (["addr", "add"], "addr add: no address; legal: addr add|del IP/LEN dev DEVICE"),
    (["addr", "add", "10.9.0.5/24"], "addr add: no dev DEVICE; legal: addr add|del IP/LEN dev DEVICE"),
    (["addr", "add", "dev", "uroce0"], "addr add: no address"),
    (["addr", "add", "10.9.0.1/24", "dev"], "addr add: 'dev' needs a value"),
    (["addr", "add", "10.9.0.1/24", "10.9.0.2/24", "dev", "uroce0"], "addr add: unexpected argument '10.9.0.2/24'"),
    (["addr", "add", "1" * 70, "dev", "uroce0"], "is not an address like 10.9.0.1/24 or fd00::1/64"),
    (["addr", "add", "10.9.0.1/24", "dev", ""], "addr: the device name is empty; urocectl show device lists them"),
    (["addr", "add", "10.9.0.1/24", "dev", "uroce0", "dev", "uroce1"], "addr: device 'uroce1', but 'uroce0' is given, too"),
    (["pkey", "set", "1", "dev", "uroce0", "index", "1", "index", "2"], "pkey set: index '2', but '1' is given, too"),
    (["cc", "set", "swift", "dev", "uroce0", "dev", "uroce1"], "cc: device 'uroce1', but 'uroce0' is given, too"),
    (["cc", "set", "swift", "dev", "uroce0", "qp", "5", "qp", "6"], "cc set: qp is given twice"),
    (["cc", "set", "swift", "dev", ""], "cc: the device name is empty"),
    (["probe"], "probe: nothing to do; legal: probe set on|off dev DEVICE [qp QPN]"),
    (["probe", "get"], "probe: unknown 'get'; legal: set"),
    (["set", "probe", "maybe", "dev", "uroce0"], "probe set: 'maybe' is not on or off; legal: probe set on|off"),
    (["probe", "set", "off"], "probe set: no dev DEVICE; legal: probe set on|off dev DEVICE"),
    (["probe", "set", "dev", "uroce0"], "probe set: no setting; legal: probe set on|off"),
    (["probe", "set", "off", "on", "dev", "uroce0"], "probe set: unexpected argument 'on'"),
    (["probe", "set", "off", "dev", "uroce0", "qp", "0"], "probe set: qp '0' is not the number of a QP, 1 to 16777215"),
    (["probe", "set", "off", "dev", "uroce0", "qp"], "probe set: qp without a number"),
    (["pkey"], "pkey: nothing to do; legal: pkey set KEY dev DEVICE index N"),
    (["pkey", "set", "0x10000", "dev", "uroce0", "index", "1"], "P_Key '0x10000' is not a key from 0x0001 to 0xffff"),
    (["pkey", "set", "0x8000", "dev", "uroce0", "index", "1"], "P_Key '0x8000' is not a key from 0x0001"),
    (["pkey", "set", "1", "dev", "uroce0", "index", "16"], "index '16' is not a number from 0 to 15"),
    (["pkey", "set", "1", "dev", "uroce0"], "pkey set: no index N"),
    (["pkey", "set", "dev", "uroce0", "index", "1"], "pkey set: no key"),
    (["pkey", "del", "5", "dev", "uroce0", "index", "1"], "pkey del: unexpected argument '5'"),
    (["impair"], "impair: no device; legal: impair DEVICE set SPEC | show | clear"),
    (["impair", "uroce0"], "impair uroce0: nothing to do; legal: set SPEC, show, clear"),
    (["impair", "uroce0", "frob"], "impair: unknown 'frob'; legal: set SPEC, show, clear"),
    (["impair", "uroce0", "set"], "impair uroce0 set: needs SPEC, like 'drop=1%,seed=7'"),
    (["impair", "uroce0", "set", ","], "impair uroce0 set: needs SPEC, like 'drop=1%,seed=7'"),
    (["impair", "uroce0", "show", "x"], "impair uroce0 show: unexpected argument 'x'"),
    (["impair", "uroce0", "set", "x" * 600], "the specification is longer than 511 bytes"),
    (["impair", "u" * 40, "show"], "is longer than 31 bytes"),
    (["capture"], "capture: no device; legal: capture DEVICE start FILE"),
    (["capture", "uroce0"], "capture uroce0: nothing to do; legal: start FILE [qpn=N], show, stop"),
    (["capture", "uroce0", "frob"], "capture: unknown 'frob'; legal: start FILE [qpn=N], show, stop"),
    (["capture", "uroce0", "start"], "capture uroce0 start: needs FILE"),
    (["capture", "uroce0", "start", ""], "capture uroce0 start: needs FILE"),
    (["capture", "uroce0", "stop", "x"], "unexpected argument 'x'"),
    (["rdma"], "rdma: nothing to show; legal: dev, link, statistic, res"),
    (["rdma", "system"], "rdma: unknown 'system'; legal: dev, link, statistic, res"),
    (["rdma", "link", "add"], "rdma link: unknown 'add'; legal: show, list"),
    (["rdma", "link", "show", "uroce0/2"], "a device has no port '2'; legal: uroce0/1"),
    (["rdma", "dev", "show", "uroce0/1"], "a device has no port '1'; legal: uroce0"),
    (["rdma", "dev", "show", "uroce0", "x"], "rdma dev show: unexpected argument 'x'"),
    (["rdma", "res", "show", "frob", "x"], "unexpected argument 'x'; objects are pd cq qp cm_id mr ctx srq"),
    (["rdma", "res", "show", "qp", "colour", "1"], "unknown filter 'colour'; legal: dev link lqpn pdn rqpn type"),
    (["rdma", "res", "show", "qp", "lqpn"], "filter lqpn needs a value"),
    (["rdma", "res", "show", "cq", "dev", "u" * 40], "is not a device name"),
    (["rdma", "res", "show", "qp", *"pid 1 pid 2 pid 3 pid 4 pid 5 pid 6 pid 7 pid 8 pid 9".split()],
     "rdma res show qp: pid is given twice"),
    (["rdma", "res", "show", "qp", "dev", "uroce0", "link", "uroce1/1"],
     "rdma res show qp: link 'uroce1/1', but 'uroce0' is given, too"),
    (["rdma", "res", "show", "qp", "lqpn", "x"], "rdma res show qp: lqpn 'x' is not a number from 0 to 9223372036854775807"),
    (["rdma", "res", "show", "mr", "pid", "-1"], "rdma res show mr: pid '-1' is not a number from 0 to"),
    (["rdma", *["x"] * 45], "rdma: more than 40 words"),
    (["install", "x"], "install: unexpected argument 'x'"),
]

# What only the daemon knows: status 1.
REFUSED = [
    (["addr", "add", "10.9.0.300/24", "dev", "uroce0"], "'10.9.0.300/24' is not a host address; legal: an"),
    (["addr", "add", "10.9.0.5/24", "dev", "uroce9"], "addr: no device 'uroce9'; devices: uroce0 uroce1"),
    (["pkey", "set", "1", "dev", "uroce9", "index", "1"], "pkey: no device 'uroce9'; devices: uroce0 uroce1"),
    (["cc", "set", "swift", "dev", "uroce9"], "cc: no device 'uroce9'; devices: uroce0 uroce1"),
    (["set", "cc", "swft", "dev", "uroce0"], "'swft' is not a congestion policy; legal: fixed, dcqcn"),
    (["cc", "set", "swift:window=0", "dev", "uroce0"], "'window=0' is not window=1 .. 1000000 us"),
    (["probe", "set", "off", "dev", "uroce9"], "probe: no device 'uroce9'; devices: uroce0 uroce1"),
    (["set", "probe", "off", "dev", "uroce0", "qp", "77"], "probe set: uroce0: no QP has the number 77"),
    (["addr", "del", "10.9.0.5/24", "dev", "uroce0"], "address '10.9.0.5/24' not found; see: urocectl show port"),
    (["pkey", "del", "dev", "uroce0", "index", "0"], "P_Key entry 0 must have a key"),
    (["set", "quota", "beds", "5"], "resource 'beds' is unknown; legal: clients new contexts pds mrs"),
    (["set", "quota", "qps", "4000000"], "limit 4000000 of qps is not a number from 1 to"),
    (["impair", "uroce0", "set", "drop=200%"], "drop: '200%' is not a share from 0% to 100%"),
    (["impair", "uroce0", "set", "drop=1"], "drop: '1' is not a share from 0% to 100%, with at most 4 decimals, or from 0ppm"),
    (["impair", "uroce0", "set", "delay=5"], "delay: '5' is not a time from 0ns to 10s (ns us ms s)"),
    (["impair", "uroce9", "show"], "impair: no device 'uroce9'; devices: uroce0 uroce1"),
    (["capture", "uroce9", "stop"], "capture: no device 'uroce9'; devices: uroce0 uroce1"),
    (["capture", "uroce0", "stop"], "no capture is running"),
    (["capture", "uroce0", "start", "/nonexistent/x"], "/nonexistent/x: No such file or directory"),
    (["show", "gid", "dev", "uroce9"], "no device 'uroce9'; devices: uroce0 uroce1"),
    (["show", "qp", "5"], "no QP 5, or another user's"),
    (["rdma", "res", "show", "uroce9"], "rdma res: not an object (pd cq qp cm_id mr ctx srq): no device 'uroce9'; "
     "devices: uroce0 uroce1"),
    (["trace", "dev", "uroce9"], "trace: no device 'uroce9'; devices: uroce0 uroce1"),
    (["rdma", "link", "show", "uroce9"], "rdma link: no device 'uroce9'; devices: uroce0 uroce1"),
    (["rdma", "res", "show", "qp", "dev", "uroce9"], "rdma res: no device 'uroce9'; devices: uroce0 uroce1"),
]

# The words of a command line, of which the last is completed, and words that must be offered.
COMPLETED = [
    (["urocectl", ""], {"show", "watch", "top", "trace", "set", "addr", "pkey", "impair", "capture", "rdma", "install",
                        "uninstall", "cc", "probe", "doctor", "metrics", "cdi"}),
    (["urocectl", "probe", "set", ""], {"on", "off"}),
    (["urocectl", "sh"], {"show"}),
    (["urocectl", "--"], {"--json", "--socket", "--details", "--all", "--batch", "--iterations", "--help"}),
    (["urocectl", "--json", "show", "n"], {"neigh"}),
    (["urocectl", "show", "qp", ""], {"dev", "qpn", "pid", "uid", "state", "type", "worker"}),
    (["urocectl", "show", "config", ""], set()),
    (["urocectl", "show", "gid", ""], {"dev", "type"}),
    (["urocectl", "show", "qp", "dev", ""], {"uroce0", "uroce1"}),
    (["urocectl", "show", "qp", "state", "R"], {"RESET", "RTR", "RTS"}),
    (["urocectl", "watch", "stats", ""], {"dev", "interval", "count"}),
    (["urocectl", "top", ""], {"interval", "count", "sort"}),
    (["urocectl", "top", "sort", ""], {"tx", "rx", "sends", "receives", "pid", "qpn"}),
    (["urocectl", "set", ""], {"addr", "pkey", "cc", "probe", "worker", "balance", "log-level", "quota", "help"}),
    (["urocectl", "set", "cc", ""], {"fixed", "dcqcn", "swift", "timely"}),
    (["urocectl", "set", "worker", ""], {"0", "auto"}),
    (["urocectl", "set", "worker", "0", ""], {"dev", "qp"}),
    (["urocectl", "set", "worker", "0", "dev", ""], {"uroce0", "uroce1"}),
    (["urocectl", "set", "balance", ""], {"on", "off"}),
    (["urocectl", "set", "log-level", ""], {"error", "warning", "notice", "info", "debug"}),
    (["urocectl", "set", "quota", "q"], {"qps", "queue-mem"}),
    (["urocectl", "set", "addr", ""], {"add", "del"}),
    (["urocectl", "addr", "del", ""], {"10.9.0.101", "10.9.0.102"}),
    (["urocectl", "addr", "del", "10.9.0.101/24", "dev", ""], {"uroce0", "uroce1"}),
    (["urocectl", "pkey", ""], {"set", "del"}),
    (["urocectl", "impair", ""], {"uroce0", "uroce1"}),
    (["urocectl", "impair", "uroce0", ""], {"set", "show", "clear"}),
    (["urocectl", "capture", "uroce0", ""], {"start", "show", "stop"}),
    (["urocectl", "rdma", ""], {"dev", "link", "statistic", "res"}),
    (["urocectl", "rdma", "link", ""], {"show", "list"}),
    (["urocectl", "rdma", "link", "show", ""], {"uroce0", "uroce1"}),
    (["urocectl", "rdma", "res", "show", ""], {"qp", "cq", "mr", "pd", "srq", "cm_id", "ctx", "uroce0"}),
    (["urocectl", "rdma", "res", "show", "qp", ""], {"dev", "link", "pid", "lqpn", "state"}),
    (["urocectl", "rdma", "res", "show", "qp", "dev", ""], {"uroce0", "uroce1"}),
    (["uroced", "--max-q"], {"--max-qps", "--max-qps-per-uid", "--max-queue-mem"}),
    (["uroce-bench", "re"], {"report"}),
]
EXACT = {"urocectl sh", "urocectl ", "urocectl show config ", "urocectl show gid ", "urocectl top ", "urocectl set ",
         "urocectl rdma ", "urocectl impair uroce0 ", "urocectl capture uroce0 ", "urocectl show qp dev "}
COMPLETE = r'''
. "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_uroce
printf '%s\n' "${COMPREPLY[@]}"
'''


def completed(daemon, words):
    path = ":".join(str(lib.BUILD / "app" / name) for name in ("urocectl", "uroced", "uroce-bench", "uroce-run"))
    done = subprocess.run(["bash", "-c", COMPLETE, "bash", lib.HERE.parents[1] / "config/completion.bash", *words],
                          env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}", "UROCE_SOCKET": str(daemon.socket)},
                          text=True, capture_output=True, timeout=60, check=True)
    assert done.stderr == "", done.stderr
    return set(done.stdout.split())


def main():
    lib.need_root()
    for words, part in WRONG:
        with lib.case(f"wrong: urocectl {' '.join(words)[:60]}"):
            done = cli.run(None, *words)
            assert (done.returncode, done.stdout) == (cli.USAGE, ""), done
            assert part in done.stderr and done.stderr.startswith("urocectl: "), done.stderr
            assert done.stderr.count("\n") == 1, done.stderr
    with lib.case("no daemon: status 1, and where it was sought"):
        done = cli.run(None, "--socket", "/nonexistent/s", "show", "qp")
        assert done.returncode == cli.FAILURE, done
        assert done.stderr == "urocectl: no daemon at /nonexistent/s: No such file or directory\n", done.stderr
    with lib.case("--help, --version and set help: status 0, on standard output"):
        for words in (["--help"], ["-h"], ["--version"], ["set", "help"]):
            assert cli.text(None, *words)
        assert set(re.findall(r"^  (\S+)", cli.text(None, "set", "help"), re.M)) >= {"addr", "pkey", "log-level",
                                                                                    "quota"}
    link = lib.link_ring()
    daemon = link.a.daemon
    with lib.case("--help has every word of impair's SPEC that the daemon knows"):
        spec = cli.text(None, "--help").split("\nSPEC: ")[1].split("\nrdma: ")[0]
        for wrong in ("frob=1", "rule:frob=1,action=drop"):
            keys = cli.run(daemon, "impair", "uroce0", "set", wrong).stderr.split("legal: ")[1].split()
            assert len(keys) > 5 and set(keys) <= set(re.findall(r"[a-z_]+", spec)), (keys, spec)
    for words, part in REFUSED:
        with lib.case(f"refused: urocectl {' '.join(words)[:60]}"):
            done = cli.run(daemon, *words)
            assert (done.returncode, done.stdout) == (cli.FAILURE, ""), done
            assert part in done.stderr and done.stderr.startswith("urocectl: "), done.stderr
            assert done.stderr.count("\n") == 1, done.stderr
    with lib.case("another user: who may connect, and what only root may do"):
        os.chmod(daemon.socket.parent, 0o755)
        stranger = {"user": 65534, "group": 65534, "extra_groups": []}
        done = cli.run(daemon, "show", "qp", **stranger)
        assert done.returncode == cli.FAILURE and done.stderr == (
            f"urocectl: no access to the daemon at {daemon.socket}: its --socket-mode and --socket-group decide who may "
            "connect\n"), done
        os.chmod(daemon.socket, 0o666)
        for words, what in ((["addr", "add", "10.9.0.5/24", "dev", "uroce0"], "addr uroce0"),
                            (["pkey", "set", "1", "dev", "uroce0", "index", "1"], "pkey uroce0"),
                            (["cc", "set", "swift", "dev", "uroce0"], "cc uroce0"),
                            (["probe", "set", "off", "dev", "uroce0"], "probe uroce0"),
                            (["impair", "uroce0", "set", "drop=1%"], "impair uroce0"),
                            (["capture", "uroce0", "stop"], "capture uroce0"),
                            (["set", "quota", "qps", "5"], "set quota"), (["set", "log-level", "debug"], "set log-level")):
            done = cli.run(daemon, *words, **stranger)
            assert (done.returncode, done.stdout) == (cli.FAILURE, ""), done
            assert done.stderr == f"urocectl: {what}: only root with CAP_NET_ADMIN and the daemon's user may do that\n", done.stderr
    for words, offered in COMPLETED:
        with lib.case(f"completion: {' '.join(words)}<TAB>"):
            got = completed(daemon, words)
            assert got >= offered, (got, offered)
            assert " ".join(words) not in EXACT or got == offered, (got, offered)
    with lib.case("completion: every topic of show and watch"):
        for command in ("show", "watch"):
            assert completed(daemon, ["urocectl", command, ""]) == set(cli.topics())
    link.end()
    lib.finish()


main()
