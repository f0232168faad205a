/* SPDX-License-Identifier: BSD-3-Clause */
#include "control_parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uroce_abi/cm.h>
#include "control/neigh.h"
#include "control/slow_path.h"
#include "control/vendor_mad.h"

#define CHANNELS 4u
#define IDS      8u /* that are remembered, of all channels */
#define PENDING  8u

struct channel {
	int events, commands; /* -1: none */
	uint8_t secret[UROCE_CM_CHANNEL_ID];
	uint32_t cmd[PENDING]; /* commands without a reply yet */
	uint32_t out[PENDING];
	uint32_t npending;
};

static struct channel channels[CHANNELS];
static uint32_t nchannels; /* that were opened so far */
static uint32_t ids[IDS], nids;
static uint8_t last_secret[UROCE_CM_CHANNEL_ID];

/* ---- channels ---- */

static void
channel_end(struct channel *ch)
{
	close(ch->events);
	if (ch->commands >= 0)
		close(ch->commands);
	memset(ch, 0, sizeof(*ch));
}

void
cm_open_channel(int events, int commands, const uint8_t *secret)
{
	struct channel *ch = &channels[nchannels++ % CHANNELS];

	if (ch->events > 0)
		channel_end(ch);
	ch->events = events;
	ch->commands = commands;
	memcpy(ch->secret, secret, sizeof(ch->secret));
	memcpy(last_secret, secret, sizeof(last_secret));
}

void
cm_close(uint32_t which)
{
	struct channel *ch = &channels[which % CHANNELS];

	if (ch->events > 0)
		channel_end(ch);
}

void
cm_close_all(void)
{
	for (uint32_t i = 0; i < CHANNELS; i++)
		cm_close(i);
	nchannels = nids = 0;
	memset(ids, 0, sizeof(ids));
}

static void
remember(uint32_t cmd, const uint8_t *body, uint32_t len)
{
	uint32_t at = cmd == RDMA_USER_CM_CMD_CREATE_ID   ? 0
		      : cmd == RDMA_USER_CM_CMD_GET_EVENT ? offsetof(struct rdma_ucm_event_resp, id)
							  : UINT32_MAX;

	if (at < len)
		memcpy(&ids[nids++ % IDS], body + at, sizeof(uint32_t));
}

static bool
receive(struct channel *ch)
{
	static struct {
		struct uroce_cm_rep rep;
		uint8_t body[UROCE_CM_MAX_BODY];
	} m;
	ssize_t n = recv(ch->commands, &m, sizeof(m), MSG_DONTWAIT);
	char byte;

	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		channel_end(ch);
		return false;
	}
	require(n >= (ssize_t)sizeof(m.rep) && m.rep.len == n - sizeof(m.rep),
		"length of a command's reply");
	require(ch->npending > 0 && m.rep.cookie == 7, "a reply without a command");
	require(m.rep.len <= ch->out[0] && (m.rep.status == 0 || m.rep.len == 0),
		"a longer response than there is space for");
	if (m.rep.flags & UROCE_CM_TAKE_TOKEN)
		require(recv(ch->events, &byte, 1, MSG_DONTWAIT) == 1, "no token");
	if (m.rep.status == 0)
		remember(ch->cmd[0], m.body, m.rep.len);
	ch->npending--;
	memmove(ch->cmd, ch->cmd + 1, ch->npending * sizeof(ch->cmd[0]));
	memmove(ch->out, ch->out + 1, ch->npending * sizeof(ch->out[0]));
	return true;
}

void
cm_replies(void)
{
	for (struct channel *ch = channels; ch < channels + CHANNELS; ch++)
		while (ch->events > 0 && receive(ch))
			;
}

static void
send_command(struct channel *ch, const void *bytes, uint32_t n)
{
	struct uroce_cm_req req = {0};

	if (ch->events <= 0 || ch->npending == PENDING ||
	    send(ch->commands, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
	memcpy(&req, bytes, n < sizeof(req) ? n : sizeof(req));
	ch->cmd[ch->npending] = req.cmd;
	ch->out[ch->npending++] = req.out;
}

void
cm_raw(uint8_t which, const uint8_t *body, uint32_t len)
{
	uint8_t bytes[512] = {7};

	memcpy(bytes + 4, body, len);
	send_command(&channels[which % CHANNELS], bytes, len + 4);
}

#define ID(type) sizeof(struct rdma_ucm_##type), offsetof(struct rdma_ucm_##type, id)
#define NO_ID    UINT16_MAX
static const struct {
	uint16_t in, id;
	uint16_t addr[2]; /* sockaddrs, the destination last; 0: none */
} forms[] = {
#define A(type, field) offsetof(struct rdma_ucm_##type, field)
	[RDMA_USER_CM_CMD_CREATE_ID] = {sizeof(struct rdma_ucm_create_id), NO_ID},
	[RDMA_USER_CM_CMD_DESTROY_ID] = {ID(destroy_id)},
	[RDMA_USER_CM_CMD_BIND_IP] = {ID(bind_ip), {A(bind_ip, addr)}},
	[RDMA_USER_CM_CMD_RESOLVE_IP] = {ID(resolve_ip), {A(resolve_ip, dst_addr)}},
	[RDMA_USER_CM_CMD_RESOLVE_ROUTE] = {ID(resolve_route)},
	[RDMA_USER_CM_CMD_QUERY_ROUTE] = {ID(query)},
	[RDMA_USER_CM_CMD_CONNECT] = {ID(connect)},
	[RDMA_USER_CM_CMD_LISTEN] = {ID(listen)},
	[RDMA_USER_CM_CMD_ACCEPT] = {ID(accept)},
	[RDMA_USER_CM_CMD_REJECT] = {ID(reject)},
	[RDMA_USER_CM_CMD_DISCONNECT] = {ID(disconnect)},
	[RDMA_USER_CM_CMD_INIT_QP_ATTR] = {ID(init_qp_attr)},
	[RDMA_USER_CM_CMD_GET_EVENT] = {sizeof(struct rdma_ucm_get_event), NO_ID},
	[RDMA_USER_CM_CMD_SET_OPTION] = {sizeof(struct rdma_ucm_set_option) + 72,
					 A(set_option, id)},
	[RDMA_USER_CM_CMD_NOTIFY] = {ID(notify)},
	[RDMA_USER_CM_CMD_JOIN_IP_MCAST] = {ID(join_ip_mcast), {A(join_ip_mcast, addr)}},
	[RDMA_USER_CM_CMD_LEAVE_MCAST] = {ID(destroy_id)},
	[RDMA_USER_CM_CMD_MIGRATE_ID] = {ID(migrate_id)},
	[RDMA_USER_CM_CMD_QUERY] = {ID(query)},
	[RDMA_USER_CM_CMD_BIND] = {ID(bind), {A(bind, addr)}},
	[RDMA_USER_CM_CMD_RESOLVE_ADDR] = {ID(resolve_addr), {A(resolve_addr, dst_addr)}},
	[RDMA_USER_CM_CMD_JOIN_MCAST] = {ID(join_mcast), {A(join_mcast, addr)}},
	[UROCE_CM_RESOLVE_IB_SERVICE] = {sizeof(struct uroce_cm_ib_service), 0},
	[UROCE_CM_WRITE_EVENT] = {sizeof(struct uroce_cm_write_event), 0},
};

static uint16_t
put_address(uint8_t *to, bool multicast, uint8_t how)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(7471)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(7471)};

	if (how & 1) {
		inet_pton(AF_INET6, multicast ? "ff0e::7" : "fd00::1", &in6.sin6_addr);
		memcpy(to, &in6, sizeof(in6));
		return sizeof(in6);
	}
	inet_pton(AF_INET, multicast ? "239.1.1.7" : "10.0.0.1", &in.sin_addr);
	((uint8_t *)&in.sin_addr)[3] += how >> 1 & 1;
	memcpy(to, &in, sizeof(in));
	return sizeof(in);
}

/* Fields that are neither ids nor addresses. */
static void
fill(uint32_t cmd, uint8_t how, uint16_t addr_len, uint8_t *body)
{
	static const uint16_t spaces[] = {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB, RDMA_PS_IPOIB};
	struct rdma_ucm_conn_param *conn = NULL;
	struct rdma_ucm_set_option *option = (void *)body;

	switch (cmd) {
	case RDMA_USER_CM_CMD_CREATE_ID:
		((struct rdma_ucm_create_id *)(void *)body)->ps = spaces[how % 4];
		((struct rdma_ucm_create_id *)(void *)body)->qp_type = how % 4 == 1 ? 4 : 2;
		break;
	case RDMA_USER_CM_CMD_RESOLVE_IP:
		((struct rdma_ucm_resolve_ip *)(void *)body)->timeout_ms = 2000;
		break;
	case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
		((struct rdma_ucm_resolve_route *)(void *)body)->timeout_ms = 2000;
		break;
	case RDMA_USER_CM_CMD_RESOLVE_ADDR:
		((struct rdma_ucm_resolve_addr *)(void *)body)->timeout_ms = 2000;
		((struct rdma_ucm_resolve_addr *)(void *)body)->dst_size = addr_len;
		break;
	case RDMA_USER_CM_CMD_BIND:
		((struct rdma_ucm_bind *)(void *)body)->addr_size = addr_len;
		break;
	case RDMA_USER_CM_CMD_JOIN_MCAST:
		((struct rdma_ucm_join_mcast *)(void *)body)->addr_size = addr_len;
		break;
	case RDMA_USER_CM_CMD_LISTEN:
		((struct rdma_ucm_listen *)(void *)body)->backlog = how % 5;
		break;
	case RDMA_USER_CM_CMD_QUERY:
		((struct rdma_ucm_query *)(void *)body)->option = how % 5;
		break;
	case RDMA_USER_CM_CMD_INIT_QP_ATTR:
		((struct rdma_ucm_init_qp_attr *)(void *)body)->qp_state = how % 7;
		break;
	case RDMA_USER_CM_CMD_NOTIFY:
		((struct rdma_ucm_notify *)(void *)body)->event = 3 + how % 3;
		break;
	case RDMA_USER_CM_CMD_SET_OPTION:
		option->level = how >> 2 & 1;
		option->optname = option->level ? 1 : how % 4;
		option->optlen = option->level ? 72 : how & 1 ? 4 : 1;
		memset(option + 1, 1, 72);
		break;
	case UROCE_CM_WRITE_EVENT:
		((struct uroce_cm_write_event *)(void *)body)->event = 18 + how % 2;
		break;
	case RDMA_USER_CM_CMD_CONNECT:
		conn = &((struct rdma_ucm_connect *)(void *)body)->conn_param;
		break;
	case RDMA_USER_CM_CMD_ACCEPT:
		conn = &((struct rdma_ucm_accept *)(void *)body)->conn_param;
		break;
	default:
		break;
	}
	if (conn != NULL)
		*conn = (struct rdma_ucm_conn_param){.qp_num = 0x100u + how,
						     .private_data_len = how % 64,
						     .valid = how != 255};
}

/*
 * Sends a command. body[0] chooses the values of its fields, body[1] the id; the rest is written
 * over the command (step_overlay).
 */
void
cm_command(uint8_t which, uint8_t cmd, const uint8_t *body, uint32_t len)
{
	struct {
		struct uroce_cm_req req;
		uint8_t body[1024];
	} m __attribute__((aligned(8))) = {0};
	uint32_t n = len < 2 ? len : 2;
	uint8_t how = n > 0 ? body[0] : 0, id = n > 1 ? body[1] : 0;
	uint16_t addr_len = 0;

	cmd %= sizeof(forms) / sizeof(forms[0]);
	m.req = (struct uroce_cm_req){.cookie = 7,
				      .cmd = cmd,
				      .in = forms[cmd].in,
				      .out = UROCE_CM_MAX_BODY};
	if (cmd == RDMA_USER_CM_CMD_MIGRATE_ID)
		memcpy(m.req.from, how & 1 ? channels[how >> 1 & 3].secret : last_secret,
		       sizeof(m.req.from));
	if (forms[cmd].addr[0] != 0)
		addr_len = put_address(m.body + forms[cmd].addr[0],
				       cmd == RDMA_USER_CM_CMD_JOIN_IP_MCAST ||
					       cmd == RDMA_USER_CM_CMD_JOIN_MCAST,
				       how);
	fill(cmd, how, addr_len, m.body);
	if (forms[cmd].id != NO_ID)
		memcpy(m.body + forms[cmd].id, &ids[id % IDS], sizeof(uint32_t));
	/* not the cookie */
	step_overlay((uint8_t *)&m + 4, (uint32_t)sizeof(m.req) - 4 + forms[cmd].in, body + n,
		     len - n);
	send_command(&channels[which % CHANNELS], &m, (uint32_t)sizeof(m.req) + forms[cmd].in);
}

/* ---- neighbours ---- */

static uint32_t
sum(uint32_t seed, const uint8_t *p, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		seed += i & 1 ? p[i] : (uint32_t)p[i] << 8;
	return seed;
}

static void
put_sum(uint8_t *at, uint32_t s)
{
	s = (s & 0xffff) + (s >> 16);
	s = ~((s & 0xffff) + (s >> 16));
	at[0] = (uint8_t)(s >> 8);
	at[1] = (uint8_t)s;
}

/* Corrects the checksums of IPv4, ICMP, IGMP and ICMPv6 without options. */
static void
repair(uint8_t *f, uint32_t len)
{
	uint32_t at = 14 + 20, v6 = 14 + 40;

	if (len >= at + 4 && f[12] == 8 && f[13] == 0) {
		uint32_t ihl = 4u * (f[14] & 15);

		f[24] = f[25] = 0;
		if (ihl >= 20 && 14 + ihl + 4 <= len) {
			put_sum(f + 24, sum(0, f + 14, ihl));
			at = 14 + ihl;
			f[at + 2] = f[at + 3] = 0;
			put_sum(f + at + 2, sum(0, f + at, len - at));
		}
	} else if (len >= v6 + 4 && f[12] == 0x86 && f[13] == 0xdd && f[20] == 58) {
		f[v6 + 2] = f[v6 + 3] = 0;
		put_sum(f + v6 + 2, sum(len - v6 + 58, f + 22, len - 22));
	}
}

#define OUR_MAC   2, 0, 0, 0, 0, 1
#define THEIR_MAC 2, 0, 0, 0, 0, 2
#define ETH(type) OUR_MAC, THEIR_MAC, (type) >> 8, (type)&0xff
#define OUR_V6    0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1
#define THEIR_V6  0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2
#define IPV4(proto, len)                                                                           \
	0x45, 0, 0, 20 + (len), 0, 0, 0, 0, 64, proto, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1
#define IPV6(len, hops) 0x60, 0, 0, 0, 0, len, 58, hops, THEIR_V6, OUR_V6

static const uint8_t arp[] = {ETH(0x806), 0, 1, 8, 0,       6,  4, 0, 1, THEIR_MAC,
			      10,         0, 0, 2, OUR_MAC, 10, 0, 0, 1};
static const uint8_t echo[] = {ETH(0x800), IPV4(1, 16), 8, 0, 0, 0, 1, 2, 3,
			       4,          1,           2, 3, 4, 5, 6, 7, 8};
static const uint8_t igmp[] = {ETH(0x800), 0x46, 0,  0,    32,  0, 0,   0, 0, 1, 2,
			       0,          0,    10, 0,    0,   2, 224, 0, 0, 1, 148,
			       4,          0,    0,  0x11, 100, 0, 0,   0, 0, 0, 0};
static const uint8_t ask[] = {ETH(0x86dd), IPV6(32, 255), 135, 0, 0,        0, 0, 0, 0,
			      0,           OUR_V6,        1,   1, THEIR_MAC};
static const uint8_t say[] = {ETH(0x86dd), IPV6(32, 255), 136, 0, 0,        0, 0x60, 0, 0,
			      0,           THEIR_V6,      2,   1, THEIR_MAC};
static const uint8_t echo6[] = {ETH(0x86dd), IPV6(12, 64), 128, 0, 0, 0, 0, 1, 0, 1, 1, 2, 3, 4};
static const uint8_t mld[] = {0x33, 0x33, 0,   0, 0,    1,    THEIR_MAC, 0x86, 0xdd, 0x60, 0, 0,
			      0,    0,    32,  0, 1,    0xfe, 0x80,      0,    0,    0,    0, 0,
			      0,    0,    0,   0, 0xff, 0xfe, 0,         0,    2,    0xff, 2, 0,
			      0,    0,    0,   0, 0,    0,    0,         0,    0,    0,    0, 0,
			      1,    58,   0,   5, 2,    0,    0,         1,    0,    130,  0, 0,
			      0,    0,    100, 0, 0,    0,    0,         0,    0,    0,    0, 0,
			      0,    0,    0,   0, 0,    0,    0,         0,    0,    0};
static const struct {
	const uint8_t *bytes;
	uint32_t len;
} frames[] = {{arp, sizeof(arp)}, {echo, sizeof(echo)},   {igmp, sizeof(igmp)}, {ask, sizeof(ask)},
	      {say, sizeof(say)}, {echo6, sizeof(echo6)}, {mld, sizeof(mld)}};

/* how: bit 7: an ARP reply; bit 6: checksums stay as they are; bits 0 .. 5: bytes that are cut off
 */
void
neighbour_frame(uint8_t kind, uint8_t how, const uint8_t *body, uint32_t len)
{
	uint32_t i = kind % (sizeof(frames) / sizeof(frames[0])), n = frames[i].len;
	uint8_t *f;

	n -= (how & 63) < n && (how & 32) ? how & 63 : 0;
	f = malloc(n); /* just as long as it is, for the sanitizer */
	require(f != NULL, "no memory");
	memcpy(f, frames[i].bytes, n);
	if (i == 0 && how & 0x80 && n > 21)
		f[21] = 2;
	step_overlay(f, n, body, len);
	if (!(how & 0x40))
		repair(f, n);
	neigh_rx_bytes(fuzz_daemon.dev[0], f, n);
	free(f);
}

static void
aim(struct wire_cm *m, uint8_t attr, uint8_t how, const struct slow_datagram *g)
{
	static const uint8_t ip[] = {0x00, 0x40, 0,
				     0}; /* IPv4, as rdma_cm has it in private data */

	*m = (struct wire_cm){.attr = attr, .tid = how};
	if (attr == WIRE_CM_REQ) {
		m->req.local_comm_id = 0x100u + how;
		m->req.mtu = 3;
		m->req.pkey = 0xffff;
		m->req.primary.ack_timeout = 14;
		memcpy(m->req.primary.local_gid, g->remote, 16);
		memcpy(m->req.primary.remote_gid, g->local, 16);
		memcpy(m->req.private_data, ip, sizeof(ip));
		m->req.service_id = 0x0000000001060000ull + 7471;
		m->req.qpn = 0x200u + how;
	} else if (attr == WIRE_CM_SIDR_REQ) {
		m->sidr_req.request_id = how;
		m->sidr_req.service_id = 0x0000000001110000ull + 7471;
	}
}

void
neighbour_mad(uint8_t attr, uint8_t how, const uint8_t *body, uint32_t len)
{
	struct device *dev = fuzz_daemon.dev[0];
	struct slow_datagram g = {.dev = dev,
				  .local_qpn = WIRE_GSI_QPN,
				  .remote_qpn = WIRE_GSI_QPN,
				  .qkey = WIRE_GSI_QKEY,
				  .pkey = 0xffff,
				  .hop_limit = 64,
				  .len = WIRE_MAD_LEN};
	uint8_t mad[WIRE_MAD_LEN] = {0};
	struct wire_cm m;

	memcpy(g.local, dev->net.gid[1].gid, 16);
	memcpy(g.remote, g.local, 16);
	g.remote[15] = (uint8_t)(1 + (how >> 2 & 3));
	if (how & 0x80) {
		vendor_mad_init(mad, how & 1 ? VENDOR_MAD_ASK : VENDOR_MAD_ANSWER,
				how & 2 ? 0x5352 : 0x5052, attr);
	} else {
		aim(&m, (uint8_t)(WIRE_CM_REQ + attr % WIRE_CM_NATTRS), how, &g);
		wire_cm_build(&m, mad);
	}
	step_overlay(mad, sizeof(mad), body, len);
	g.payload = mad;
	fuzz_daemon.qp1.fn(fuzz_daemon.qp1.ctx, &g);
}
