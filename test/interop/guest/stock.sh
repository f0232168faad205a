# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Source this in the guest: the machine of a stranger, with a distribution's kernel and the host's programs.

# stock_root SOURCE: makes the host's root (run-guest.sh --root) the guest's, with changes in memory. /mnt/host, the
# guest's modules and the host's folder SOURCE stay visible.
stock_root() {
	local new=/run/stock/new dir
	mkdir -p /run/stock/host /run/stock/memory "$new"
	mount -t virtiofs -o ro root /run/stock/host || return
	mount -t tmpfs tmpfs /run/stock/memory
	mkdir /run/stock/memory/{upper,work}
	mount -t overlay -o lowerdir=/run/stock/host,upperdir=/run/stock/memory/upper,workdir=/run/stock/memory/work \
		overlay "$new" || return
	mkdir -p "$new"/{mnt/host,mnt/old,lib/modules}
	for dir in proc sys dev lib/modules mnt/host; do mount --rbind "/$dir" "$new/$dir"; done
	for dir in tmp run; do mount -t tmpfs -o mode=1777 tmpfs "$new/$dir"; done
	chmod 755 "$new/run"
	[ -d "$new$1" ] || { mkdir -p "$new$1" && mount --bind "/run/stock/host$1" "$new$1"; } || return
	pivot_root "$new" "$new/mnt/old" && cd /mnt/host || return
	ip link set lo up
	PATH=/run/bin:$PATH
}

# stock_programs DIR: uroced, uroce-run and urocectl of the build DIR, and collective and paused of the other build if they
# are there, in the PATH
stock_programs() {
	local program
	mkdir -p /run/bin /run/uroce
	ln -s "$1"/app/{uroced/uroced,uroce-run/uroce-run,urocectl/urocectl} /run/bin/ &&
		for program in collective paused; do [ ! -e $program ] || install $program /run/bin/ || return; done
}

# until_true COMMAND..: for as long as a hung test may take
until_true() {
	local n
	for n in $(seq 1200); do
		"$@" && return
		sleep 0.1
	done
	echo "never: $*"
	return 1
}

# other_root NAME DIR BUILD: a mount namespace whose root is DIR, another release's files, with this machine's daemon and
# with the build BUILD at its path. in_root NAME COMMAND.. runs COMMAND there.
other_root() {
	[ -d /run/roots ] || { mkdir /run/roots && mount -t tmpfs roots /run/roots && mount --make-private /run/roots; } || return
	touch "/run/roots/$1" && unshare --mount="/run/roots/$1" bash -ec '
		mount --bind "$1" "$1"
		cd "$1"
		cp -L /usr/lib/x86_64-linux-gnu/libjansson.so.4 usr/lib/x86_64-linux-gnu/ # for urocectl
		mkdir -p ".$2" mnt/old
		mount --bind "$2" ".$2"
		for dir in proc sys dev run tmp; do mount --rbind "/$dir" "$dir"; done
		pivot_root . mnt/old
		umount -l /mnt/old' other_root "$2" "$3"
}
in_root() { nsenter --mount="/run/roots/$1" "${@:2}"; }

listens() { ss -ltnH "sport = :$1" | grep -q .; }

# pair_daemon: root's daemon for everybody, with two devices that are connected in memory
pair_daemon() {
	uroced --no-huge --mem 192 --socket-mode 0666 --pair p --dev name=uroce0,port=net_ring_pa,addr=10.9.0.1/24 \
		--dev name=uroce1,port=net_ring_pb,addr=10.9.0.2/24 >/run/uroced.log 2>&1 &
	echo $! >/run/uroced.pid
	until_true grep -q '^uroced: ready' /run/uroced.log
}

# own_daemon BECOME..: a daemon for itself of the user that BECOME makes, at /tmp/own/sock
own_daemon() {
	mkdir -p /tmp/own && "$@" true && chmod 777 /tmp/own && ip addr add 10.9.0.7/32 dev lo || return
	"$@" uroced --no-huge --mem 192 --socket /tmp/own/sock --file-prefix own --dev name=uroce0,port=udp,addr=10.9.0.7 \
		>/run/own.log 2>&1 &
	echo $! >/run/own.pid
	until_true grep -q '^uroced: ready' /run/own.log
}
daemon_ends() { kill "$(cat /run/uroced.pid)" && until_true [ ! -d "/proc/$(cat /run/uroced.pid)" ]; }

# core STATE: the kernel's RDMA core: unloaded, loaded, or with a device (rxe0 on an interface). DPDK's driver for mlx5
# has loaded it when uroced starts.
core_loaded() { grep -q '^ib_core ' /proc/modules; }
core() {
	if ip link show rxe-port >/dev/null 2>&1; then
		[ ! -d /sys/class/infiniband/rxe0 ] || rdma link del rxe0
		modprobe -r rdma_rxe && ip link del rxe-port || return
	fi
	case $1 in
	unloaded)
		modprobe -qr rdma_ucm ib_umad ib_uverbs ib_core
		! core_loaded
		;;
	loaded) modprobe -a ib_core ib_uverbs rdma_ucm ib_umad && [ -z "$(ls /sys/class/infiniband)" ] ;;
	rxe)
		modprobe rdma_rxe && ip link add rxe-port type veth peer name rxe-peer && ip addr add 10.78.0.1/24 dev rxe-port &&
			ip link set rxe-port up && ip link set rxe-peer up && rdma link add rxe0 type rxe netdev rxe-port && [ -d /sys/class/infiniband/rxe0 ]
		;;
	esac
}

# found RUN..: the devices that libibverbs finds when RUN starts a program. seen: and other libraries and programs
found() {
	[ "$("$@" ibv_devices | awk '/uroce|rxe/ {print $1}' | tr '\n' ' ')" = "uroce0 uroce1 " ] || return
	"$@" ibv_devinfo -d uroce0 | grep -q PORT_ACTIVE || return
	"$@" ls /sys/class/infiniband | tr '\n' ' ' | grep -qx 'uroce0 uroce1 '
}
seen() {
	found "$@" || return
	"$@" ibstat uroce0 | grep -q 'State: Active' || return
	"$@" ucx_info -d | grep -A1 'Transport: rc_verbs' | grep -q uroce0
}

# transfers PORT RUN..: messages, and connections by rdma_cm
transfers() {
	local port=$1 server
	shift
	"$@" ibv_rc_pingpong -d uroce1 -g 1 -c -n 50 -p "$port" &
	server=$!
	until_true listens "$port" && "$@" ibv_rc_pingpong -d uroce0 -g 1 -c -n 50 -p "$port" 127.0.0.1 && wait $server || return
	by_cm "rping -s -a 10.9.0.2 -p $port -C 5 -V" "$bound rping -c -a 10.9.0.2 -p $port -C 5 -V" "$@"
}

# connected PORT RUN..: other programs that connect by rdma_cm
connected() {
	local port=$1
	shift
	by_cm "ucmatose -p $port -b 10.9.0.2" "ucmatose -p $port -b 10.9.0.1 -s 10.9.0.2" "$@" &&
		by_cm "udaddy -b 10.9.0.2" "udaddy -b 10.9.0.1 -s 10.9.0.2" "$@" &&
		by_cm "ib_write_bw -R -F -x 1 -n 100 -p $port -d uroce1" "ib_write_bw -R -F -x 1 -n 100 -p $port -d uroce0 10.9.0.2" "$@"
}

cm_listens() { urocectl --json show cm | grep -q '"LISTEN"'; }
cm_idle() { ! cm_listens; }

# by_cm SERVER CLIENT RUN..: a server and a client, each started by RUN, that connect by rdma_cm. bound: words that end
# the client of a release that may hang at its end; its server still checks that all came.
bound=''
by_cm() {
	local server
	until_true cm_idle || return
	# shellcheck disable=SC2086
	"${@:3}" $1 &
	server=$!
	# shellcheck disable=SC2086
	until_true cm_listens && { "${@:3}" $2 || [ $? = 124 ]; } && wait $server
}

# kept RUN..: with --keep programs have the devices of both
kept() {
	[ "$("$@" ibv_devices | awk '/uroce|rxe/ {print $1}' | sort | tr '\n' ' ')" = "rxe0 uroce0 uroce1 " ] || return
	local server dev
	for dev in rxe0 uroce0; do
		"$@" ibv_rc_pingpong -d $dev -g 1 -n 50 -p 18590 &
		server=$!
		until_true listens 18590 && "$@" ibv_rc_pingpong -d $dev -g 1 -n 50 -p 18590 127.0.0.1 && wait $server || return
	done
}

# installed BECOME..: urocectl install shows the devices to every program, and leaves the kernel as it was. inside: words
# that enter the root of another release
inside=''
installed() {
	$inside urocectl install && $inside "$@" ibv_devices | grep uroce0 || return
	! core_loaded && transfers 18580 $inside "$@" && $inside urocectl uninstall && ! $inside "$@" ibv_devices | grep uroce0 &&
		[ ! -e /run/modprobe.d ]
}

# refused WORDS: urocectl install says them, and leaves nothing
refused() {
	! urocectl install 2>/run/said && grep "$*" /run/said && [ ! -e /run/modprobe.d ] && [ ! -e /run/uroce-system ]
}

# two_machines: network namespaces one and two, 192.168.1.20 and .21, joined by a veth pair
two_machines() {
	local name address
	ip link add one type veth peer name two
	for name in one two; do
		address=$([ $name = one ] && echo 20 || echo 21)
		ip netns add $name && ip link set $name netns $name && ip -n $name link set lo up &&
			ip -n $name addr add 192.168.1.$address/24 dev $name && ip -n $name link set $name up || return
	done
	until_true ip netns exec one ping -qc1 -W1 192.168.1.21
}

# on NAME SCRIPT: runs it as an ordinary user in the network namespace NAME, with a home and limits as a desktop has them.
# lock: the words of a command that takes rights away
lock=''
on() {
	mkdir -p "/tmp/$1" && chown 1000:1000 "/tmp/$1"
	ip netns exec "$1" env HOME="/tmp/$1" XDG_RUNTIME_DIR="/tmp/$1" setpriv --reuid 1000 --regid 1000 --clear-groups \
		--inh-caps=-all $lock bash -c "cd; ulimit -l 8192; $2"
}

# readme SERVER CLIENT: the README's two machines, line for line, with these programs. If the client fails, the server may
# wait for it forever, so all programs of the user end.
readme() {
	local server rc=0
	on one "uroced & echo \$! >uroced.pid
uroce-run $1; rc=\$?; kill \$(cat uroced.pid); wait; exit \$rc" >/run/one.log 2>&1 &
	server=$!
	until_true busy $server || return
	on two "uroced & echo \$! >uroced.pid
uroce-run $2; rc=\$?; kill \$(cat uroced.pid); wait; exit \$rc" || { rc=$?; pkill -u 1000; }
	wait $server || rc=$?
	[ $rc = 0 ] || tail -20 /run/one.log
	return $rc
}

# busy PID: something waits in the namespace one (perftest by TCP, or an id of rdma_cm), or the process has ended
busy() {
	! kill -0 "$1" 2>/dev/null || ip netns exec one ss -ltnH | grep -q 18515 ||
		on one 'urocectl --json show cm' 2>/dev/null | grep -q '"LISTEN"'
}

# ucx PORT RUN..: messages of UCX's rc transport between the two devices
ucx() {
	local port=$1 server
	shift
	UCX_TLS=rc UCX_NET_DEVICES=uroce1:1 "$@" ucx_perftest -p "$port" -t tag_bw -s 8192 -n 200 &
	server=$!
	until_true listens "$port" &&
		UCX_TLS=rc UCX_NET_DEVICES=uroce0:1 "$@" ucx_perftest 127.0.0.1 -p "$port" -t tag_bw -s 8192 -n 200 &&
		wait $server
}

# frames: how many uroced has sent so far
frames() { urocectl --json show stats | awk -F: '/"tx_frames"/ {n += $2} END {print n}'; }

# mpi RUN..: two ranks, each started as `become` says, exchange messages of several sizes over RoCE, and check them
mpi() {
	local before
	before=$(frames)
	cat >/tmp/ranks.c <<-'END'
	#include <mpi.h>
	#include <string.h>
	static char out[1 << 20], in[1 << 20];
	int main(int argc, char **argv)
	{
		int rank;
		MPI_Init(&argc, &argv);
		MPI_Comm_rank(MPI_COMM_WORLD, &rank);
		for (int n = 1; n <= 1 << 20; n <<= 4) {
			memset(out, rank + n % 101, n);
			MPI_Sendrecv(out, n, MPI_CHAR, !rank, 0, in, n, MPI_CHAR, !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			for (int i = 0; i < n; i++)
				if (in[i] != (char)(!rank + n % 101))
					MPI_Abort(MPI_COMM_WORLD, 1);
		}
		return MPI_Finalize();
	}
	END
	[ -x /tmp/ranks ] || { mpicc -o /tmp/ranks /tmp/ranks.c && chmod 755 /tmp/ranks; } || return
	OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HOME=/tmp $become mpirun -np 2 --oversubscribe --mca pml ucx \
		--mca btl ^openib -x UCX_TLS=rc,self -x UCX_NET_DEVICES=uroce0:1 "$@" /tmp/ranks && [ "$(frames)" -gt $((before + 300)) ]
}
