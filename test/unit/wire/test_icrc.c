/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <pcap/pcap.h>
#include "frames.h"
#include "wire/icrc.h"
#include "../../kit/unit.h"

/* CRC-32 bit by bit, for comparison: register in, register out, no inversion. */
static uint32_t
crc_bitwise(uint32_t reg, const uint8_t *p, uint32_t n)
{
	int bit;

	while (n--) {
		reg ^= *p++;
		for (bit = 0; bit < 8; bit++)
			reg = reg >> 1 ^ (reg & 1 ? 0xedb88320 : 0);
	}
	return reg;
}

/* Bits of a frame, from its IP header on, that annex A17 masks: (offset, mask) pairs. */
static uint8_t
masked_bits(bool is_v6, uint32_t off)
{
	uint32_t udp = is_v6 ? 40 : 20;

	if (off == udp + 6 || off == udp + 7 || off == udp + 8 + 4)
		return 0xff;
	if (is_v6)
		return off == 0 ? 0x0f : off <= 3 || off == 7 ? 0xff : 0;
	return off == 1 || off == 8 || off == 10 || off == 11 ? 0xff : 0;
}

/* The ICRC of a parsed packet, in the way of the specification's text. */
static uint32_t
icrc_by_the_book(const struct wire_pkt *pkt)
{
	const uint8_t *end = pkt->payload + pkt->payload_len + pkt->pad_len;
	static const uint8_t ones[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	uint32_t reg = crc_bitwise(0xffffffff, ones, sizeof(ones));
	const uint8_t *p;

	for (p = pkt->ip; p < end; p++) {
		uint8_t byte = *p | masked_bits(pkt->is_v6, (uint32_t)(p - pkt->ip));

		reg = crc_bitwise(reg, &byte, 1);
	}
	return ~reg;
}

/* For every frame of a capture our check and the reference value agree with the stored ICRC. */
static unsigned
check_capture(const char *path, bool is_v6)
{
	char err[PCAP_ERRBUF_SIZE];
	pcap_t *pcap = pcap_open_offline(path, err);
	struct pcap_pkthdr *hdr;
	const u_char *bytes;
	unsigned frames = 0;

	if (pcap == NULL)
		fail_msg("%s", err);
	while (pcap_next_ex(pcap, &hdr, &bytes) == 1) {
		struct wire_pkt pkt;
		uint32_t stored;

		if (wire_parse(bytes, hdr->caplen, &pkt) != WIRE_OK)
			continue;
		frames++;
		assert_int_equal(pkt.is_v6, is_v6);
		assert_true(wire_icrc_check(&pkt));
		memcpy(&stored, pkt.payload + pkt.payload_len + pkt.pad_len, 4);
		assert_int_equal(rte_le_to_cpu_32(stored), icrc_by_the_book(&pkt));
	}
	pcap_close(pcap);
	return frames;
}

REQUIREMENT("WIRE-03")
UNIT_TEST(icrc_matches_capture_ipv4)
{
	assert_int_equal(check_capture(PCAP_DIR "/rc_send.pcap", false), 21);
	assert_int_equal(check_capture(PCAP_DIR "/rc_atomics.pcap", false), 8);
	assert_int_equal(check_capture(PCAP_DIR "/uc_send_write.pcap", false), 16);
	assert_int_equal(check_capture(PCAP_DIR "/ud_send.pcap", false), 4);
}

REQUIREMENT("WIRE-03")
UNIT_TEST(icrc_matches_capture_ipv6)
{
	assert_int_equal(check_capture(PCAP_DIR "/rc_ipv6.pcap", true), 10);
}

/* ISA-L inverts: the state after the leading ones corresponds to the register's known value. */
REQUIREMENT("WIRE-03")
UNIT_TEST(crc_state_after_the_leading_ones_is_known)
{
	uint8_t ones[8], headers[60] = {0x60};

	memset(ones, 0xff, sizeof(ones));
	assert_int_equal(crc_bitwise(0xffffffff, ones, 8), 0xdebb20e3);
	assert_int_equal(wire_icrc_update(0, ones, 8), (uint32_t)~0xdebb20e3u);

	headers[0] = 0x6f;
	memset(headers + 1, 0xff, 3);
	headers[7] = headers[46] = headers[47] = headers[52] = 0xff;
	assert_int_equal(wire_icrc_start(headers, true),
			 wire_icrc_update(wire_icrc_update(0, ones, 8), headers, 60));
}

REQUIREMENT("WIRE-03")
UNIT_TEST(crc_state_can_be_chained)
{
	struct frame f = frame_make(0x04, FRAME_V4, FRAME_MAX_PAYLOAD);
	uint32_t whole = wire_icrc_update(0x12345678, f.bytes, f.len), cut, part;

	for (cut = 0; cut <= f.len; cut++) {
		part = wire_icrc_update(0x12345678, f.bytes, cut);
		assert_int_equal(wire_icrc_update(part, f.bytes + cut, f.len - cut), whole);
	}
}

REQUIREMENT("WIRE-03")
UNIT_TEST(icrc_is_stored_little_endian)
{
	uint32_t icrc = wire_icrc_final(0x11223344);

	assert_memory_equal(&icrc, ((uint8_t[]){0x44, 0x33, 0x22, 0x11}), 4);
}

/* Each single bit of a frame: the masked ones do not matter, all others do. */
REQUIREMENT("WIRE-03")
UNIT_TEST(every_bit_is_covered_or_masked)
{
	uint32_t kind, off, bit;

	for (kind = 0; kind < FRAME_KINDS; kind++) {
		struct frame f = frame_make(0x0b, kind, 13);
		struct wire_pkt pkt;

		assert_int_equal(wire_parse(f.bytes, f.len, &pkt), WIRE_OK);
		for (off = f.ip_off; off < f.len; off++) {
			uint8_t mask = masked_bits(kind & FRAME_V6, off - f.ip_off);

			for (bit = 1; bit < 256; bit <<= 1) {
				f.bytes[off] ^= (uint8_t)bit;
				assert_int_equal(wire_icrc_check(&pkt), (mask & bit) != 0);
				f.bytes[off] ^= (uint8_t)bit;
			}
		}
		assert_true(wire_icrc_check(&pkt));
	}
}
