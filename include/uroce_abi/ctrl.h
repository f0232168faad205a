/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control protocol: SOCK_SEQPACKET over a unix socket, one request, one reply, in order.
 *
 * A request is a struct uroce_ctrl_hdr followed by the operation's _req body; the reply repeats
 * version, op and cookie, carries status (0 or a positive errno) and, when status is 0, the _rep
 * body. A refusal's body is a sentence for display without NUL, such as which limit was reached; it
 * may be empty. File descriptors are attached to the message (SCM_RIGHTS). A message whose magic,
 * version or length is wrong ends the connection; a bad value in a well-formed one gets its errno.
 *
 * The first request is HELLO (hello.h, also for clients of other versions). It creates the context:
 * closing the socket destroys everything the context owns. A HELLO with an empty device name
 * creates an observer (urocectl): only LIST_DEVICES, SHOW, IMPAIR, CAPTURE, SET, CM_OPEN, ASK_PEER,
 * PAUSE_THREADS and RESUME_THREADS work.
 *
 *   client                                  daemon
 *   HELLO(device, versions)   -->
 *                             <--  geometry + fds: async, doorbell segment, an eventfd per worker
 *   CREATE_CQ / CREATE_QP ..  -->
 *                             <--  handle, segment and offset of its rings
 *                             or   ENOSPC: there is no segment with room for them
 *   SEGMENT                   -->
 *                             <--  a segment + its fd, which the client maps and seals before it
 *                                  repeats the request
 *   REG_MR + fds              -->
 *                             <--  lkey, rkey
 *   (events go the other way on their own sockets: 16 bytes on the async fd, 8 on a channel)
 *
 * Fields called spare are zero. Every message has some: in its header, and in its body if it has
 * one. A request with other spare bytes, or with a status, gets EINVAL and a sentence that names
 * the field; a client ends the connection after such a reply. A later version, or a feature that
 * both sides have agreed on, may give them a meaning.
 *
 * Handles are per context and per kind, chosen by the daemon; an unknown one gets ENOENT.
 */
#ifndef UROCE_ABI_CTRL_H
#define UROCE_ABI_CTRL_H

#include <stddef.h>
#include <stdint.h>
#include "hello.h"

#define UROCE_CTRL_MAGIC   0x434f5255u /* "UROC" */
#define UROCE_CTRL_MAX_MSG 16384       /* bytes, header included */
#define UROCE_CTRL_MAX_FDS 64
#define UROCE_CTRL_MAX_WHY 256 /* bytes of a refusal's sentence */
#define UROCE_DEFAULT_SOCK "/run/uroce/uroced.sock"
#define UROCE_LIVE_SUFFIX  ".sysfs"       /* SOCKET.sysfs/DEVICE: its sysfs files that change */
#define UROCE_SOCK_ENV     "UROCE_SOCKET" /* overrides the default for every client */
#define UROCE_VIEW_ENV     "UROCE_VIEW"   /* folder of files for the preloaded library */
#define UROCE_VIEW_LOCK    "lock"         /* in that folder: programs that use it share its lock */
#define UROCE_PRELOAD_NAME "liburoce-preload.so"
/* Folder in a view with links to the provider; in a container also with the files themselves. */
#define UROCE_CONTAINER_DIR "/etc/libibverbs.d/uroce"
#define UROCE_MAX_GIDS      64
#define UROCE_MAX_PKEYS     16

enum uroce_ctrl_op {
	UROCE_CTRL_HELLO = 1,
	UROCE_CTRL_QUERY_DEVICE,
	UROCE_CTRL_QUERY_PORT,
	UROCE_CTRL_QUERY_GID,
	UROCE_CTRL_ALLOC_PD,
	UROCE_CTRL_DEALLOC_PD,
	UROCE_CTRL_REG_MR,
	UROCE_CTRL_DEREG_MR,
	UROCE_CTRL_REREG_MR,
	UROCE_CTRL_CREATE_CHANNEL,
	UROCE_CTRL_CREATE_CQ,
	UROCE_CTRL_RESIZE_CQ,
	UROCE_CTRL_DESTROY_CQ,
	UROCE_CTRL_CREATE_QP,
	UROCE_CTRL_MODIFY_QP,
	UROCE_CTRL_QUERY_QP,
	UROCE_CTRL_DESTROY_QP,
	UROCE_CTRL_CREATE_AH,
	UROCE_CTRL_DESTROY_AH,
	UROCE_CTRL_CREATE_SRQ,
	UROCE_CTRL_MODIFY_SRQ,
	UROCE_CTRL_QUERY_SRQ,
	UROCE_CTRL_DESTROY_SRQ,
	UROCE_CTRL_ALLOC_MW,
	UROCE_CTRL_DEALLOC_MW,
	UROCE_CTRL_ATTACH_MCAST,
	UROCE_CTRL_DETACH_MCAST,
	UROCE_CTRL_LIST_DEVICES,
	UROCE_CTRL_SHOW,
	UROCE_CTRL_IMPAIR,
	UROCE_CTRL_CAPTURE,
	UROCE_CTRL_RESIZE_SRQ,
	UROCE_CTRL_QUERY_PKEY,
	UROCE_CTRL_SET,
	UROCE_CTRL_EXPORT,
	UROCE_CTRL_IMPORT_PD,
	UROCE_CTRL_IMPORT_MR,
	UROCE_CTRL_QUERY_CLOCK,
	UROCE_CTRL_CM_OPEN,
	UROCE_CTRL_ASK_PEER,
	UROCE_CTRL_PAUSE_THREADS,
	UROCE_CTRL_RESUME_THREADS,
	UROCE_CTRL_SEGMENT,
	UROCE_CTRL_OPS,
};

/* The uid, for limits, rights and outputs, of root without CAP_NET_ADMIN (doc/security.md). */
#define UROCE_UID_CONFINED 0xfffffffeu

struct uroce_ctrl_hdr {
	uint32_t magic;
	uint16_t version; /* agreed by HELLO; of HELLO itself: the client's highest */
	uint16_t op;      /* enum uroce_ctrl_op */
	uint32_t cookie;  /* chosen by the client; repeated in the reply */
	uint32_t status;  /* reply: 0 or a positive errno; request: 0 */
	uint32_t len;     /* bytes of body after this header */
	uint16_t nfds;    /* descriptors attached */
	uint8_t spare[2];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_ctrl_hdr) == 24, "control header size");

/*
 * Segments: memory that both sides map. The daemon creates them. It uses one only when the client
 * has sealed it with F_SEAL_FUTURE_WRITE (fcntl(2)), after mapping it: from then on nobody can
 * punch holes into it, which would make the daemon's workers wait.
 *
 * - The doorbell segment comes with the reply to HELLO. CREATE_QP gets EPERM until it is sealed.
 * - A request that makes a ring gets ENOSPC, without a sentence, if no sealed segment of the
 *   context has room for it. SEGMENT then returns one that has; EINVAL: the last such request got
 *   its ring. Until that one is sealed, SEGMENT returns it again, or a larger one in its place.
 */
struct uroce_segment_rep { /* descriptor [0]: the segment */
	uint32_t seg;      /* its id, 0 .. */
	uint8_t spare[4];
	uint64_t bytes; /* size to map, whole segment, from offset 0 */
};
UROCE_ABI_ASSERT(sizeof(struct uroce_segment_rep) == 16, "segment_rep size");
/* Where an object's ring is. */
struct uroce_ring_loc {
	uint32_t seg;     /* segment id */
	uint32_t entries; /* power of two; 0: no ring */
	uint64_t off;     /* of the ring's header in the segment */
	uint32_t stride;  /* bytes per entry */
	uint8_t spare[4];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_ring_loc) == 24, "ring_loc size");

/*
 * Sharing a context (ibv_import_device). EXPORT returns the context's token, the same each time. A
 * client that has the token may use the context's PDs and regions from another context on the same
 * device. IMPORT_PD creates a PD of this context that is a second name for the other's PD;
 * DEALLOC_PD removes that name. IMPORT_MR returns the keys of a region of that PD; the region lives
 * as long as its owner keeps it. ENOENT: no such token, or its context has no such object.
 */
#define UROCE_TOKEN_BYTES 16
struct uroce_export_rep {
	uint8_t token[UROCE_TOKEN_BYTES];
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_export_rep) == 24, "export_rep size");
struct uroce_import_req {
	uint8_t token[UROCE_TOKEN_BYTES];
	uint32_t handle; /* the object's, in the context of the token */
	uint32_t pd;     /* IMPORT_MR: handle of an imported PD in this context */
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_import_req) == 32, "import_req size");
struct uroce_import_mr_rep {
	uint32_t lkey, rkey;
	uint64_t length;
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_import_mr_rep) == 24, "import_mr_rep size");

struct uroce_device_rep {
	char name[UROCE_DEV_NAME_MAX];
	char fw_ver[32];
	uint64_t node_guid; /* network order */
	uint64_t max_mr_size;
	uint64_t page_size_cap;
	uint32_t vendor_id, vendor_part_id, hw_ver;
	uint32_t max_qp, max_qp_wr, max_sge, max_sge_rd, max_inline;
	uint32_t max_cq, max_cqe, max_mr, max_pd, max_mw, max_ah, max_srq, max_srq_wr, max_srq_sge;
	uint32_t max_qp_rd_atom, max_qp_init_rd_atom, max_res_rd_atom;
	/* groups of the device; QPs of a group; all memberships together */
	uint32_t max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach;
	uint32_t atomic_cap; /* enum ibv_atomic_cap */
	uint32_t device_cap_flags;
	uint32_t max_pkeys;
	uint32_t local_ca_ack_delay;
	uint32_t nports; /* 1: each DPDK port is a separate device */
	uint8_t spare[24];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_device_rep) == 224, "device_rep size");

/* The clock of timestamp_ns in CQEs: it starts with the daemon. */
struct uroce_clock_rep {
	uint64_t now_ns;
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_clock_rep) == 16, "clock_rep size");

struct uroce_port_req {
	uint32_t port; /* 1 */
	uint8_t spare[4];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_port_req) == 8, "port_req size");
struct uroce_port_rep {
	uint32_t state;               /* enum ibv_port_state */
	uint32_t max_mtu, active_mtu; /* enum ibv_mtu */
	uint32_t gid_tbl_len, pkey_tbl_len;
	uint32_t max_msg_sz;
	uint32_t active_speed, active_width; /* as ibv_port_attr */
	uint32_t bad_pkey_cntr, qkey_viol_cntr;
	uint32_t phys_state;
	uint32_t netdev_ifindex; /* 0: none */
	char netdev[32];         /* name of the interface under the port, or "" */
	uint8_t mac[6];
	uint8_t spare[2];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_port_rep) == 88, "port_rep size");

struct uroce_gid_req {
	uint32_t port, index;
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_gid_req) == 16, "gid_req size");
struct uroce_gid_rep {
	uint8_t gid[16]; /* all zero if the slot is empty */
	uint32_t type;   /* 2: RoCEv2 */
	uint8_t spare[4];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_gid_rep) == 24, "gid_rep size");

struct uroce_pkey_req {
	uint32_t port, index;
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_pkey_req) == 16, "pkey_req size");
struct uroce_pkey_rep {
	uint32_t pkey; /* 0 if the entry is empty */
	uint8_t spare[4];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_pkey_rep) == 8, "pkey_rep size");

struct uroce_handle { /* ALLOC_PD's reply; DEALLOC_*, DESTROY_* requests */
	uint32_t handle;
	uint8_t spare[4];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_handle) == 8, "handle size");

/*
 * Registration. The client describes the range as pieces in ascending order that cover all of it.
 * Pieces are page aligned, and each of their pages holds bytes of the range. The daemon maps a
 * region only if it can map every piece; one COPY piece makes the whole region COPY (through
 * /proc/PID/mem, which the client opens and attaches if the kernel lets nobody else open it).
 */
enum uroce_mr_piece_kind {
	UROCE_PIECE_COPY = 0,     /* cannot be mapped: stack, private file pages .. */
	UROCE_PIECE_FD = 1,       /* descriptor fd_index at fd_off (a memfd the client adopted) */
	UROCE_PIECE_MAP_FILE = 2, /* shared mapping: /proc/PID/map_files/<vm_start>-<vm_end> */
	UROCE_PIECE_KEPT =
		3, /* as FD, of a descriptor that the daemon kept: fd_index is its slot */
};
struct uroce_mr_piece {
	uint64_t va;  /* page aligned start in the client */
	uint64_t len; /* bytes, page multiple (of the mapping's page size) */
	uint32_t kind;
	uint32_t fd_index;         /* FD: index among the attached descriptors; KEPT: slot */
	uint64_t fd_off;           /* FD, KEPT: offset of va in it */
	uint64_t vm_start, vm_end; /* MAP_FILE: the mapping's own bounds */
};
UROCE_ABI_ASSERT(sizeof(struct uroce_mr_piece) == 48, "mr_piece size");
#define UROCE_MR_MAX_PIECES 32
#define UROCE_MR_KEPT       8 /* slots of a connection for descriptors that the daemon keeps */
struct uroce_reg_mr_req {
	uint32_t pd;
	uint32_t access; /* enum ibv_access_flags */
	uint64_t addr;   /* start in the client's address space */
	uint64_t length; /* bytes, > 0 unless the client requests an empty region */
	uint64_t iova;   /* address that WQEs and peers use for addr (0 for zero based) */
	uint32_t npieces;
	/*
	 * 1 + slot: keep the first attached descriptor, a memfd sealed against shrinking, in this
	 * slot as long as the connection lasts, so that later requests need not attach it. Kept
	 * even if the request fails. A slot that has another file: EINVAL. 0: nothing to keep.
	 */
	uint32_t keep;
	uint8_t spare[8];
	struct uroce_mr_piece piece[UROCE_MR_MAX_PIECES];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_reg_mr_req) == 1584, "reg_mr_req size");
struct uroce_reg_mr_rep {
	uint32_t handle;
	uint32_t lkey, rkey;
	uint32_t path; /* enum uroce_mr_path */
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_reg_mr_rep) == 24, "reg_mr_rep size");
enum uroce_mr_path {
	UROCE_MR_PATH_COPY = 0,
	UROCE_MR_PATH_ADOPTED = 1,
	UROCE_MR_PATH_SHARED = 2,
};
struct uroce_rereg_mr_req {
	uint32_t handle;
	uint32_t flags;              /* enum ibv_rereg_mr_flags */
	struct uroce_reg_mr_req reg; /* the parts that flags select */
};
UROCE_ABI_ASSERT(sizeof(struct uroce_rereg_mr_req) == 1592, "rereg_mr_req size");

struct uroce_channel_rep { /* descriptor [0]: the client's end; closing it destroys the channel */
	uint32_t handle;
	uint8_t spare[4];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_channel_rep) == 8, "channel_rep size");

struct uroce_create_cq_req {
	uint64_t user_handle; /* repeated in channel messages and async events */
	uint32_t cqe;         /* entries requested, 1 .. max_cqe */
	uint32_t channel;     /* handle + 1, or 0 for none */
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_create_cq_req) == 24, "create_cq_req size");
struct uroce_create_cq_rep {
	uint32_t handle;
	uint8_t spare[4];
	struct uroce_ring_loc ring;
};
UROCE_ABI_ASSERT(sizeof(struct uroce_create_cq_rep) == 32, "create_cq_rep size");
struct uroce_resize_cq_req {
	uint32_t handle;
	uint32_t cqe;
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_resize_cq_req) == 16, "resize_cq_req size");

struct uroce_qp_cap {
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
};
UROCE_ABI_ASSERT(sizeof(struct uroce_qp_cap) == 20, "qp_cap size");
struct uroce_create_qp_req {
	uint64_t user_handle;
	uint32_t qp_type; /* enum ibv_qp_type: 2 RC, 3 UC, 4 UD */
	uint32_t pd, send_cq, recv_cq;
	uint32_t srq; /* handle + 1, or 0 for none */
	uint32_t sq_sig_all;
	struct uroce_qp_cap cap;
	uint8_t spare[4];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_create_qp_req) == 56, "create_qp_req size");
struct uroce_create_qp_rep {
	uint32_t handle;
	uint32_t qpn;
	struct uroce_qp_cap cap; /* granted */
	uint32_t worker; /* index of the doorbell ring to use: 0 .. nworkers - 1 (UROCE_ABI_MOVES:
			    at first) */
	struct uroce_ring_loc sq, rq; /* rq.entries 0 with an SRQ */
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_create_qp_rep) == 88, "create_qp_rep size");

struct uroce_ah_attr {
	uint8_t dgid[16];
	uint32_t flow_label;
	uint8_t sgid_index, hop_limit, traffic_class, sl;
	uint8_t is_global, port_num, static_rate, src_path_bits;
	uint16_t dlid;
	uint8_t spare[2];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_ah_attr) == 32, "ah_attr size");
/* As struct ibv_qp_attr, at a fixed layout. */
struct uroce_qp_attr {
	uint32_t qp_state, cur_qp_state, path_mtu, path_mig_state;
	uint32_t qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags;
	struct uroce_qp_cap cap;
	struct uroce_ah_attr ah, alt_ah;
	uint16_t pkey_index, alt_pkey_index;
	uint8_t en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic;
	uint8_t min_rnr_timer, port_num, timeout, retry_cnt;
	uint8_t rnr_retry, alt_port_num, alt_timeout;
	uint8_t spare[1];
	uint32_t rate_limit;
};
UROCE_ABI_ASSERT(sizeof(struct uroce_qp_attr) == 140, "qp_attr size");
struct uroce_modify_qp_req {
	uint32_t handle;
	uint32_t attr_mask; /* enum ibv_qp_attr_mask */
	struct uroce_qp_attr attr;
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_modify_qp_req) == 156, "modify_qp_req size");
struct uroce_query_qp_rep {
	struct uroce_qp_attr attr;
	uint32_t qp_type, sq_sig_all;
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_query_qp_rep) == 156, "query_qp_rep size");

struct uroce_create_ah_req {
	uint32_t pd;
	uint8_t spare[4];
	struct uroce_ah_attr attr;
};
UROCE_ABI_ASSERT(sizeof(struct uroce_create_ah_req) == 40, "create_ah_req size");

struct uroce_create_srq_req {
	uint64_t user_handle;
	uint32_t pd, max_wr, max_sge, limit;
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_create_srq_req) == 32, "create_srq_req size");
struct uroce_create_srq_rep {
	uint32_t handle, srqn;
	uint32_t max_wr, max_sge;
	struct uroce_ring_loc ring;
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_create_srq_rep) == 48, "create_srq_rep size");
/*
 * attr_mask: enum ibv_srq_attr_mask. MODIFY_SRQ sets the limit. RESIZE_SRQ sets the size, and the
 * limit if the mask has both. Its reply is that of CREATE_SRQ: the ring to use from then on. The
 * indices continue those of the old ring, and the WRs that were posted there are in the new one.
 * The client posts nothing between the request and the reply.
 */
struct uroce_modify_srq_req {
	uint32_t handle, attr_mask, max_wr, limit;
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_modify_srq_req) == 24, "modify_srq_req size");
struct uroce_query_srq_rep {
	uint32_t max_wr, max_sge, limit;
	uint8_t spare[4];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_query_srq_rep) == 16, "query_srq_rep size");

struct uroce_alloc_mw_req {
	uint32_t pd, type;
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_alloc_mw_req) == 16, "alloc_mw_req size");
struct uroce_alloc_mw_rep {
	uint32_t handle, rkey;
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_alloc_mw_rep) == 16, "alloc_mw_rep size");

struct uroce_mcast_req {
	uint32_t qp;
	uint32_t lid;
	uint8_t gid[16];
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_mcast_req) == 32, "mcast_req size");

#define UROCE_MAX_DEVICES 16
struct uroce_list_devices_rep { /* what uroce-run writes into its emulated sysfs */
	uint32_t ndevices;
	uint8_t spare[4];
	struct {
		char name[UROCE_DEV_NAME_MAX];
		uint64_t node_guid; /* network order */
		uint32_t gid_tbl_len, pkey_tbl_len;
		char netdev[32];
	} dev[UROCE_MAX_DEVICES];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_list_devices_rep) == 1288, "list_devices_rep size");

/*
 * The reply's descriptor [0] is a sealed memfd that holds the JSON text. For objects of another uid
 * it shows only device and uid, for QPs also type, state and both GIDs, and for clients their
 * number. Root and the daemon's uid get everything. A reply has a limited number of rows: the next
 * request continues at next_client, next_pos of the reply. Both are 0 when there are no more.
 */
struct uroce_show_req {
	char what[32]; /* a topic of `urocectl show`, or "trace" */
	uint32_t arg;  /* qpn and the like */
	uint32_t has_arg;
	uint32_t from_client, from_pos; /* 0, 0: from the first row on */
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_show_req) == 56, "show_req size");
struct uroce_show_rep {
	uint64_t bytes;
	uint32_t next_client, next_pos;
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_show_rep) == 24, "show_rep size");

/*
 * The fault injector of a device (drivers/impair). SET and CLEAR are for observers that are root or
 * run as the daemon does; others get EPERM. An invalid specification gets a reply with the reason
 * as text. Otherwise the reply's descriptor [0] is a sealed memfd that holds, as JSON, the rules
 * now in force.
 */
enum uroce_impair_flags {
	UROCE_IMPAIR_SHOW = 0,
	UROCE_IMPAIR_SET = 1,
	UROCE_IMPAIR_CLEAR = 2,
};
struct uroce_impair_req {
	char device[UROCE_DEV_NAME_MAX];
	char spec[512]; /* SET: NUL terminated */
	uint32_t flags; /* enum uroce_impair_flags */
	uint8_t spare[4];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_impair_req) == 552, "impair_req size");
struct uroce_impair_rep {
	uint64_t bytes;  /* of JSON; 0: none, see error */
	char error[240]; /* NUL terminated */
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_impair_rep) == 256, "impair_rep size");

/*
 * Captures the frames that a device's workers receive and send, into a pcapng file with nanosecond
 * timestamps. START comes with the descriptor of a regular file, open for writing. The same clients
 * as for IMPAIR's SET may use it. EBUSY: a capture is running; ENOENT: STOP without a capture. The
 * reply has the amount captured so far; the reply to STOP describes the complete file.
 *
 * START | STEPS instead follows the QP qpn of the device: its worker notes when it does each step
 * of a message (struct stamp in lib/worker/steps.h, for uroce-bench of the same version). STOP |
 * STEPS comes with the descriptor of a regular file, to which the steps are written; the reply has
 * their number (frames) and the number of those for which there was no space. EBUSY: too many QPs
 * are followed; ENOENT: no such QP, or STOP for one that is not followed.
 */
enum uroce_capture_flags {
	UROCE_CAPTURE_SHOW = 0,
	UROCE_CAPTURE_START = 1,
	UROCE_CAPTURE_STOP = 2,
	UROCE_CAPTURE_STEPS = 4,
};
struct uroce_capture_req {
	char device[UROCE_DEV_NAME_MAX];
	uint32_t flags; /* enum uroce_capture_flags */
	/* START: only frames from and to this QP of the device; 0: all. STEPS: the QP */
	uint32_t qpn;
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_capture_req) == 48, "capture_req size");
struct uroce_capture_rep {
	uint64_t frames; /* written */
	uint64_t bytes;  /* of frames, written */
	uint64_t lost;   /* frames for which there was no space */
	uint32_t running;
	uint32_t error; /* errno of the first failed write; nothing is written after it */
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_capture_rep) == 40, "capture_rep size");

/*
 * Changes a device while it runs, for the same observers as IMPAIR's SET. Clients of the device get
 * GID_CHANGE or PKEY_CHANGE. A change that is not possible gets a reply with the reason as text.
 */
enum uroce_set_what {
	UROCE_SET_ADDR_ADD = 1, /* addr; the reply's index: its GID index */
	UROCE_SET_ADDR_DEL = 2, /* addr; the reply's index: the GID index that became empty */
	UROCE_SET_PKEY = 3,     /* entry index of the P_Key table becomes pkey; 0: empty */
	/*
	 * addr: the congestion policy with its parameters. index: the number of a connected QP, or
	 * 0 for all QPs of the device. A client may set it for its own QPs; device may be "" then.
	 */
	UROCE_SET_CC = 4,
	UROCE_SET_PROBE = 5, /* addr: "on" or "off"; index: as for CC, but RC only */
	/* addr: "auto", or the index of a worker: moves the QP there for good. index: its number */
	UROCE_SET_WORKER = 6,
	/* of the daemon: device is "" */
	UROCE_SET_LOG_LEVEL = 16, /* addr: "error" .. "debug" */
	UROCE_SET_QUOTA = 17,     /* addr: name of a resource; pkey: a uid's new limit, in the units
				     of its option */
	UROCE_SET_BALANCE = 18,   /* addr: "on" or "off": QPs move from busy workers to others */
};
struct uroce_set_req {
	char device[UROCE_DEV_NAME_MAX];
	char addr[64]; /* "10.9.0.1/24", NUL terminated */
	uint32_t what; /* enum uroce_set_what */
	uint32_t index, pkey;
	uint8_t spare[4];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_set_req) == 112, "set_req size");
struct uroce_set_rep {
	uint32_t index;
	uint32_t done;   /* 0: not done, see error */
	char error[248]; /* NUL terminated */
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_set_rep) == 264, "set_rep size");

/*
 * Asks the uroced at a peer's address to answer, on the way that RDMA takes. With len a datagram of
 * that length goes to QP1 of the peer, which returns one of the same length; the reply has its
 * number. With len 0 and a number the reply says whether the answer has come. The daemon remembers
 * the last 16 and repeats none. Refusals name the reason, such as no route.
 */
enum uroce_ask_peer_state {
	UROCE_ASK_SENT = 0,     /* no answer yet */
	UROCE_ASK_ANSWERED = 1, /* rtt_ns and path_mtu are valid */
	UROCE_ASK_NO_MAC = 2,   /* not sent: the next hop's MAC was requested; ask again */
};
struct uroce_ask_peer_req {
	char device[UROCE_DEV_NAME_MAX];
	uint8_t remote[16]; /* GID */
	uint64_t number;    /* len is 0: of an earlier request */
	uint32_t gid_index; /* source */
	uint32_t len;       /* 0, or 256 to the path MTU in bytes, a multiple of 4 */
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_ask_peer_req) == 72, "ask_peer_req size");
struct uroce_ask_peer_rep {
	uint64_t number;   /* never 0 */
	uint64_t rtt_ns;   /* from the request to the answer */
	uint32_t state;    /* enum uroce_ask_peer_state */
	uint32_t path_mtu; /* of the peer's device, in bytes */
	uint8_t spare[8];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_ask_peer_rep) == 32, "ask_peer_rep size");

/*
 * PAUSE_THREADS stops all threads of the client's process but one (map/pause.h), until
 * RESUME_THREADS, the end of the connection, or UROCE_PAUSE_MS: a client without the right to a
 * userfaultfd moves pages meanwhile. EPERM: the daemon may not trace the process, or another one
 * does; EBUSY: a thread cannot stop now, or threads are paused already. RESUME_THREADS gets
 * ETIMEDOUT if the pause has ended before.
 */
#define UROCE_PAUSE_MS 5000u
struct uroce_pause_threads_req {
	uint32_t tid; /* the thread that goes on, in the client's own pid namespace */
	uint8_t spare[4];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_pause_threads_req) == 8, "pause_threads_req size");

#endif
