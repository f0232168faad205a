#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's infiniband-diags: ibstat and ibstatus show correct values, under uroce-run and after a machine-wide
install. Also tests the files behind them: counters follow the traffic, the port's state follows the link, and the
folder "device" exists."""
import os
import pathlib
import re

import lib

PORT = "/sys/class/infiniband/uroce0/ports/1"
DEVICE = "/sys/class/infiniband/uroce0/device"
# Gives eth0 the folder $0 as its hardware, then becomes the program.
HARDWARE = ("mount -t tmpfs none /sys/class/net && mkdir /sys/class/net/eth0 && ln -s $0 /sys/class/net/eth0/device && "
            'exec "$@"')
# Files that the kernel has for every RoCE port.
PORT_FILES = ("cap_mask", "lid", "lid_mask_count", "link_layer", "phys_state", "rate", "sm_lid",
              "sm_sl", "state")
COUNTERS = ("port_rcv_data", "port_rcv_packets", "port_xmit_data", "port_xmit_packets",
            "port_rcv_errors", "port_xmit_discards", "symbol_error", "VL15_dropped")
HW_COUNTERS = ("lifespan", "duplicate_request", "out_of_sequence", "out_of_buffer", "packet_seq_err",
               "local_ack_timeout_err", "rx_roce", "drop_bad_icrc")


def output(side, *argv):
    proc = side.spawn(list(argv))
    rc = proc.wait(60)
    assert rc == 0, f"{argv}: status {rc}: {proc.output()}"
    return proc.output()


def read(side, *paths):
    """The first lines of files, as one program under uroce-run sees them."""
    return output(side, "head", "-qn1", *paths).splitlines()


def ibstat(text, state="Active", physical="LinkUp"):
    for line in ("CA 'uroce0'", "CA type: uroce", "Number of ports: 1", f"State: {state}",
                 f"Physical state: {physical}", "Rate: 100", "Base lid: 0", "LMC: 0", "SM lid: 0",
                 "Capability mask: 0x04010000", "Link layer: Ethernet"):
        assert re.search(rf"^\s*{re.escape(line)}$", text, re.M), f"no '{line}':\n{text}"


def ibstatus(text):
    for line in ("Infiniband device 'uroce0' port 1 status:", "state:\t\t 4: ACTIVE",
                 "phys state:\t 5: LinkUp", "rate:\t\t 100 Gb/sec (4X EDR)", "link_layer:\t Ethernet",
                 "base lid:\t 0x0"):
        assert line in text, f"no '{line}':\n{text}"


def files(side):
    read(side, *(f"{PORT}/{name}" for name in PORT_FILES))
    values = read(side, *(f"{PORT}/counters/{name}" for name in COUNTERS),
                  *(f"{PORT}/hw_counters/{name}" for name in HW_COUNTERS))
    assert all(value.isdigit() for value in values), values
    assert read(side, f"{PORT}/gid_attrs/ndevs/0") == ["eth0"]
    node, cpus, vendor = read(side, f"{DEVICE}/numa_node", f"{DEVICE}/local_cpus", f"{DEVICE}/vendor")
    assert int(node) >= -1 and re.fullmatch(r"[0-9a-f]+(,[0-9a-f]{8})*", cpus), (node, cpus)
    assert bin(int(cpus.replace(",", ""), 16)).count("1") == os.cpu_count(), cpus
    said = output(side, "ibv_devinfo", "-d", "uroce0")
    assert int(vendor, 16) == int(re.search(r"vendor_id:\s+(\S+)", said)[1], 16), said


def on_pci(side, nic):
    """On a PCI NIC, device is a link to the NIC's folder, also if the interface's own device is below that."""
    for hardware in (nic, *nic.glob("virtio[0-9]*")):
        found = lib.Proc(["unshare", "--mount", "sh", "-c", HARDWARE, hardware, lib.UROCE_RUN, "--socket", side.daemon.socket,
                          "sh", "-c", f"readlink {DEVICE}; cd -P {DEVICE}; pwd; cat numa_node vendor class"], side.daemon.ns)
        link, folder, *values = found.result(60).split()
        assert link.endswith(str(nic)[len("/sys"):]) and folder == str(nic), (link, folder)
        assert values == [(nic / name).read_text().strip() for name in ("numa_node", "vendor", "class")], values


def follows_traffic(link):
    """One program rereads its counter file while another sends: its sysfs view stays current."""
    name = f"{PORT}/counters/port_xmit_data"
    watch = link.a.spawn(["sh", "-c", f"while sleep 0.2; do cat {name}; done"])
    lib.until("a first value", lambda: watch.output().split())
    port = lib.tcp_port()
    lib.run_pair(lambda: link.b.spawn(["ib_write_bw", "-F", "-x", "1", "-n", "200", "-p", str(port)]),
                 lambda: link.a.spawn(["ib_write_bw", "-F", "-x", "1", "-n", "200", "-p", str(port),
                                       link.b.host]), port).good()
    sent = 200 * 65536 // 4  # in units of 4 bytes

    def moved():
        values = [int(v) for v in watch.output().split()]
        assert values == sorted(values), "a counter went back"
        return values[-1] >= values[0] + sent
    lib.until("the counter follows", moved)
    lib.until("the same as urocectl's",
              lambda: int(read(link.a, f"{PORT}/hw_counters/tx_roce")[0]) == link.a.daemon.counters()["tx_roce"],
              every=0.5)
    watch.kill()


def follows_link(link):
    ns = link.b.daemon.ns
    lib.sh("ip", "-n", ns, "link", "set", "eth0", "down")
    lib.until("ibstat reports that the link is down",
              lambda: "State: Down" in output(link.a, "ibstat", "uroce0"), every=0.5)
    ibstat(output(link.a, "ibstat"), "Down", "Polling")
    lib.sh("ip", "-n", ns, "link", "set", "eth0", "up")
    lib.until("ibstat reports that the link is up", lambda: "State: Active" in output(link.a, "ibstat"), every=0.5)


def main():
    lib.need_root()
    link = lib.link_veth()
    with lib.case("ibstat: the complete output"):
        ibstat(output(link.a, "ibstat"))
        assert output(link.a, "ibstat", "-l").split() == ["uroce0"]
        guid = re.search(r"Node GUID: 0x([0-9a-f]{16})", output(link.a, "ibstat"))[1]
        said = output(link.a, "ibv_devinfo", "-d", "uroce0")
        assert guid == re.search(r"node_guid:\s+(\S+)", said)[1].replace(":", ""), said
    with lib.case("ibstatus: the complete output"):
        ibstatus(output(link.a, "ibstatus"))
    with lib.case("files: those that the kernel has for a port and its hardware"):
        files(link.a)
    nics = sorted(path.resolve() for path in pathlib.Path("/sys/bus/pci/devices").glob("*"))
    if nics:
        with lib.case("files: the device of a PCI NIC is its folder below /sys/devices"):
            on_pci(link.a, nics[-1])
    else:
        lib.skip_case("the device of a PCI NIC", "this machine has no PCI devices")
    with lib.case("files: counters follow the traffic"):
        follows_traffic(link)
    with lib.case("ibstat: the state follows the link"):
        follows_link(link)
    link.end()
    lib.finish()


main()
