/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Management datagrams of the communication manager (CM): IBTA vol. 1, 13.4.3 (common header) and
 * 12.6 (messages). A MAD is the payload of a UD SEND_ONLY from QP1 to QP1, always 256 bytes.
 *
 * Messages are handled as structs in host byte order. One table gives the place of every field on
 * the wire (wire_cm_fields), and the parser, the builder and the tests use that table. Reserved
 * bits are sent as zero and are not checked on receipt, as 13.4.2 asks.
 */
#ifndef WIRE_MAD_H
#define WIRE_MAD_H

#include <stdbool.h>
#include <stdint.h>

#define WIRE_MAD_LEN     256
#define WIRE_MAD_HDR_LEN 24
#define WIRE_GSI_QPN     1u
#define WIRE_GSI_QKEY    0x80010000u

#define WIRE_CM_CLASS    0x07u /* management class of the CM */
#define WIRE_CM_VERSION  2u    /* its class version */

enum wire_cm_attr { /* attribute ids */
		    WIRE_CM_REQ = 0x10,
		    WIRE_CM_MRA = 0x11,
		    WIRE_CM_REJ = 0x12,
		    WIRE_CM_REP = 0x13,
		    WIRE_CM_RTU = 0x14,
		    WIRE_CM_DREQ = 0x15,
		    WIRE_CM_DREP = 0x16,
		    WIRE_CM_SIDR_REQ = 0x17,
		    WIRE_CM_SIDR_REP = 0x18,
		    WIRE_CM_LAP = 0x19,
		    WIRE_CM_APR = 0x1a,
};
#define WIRE_CM_NATTRS 11
/* A number 0 .. WIRE_CM_NATTRS - 1 of an attribute, for arrays. */
#define WIRE_CM_INDEX(attr) ((uint32_t)(attr)-WIRE_CM_REQ)
/* "REQ" .., by WIRE_CM_INDEX. */
extern const char *const wire_cm_attr_name[WIRE_CM_NATTRS];

/* Bytes of private data in each message. */
#define WIRE_CM_REQ_PRIVATE      92
#define WIRE_CM_MRA_PRIVATE      222
#define WIRE_CM_REJ_PRIVATE      148
#define WIRE_CM_REP_PRIVATE      196
#define WIRE_CM_RTU_PRIVATE      224
#define WIRE_CM_DREQ_PRIVATE     220
#define WIRE_CM_DREP_PRIVATE     224
#define WIRE_CM_SIDR_REQ_PRIVATE 216
#define WIRE_CM_SIDR_REP_PRIVATE 136
#define WIRE_CM_LAP_PRIVATE      168
#define WIRE_CM_APR_PRIVATE      148
#define WIRE_CM_MAX_PRIVATE      224
#define WIRE_CM_INFO             72 /* bytes of additional information in REJ, SIDR_REP, APR */

/* Transport service types of a REQ. */
enum wire_cm_service { WIRE_CM_RC = 0, WIRE_CM_UC = 1, WIRE_CM_RD = 2, WIRE_CM_XRC = 3 };

/* Which message an MRA or a REJ is about. */
enum wire_cm_about { WIRE_CM_ABOUT_REQ = 0, WIRE_CM_ABOUT_REP = 1, WIRE_CM_ABOUT_OTHER = 2 };

enum wire_cm_reason { /* of a REJ, IBTA table 109; those that are used here */
		      WIRE_CM_REJ_NO_QP = 1,
		      WIRE_CM_REJ_NO_RESOURCES = 3,
		      WIRE_CM_REJ_TIMEOUT = 4,
		      WIRE_CM_REJ_UNSUPPORTED = 5,
		      WIRE_CM_REJ_INVALID_COMM_ID = 6,
		      WIRE_CM_REJ_INVALID_SERVICE_ID = 8,
		      WIRE_CM_REJ_INVALID_TRANSPORT = 9,
		      WIRE_CM_REJ_STALE = 10,
		      WIRE_CM_REJ_INVALID_GID = 12,
		      WIRE_CM_REJ_INVALID_MTU = 26,
		      WIRE_CM_REJ_CONSUMER = 28,
};

enum wire_sidr_status { /* of a SIDR_REP */
			WIRE_SIDR_OK = 0,
			WIRE_SIDR_UNSUPPORTED = 1,
			WIRE_SIDR_REJECTED = 2,
			WIRE_SIDR_NO_QP = 3,
};

enum wire_apr_status { /* of an APR */
		       WIRE_APR_OK = 0,
		       WIRE_APR_UNSUPPORTED = 2,
		       WIRE_APR_REJECTED = 3,
};

/* A path as REQ and LAP give it: seen from the sender of the message. */
struct wire_cm_path {
	uint16_t local_lid, remote_lid; /* 0xffff on RoCE */
	uint8_t local_gid[16], remote_gid[16];
	uint32_t flow_label; /* 20 bits */
	uint8_t rate;        /* 6 bits */
	uint8_t traffic_class, hop_limit;
	uint8_t sl;           /* 4 bits */
	uint8_t subnet_local; /* 1 bit */
	uint8_t ack_timeout;  /* 5 bits: local ACK timeout, 4.096 us << ack_timeout */
};

struct wire_cm_req {
	uint32_t local_comm_id;
	uint32_t vendor_id; /* 24 bits: of ECE; its options are in the attribute modifier */
	uint64_t service_id;
	uint64_t ca_guid;
	uint32_t qkey;
	uint32_t qpn; /* 24 bits */
	uint8_t responder_resources;
	uint32_t local_eecn; /* 24 bits */
	uint8_t initiator_depth;
	uint32_t remote_eecn;            /* 24 bits */
	uint8_t remote_response_timeout; /* 5 bits: 4.096 us << n, in which the receiver answers */
	uint8_t transport;               /* enum wire_cm_service */
	uint8_t flow_control;            /* 1 bit: end to end */
	uint32_t psn;                    /* 24 bits: of the receiver's first packet */
	uint8_t local_response_timeout;  /* 5 bits: in which the sender answers a REP */
	uint8_t retry_count;             /* 3 bits: of the QPs */
	uint16_t pkey;
	uint8_t mtu;            /* 4 bits: enum ibv_mtu */
	uint8_t rdc_exists;     /* 1 bit */
	uint8_t rnr_retry;      /* 3 bits */
	uint8_t max_retries;    /* 4 bits: of CM messages */
	uint8_t srq;            /* 1 bit */
	uint8_t transport_more; /* 3 bits: extended transport type */
	struct wire_cm_path primary, alternate;
	uint8_t sap; /* 1 bit: suggested alternate path supported */
	uint8_t private_data[WIRE_CM_REQ_PRIVATE];
};

struct wire_cm_mra {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t about;           /* enum wire_cm_about; OTHER is a LAP */
	uint8_t service_timeout; /* 5 bits */
	uint8_t private_data[WIRE_CM_MRA_PRIVATE];
};

struct wire_cm_rej {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t about;    /* enum wire_cm_about; OTHER: of no message */
	uint8_t info_len; /* 7 bits */
	uint16_t reason;  /* enum wire_cm_reason */
	uint8_t info[WIRE_CM_INFO];
	uint8_t private_data[WIRE_CM_REJ_PRIVATE];
};

struct wire_cm_rep {
	uint32_t local_comm_id, remote_comm_id;
	uint32_t qkey;
	uint32_t qpn; /* 24 bits */
	uint8_t vendor_h;
	uint32_t local_eecn; /* 24 bits */
	uint8_t vendor_m;
	uint32_t psn; /* as in a REQ */
	uint8_t vendor_l;
	uint8_t responder_resources, initiator_depth;
	uint8_t target_ack_delay; /* 5 bits */
	uint8_t failover;         /* 2 bits */
	uint8_t flow_control;     /* 1 bit */
	uint8_t rnr_retry;        /* 3 bits */
	uint8_t srq;              /* 1 bit */
	uint64_t ca_guid;
	uint8_t private_data[WIRE_CM_REP_PRIVATE];
};

struct wire_cm_rtu {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t private_data[WIRE_CM_RTU_PRIVATE];
};

struct wire_cm_dreq {
	uint32_t local_comm_id, remote_comm_id;
	uint32_t remote_qpn; /* 24 bits: of the receiver */
	uint8_t private_data[WIRE_CM_DREQ_PRIVATE];
};

struct wire_cm_drep {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t private_data[WIRE_CM_DREP_PRIVATE];
};

struct wire_cm_sidr_req {
	uint32_t request_id;
	uint16_t pkey;
	uint64_t service_id;
	uint8_t private_data[WIRE_CM_SIDR_REQ_PRIVATE];
};

struct wire_cm_sidr_rep {
	uint32_t request_id;
	uint8_t status; /* enum wire_sidr_status */
	uint8_t info_len;
	uint16_t vendor_h; /* upper 16 of 24 bits */
	uint32_t qpn;      /* 24 bits */
	uint8_t vendor_l;
	uint64_t service_id;
	uint32_t qkey;
	uint8_t info[WIRE_CM_INFO];
	uint8_t private_data[WIRE_CM_SIDR_REP_PRIVATE];
};

struct wire_cm_lap {
	uint32_t local_comm_id, remote_comm_id;
	uint32_t remote_qpn;      /* 24 bits */
	uint8_t response_timeout; /* 5 bits */
	struct wire_cm_path alternate;
	uint8_t private_data[WIRE_CM_LAP_PRIVATE];
};

struct wire_cm_apr {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t info_len;
	uint8_t status; /* enum wire_apr_status */
	uint8_t info[WIRE_CM_INFO];
	uint8_t private_data[WIRE_CM_APR_PRIVATE];
};

struct wire_cm {
	uint8_t attr; /* enum wire_cm_attr: which member of the union is meant */
	uint16_t status;
	uint64_t tid;
	uint32_t modifier; /* attribute modifier: the options of ECE in REQ, REP and SIDR_REP */
	union {
		struct wire_cm_req req;
		struct wire_cm_mra mra;
		struct wire_cm_rej rej;
		struct wire_cm_rep rep;
		struct wire_cm_rtu rtu;
		struct wire_cm_dreq dreq;
		struct wire_cm_drep drep;
		struct wire_cm_sidr_req sidr_req;
		struct wire_cm_sidr_rep sidr_rep;
		struct wire_cm_lap lap;
		struct wire_cm_apr apr;
	};
};

/* Where a field lies on the wire, and in its message's struct. */
struct wire_cm_field {
	const char *name;
	uint16_t at;   /* offset in struct wire_cm */
	uint8_t size;  /* of the member: 1, 2, 4, 8; 0: an array of bytes */
	uint8_t bit;   /* of the first byte; 0 is the most significant one */
	uint16_t byte; /* behind the common header */
	uint16_t bits;
};

/* The fields of a message, in the order of the wire. attr: enum wire_cm_attr; else NULL, *n 0. */
const struct wire_cm_field *wire_cm_fields(uint32_t attr, uint32_t *n);

enum wire_cm_verdict {
	WIRE_CM_OK = 0,
	WIRE_CM_BAD_LENGTH,        /* not 256 bytes */
	WIRE_CM_BAD_BASE_VERSION,  /* not 1 */
	WIRE_CM_BAD_CLASS,         /* not the CM's */
	WIRE_CM_BAD_CLASS_VERSION, /* not 2 */
	WIRE_CM_BAD_METHOD,        /* not Send */
	WIRE_CM_BAD_ATTR,          /* none of enum wire_cm_attr */
	WIRE_CM_NVERDICTS
};
/* "ok", "bad_length" .. */
extern const char *const wire_cm_verdict_name[WIRE_CM_NVERDICTS];

/*
 * Read len bytes of a MAD into *out. Hostile input: reads nothing outside of the bytes. *out is
 * complete after WIRE_CM_OK, and undefined after anything else. Any thread.
 */
enum wire_cm_verdict wire_cm_parse(const uint8_t *bytes, uint32_t len, struct wire_cm *out);

/*
 * Write message m, attr one of enum wire_cm_attr, into mad. Values longer than their field lose
 * their upper bits. Reserved bits are zero. Any thread.
 */
void wire_cm_build(const struct wire_cm *m, uint8_t mad[WIRE_MAD_LEN]);

/*
 * The private data of m and its length on the wire: what a sender has to fill, and a receiver gets
 * padded with zeroes. Never NULL for an attr of enum wire_cm_attr. Points into m.
 */
uint8_t *wire_cm_private(struct wire_cm *m, uint32_t *len);

/* The vendor id of ECE in a REQ, REP or SIDR_REP; 0 in any other message. */
uint32_t wire_cm_vendor(const struct wire_cm *m);
/* Set it, 24 bits; nothing happens for any other message. */
void wire_cm_set_vendor(struct wire_cm *m, uint32_t vendor);

/* Nanoseconds of a 5-bit time code of CM messages: 4.096 us << code. Upper bits are ignored. */
static inline uint64_t
wire_cm_time_ns(uint32_t code)
{
	return 4096ull << (code & 31);
}

/* Port spaces of rdma_cm, and the service id of a port in one of them (annex A11). */
#define WIRE_CM_PS_TCP            0x0106u
#define WIRE_CM_PS_UDP            0x0111u
#define WIRE_CM_PS_IB             0x013fu
#define WIRE_CM_SERVICE(ps, port) ((uint64_t)(ps) << 16 | (uint16_t)(port))

/*
 * What rdma_cm puts in front of its user's private data in a REQ and a SIDR_REQ (annex A11).
 * Addresses stand here as GIDs: IPv4 as ::ffff:a.b.c.d.
 */
#define WIRE_CM_IP_LEN 36
struct wire_cm_ip {
	uint8_t version; /* 0 */
	uint8_t ip;      /* 4 or 6 */
	uint16_t port;   /* of the sender */
	uint8_t src[16], dst[16];
};

/*
 * Read the header at the beginning of len bytes of private data. False, and *out undefined: too
 * short, another version than 0, or neither IPv4 nor IPv6. Any thread.
 */
bool wire_cm_ip_parse(const uint8_t *private_data, uint32_t len, struct wire_cm_ip *out);
/* Write it. ip->ip is 4 or 6; of IPv4 the last four bytes of an address count. Any thread. */
void wire_cm_ip_build(const struct wire_cm_ip *ip, uint8_t out[WIRE_CM_IP_LEN]);

#endif
