/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hostile messages into the receive sides of the ports udp and packet, and hostile frames through
 * the host interface (lib/hostif), from the kernel and to it (fuzz_rx.h's interface; replay.c runs
 * it without libFuzzer). recvmmsg is this file's: it gives them the messages of the input, put into
 * their buffers as the kernel does it. What must hold, whatever the bytes: frames lie within their
 * buffers, a super-frame gives whole UDP packets, and no buffer is lost.
 *
 * An input is a byte, which chooses the port, and messages: a struct record, then bytes that the
 * message begins with. The rest of the message has one value. Of the host interface: see
 * hostif_run_input and thread_run_input.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <rte_eal.h>
#include <rte_ring.h>
#include "../kit/unit_eal.h"
#include "fuzz_rx.h"
#include "hostif/parts.h"
#include "port/log.h"
#include "port/socket.h"
#include "step.h"
#include "worker/worker_parts.h"

/* port.c defines it, where that is linked */
int port_logtype __attribute__((weak));

#define BUFFERS 4095
#define MTU     4200
#define BYTES   65600 /* of the longest message */
#define ROUNDS  64    /* receive bursts of one input, at most */
#define BURST   32

enum record_flags {
	RECORD_TRUNCATED = 1,
	RECORD_TAGGED = 2,
	RECORD_GSO = 4,    /* has a segment length */
	RECORD_HEADER = 8, /* packet: right headers, which the record's bytes overwrite */
	RECORD_V6 = 16,
};

struct record {
	uint16_t len; /* of the message */
	uint16_t gso;
	uint8_t literal; /* bytes that follow */
	uint8_t flags;   /* enum record_flags */
	uint8_t fill;
	uint8_t count; /* the message comes so often, and once */
} __attribute__((packed));

int port_logtype __attribute__((weak));

static struct rte_mempool *pool;
static const uint8_t *input, *input_end;
static struct record record; /* current one; count: how often it still comes */
static const uint8_t *literal;
static uint8_t bytes[BYTES];

static void
require(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "fuzz_port: %s\n", what);
	abort();
}

/* Reads the next record, or repeats the last. Returns false at the end. */
static bool
record_next(void)
{
	if (record.count > 0) {
		record.count--;
		return true;
	}
	if ((size_t)(input_end - input) < sizeof(record))
		return false;
	memcpy(&record, input, sizeof(record));
	input += sizeof(record);
	if (record.literal > input_end - input)
		record.literal = (uint8_t)(input_end - input);
	record.count %= 4;
	literal = input;
	input += record.literal;
	return true;
}

/* Makes the headers of a packet socket's super-frame of len bytes. Returns their length. */
static uint32_t
headers_make(uint32_t len)
{
	struct udp_from from = {.v6 = (record.flags & RECORD_V6) != 0, .ttl = 64, .sport = 0xc000};
	uint8_t headers[UDP_HDR_MAX];
	struct rte_mbuf m = {.buf_addr = headers};
	struct udp_head h;

	m.data_len = (uint16_t)udp_headers_put(headers, headers, &from, 0);
	m.pkt_len = m.data_len;
	require(udp_head_read(&m, &h), "headers that are not read");
	if (len < PACKET_VNET_LEN + m.pkt_len || len - PACKET_VNET_LEN - m.pkt_len > UDP_BYTES_MAX)
		return 0;
	return packet_head_put(bytes, &h, len - PACKET_VNET_LEN - m.pkt_len, record.gso);
}

/* Makes the bytes of the current message. Returns how many. */
static uint32_t
message_make(void)
{
	uint32_t len = record.len, headers = 0, at, n = record.literal;

	memset(bytes, record.fill, len);
	if (record.flags & RECORD_HEADER)
		headers = headers_make(len);
	if (headers == 0 || n == 0) {
		memcpy(bytes, literal, n < len ? n : len);
		return len;
	}
	/* a place in the headers and what stands there, so that most of them stay right */
	at = literal[0] % headers;
	n--;
	memcpy(bytes + at, literal + 1, n < headers - at ? n : headers - at);
	return len;
}

/* Fills in the address and the control messages. */
static void
message_about(struct msghdr *msg)
{
	struct tpacket_auxdata aux = {
		.tp_status = record.flags & RECORD_TAGGED ? TP_STATUS_VLAN_VALID : 0,
		.tp_vlan_tci = record.gso,
	};
	int gso = (int16_t)record.gso;

	msg->msg_controllen = 0;
	if (msg->msg_name != NULL) {
		memset(msg->msg_name, record.fill, sizeof(struct sockaddr_in6));
		((struct sockaddr_in *)msg->msg_name)->sin_family =
			record.flags & RECORD_V6 ? AF_INET6 : AF_INET;
		if (record.flags & RECORD_GSO)
			socket_control_put(msg, IPPROTO_UDP, UDP_GRO, &gso, sizeof(gso));
		return;
	}
	socket_control_put(msg, SOL_PACKET, PACKET_AUXDATA, &aux, sizeof(aux));
}

/* Stands in for the kernel's. */
int
recvmmsg(int fd, struct mmsghdr *v, unsigned n, int flags, struct timespec *timeout)
{
	unsigned i;

	for (i = 0; i < n && record_next(); i++) {
		struct msghdr *msg = &v[i].msg_hdr;
		uint32_t len = message_make(), off = 0;

		for (size_t k = 0; k < msg->msg_iovlen && off < len; k++) {
			uint32_t part = (uint32_t)msg->msg_iov[k].iov_len;

			if (part > len - off)
				part = len - off;
			memcpy(msg->msg_iov[k].iov_base, bytes + off, part);
			off += part;
		}
		v[i].msg_len = off;
		message_about(msg);
		msg->msg_flags = off < len || record.flags & RECORD_TRUNCATED ? MSG_TRUNC : 0;
	}
	errno = EAGAIN;
	return i > 0 ? (int)i : -1;
}

static void
frames_check(struct rte_mbuf **m, uint16_t n)
{
	const char *reason;

	for (uint16_t i = 0; i < n; i++) {
		require(rte_mbuf_check(m[i], 1, &reason) == 0, "a bad buffer");
		require(m[i]->nb_segs == 1 && m[i]->pkt_len == m[i]->data_len, "lengths disagree");
		require(m[i]->data_off + m[i]->data_len <= m[i]->buf_len,
			"frame beyond its buffer");
		require(m[i]->data_len >= 14, "frame without Ethernet header");
	}
	rte_pktmbuf_free_bulk(m, n);
}

static void
socket_run_input(bool packet)
{
	struct port_socket *s = calloc(1, sizeof(*s));
	struct rte_mbuf *m[BURST];

	require(s != NULL, "no memory");
	s->packet = packet;
	require(socket_init(s, pool, MTU) == 0, "no receive buffers");
	for (uint32_t i = 0; i < ROUNDS; i++)
		frames_check(m, port_socket_rx(s, m, BURST));
	socket_fini(s);
	free(s);
}

/* Headers of TCP over IPv4 and IPv6, as the kernel gives them. */
static const uint8_t tcp4[] = {2,    0, 0,  0, 0,    1,    2,    0, 0,    0, 0, 2, 8,  0,
			       0x45, 0, 0,  0, 0,    1,    0x40, 0, 64,   6, 0, 0, 10, 0,
			       0,    1, 10, 0, 0,    2,    0x10, 0, 0x20, 0, 0, 0, 0,  5,
			       0,    0, 0,  9, 0x50, 0x10, 1,    0, 0,    0, 0, 0};
static const uint8_t tcp6[] = {2, 0, 0, 0, 0, 1, 2,    0,    0,    0,    0, 2,    0x86, 0xdd, 0x60,
			       0, 0, 0, 0, 0, 6, 64,   0xfd, 0,    0,    0, 0,    0,    0,    0,
			       0, 0, 0, 0, 0, 0, 0,    1,    0xfd, 0,    0, 0,    0,    0,    0,
			       0, 0, 0, 0, 0, 0, 0,    0,    2,    0x10, 0, 0x20, 0,    0,    0,
			       0, 5, 0, 0, 0, 9, 0x50, 0x10, 1,    0,    0, 0,    0,    0};

/* Merges what m[0 .. n) has, as the interface's thread does. Frees it. */
static void
hostif_merge_all(struct rte_mbuf **m, uint32_t n)
{
	static struct iovec v[HOSTIF_PIECES];
	struct virtio_net_hdr vh;

	for (uint32_t i = 0, k; i < n; i += k) {
		uint32_t at = i;

		k = hostif_merge(m + i, n - i, &vh, v);
		require(k >= 1 && k <= n - i, "a number of merged frames");
		for (; at < i + k; at++) {
			uint8_t *from = v[at - i].iov_base,
				*start = rte_pktmbuf_mtod(m[at], uint8_t *);

			require(from >= start &&
					from + v[at - i].iov_len <= start + m[at]->data_len,
				"a part that lies outside of its frame");
		}
	}
	rte_pktmbuf_free_bulk(m, n);
}

/*
 * A frame of the kernel: IP version, length (2 bytes), number of bytes that change header and
 * frame, these (step_overlay). It is cut; the rest of the input changes the pieces, each by at most
 * 6 bytes, and they are merged again.
 */
static void
hostif_run_input(const uint8_t *data, size_t size)
{
	static struct rte_mbuf *m[HOSTIF_PIECES];
	static uint8_t frame[sizeof(struct virtio_net_hdr) + HOSTIF_SUPER];
	bool v6 = data[0] & 1;
	uint32_t len = ((uint32_t)data[1] | (uint32_t)data[2] << 8) % HOSTIF_SUPER, n,
		 used = data[3];
	uint32_t l4 = v6 ? 54 : 34;
	struct virtio_net_hdr vh = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
				    .gso_type = v6 ? VIRTIO_NET_HDR_GSO_TCPV6
						   : VIRTIO_NET_HDR_GSO_TCPV4,
				    .hdr_len = (uint16_t)(l4 + 20),
				    .gso_size = 1000,
				    .csum_start = (uint16_t)l4,
				    .csum_offset = 16};
	uint8_t *copy;

	data += 4;
	size -= 4;
	used = used < size ? used : (uint32_t)size;
	memset(frame, 0x11, sizeof(frame));
	memcpy(frame, &vh, sizeof(vh));
	memcpy(frame + sizeof(vh), v6 ? tcp6 : tcp4, v6 ? sizeof(tcp6) : sizeof(tcp4));
	step_overlay(frame, sizeof(vh) + 100, data, used);
	memcpy(&vh, frame, sizeof(vh));
	copy = malloc(len + 1); /* just as long as it is, for the sanitizer */
	require(copy != NULL, "no memory");
	memcpy(copy, frame + sizeof(vh), len);
	n = hostif_cut(&vh, copy, len, pool, m, HOSTIF_PIECES);
	free(copy);
	require(n <= HOSTIF_PIECES, "too many pieces");
	for (uint32_t i = 0; i < n; i++) {
		require(m[i]->nb_segs == 1 && m[i]->data_len <= len, "form of a piece");
		data += used;
		size -= used;
		used = size < 6 ? (uint32_t)size : 6;
		step_overlay(rte_pktmbuf_mtod(m[i], uint8_t *),
			     m[i]->data_len < 80 ? m[i]->data_len : 80, data, used);
	}
	hostif_merge_all(m, n);
}

/* A host interface with its thread. The fuzzer plays its worker and the kernel's end of the TAP. */
static struct hostif *thread;
static struct worker_set workers;
static struct worker worker;
static int kernel = -1; /* the kernel's end of the TAP */
static bool looped;     /* what the worker sends comes back to the interface */

void
worker_wake(struct worker *w)
{
}

/* Takes what the thread has given to the kernel. */
static void
kernel_read(void)
{
	static uint8_t frame[sizeof(struct virtio_net_hdr) + HOSTIF_SUPER];
	struct virtio_net_hdr vh;
	ssize_t got;

	while ((got = recv(kernel, frame, sizeof(frame), MSG_DONTWAIT | MSG_TRUNC)) > 0) {
		require((size_t)got >= sizeof(vh) + 14 && (size_t)got <= sizeof(frame),
			"length of a frame for the kernel");
		memcpy(&vh, frame, sizeof(vh));
		require(vh.gso_type == VIRTIO_NET_HDR_GSO_NONE ||
				(vh.gso_size != 0 && vh.hdr_len < got - sizeof(vh)),
			"a super-frame for the kernel");
	}
}

/* The worker sends the frames that it was given. True if there were any. */
static bool
worker_send(void)
{
	struct rte_mbuf *m;
	bool any = false;

	while (rte_ring_dequeue(worker.out, (void **)&m) == 0) {
		require(m->nb_segs == 1 && m->data_len >= 14, "form of a frame for the wire");
		any = true;
		if (!looped || !worker_host_put(&thread->host, m))
			rte_pktmbuf_free(m);
	}
	return any;
}

/* Stands in for the kernel's: while the thread waits, the others have their turn. */
int
ppoll(struct pollfd *fds, nfds_t n, const struct timespec *limit, const sigset_t *mask)
{
	char byte;

	kernel_read();
	if (!worker_send() && thread->piece_n == 0 &&
	    recv(thread->tap, &byte, 1, MSG_DONTWAIT | MSG_PEEK) <= 0)
		thread->stop = 1;
	return 0;
}

/* A frame with TCP's headers, len bytes, as a step's body changes it. */
static void
frame_make(uint8_t *to, uint32_t len, bool v6, const uint8_t *body, uint32_t n)
{
	memset(to, 0x11, len + 100);
	memcpy(to, v6 ? tcp6 : tcp4, v6 ? sizeof(tcp6) : sizeof(tcp4));
	step_overlay(to, 100, body, n);
}

/*
 * Frames, taken and given by the thread: whether they have a tag, and come back; then of each:
 * whether it is IPv6, has a header of a super-frame, and goes to the kernel; its length (2 bytes),
 * number of bytes that change it, these (step_overlay).
 */
static void
thread_run_input(const uint8_t *data, size_t size)
{
	static uint8_t given[sizeof(struct virtio_net_hdr) + HOSTIF_SUPER + 100];
	uint8_t *frame = given + sizeof(struct virtio_net_hdr);
	struct rte_mbuf *m;

	thread->vlan = data[0] & 1 ? 7 : 0;
	looped = data[0] & 2;
	thread->stop = 0;
	for (data++, size--; size >= 4;) {
		bool v6 = data[0] & 1, whole = data[0] & 2;
		uint32_t len = ((uint32_t)data[1] | (uint32_t)data[2] << 8) % HOSTIF_SUPER;
		uint32_t l4 = v6 ? 54 : 34, n = data[3] < size - 4 ? data[3] : (uint32_t)size - 4;
		struct virtio_net_hdr vh = {
			.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
			.gso_type = whole ? VIRTIO_NET_HDR_GSO_NONE
				    : v6  ? VIRTIO_NET_HDR_GSO_TCPV6
					  : VIRTIO_NET_HDR_GSO_TCPV4,
			.hdr_len = (uint16_t)(l4 + 20),
			.gso_size = whole ? 0 : 1000,
			.csum_start = (uint16_t)l4,
			.csum_offset = 16,
		};

		frame_make(frame, len, v6, data + 4, n);
		memcpy(given, &vh, sizeof(vh));
		if (data[0] & 4) {
			m = rte_pktmbuf_alloc(pool);
			require(m != NULL, "no buffer");
			len = 14 + len % MTU;
			memcpy(rte_pktmbuf_append(m, (uint16_t)len), frame, len);
			if (!worker_host_put(&thread->host, m))
				rte_pktmbuf_free(m);
		} else {
			if (data[0] & 8) /* a header that nobody writes */
				memset(given, data[0], sizeof(vh));
			(void)!send(kernel, given, data[0] & 16 ? 1 + len % 16 : sizeof(vh) + len,
				    MSG_DONTWAIT);
		}
		data += 4 + n;
		size -= 4 + n;
	}
	hostif_move(thread);
	kernel_read();
}

static void
thread_init(void)
{
	int fd[2], space = 1 << 20;

	thread = calloc(1, sizeof(*thread));
	require(thread != NULL && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fd) == 0,
		"no TAP");
	kernel = fd[0];
	setsockopt(kernel, SOL_SOCKET, SO_SNDBUF, &space, sizeof(space));
	thread->tap = fd[1];
	thread->workers = &workers;
	thread->pool = pool;
	thread->host.ring = rte_ring_create("host", HOSTIF_RING, SOCKET_ID_ANY, 0);
	thread->host.wake_fd = eventfd(0, EFD_NONBLOCK);
	worker.out = rte_ring_create("out", WORKER_RING_FRAMES, SOCKET_ID_ANY, 0);
	workers.worker[0] = &worker;
	require(thread->host.ring != NULL && worker.out != NULL, "no rings");
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char prefix[64], lcores[32];
	char *eal[] = {(char *)"fuzz",
		       (char *)"--no-huge",
		       (char *)"--no-pci",
		       (char *)"--no-shconf",
		       (char *)"-m",
		       (char *)"128",
		       (char *)"--no-telemetry",
		       (char *)"--log-level=error",
		       lcores,
		       prefix};

	snprintf(lcores, sizeof(lcores), "--lcores=0@%d", unit_eal_cpu());
	snprintf(prefix, sizeof(prefix), "--file-prefix=fuzz-%d", getpid());
	require(rte_eal_init(sizeof(eal) / sizeof(eal[0]), eal) >= 0, "no EAL");
	pool = rte_pktmbuf_pool_create("pool", BUFFERS, 0, 0, 8320 + RTE_PKTMBUF_HEADROOM,
				       SOCKET_ID_ANY);
	require(pool != NULL, "no pool");
	thread_init();
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	memset(&record, 0, sizeof(record));
	input = data + 1;
	input_end = data + size;
	if (data[0] % 4 == 2 && size > 4)
		hostif_run_input(data + 1, size - 1);
	else if (data[0] % 8 == 7 && size > 2)
		thread_run_input(data + 1, size - 1);
	else
		socket_run_input(data[0] & 1);
	require(rte_mempool_avail_count(pool) == BUFFERS, "a buffer is lost");
	return 0;
}
