#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's libfabric: fi_info, and fi_pingpong on reliable datagrams (ofi_rxd over the verbs provider's UD). Suite cm
has fi_pingpong on connections, which rdma_cm makes."""
import re

import lib

SIZES = (1, 64, 1024, 4000, 20000)


def info(link):
    proc = link.a.spawn(["fi_info", "-p", "verbs"])
    rc = proc.wait(60)
    assert rc == 0, f"status {rc}: {proc.output()}"
    found = set(re.findall(r"provider: (\S+)\n.*\n\s+domain: (\S+)\n.*\n\s+type: (\S+)",
                           proc.output()))
    assert ("verbs", "uroce0-dgram", "FI_EP_DGRAM") in found, f"{found}\n{proc.output()}"
    assert any(domain == "uroce0" and kind == "FI_EP_MSG" for _, domain, kind in found), found


def pingpong(link, provider, domain, endpoint, *args):
    port = lib.tcp_port()
    argv = ["fi_pingpong", "-p", provider, "-d", domain, "-e", endpoint, "-c", "-v", *args]
    lib.run_pair(lambda: link.b.spawn([*argv, "-B", str(port)]),
                 lambda: link.a.spawn([*argv, "-P", str(port), link.b.host]), port).good()


def main():
    lib.need_root()
    link = lib.link_veth()
    with lib.case("fi_info: -p verbs"):
        info(link)
    for size in SIZES:
        with lib.case(f"fi_pingpong: -p 'verbs;ofi_rxd' -d uroce0-dgram -e rdm -c -S {size}"):
            pingpong(link, "verbs;ofi_rxd", "uroce0-dgram", "rdm", "-I", "50", "-S", str(size))
    with lib.case("fi_pingpong: -p 'verbs;ofi_rxd' -d uroce0-dgram -e rdm -m tagged -c -S 4000"):
        pingpong(link, "verbs;ofi_rxd", "uroce0-dgram", "rdm", "-m", "tagged", "-S", "4000")
    link.end()
    lib.finish()


main()
