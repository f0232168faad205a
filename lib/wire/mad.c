/* SPDX-License-Identifier: BSD-3-Clause */
#include <stddef.h>
#include <string.h>
#include "wire/cursor.h"
#include "wire/hdr.h"
#include "wire/mad.h"

#define MAD_BASE_VERSION 1u
#define MAD_METHOD_SEND  3u

/* Common MAD header, 24 bytes (IBTA 13.4.3). */
struct wire_mad_hdr {
	uint8_t base_version;
	uint8_t class;
	uint8_t class_version;
	uint8_t method;
	rte_be16_t status;
	rte_be16_t class_specific;
	rte_be64_t tid;
	rte_be16_t attr;
	rte_be16_t resv;
	rte_be32_t modifier;
} WIRE_PACKED;
_Static_assert(sizeof(struct wire_mad_hdr) == WIRE_MAD_HDR_LEN, "common MAD header size");

const char *const wire_cm_attr_name[WIRE_CM_NATTRS] = {
	[WIRE_CM_INDEX(WIRE_CM_REQ)] = "REQ",
	[WIRE_CM_INDEX(WIRE_CM_MRA)] = "MRA",
	[WIRE_CM_INDEX(WIRE_CM_REJ)] = "REJ",
	[WIRE_CM_INDEX(WIRE_CM_REP)] = "REP",
	[WIRE_CM_INDEX(WIRE_CM_RTU)] = "RTU",
	[WIRE_CM_INDEX(WIRE_CM_DREQ)] = "DREQ",
	[WIRE_CM_INDEX(WIRE_CM_DREP)] = "DREP",
	[WIRE_CM_INDEX(WIRE_CM_SIDR_REQ)] = "SIDR_REQ",
	[WIRE_CM_INDEX(WIRE_CM_SIDR_REP)] = "SIDR_REP",
	[WIRE_CM_INDEX(WIRE_CM_LAP)] = "LAP",
	[WIRE_CM_INDEX(WIRE_CM_APR)] = "APR",
};

const char *const wire_cm_verdict_name[WIRE_CM_NVERDICTS] = {
	[WIRE_CM_OK] = "ok",
	[WIRE_CM_BAD_LENGTH] = "bad_length",
	[WIRE_CM_BAD_BASE_VERSION] = "bad_base_version",
	[WIRE_CM_BAD_CLASS] = "bad_class",
	[WIRE_CM_BAD_CLASS_VERSION] = "bad_class_version",
	[WIRE_CM_BAD_METHOD] = "bad_method",
	[WIRE_CM_BAD_ATTR] = "bad_attr",
};

/* A number of so many bits, which begins at bit `from` of byte `byte_at`. */
#define BITS(msg, member, byte_at, from, nbits)                                                    \
	{                                                                                          \
		.name = #member, .at = offsetof(struct wire_cm, msg.member),                       \
		.size = sizeof(((struct wire_cm *)NULL)->msg.member), .bit = (from),               \
		.byte = (byte_at), .bits = (nbits)                                                 \
	}
/* Bytes as they are. */
#define BYTES(msg, member, byte_at)                                                                \
	{                                                                                          \
		.name = #member, .at = offsetof(struct wire_cm, msg.member), .byte = (byte_at),    \
		.bits = 8 * sizeof(((struct wire_cm *)NULL)->msg.member)                           \
	}
/* A path in a REQ, 44 bytes. */
#define PATH(msg, member, byte_at)                                                                 \
	BITS(msg, member.local_lid, byte_at, 0, 16),                                               \
		BITS(msg, member.remote_lid, byte_at + 2, 0, 16),                                  \
		BYTES(msg, member.local_gid, byte_at + 4),                                         \
		BYTES(msg, member.remote_gid, byte_at + 20),                                       \
		BITS(msg, member.flow_label, byte_at + 36, 0, 20),                                 \
		BITS(msg, member.rate, byte_at + 39, 2, 6),                                        \
		BITS(msg, member.traffic_class, byte_at + 40, 0, 8),                               \
		BITS(msg, member.hop_limit, byte_at + 41, 0, 8),                                   \
		BITS(msg, member.sl, byte_at + 42, 0, 4),                                          \
		BITS(msg, member.subnet_local, byte_at + 42, 4, 1),                                \
		BITS(msg, member.ack_timeout, byte_at + 43, 0, 5)
/* Both communication ids, with which most messages begin. */
#define COMM_IDS(msg) BITS(msg, local_comm_id, 0, 0, 32), BITS(msg, remote_comm_id, 4, 0, 32)

static const struct wire_cm_field req_fields[] = {
	BITS(req, local_comm_id, 0, 0, 32),
	BITS(req, vendor_id, 5, 0, 24),
	BITS(req, service_id, 8, 0, 64),
	BITS(req, ca_guid, 16, 0, 64),
	BITS(req, qkey, 28, 0, 32),
	BITS(req, qpn, 32, 0, 24),
	BITS(req, responder_resources, 35, 0, 8),
	BITS(req, local_eecn, 36, 0, 24),
	BITS(req, initiator_depth, 39, 0, 8),
	BITS(req, remote_eecn, 40, 0, 24),
	BITS(req, remote_response_timeout, 43, 0, 5),
	BITS(req, transport, 43, 5, 2),
	BITS(req, flow_control, 43, 7, 1),
	BITS(req, psn, 44, 0, 24),
	BITS(req, local_response_timeout, 47, 0, 5),
	BITS(req, retry_count, 47, 5, 3),
	BITS(req, pkey, 48, 0, 16),
	BITS(req, mtu, 50, 0, 4),
	BITS(req, rdc_exists, 50, 4, 1),
	BITS(req, rnr_retry, 50, 5, 3),
	BITS(req, max_retries, 51, 0, 4),
	BITS(req, srq, 51, 4, 1),
	BITS(req, transport_more, 51, 5, 3),
	PATH(req, primary, 52),
	PATH(req, alternate, 96),
	BITS(req, sap, 139, 5, 1),
	BYTES(req, private_data, 140),
};

static const struct wire_cm_field mra_fields[] = {
	COMM_IDS(mra),
	BITS(mra, about, 8, 0, 2),
	BITS(mra, service_timeout, 9, 0, 5),
	BYTES(mra, private_data, 10),
};

static const struct wire_cm_field rej_fields[] = {
	COMM_IDS(rej),
	BITS(rej, about, 8, 0, 2),
	BITS(rej, info_len, 9, 0, 7),
	BITS(rej, reason, 10, 0, 16),
	BYTES(rej, info, 12),
	BYTES(rej, private_data, 84),
};

static const struct wire_cm_field rep_fields[] = {
	COMM_IDS(rep),
	BITS(rep, qkey, 8, 0, 32),
	BITS(rep, qpn, 12, 0, 24),
	BITS(rep, vendor_h, 15, 0, 8),
	BITS(rep, local_eecn, 16, 0, 24),
	BITS(rep, vendor_m, 19, 0, 8),
	BITS(rep, psn, 20, 0, 24),
	BITS(rep, vendor_l, 23, 0, 8),
	BITS(rep, responder_resources, 24, 0, 8),
	BITS(rep, initiator_depth, 25, 0, 8),
	BITS(rep, target_ack_delay, 26, 0, 5),
	BITS(rep, failover, 26, 5, 2),
	BITS(rep, flow_control, 26, 7, 1),
	BITS(rep, rnr_retry, 27, 0, 3),
	BITS(rep, srq, 27, 3, 1),
	BITS(rep, ca_guid, 28, 0, 64),
	BYTES(rep, private_data, 36),
};

static const struct wire_cm_field rtu_fields[] = {
	COMM_IDS(rtu),
	BYTES(rtu, private_data, 8),
};

static const struct wire_cm_field dreq_fields[] = {
	COMM_IDS(dreq),
	BITS(dreq, remote_qpn, 8, 0, 24),
	BYTES(dreq, private_data, 12),
};

static const struct wire_cm_field drep_fields[] = {
	COMM_IDS(drep),
	BYTES(drep, private_data, 8),
};

static const struct wire_cm_field sidr_req_fields[] = {
	BITS(sidr_req, request_id, 0, 0, 32),
	BITS(sidr_req, pkey, 4, 0, 16),
	BITS(sidr_req, service_id, 8, 0, 64),
	BYTES(sidr_req, private_data, 16),
};

static const struct wire_cm_field sidr_rep_fields[] = {
	BITS(sidr_rep, request_id, 0, 0, 32),
	BITS(sidr_rep, status, 4, 0, 8),
	BITS(sidr_rep, info_len, 5, 0, 8),
	BITS(sidr_rep, vendor_h, 6, 0, 16),
	BITS(sidr_rep, qpn, 8, 0, 24),
	BITS(sidr_rep, vendor_l, 11, 0, 8),
	BITS(sidr_rep, service_id, 12, 0, 64),
	BITS(sidr_rep, qkey, 20, 0, 32),
	BYTES(sidr_rep, info, 24),
	BYTES(sidr_rep, private_data, 96),
};

/* The path of a LAP has its last bytes in another order than the paths of a REQ. */
static const struct wire_cm_field lap_fields[] = {
	COMM_IDS(lap),
	BITS(lap, remote_qpn, 12, 0, 24),
	BITS(lap, response_timeout, 15, 0, 5),
	BITS(lap, alternate.local_lid, 20, 0, 16),
	BITS(lap, alternate.remote_lid, 22, 0, 16),
	BYTES(lap, alternate.local_gid, 24),
	BYTES(lap, alternate.remote_gid, 40),
	BITS(lap, alternate.flow_label, 56, 0, 20),
	BITS(lap, alternate.traffic_class, 59, 0, 8),
	BITS(lap, alternate.hop_limit, 60, 0, 8),
	BITS(lap, alternate.rate, 61, 2, 6),
	BITS(lap, alternate.sl, 62, 0, 4),
	BITS(lap, alternate.subnet_local, 62, 4, 1),
	BITS(lap, alternate.ack_timeout, 63, 0, 5),
	BYTES(lap, private_data, 64),
};

static const struct wire_cm_field apr_fields[] = {
	COMM_IDS(apr),        BITS(apr, info_len, 8, 0, 8), BITS(apr, status, 9, 0, 8),
	BYTES(apr, info, 12), BYTES(apr, private_data, 84),
};

#define FIELDS(msg)                                                                                \
	{                                                                                          \
		msg##_fields, sizeof(msg##_fields) / sizeof(msg##_fields[0])                       \
	}
static const struct {
	const struct wire_cm_field *field;
	uint32_t n;
} messages[WIRE_CM_NATTRS] = {
	[WIRE_CM_INDEX(WIRE_CM_REQ)] = FIELDS(req),
	[WIRE_CM_INDEX(WIRE_CM_MRA)] = FIELDS(mra),
	[WIRE_CM_INDEX(WIRE_CM_REJ)] = FIELDS(rej),
	[WIRE_CM_INDEX(WIRE_CM_REP)] = FIELDS(rep),
	[WIRE_CM_INDEX(WIRE_CM_RTU)] = FIELDS(rtu),
	[WIRE_CM_INDEX(WIRE_CM_DREQ)] = FIELDS(dreq),
	[WIRE_CM_INDEX(WIRE_CM_DREP)] = FIELDS(drep),
	[WIRE_CM_INDEX(WIRE_CM_SIDR_REQ)] = FIELDS(sidr_req),
	[WIRE_CM_INDEX(WIRE_CM_SIDR_REP)] = FIELDS(sidr_rep),
	[WIRE_CM_INDEX(WIRE_CM_LAP)] = FIELDS(lap),
	[WIRE_CM_INDEX(WIRE_CM_APR)] = FIELDS(apr),
};

const struct wire_cm_field *
wire_cm_fields(uint32_t attr, uint32_t *n)
{
	uint32_t i = WIRE_CM_INDEX(attr);

	*n = i < WIRE_CM_NATTRS ? messages[i].n : 0;
	return i < WIRE_CM_NATTRS ? messages[i].field : NULL;
}

/* The number that f is in the message behind the common header. */
static uint64_t
bits_get(const uint8_t *body, const struct wire_cm_field *f)
{
	uint32_t end = f->bit + f->bits, i;
	uint64_t v = body[f->byte] & (0xffu >> f->bit);

	for (i = 1; 8 * i < end; i++)
		v = v << 8 | body[f->byte + i];
	return v >> ((8 - end % 8) % 8);
}

/* Put v there. The bits are zero before. */
static void
bits_put(uint8_t *body, const struct wire_cm_field *f, uint64_t v)
{
	uint32_t end = f->bit + f->bits, i = (end + 7) / 8;

	v = f->bits < 64 ? v & ((1ull << f->bits) - 1) : v;
	v <<= (8 - end % 8) % 8;
	while (i-- > 0) {
		body[f->byte + i] |= (uint8_t)v;
		v >>= 8;
	}
}

static void
member_set(uint8_t *p, uint32_t size, uint64_t v)
{
	uint8_t v8 = (uint8_t)v;
	uint16_t v16 = (uint16_t)v;
	uint32_t v32 = (uint32_t)v;

	memcpy(p,
	       size == 1   ? (void *)&v8
	       : size == 2 ? (void *)&v16
	       : size == 4 ? (void *)&v32
			   : &v,
	       size);
}

static uint64_t
member_get(const uint8_t *p, uint32_t size)
{
	uint16_t v16;
	uint32_t v32;
	uint64_t v64;

	switch (size) {
	case 1:
		return *p;
	case 2:
		memcpy(&v16, p, 2);
		return v16;
	case 4:
		memcpy(&v32, p, 4);
		return v32;
	default:
		memcpy(&v64, p, 8);
		return v64;
	}
}

static enum wire_cm_verdict
header_check(const struct wire_mad_hdr *h)
{
	if (h->base_version != MAD_BASE_VERSION)
		return WIRE_CM_BAD_BASE_VERSION;
	if (h->class != WIRE_CM_CLASS)
		return WIRE_CM_BAD_CLASS;
	if (h->class_version != WIRE_CM_VERSION)
		return WIRE_CM_BAD_CLASS_VERSION;
	if (h->method != MAD_METHOD_SEND)
		return WIRE_CM_BAD_METHOD;
	if (WIRE_CM_INDEX(rte_be_to_cpu_16(h->attr)) >= WIRE_CM_NATTRS)
		return WIRE_CM_BAD_ATTR;
	return WIRE_CM_OK;
}

enum wire_cm_verdict
wire_cm_parse(const uint8_t *bytes, uint32_t len, struct wire_cm *out)
{
	struct wire_cur cur = wire_cur_over(bytes, len);
	const struct wire_mad_hdr *h = wire_cur_get(&cur, struct wire_mad_hdr);
	const uint8_t *body = wire_cur_take(&cur, WIRE_MAD_LEN - WIRE_MAD_HDR_LEN);
	const struct wire_cm_field *f;
	enum wire_cm_verdict v;
	uint32_t n;

	if (h == NULL || body == NULL || wire_cur_left(&cur) != 0)
		return WIRE_CM_BAD_LENGTH;
	v = header_check(h);
	if (v != WIRE_CM_OK)
		return v;
	out->attr = (uint8_t)rte_be_to_cpu_16(h->attr);
	out->status = rte_be_to_cpu_16(h->status);
	out->tid = rte_be_to_cpu_64(h->tid);
	out->modifier = rte_be_to_cpu_32(h->modifier);
	for (f = wire_cm_fields(out->attr, &n); n > 0; f++, n--) {
		uint8_t *member = (uint8_t *)out + f->at;

		if (f->size == 0)
			memcpy(member, body + f->byte, f->bits / 8);
		else
			member_set(member, f->size, bits_get(body, f));
	}
	return WIRE_CM_OK;
}

void
wire_cm_build(const struct wire_cm *m, uint8_t mad[WIRE_MAD_LEN])
{
	struct wire_mad_hdr *h = (struct wire_mad_hdr *)mad;
	uint8_t *body = mad + WIRE_MAD_HDR_LEN;
	const struct wire_cm_field *f;
	uint32_t n;

	memset(mad, 0, WIRE_MAD_LEN);
	h->base_version = MAD_BASE_VERSION;
	h->class = WIRE_CM_CLASS;
	h->class_version = WIRE_CM_VERSION;
	h->method = MAD_METHOD_SEND;
	h->status = rte_cpu_to_be_16(m->status);
	h->tid = rte_cpu_to_be_64(m->tid);
	h->attr = rte_cpu_to_be_16(m->attr);
	h->modifier = rte_cpu_to_be_32(m->modifier);
	for (f = wire_cm_fields(m->attr, &n); n > 0; f++, n--) {
		const uint8_t *member = (const uint8_t *)m + f->at;

		if (f->size == 0)
			memcpy(body + f->byte, member, f->bits / 8);
		else
			bits_put(body, f, member_get(member, f->size));
	}
}

uint8_t *
wire_cm_private(struct wire_cm *m, uint32_t *len)
{
	uint32_t n;
	const struct wire_cm_field *f = wire_cm_fields(m->attr, &n);

	if (f == NULL)
		return NULL;
	/* the last field of every message */
	*len = f[n - 1].bits / 8;
	return (uint8_t *)m + f[n - 1].at;
}

uint32_t
wire_cm_vendor(const struct wire_cm *m)
{
	switch (m->attr) {
	case WIRE_CM_REQ:
		return m->req.vendor_id;
	case WIRE_CM_REP:
		return (uint32_t)m->rep.vendor_h << 16 | (uint32_t)m->rep.vendor_m << 8 |
		       m->rep.vendor_l;
	case WIRE_CM_SIDR_REP:
		return (uint32_t)m->sidr_rep.vendor_h << 8 | m->sidr_rep.vendor_l;
	default:
		return 0;
	}
}

void
wire_cm_set_vendor(struct wire_cm *m, uint32_t vendor)
{
	switch (m->attr) {
	case WIRE_CM_REQ:
		m->req.vendor_id = vendor;
		break;
	case WIRE_CM_REP:
		m->rep.vendor_h = (uint8_t)(vendor >> 16);
		m->rep.vendor_m = (uint8_t)(vendor >> 8);
		m->rep.vendor_l = (uint8_t)vendor;
		break;
	case WIRE_CM_SIDR_REP:
		m->sidr_rep.vendor_h = (uint16_t)(vendor >> 8);
		m->sidr_rep.vendor_l = (uint8_t)vendor;
		break;
	default:
		break;
	}
}

/* An address of the header: IPv4 is the last four of the 16 bytes, the others are zero. */
static void
ip_to_gid(const uint8_t wire[16], bool v4, uint8_t gid[16])
{
	memcpy(gid, wire, 16);
	if (v4) {
		memset(gid, 0, 10);
		gid[10] = gid[11] = 0xff;
	}
}

static void
ip_from_gid(const uint8_t gid[16], bool v4, uint8_t wire[16])
{
	memcpy(wire, gid, 16);
	if (v4)
		memset(wire, 0, 12);
}

bool
wire_cm_ip_parse(const uint8_t *private_data, uint32_t len, struct wire_cm_ip *out)
{
	struct wire_cur cur = wire_cur_over(private_data, len);
	const uint8_t *p = wire_cur_take(&cur, WIRE_CM_IP_LEN);

	if (p == NULL || p[0] != 0 || (p[1] >> 4 != 4 && p[1] >> 4 != 6))
		return false;
	out->version = p[0];
	out->ip = p[1] >> 4;
	out->port = (uint16_t)(p[2] << 8 | p[3]);
	ip_to_gid(p + 4, out->ip == 4, out->src);
	ip_to_gid(p + 20, out->ip == 4, out->dst);
	return true;
}

void
wire_cm_ip_build(const struct wire_cm_ip *ip, uint8_t out[WIRE_CM_IP_LEN])
{
	out[0] = ip->version;
	out[1] = (uint8_t)(ip->ip << 4);
	out[2] = (uint8_t)(ip->port >> 8);
	out[3] = (uint8_t)ip->port;
	ip_from_gid(ip->src, ip->ip == 4, out + 4);
	ip_from_gid(ip->dst, ip->ip == 4, out + 20);
}
