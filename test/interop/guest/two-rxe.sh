# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Source this in the guest: two Soft-RoCE devices joined by a veth pair.
#
#   two_rxe MTU        rxe0 on veth0 = 10.78.0.1, rxe1 on veth1 = 10.78.0.2
#
# Linux before 6.15 runs rxe only in the initial network namespace, so both ends live in
# the same one and policy routing makes packets between the two addresses leave through
# the veth pair instead of being delivered locally.
two_rxe() {
    local mtu=${1:-1500} a=10.78.0.1 b=10.78.0.2 i
    modprobe -a veth rdma_rxe ib_uverbs rdma_ucm ib_umad
    ip link add veth0 address 02:00:00:78:00:01 mtu "$mtu" type veth peer name veth1 address 02:00:00:78:00:02 mtu "$mtu"
    sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
    for i in 0 1; do
        sysctl -qw net.ipv4.conf.veth$i.accept_local=1 net.ipv4.conf.veth$i.rp_filter=0 \
            net.ipv4.conf.veth$i.arp_ignore=1 net.ipv6.conf.veth$i.accept_dad=0
    done
    ip addr add $a/24 dev veth0; ip addr add $b/24 dev veth1
    ip link set veth0 up; ip link set veth1 up
    # what arrives on a veth end is local; what we send to the other end is not
    ip rule add pref 10 iif veth0 lookup local; ip rule add pref 10 iif veth1 lookup local
    ip route add $b dev veth0 src $a table 101; ip route add $a dev veth1 src $b table 102
    ip rule add pref 20 from $a to $b lookup 101; ip rule add pref 20 from $b to $a lookup 102
    ip rule add pref 30 oif veth0 to $b lookup 101; ip rule add pref 30 oif veth1 to $a lookup 102
    ip rule add pref 100 lookup local; ip rule del pref 0
    ip neigh replace $b lladdr 02:00:00:78:00:02 dev veth0 nud permanent
    ip neigh replace $a lladdr 02:00:00:78:00:01 dev veth1 nud permanent
    rdma link add rxe0 type rxe netdev veth0; rdma link add rxe1 type rxe netdev veth1
    for i in $(seq 50); do   # wait until the IPv4 GIDs are there
        [ -n "$(gid_index rxe0)" ] && [ -n "$(gid_index rxe1)" ] && return 0; sleep 0.1
    done
    echo "two_rxe: no IPv4 GID" >&2; return 1
}

# gid_index DEV: index of the IPv4-mapped RoCEv2 GID
gid_index() {
    local f; for f in /sys/class/infiniband/"$1"/ports/1/gids/*; do
        case $(cat "$f") in 0000:0000:0000:0000:0000:ffff:*) basename "$f"; return;; esac
    done
}
