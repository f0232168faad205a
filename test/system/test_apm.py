#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Automatic path migration (REQ-11, EVT-06) with real programs: the test cuts one of two paths between two devices
under traffic, and the traffic continues on the other."""
import lib

APM = lib.BUILD / "test/system/apm"
FIRST = ("10.9.0.101", "10.9.0.102")
SECOND = ("10.9.1.101", "10.9.1.102")


def two_addresses(extra=lib.ONE_WORKER):
    """One daemon with two devices joined in memory, two addresses each."""
    devs = [f"name=uroce{i},port=net_ring_pair{end},addr={FIRST[i]}/24,addr={SECOND[i]}/24,mtu=4096"
            for i, end in enumerate("ab")]
    return lib.Daemon([], devs, lib.netns(), ("--pair", "pair", *extra))


def cut(daemon, addresses):
    """Drops everything sent to these addresses."""
    for i, address in enumerate(addresses):
        daemon.impair(f"uroce{i}", "set", f"rule:dst={address},action=drop")


def lost(daemon):
    return sum(daemon.impair(f"uroce{i}", "show")["rules"][0]["acted"] for i in range(2))


def run(daemon, *mode):
    return daemon.client([APM, "uroce0", "uroce1", *mode])


def armed(proc):
    def said():
        assert proc.poll() is None, proc.output()
        return "armed" in proc.output()
    lib.until("both sides are armed", said)


def ends_well(proc):
    rc = proc.wait(lib.processes.HANGS_S)
    assert rc == 0 and "\nok" in proc.output(), f"{rc}: {proc.output()}"


# Requirements: REQ-11, EVT-06
def test_connections_migrate_when_a_path_is_cut(extra):
    daemon = two_addresses(extra)
    proc = run(daemon, "exhaust")
    armed(proc)
    for row in daemon.show("qp")["qp"]:
        assert row["path_mig_state"] == "ARMED" and row["alt_path"] == "wire", row
        assert row["local"] in FIRST and row["remote"] in FIRST, row
        assert row["alt_local"] in SECOND and row["alt_remote"] in SECOND, row
    table = lib.sh(lib.UROCECTL, "--socket", daemon.socket, "show", "qp").splitlines()
    assert "path_mig_state" in table[0] and "alt_remote" in table[0], table
    assert all("ARMED" in row and SECOND[1 - i] in row for i, row in enumerate(table[1:])), table
    cut(daemon, FIRST)
    ends_well(proc)
    assert lost(daemon) > 0
    stats = daemon.counters()
    assert stats["path_migrations"] == 2, stats
    assert stats["failed_path_migrations"] == stats["retry_exceeded"] == 0, stats
    daemon.stop()


# Requirements: REQ-11, EVT-06
def test_modify_migrates_a_connection():
    daemon = two_addresses()
    proc = run(daemon, "forced")
    ends_well(proc)
    stats = daemon.counters()
    assert stats["path_migrations"] == 2 and stats["ack_timeouts"] == 0, stats
    daemon.stop()


# Requirements: EVT-06, REQ-11
def test_alternate_path_to_an_unknown_peer_fails():
    """No device has the alternate path's address."""
    daemon = two_addresses()
    proc = run(daemon, "unusable", "10.9.1.250")
    armed(proc)
    row = next(row for row in daemon.show("qp")["qp"] if row["device"] == "uroce0")
    assert row["alt_path"] == "unresolved" and row["alt_remote"] == "10.9.1.250", row
    cut(daemon, FIRST)
    ends_well(proc)
    stats = daemon.counters()
    assert stats["path_migrations"] == 0 and stats["failed_path_migrations"] == 1, stats
    daemon.stop()


# Requirements: EVT-06, REQ-11
def test_removed_address_of_the_alternate_path_raises_an_event():
    daemon = two_addresses()
    proc = run(daemon, "unusable", SECOND[1])
    armed(proc)
    daemon.ctl("addr", "del", f"{SECOND[0]}/24", "dev", "uroce0")
    row = next(row for row in daemon.show("qp")["qp"] if row["device"] == "uroce0")
    assert row["path_mig_state"] == "ARMED" and row["alt_path"] == "unresolved", row
    cut(daemon, FIRST)
    ends_well(proc)
    stats = daemon.counters()
    assert stats["path_migrations"] == 0 and stats["failed_path_migrations"] == 1, stats
    daemon.stop()


lib.need_root()
with lib.case("a path is cut off, traffic continues over the other"):
    test_connections_migrate_when_a_path_is_cut(lib.ONE_WORKER)
with lib.case("the same with a worker for each side"):
    test_connections_migrate_when_a_path_is_cut(lib.TWO_WORKERS)
with lib.case("migration by modify"):
    test_modify_migrates_a_connection()
with lib.case("an alternate path that leads nowhere"):
    test_alternate_path_to_an_unknown_peer_fails()
with lib.case("an alternate path whose own address is taken away"):
    test_removed_address_of_the_alternate_path_raises_an_event()
lib.finish()
