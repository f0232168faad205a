#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest: makes the rxe device(s), then runs what the host puts into cmd/.
#
#   agent.sh tap         rxe0 on eth0 = 10.77.0.2
#   agent.sh two MTU     rxe0 and rxe1 on a veth pair (two-rxe.sh): proves the guest by itself
#   agent.sh stock DIR   no device; the host's root, with DIR (stock.sh)
#
# The host renames a finished script to cmd/NAME.sh; the agent runs each in the background and
# leaves cmd/NAME.out while it runs and cmd/NAME.rc (its exit status) behind it. cmd/stop ends it.
. guest/two-rxe.sh
. guest/stock.sh
limit=100 # seconds for a command
case $1 in
tap)
    modprobe -a rdma_rxe ib_uverbs rdma_ucm
    sysctl -qw net.ipv6.conf.eth0.accept_dad=0
    ip addr add 10.77.0.2/24 dev eth0; ip link set eth0 up
    rdma link add rxe0 type rxe netdev eth0 || exit 1
    for _ in $(seq 50); do [ -n "$(gid_index rxe0)" ] && break; sleep 0.1; done
    ;;
two) two_rxe "$2" || exit 1 ;;
stock) stock_root "$2" && limit=8000 || exit 1 ;;
*) echo "agent: tap, two MTU or stock, not '$1'"; exit 2 ;;
esac
mkdir -p cmd; : >cmd/ready
while [ ! -e cmd/stop ]; do
    for f in cmd/*.sh; do
        [ -e "$f" ] || continue
        n=${f%.sh}; mv "$f" "$n.run"
        (timeout -k 2 $limit bash "$n.run" >"$n.out" 2>&1 </dev/null; echo $? >"$n.tmp"; mv "$n.tmp" "$n.rc") &
    done
    sleep 0.1
done
dmesg | grep -iE 'rxe|BUG|Oops' | tail -20
exit 0
