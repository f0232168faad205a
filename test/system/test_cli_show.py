#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What urocectl shows: every topic as table and as JSON, which its schema describes completely; filters; the
commands that change something; the output of `rdma`."""
import contextlib
import errno
import json
import os
import re
import struct
import subprocess

import cli
import control
import lib

PUBLIC = ("device", "port", "gid", "neigh", "quota", "worker", "stats", "drops", "cm_stats", "config", "daemon")
UD = 4


def schemas_are_strict():
    """Each schema describes every member, and allows no other."""
    def look(where, part):
        if isinstance(part, list):
            for one in part:
                look(where, one)
        elif isinstance(part, dict):
            if part.get("type") == "object":
                assert part.get("additionalProperties") is False, f"{where}: additionalProperties"
            for name, one in part.get("properties", {}).items():
                if isinstance(one, dict) and where != "rates":
                    assert "description" in one or "rates" in where, f"{where}: {name} is not described"
            for name, one in part.items():
                look(f"{where}/{name}", one)

    paths = list(cli.SCHEMAS.glob("*.json"))
    assert paths
    for path in paths:
        cli.jsonschema.Draft7Validator.check_schema(cli.schema(path.stem))
        look(path.stem, cli.schema(path.stem))


def objects(daemon):
    """A client that has one object of each kind."""
    c = control.Client(daemon.socket, "uroce0")
    gid = control.ipv4_gid("10.9.0.102")
    fd = control.memfd()
    assert c.make("ALLOC_PD")[:2] == (0, 0)
    assert c.make("CREATE_CQ", control.cq())[:2] == (0, 0)
    assert c.make("REG_MR", control.region(0, access=31), [fd])[0] == 0
    assert c.make("CREATE_SRQ", struct.pack("<Q4I8x", 1, 0, 4, 1, 0))[:2] == (0, 0)
    for kind in (1, 2):
        assert c.make("ALLOC_MW", struct.pack("<II8x", 0, kind))[0] == 0
    assert c.make("CREATE_AH", struct.pack("<II", 0, 0) + control.address(gid))[0] == 0
    assert c.make("CREATE_QP", control.qp(0, 0, 0, srq=1))[0] == 0
    assert c.make("CREATE_QP", control.qp(0, 0, 0, kind=UD))[0] == 0
    status, qp, _ = c.make("CREATE_QP", control.qp(0, 0, 0))
    assert status == 0
    assert c.do("MODIFY_QP", control.modify(qp, control.INIT, gid)) == 0
    assert c.do("MODIFY_QP", control.modify(qp, control.RTR, gid)) == 0
    os.close(fd)
    return c


def every_topic(daemon):
    for what in cli.topics():
        name = "trace" if what == "trace" else f"show-{what}"
        with lib.case(f"show {what}: the JSON is as described, the table has a heading and aligned rows"):
            rows = cli.shown(daemon, name, "show", what)[what]
            assert rows, "no row"
            lines = cli.text(daemon, "show", what).splitlines()
            if what in ("stats", "drops", "cm_stats"):
                assert lines[0] in [r["device"] for r in rows], lines[0]
                assert sum(map(len, (r["total"] for r in rows))) + len(rows) == \
                    len(cli.text(daemon, "--all", "show", what).splitlines())
                continue
            assert len(lines) > 1, lines
            assert len(lines[0].split()) >= 3, lines[0]
            for heading in lines[0].split()[:-1]:  # each column begins below its heading
                at = lines[0].index(heading)
                assert all(row[at - 1:at] in ("", " ") for row in lines[1:] if at and not row.startswith("  ")), what
    for what in ("port", "qp", "mr", "device"):
        with lib.case(f"show --details {what}: every member of every object"):
            rows = daemon.show(what)[what]
            lines = cli.text(daemon, "--details", "show", what)
            for name in rows[0]:
                assert name in lines or name.rsplit("_", 1)[0] in lines or name in ("gids", "pkeys"), name
    with lib.case("headings name units"):
        assert "path_mtu(bytes)" in cli.text(daemon, "show", "device").splitlines()[0]
        assert "link_mtu(bytes)" in cli.text(daemon, "show", "port").splitlines()[0]
        assert "length(bytes)" in cli.text(daemon, "show", "mr").splitlines()[0]
        assert "busy(ns)" in cli.text(daemon, "show", "worker").splitlines()[0]
        assert "timeout(us)" in cli.text(daemon, "-d", "show", "qp")


def schemas_find(daemon):
    """A member that is missing, of the wrong type, of an unknown name, or with an unknown word."""
    rows = daemon.show("qp")["qp"]
    for name, change in (("missing", lambda row: row.pop("msn")), ("type", lambda row: row.update(msn="1")),
                         ("null", lambda row: row.update(worker=None)), ("unknown", lambda row: row.update(new=1)),
                         ("word", lambda row: row.update(type="XRC")), ("public", lambda row: row.pop("uid"))):
        changed = json.loads(json.dumps(rows))
        change(changed[0])
        with contextlib.suppress(AssertionError):
            cli.validate("show-qp", {"qp": changed})
            raise RuntimeError(f"the schema accepts a row that is wrong: {name}")
    cli.validate("show-qp", {"qp": rows})


def values(daemon, client):
    qps = daemon.show("qp")["qp"]
    with lib.case("objects name their owner, their PD and their CQs"):
        mine = [q for q in qps if q["pid"] == os.getpid()]
        assert len(mine) == 3 and {q["type"] for q in mine} == {"RC", "UD"}
        pd, = {p["pd"] for p in daemon.show("pd")["pd"] if p["pid"] == os.getpid()}
        cq, = {c["cq"] for c in daemon.show("cq")["cq"] if c["pid"] == os.getpid()}
        assert all((q["pd"], q["send_cq"], q["recv_cq"]) == (pd, cq, cq) for q in mine), mine
        assert sorted(q["srq"] is None for q in mine) == [False, True, True]
        for what in ("mr", "srq", "mw", "ah"):
            assert {o["pd"] for o in daemon.show(what)[what] if o["pid"] == os.getpid()} == {pd}, what
    with lib.case("windows, address handles and SRQs have the attributes given at creation"):
        assert sorted(w["type"] for w in daemon.show("mw")["mw"]) == [1, 2]
        assert not any(w["bound"] for w in daemon.show("mw")["mw"])
        assert [(h["remote"], h["gid_index"]) for h in daemon.show("ah")["ah"]] == [("10.9.0.102", 1)]
        assert [(s["entries"], s["waiting"]) for s in daemon.show("srq")["srq"]] == [(4, 0)]
    with lib.case("quotas count the objects of each user"):
        used = {q["resource"]: q["used"] for q in daemon.show("quota")["quota"] if q["uid"] == 0}
        assert used["qps"] == len(qps) and used["ahs"] == 1 and used["srqs"] == 1, used
        assert used["mrs"] == len(daemon.show("mr")["mr"]) + 2
    with lib.case("workers are busy or idle, and have all QPs"):
        workers = daemon.show("worker")["worker"]
        assert len(workers) == 2 and sum(w["qps"] for w in workers) == len(qps)
        assert all(w["busy_ns"] > 0 and w["idle_ns"] > 0 for w in workers), workers
    with lib.case("the configuration is the command line's"):
        config = {o["option"]: o["value"] for o in daemon.show("config")["config"]}
        assert config["workers"] == "2" and config["pair"] == "pair" and config["no-huge"] == "yes"
        assert config["socket"] == str(daemon.socket) and config["dev"].count("name=uroce") == 2
    del client


def filters(daemon):
    def rows(what, *words):
        return json.loads(cli.text(daemon, "--json", "show", what, *words))[what]

    with lib.case("filters: dev, pid, uid, qpn, state, type, worker; all must match"):
        qps = rows("qp")
        assert {q["device"] for q in rows("qp", "dev", "uroce0")} == {"uroce0"}
        assert len(rows("qp", "dev", "uroce0")) + len(rows("qp", "dev", "uroce1")) == len(qps)
        assert len(rows("qp", "pid", os.getpid())) == 3 and rows("qp", "pid", 1) == []
        assert len(rows("qp", "uid", 0)) == len(qps) and rows("mr", "uid", 12345) == []
        assert rows("qp", "qpn", qps[0]["qpn"])[0]["qpn"] == qps[0]["qpn"]
        assert {q["type"] for q in rows("qp", "type", "ud")} == {"UD"}
        assert {q["state"] for q in rows("qp", "state", "RTR", "pid", os.getpid())} == {"RTR"}
        assert len(rows("qp", "worker", 0)) + len(rows("qp", "worker", 1)) == len(qps)
        assert [d["device"] for d in rows("stats", "dev", "uroce1")] == ["uroce1"]
        assert len(rows("worker", "worker", 1)) == 1
        assert rows("trace", "pid", os.getpid()) and not rows("trace", "pid", 1)
    with lib.case("a device that does not exist is an error, an object that does not exist is, too"):
        done = cli.run(daemon, "show", "qp", "dev", "uroce9")
        assert done.returncode == cli.FAILURE
        assert done.stderr == "urocectl: show qp: no device 'uroce9'; devices: uroce0 uroce1\n", done.stderr
        for words in (("show", "qp", "77"), ("trace", "77")):
            done = cli.run(daemon, *words)
            assert done.returncode == cli.FAILURE and "no QP 77" in done.stderr, done
        done = cli.run(daemon, "show", "neigh", "dev", "uroce1")
        assert done.returncode == cli.OK, done  # the device may have no neighbour


def changes(daemon):
    with lib.case("set, addr and pkey report what they did, as the schema describes"):
        cli.shown(daemon, "set", "set", "addr", "add", "10.9.0.77/24", "dev", "uroce0")
        assert "10.9.0.77" in str(daemon.show("gid"))
        cli.shown(daemon, "set", "addr", "del", "10.9.0.77/24", "dev", "uroce0")
        assert "10.9.0.77" not in str(daemon.show("gid"))
        cli.shown(daemon, "set", "set", "pkey", "0x8077", "dev", "uroce0", "index", "3")
        assert "0x8077" in str(daemon.show("port"))
        cli.shown(daemon, "set", "set", "pkey", "none", "dev", "uroce0", "index", "3")
        cli.shown(daemon, "set", "pkey", "set", "0x8078", "dev", "uroce0", "index", "3")
        assert "0x8078" in str(daemon.show("port")) and "0x8077" not in str(daemon.show("port"))
        cli.shown(daemon, "set", "set", "pkey", "del", "dev", "uroce0", "index", "3")
        assert "0x8078" not in str(daemon.show("port"))
        for setting in ("off", "on"):
            assert cli.shown(daemon, "set", "set", "probe", setting, "dev", "uroce0")["set"] == [
                {"device": "uroce0", "probe": setting}]
            assert next(d["probe"] for d in daemon.show("device")["device"] if d["device"] == "uroce0") == setting
    with lib.case("set log-level"):
        assert cli.shown(daemon, "set", "set", "log-level", "debug")["set"] == [
            {"setting": "log-level", "value": "debug"}]
        assert {"option": "log-level", "value": "debug", "default": "notice"} in daemon.show("config")["config"]
        cli.text(daemon, "set", "log-level", "notice")
        assert "log level: debug" in daemon.proc.output()
    with lib.case("set quota: applies to the next object of each uid except root"):
        cli.shown(daemon, "set", "set", "quota", "pds", "1")
        with control.as_uid(12345):
            c = control.Client(daemon.socket, "uroce0")
        assert c.make("ALLOC_PD")[0] == 0
        status, why, _ = c.call("ALLOC_PD")
        assert status == errno.ENOMEM and b"a uid may hold 1 (option max-pds-per-uid)" in why, (status, why)
        cli.text(daemon, "set", "quota", "pds", "2")
        assert c.make("ALLOC_PD")[0] == 0
        limits = {(q["uid"], q["resource"]): q["limit"] for q in daemon.show("quota")["quota"]}
        assert limits[12345, "pds"] == 2 and limits[0, "pds"] > 2, limits
        c.close()
    with lib.case("other users get an error"):
        tool = lib.public_copy() / "app/urocectl/urocectl"
        for words in (("set", "log-level", "debug"), ("set", "quota", "qps", "7"),
                      ("addr", "add", "10.9.0.78/24", "dev", "uroce0")):
            done = subprocess.run(["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", tool, "--socket",
                                   daemon.socket, *words], text=True, capture_output=True, timeout=60, check=False)
            assert done.returncode == cli.FAILURE, done
            assert "only root with CAP_NET_ADMIN and the daemon's user may do that" in done.stderr, done.stderr
    with lib.case("impair and capture, as their schemas describe"):
        cli.shown(daemon, "impair", "impair", "uroce0", "show")
        cli.shown(daemon, "impair", "impair", "uroce0", "set", "drop=1%", "rule:opcode=RC_ACK,action=drop,prob=1%")
        cli.shown(daemon, "impair", "impair", "uroce0", "clear")
        path = lib.tmpdir() / "frames.pcapng"
        for words in (("show",), ("start", path), ("show",), ("stop",)):
            cli.shown(daemon, "capture", "capture", "uroce0", *words)


def rdma(daemon):
    """Names and order of rdma(8) of iproute2 6.1."""
    with lib.case("rdma dev, link"):
        assert cli.text(daemon, "rdma", "link").splitlines() == [
            f"link uroce{i}/1 state ACTIVE physical_state LINK_UP " for i in (0, 1)]
        assert cli.shown(daemon, "rdma-link", "rdma", "link", "show", "uroce1/1") == [
            {"ifindex": 1, "ifname": "uroce1", "port": 1, "state": "ACTIVE", "physical_state": "LINK_UP"}]
        cli.shown(daemon, "rdma-dev", "rdma", "dev")
        first = cli.text(daemon, "rdma", "dev", "show").splitlines()[0]
        assert first.startswith("0: uroce0: node_type ca fw "), first
    with lib.case("rdma statistic: every counter of a port"):
        rows = cli.shown(daemon, "rdma-statistic", "rdma", "statistic")
        assert [r["ifname"] for r in rows] == ["uroce0", "uroce1"] and rows[0]["rx_frames"] > 0, rows
        line, = cli.text(daemon, "rdma", "statistic", "show", "link", "uroce1/1").splitlines()
        names = line.removeprefix("link uroce1/1 ").split()[::2]
        assert line.startswith("link uroce1/1 ") and names == list(daemon.show("stats")["stats"][1]["total"]), line
    with lib.case("rdma res: the number of each kind of object"):
        summary = cli.shown(daemon, "rdma-res", "rdma", "res")
        lines = cli.text(daemon, "rdma", "resource", "show").splitlines()
        for i, (row, line) in enumerate(zip(summary, lines)):
            assert line == f"{i}: uroce{i}: " + "".join(
                f"{kind} {row[kind]} " for kind in ("pd", "cq", "qp", "cm_id", "mr", "ctx", "srq")), line
        assert sum(r["qp"] for r in summary) == len(daemon.show("qp")["qp"])
    for kind in ("qp", "cq", "mr", "pd", "cm_id", "ctx", "srq"):
        with lib.case(f"rdma res show {kind}: lines of name and value, and JSON with the same names"):
            rows = cli.shown(daemon, f"rdma-res-{kind}", "rdma", "res", "show", kind)
            lines = cli.text(daemon, "rdma", "res", "show", kind).splitlines()
            assert rows and len(rows) == len(lines)
            for row, line in zip(rows, lines):
                where = f"link {row['ifname']}/1 " if kind in ("qp", "cm_id") else f"dev {row['ifname']} "
                if kind == "cm_id" and "port" not in row:
                    where = "link /- "
                pairs = line.removeprefix(where).split(" ")
                assert line.startswith(where) and pairs.pop() == "", line
                assert pairs[::2] == [n for n in row if n not in ("ifindex", "ifname", "port")], (line, row)
                values_ = [str(v) for n, v in row.items() if n not in ("ifindex", "ifname", "port")]
                assert [p.removeprefix("0x") for p in pairs[1::2]] == values_ or kind in ("qp", "cm_id"), (line, row)
    with lib.case("rdma: -j, -p, filters, dev and link"):
        every = json.loads(cli.text(daemon, "-j", "rdma", "res", "show", "qp"))
        assert json.loads(cli.text(daemon, "rdma", "-jp", "res", "show", "qp", "link", "uroce0/1")) == [
            q for q in every if q["ifname"] == "uroce0"]
        one = every[0]
        assert [q["lqpn"] for q in json.loads(cli.text(
            daemon, "-j", "rdma", "res", "show", "qp", "lqpn", one["lqpn"], "state", one["state"].lower()))] == [
                one["lqpn"]]
        assert cli.text(daemon, "rdma", "res", "show", "qp", "pid", "1") == ""
        done = cli.run(daemon, "rdma", "link", "show", "uroce9")
        assert done.returncode == cli.FAILURE and "no device 'uroce9'" in done.stderr, done


def strangers(daemon):
    """Rows of other users have the public members only, and match the schema."""
    tool = lib.public_copy() / "app/urocectl/urocectl"
    for what in ("client", "pd", "qp", "cq", "srq", "mr", "mw", "ah", "cm", "quota", "worker", "config"):
        with lib.case(f"show {what} by another user"):
            done = subprocess.run(["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", tool, "--socket",
                                   daemon.socket, "--json", "show", what],
                                  text=True, capture_output=True, timeout=60, check=True)
            rows = cli.validate(f"show-{what}", json.loads(done.stdout))[what]
            if what in ("pd", "srq", "mw", "ah"):
                assert rows and all(set(row) == {"uid", "device"} for row in rows), rows
            if what == "quota":
                assert {row["uid"] for row in rows} == {12345}, rows


def long_topic(daemon):
    """Many clients and objects: every row comes once, though a reply has 128."""
    fd = control.memfd()
    clients = [control.Client(daemon.socket, f"uroce{i}") for i in (0, 1, 0)]
    before = len(daemon.show("mr")["mr"])
    for client, n in zip(clients, (300, 128, 1)):
        assert client.make("ALLOC_PD")[0] == 0
        for _ in range(n):
            status, _, _ = client.make("REG_MR", control.region(0), [fd])
            assert status == 0, status
    rows = daemon.show("mr")["mr"]
    assert len(rows) == before + 429 and len({row["key"] for row in rows}) == len(rows), len(rows)
    assert len({row["client"] for row in rows}) >= 3
    for client in clients:
        client.close()
    os.close(fd)


def main():
    lib.need_root()
    with lib.case("schemas describe every member and allow no other"):
        schemas_are_strict()
    # probes are switched off while QPs exist
    link = lib.link_ring(("--workers", "2", "--socket-mode", "0666"), more=",sr=off")
    daemon = link.a.daemon
    daemon.socket.parent.chmod(0o755)
    lib.verbs_pair(link.b, link.a, lib.RCDATA, ["-d", "{dev}", "-g", "1", "--ops", "50", "--max-len", "9000"],
                   server_args=["-d", "{dev}", "-g", "1"])  # leaves traces, perhaps one with an error
    link.nothing_left()
    client = objects(daemon)
    rping = link.b.spawn(["rping", "-s", "-a", "10.9.0.102", "-C", "1"])
    lib.until("rping listens", lambda: daemon.show("cm")["cm"] or rping.poll() is not None)
    lib.until("a neighbour is asked", lambda: daemon.show("neigh")["neigh"])
    every_topic(daemon)
    with lib.case("the schemas refuse rows that are wrong"):
        schemas_find(daemon)
    values(daemon, client)
    filters(daemon)
    rdma(daemon)
    strangers(daemon)
    with lib.case("a topic with more rows than a reply has"):
        long_topic(daemon)
    with lib.case("trace QPN, as described"):
        for row in daemon.show("trace")["trace"]:
            cli.shown(daemon, "trace", "trace", row["qpn"])
            assert f"QP {row['qpn']} (" in cli.text(daemon, "show", "trace", row["qpn"])
    with lib.case("show qp of a QP that was destroyed"):
        ended = next(r["qpn"] for r in daemon.show("trace")["trace"] if r["destroyed"])
        done = cli.run(daemon, "show", "qp", ended)
        assert done.returncode == cli.FAILURE, done
        assert re.fullmatch(rf"urocectl: QP {ended} was destroyed \d+ s ago: urocectl trace {ended}\n", done.stderr), done.stderr
    changes(daemon)
    with lib.case("output that cannot be written is a failure"):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([lib.UROCECTL, "--socket", daemon.socket, "show", "config"], stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        assert done.returncode == cli.FAILURE and "cannot write the output" in done.stderr, done
    client.close()
    with contextlib.suppress(Exception):
        rping.kill()
    link.end()
    lib.finish()


main()
