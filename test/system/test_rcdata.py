#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""rcdata over every kind of link: random SEND, WRITE and READ, every byte checked."""
import json

import lib

SHAPES = {  # name -> the client's options
    "4 QPs": ["--qps", "4", "--ops", "1500"],
    "one QP, one request at a time": ["--qps", "1", "--ops", "400", "--depth", "1"],
    "16 QPs": ["--qps", "16", "--ops", "300", "--depth", "32"],
    "long messages": ["--qps", "2", "--ops", "60", "--max-len", "4000000", "--depth", "4"],
    "path MTU 256": ["--qps", "2", "--ops", "300", "--mtu", "256"],
}


def rcdata(link, plan, *own):
    pair = lib.verbs_pair(link.b, link.a, lib.RCDATA, ["-d", "{dev}", "--json", *own, *plan],
                          server_args=["-d", "{dev}", "--json", *own], timeout=5 * lib.processes.HANGS_S)
    for proc in (pair.server, pair.client):
        result = json.loads(proc.output().splitlines()[-1])
        assert result["ok"] is True, proc.output()


# Requirements: WIRE-05
def test_messages_of_2_to_the_31_bytes():
    """One WRITE, READ and SEND of the maximum message size; uses about 9 GiB of memory."""
    link = lib.link_ring()
    own = ["-d", "{dev}", "--json", "--timeout", "18", "--stall", "60"]
    plan = ["--bench", "--rounds", "1", "--iters", "100", "--max-len", str(1 << 31), "--bytes",
            str(1 << 31)]
    pair = lib.verbs_pair(link.b, link.a, lib.RCDATA, [*own, *plan], server_args=own, timeout=900)
    result = json.loads(pair.client.output().splitlines()[-1])
    assert result["ok"] is True and result["SEND"]["bytes"] == 1 << 31, pair.client.output()
    link.stop()


def main():
    lib.need_root()
    for make in lib.LINKS.values():
        link = make()
        for seed, (name, plan) in enumerate(SHAPES.items(), 1):
            if lib.SHORT and name in ("16 QPs", "long messages"):
                continue
            with lib.case(f"{link.kind}: {name}"):
                rcdata(link, [*plan, "--seed", str(seed)])
        with lib.case(f"{link.kind}: events"):
            rcdata(link, ["--qps", "2", "--ops", "300", "--seed", "77"], "-e")
        with lib.case(f"{link.kind}: GID 0"):
            rcdata(link, ["--qps", "2", "--ops", "200", "--seed", "78"], "-g", "0")
        link.end(link.kind)
    for make in (lib.link_veth, lib.link_ring):
        with lib.case(f"{make.__name__}: two workers per daemon"):
            link = make(extra=lib.TWO_WORKERS)
            rcdata(link, ["--qps", "8", "--ops", "500", "--seed", "79"])
            link.stop()
    if not lib.SHORT:
        with lib.case("ring: messages of 2^31 bytes"):
            test_messages_of_2_to_the_31_bytes()
    lib.finish()


main()
