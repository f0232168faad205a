/* SPDX-License-Identifier: BSD-3-Clause */
/* MADs of the CM: every field at its place, bounds, and the header of rdma_cm. */
#include <stdlib.h>
#include <string.h>
#include "wire/mad.h"
#include "../../kit/unit.h"

static struct wire_cm
message(uint32_t attr)
{
	struct wire_cm m;

	memset(&m, 0, sizeof(m));
	m.attr = (uint8_t)attr;
	return m;
}

/* Where each field lies: byte behind the common header, first bit of it, bits. IBTA 12.6. */
static const struct {
	uint32_t attr;
	const char *name;
	uint16_t byte, bit, bits;
} places[] = {
	{WIRE_CM_REQ, "local_comm_id", 0, 0, 32},
	{WIRE_CM_REQ, "vendor_id", 5, 0, 24},
	{WIRE_CM_REQ, "service_id", 8, 0, 64},
	{WIRE_CM_REQ, "ca_guid", 16, 0, 64},
	{WIRE_CM_REQ, "qkey", 28, 0, 32},
	{WIRE_CM_REQ, "qpn", 32, 0, 24},
	{WIRE_CM_REQ, "psn", 44, 0, 24},
	{WIRE_CM_REQ, "pkey", 48, 0, 16},
	{WIRE_CM_REQ, "max_retries", 51, 0, 4},
	{WIRE_CM_REQ, "primary.local_gid", 56, 0, 128},
	{WIRE_CM_REQ, "primary.remote_gid", 72, 0, 128},
	{WIRE_CM_REQ, "primary.ack_timeout", 95, 0, 5},
	{WIRE_CM_REQ, "alternate.local_lid", 96, 0, 16},
	{WIRE_CM_REQ, "alternate.ack_timeout", 139, 0, 5},
	{WIRE_CM_REQ, "private_data", 140, 0, 8 * WIRE_CM_REQ_PRIVATE},
	{WIRE_CM_MRA, "about", 8, 0, 2},
	{WIRE_CM_MRA, "service_timeout", 9, 0, 5},
	{WIRE_CM_MRA, "private_data", 10, 0, 8 * WIRE_CM_MRA_PRIVATE},
	{WIRE_CM_REJ, "info_len", 9, 0, 7},
	{WIRE_CM_REJ, "private_data", 84, 0, 8 * WIRE_CM_REJ_PRIVATE},
	{WIRE_CM_REP, "private_data", 36, 0, 8 * WIRE_CM_REP_PRIVATE},
	{WIRE_CM_RTU, "private_data", 8, 0, 8 * WIRE_CM_RTU_PRIVATE},
	{WIRE_CM_DREQ, "private_data", 12, 0, 8 * WIRE_CM_DREQ_PRIVATE},
	{WIRE_CM_DREP, "private_data", 8, 0, 8 * WIRE_CM_DREP_PRIVATE},
	{WIRE_CM_SIDR_REQ, "service_id", 8, 0, 64},
	{WIRE_CM_SIDR_REQ, "private_data", 16, 0, 8 * WIRE_CM_SIDR_REQ_PRIVATE},
	{WIRE_CM_SIDR_REP, "qpn", 8, 0, 24},
	{WIRE_CM_SIDR_REP, "service_id", 12, 0, 64},
	{WIRE_CM_SIDR_REP, "qkey", 20, 0, 32},
	{WIRE_CM_SIDR_REP, "info", 24, 0, 8 * WIRE_CM_INFO},
	{WIRE_CM_SIDR_REP, "private_data", 96, 0, 8 * WIRE_CM_SIDR_REP_PRIVATE},
	{WIRE_CM_LAP, "remote_comm_id", 4, 0, 32},
	{WIRE_CM_LAP, "remote_qpn", 12, 0, 24},
	{WIRE_CM_LAP, "response_timeout", 15, 0, 5},
	{WIRE_CM_LAP, "alternate.local_lid", 20, 0, 16},
	{WIRE_CM_LAP, "alternate.remote_lid", 22, 0, 16},
	{WIRE_CM_LAP, "alternate.local_gid", 24, 0, 128},
	{WIRE_CM_LAP, "alternate.remote_gid", 40, 0, 128},
	{WIRE_CM_LAP, "alternate.flow_label", 56, 0, 20},
	{WIRE_CM_LAP, "alternate.traffic_class", 59, 0, 8},
	{WIRE_CM_LAP, "alternate.hop_limit", 60, 0, 8},
	{WIRE_CM_LAP, "alternate.rate", 61, 2, 6},
	{WIRE_CM_LAP, "alternate.sl", 62, 0, 4},
	{WIRE_CM_LAP, "alternate.subnet_local", 62, 4, 1},
	{WIRE_CM_LAP, "alternate.ack_timeout", 63, 0, 5},
	{WIRE_CM_LAP, "private_data", 64, 0, 8 * WIRE_CM_LAP_PRIVATE},
	{WIRE_CM_APR, "info_len", 8, 0, 8},
	{WIRE_CM_APR, "status", 9, 0, 8},
	{WIRE_CM_APR, "info", 12, 0, 8 * WIRE_CM_INFO},
	{WIRE_CM_APR, "private_data", 84, 0, 8 * WIRE_CM_APR_PRIVATE},
};

static const struct wire_cm_field *
find(uint32_t attr, const char *name)
{
	uint32_t n;
	const struct wire_cm_field *f = wire_cm_fields(attr, &n);

	for (; n > 0; f++, n--)
		if (strcmp(f->name, name) == 0)
			return f;
	fail_msg("%s: no such field", name);
	return NULL;
}

REQUIREMENT("CM-01")
UNIT_TEST(fields_of_every_message_lie_where_the_specification_has_them)
{
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const struct wire_cm_field *f = find(places[i].attr, places[i].name);

		assert_int_equal(f->byte, places[i].byte);
		assert_int_equal(f->bit, places[i].bit);
		assert_int_equal(f->bits, places[i].bits);
	}
}

/* All bits of one field set: exactly its bits are set in the MAD, and it is read back. */
REQUIREMENT("CM-01")
UNIT_TEST(fields_do_not_overlap)
{
	static const uint8_t ones[WIRE_CM_MAX_PRIVATE] = {[0 ... WIRE_CM_MAX_PRIVATE - 1] = 0xff};

	for (uint32_t attr = WIRE_CM_REQ; attr <= WIRE_CM_APR; attr++) {
		uint8_t seen[WIRE_MAD_LEN] = {0};
		uint32_t n;
		const struct wire_cm_field *f = wire_cm_fields(attr, &n);

		for (; n > 0; f++, n--) {
			struct wire_cm m = message(attr), back;
			uint8_t mad[WIRE_MAD_LEN], again[WIRE_MAD_LEN];
			const uint8_t *body = mad + WIRE_MAD_HDR_LEN;
			uint32_t bits = 0;

			memcpy((uint8_t *)&m + f->at, ones, f->size != 0 ? f->size : f->bits / 8);
			wire_cm_build(&m, mad);
			for (uint32_t i = 0; i < WIRE_MAD_LEN - WIRE_MAD_HDR_LEN; i++) {
				assert_int_equal(seen[i] & body[i], 0);
				seen[i] |= body[i];
				bits += (uint32_t)__builtin_popcount(body[i]);
			}
			assert_int_equal(bits, f->bits);
			assert_int_equal(wire_cm_parse(mad, sizeof(mad), &back), WIRE_CM_OK);
			wire_cm_build(&back, again);
			assert_memory_equal(again, mad, sizeof(mad));
		}
	}
}

REQUIREMENT("CM-01")
UNIT_TEST(wrong_headers_are_told_apart)
{
	static const struct {
		uint32_t byte;
		uint8_t value;
		enum wire_cm_verdict want;
	} wrong[] = {
		{0, 2, WIRE_CM_BAD_BASE_VERSION},  {1, 3, WIRE_CM_BAD_CLASS},
		{2, 1, WIRE_CM_BAD_CLASS_VERSION}, {3, 1, WIRE_CM_BAD_METHOD},
		{3, 0x83, WIRE_CM_BAD_METHOD},     {17, 0x0f, WIRE_CM_BAD_ATTR},
		{17, 0x1b, WIRE_CM_BAD_ATTR},      {16, 1, WIRE_CM_BAD_ATTR},
	};
	struct wire_cm m = message(WIRE_CM_REQ);
	uint8_t mad[WIRE_MAD_LEN];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		wire_cm_build(&m, mad);
		mad[wrong[i].byte] = wrong[i].value;
		assert_int_equal(wire_cm_parse(mad, sizeof(mad), &m), wrong[i].want);
	}
}

REQUIREMENT("CM-01")
UNIT_TEST(every_other_length_is_refused)
{
	struct wire_cm m = message(WIRE_CM_REP);
	uint8_t mad[WIRE_MAD_LEN];

	wire_cm_build(&m, mad);
	for (uint32_t len = 0; len <= 2 * WIRE_MAD_LEN; len++) {
		/* a buffer of just that length, for the sanitizers */
		uint8_t *exact = malloc(len + 1);

		memcpy(exact, mad, len < WIRE_MAD_LEN ? len : WIRE_MAD_LEN);
		assert_int_equal(wire_cm_parse(exact, len, &m),
				 len == WIRE_MAD_LEN ? WIRE_CM_OK : WIRE_CM_BAD_LENGTH);
		free(exact);
	}
}

REQUIREMENT("CM-09")
UNIT_TEST(private_data_of_every_message_arrives_whole)
{
	static const uint32_t lengths[WIRE_CM_NATTRS] = {
		[WIRE_CM_INDEX(WIRE_CM_REQ)] = 92,       [WIRE_CM_INDEX(WIRE_CM_MRA)] = 222,
		[WIRE_CM_INDEX(WIRE_CM_REJ)] = 148,      [WIRE_CM_INDEX(WIRE_CM_REP)] = 196,
		[WIRE_CM_INDEX(WIRE_CM_RTU)] = 224,      [WIRE_CM_INDEX(WIRE_CM_DREQ)] = 220,
		[WIRE_CM_INDEX(WIRE_CM_DREP)] = 224,     [WIRE_CM_INDEX(WIRE_CM_SIDR_REQ)] = 216,
		[WIRE_CM_INDEX(WIRE_CM_SIDR_REP)] = 136, [WIRE_CM_INDEX(WIRE_CM_LAP)] = 168,
		[WIRE_CM_INDEX(WIRE_CM_APR)] = 148,
	};

	for (uint32_t attr = WIRE_CM_REQ; attr <= WIRE_CM_APR; attr++) {
		struct wire_cm m = message(attr), back;
		uint32_t len, i;
		uint8_t mad[WIRE_MAD_LEN], *p = wire_cm_private(&m, &len);

		assert_int_equal(len, lengths[WIRE_CM_INDEX(attr)]);
		for (i = 0; i < len; i++)
			p[i] = (uint8_t)(i + attr);
		wire_cm_build(&m, mad);
		assert_int_equal(wire_cm_parse(mad, sizeof(mad), &back), WIRE_CM_OK);
		assert_memory_equal(wire_cm_private(&back, &len), p, len);
		/* it is the end of the MAD */
		assert_memory_equal(mad + sizeof(mad) - len, p, len);
	}
}

REQUIREMENT("CM-14")
UNIT_TEST(vendor_id_of_ece_takes_reserved_bytes)
{
	static const struct {
		uint32_t attr;
		uint16_t byte[3]; /* behind the common header, highest first */
	} where[] = {
		{WIRE_CM_REQ, {5, 6, 7}},
		{WIRE_CM_REP, {15, 19, 23}},
		{WIRE_CM_SIDR_REP, {6, 7, 11}},
	};
	struct wire_cm none = message(WIRE_CM_RTU);

	for (size_t i = 0; i < 3; i++) {
		struct wire_cm m = message(where[i].attr);
		uint8_t mad[WIRE_MAD_LEN], *body = mad + WIRE_MAD_HDR_LEN;

		wire_cm_set_vendor(&m, 0x123456);
		assert_int_equal(wire_cm_vendor(&m), 0x123456);
		wire_cm_build(&m, mad);
		assert_int_equal(body[where[i].byte[0]], 0x12);
		assert_int_equal(body[where[i].byte[1]], 0x34);
		assert_int_equal(body[where[i].byte[2]], 0x56);
	}
	wire_cm_set_vendor(&none, 0x123456);
	assert_int_equal(wire_cm_vendor(&none), 0);
}

REQUIREMENT("CM-09")
UNIT_TEST(ip_header_of_both_families)
{
	static const uint8_t v4[WIRE_CM_IP_LEN] = {
		0, 0x40, 0xb8, 0x15, [16] = 10, 78, 0, 1, [32] = 10, 78, 0, 2,
	};
	struct wire_cm_ip ip,
		six = {.ip = 6, .port = 7471, .src = {0xfd, [15] = 1}, .dst = {0xfd, [15] = 2}};
	uint8_t out[WIRE_CM_IP_LEN];

	assert_true(wire_cm_ip_parse(v4, sizeof(v4), &ip));
	assert_int_equal(ip.port, 0xb815);
	assert_memory_equal(ip.dst,
			    ((uint8_t[]){0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 78, 0, 2}),
			    16);
	wire_cm_ip_build(&ip, out);
	assert_memory_equal(out, v4, sizeof(v4));
	wire_cm_ip_build(&six, out);
	assert_int_equal(out[1], 0x60);
	assert_true(wire_cm_ip_parse(out, sizeof(out), &ip));
	assert_memory_equal(&ip, &six, sizeof(six));
}

REQUIREMENT("CM-09")
UNIT_TEST(wrong_ip_headers_are_refused)
{
	uint8_t h[WIRE_CM_IP_LEN] = {0, 0x40};
	struct wire_cm_ip ip;

	assert_true(wire_cm_ip_parse(h, sizeof(h), &ip));
	assert_false(wire_cm_ip_parse(h, sizeof(h) - 1, &ip));
	assert_false(wire_cm_ip_parse(h, 0, &ip));
	h[1] = 0x50;
	assert_false(wire_cm_ip_parse(h, sizeof(h), &ip));
	h[1] = 0x60;
	h[0] = 0x10;
	assert_false(wire_cm_ip_parse(h, sizeof(h), &ip));
}
