/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HELLO, the first request of a connection: both sides agree on a version and on features.
 *
 * A provider of any version sends the same HELLO. Its layout, and that of struct uroce_ctrl_hdr,
 * never change: any client can send HELLO to any daemon since version 7.
 *
 *   client                                      daemon
 *   HELLO: versions 7 to 9, features it    -->
 *   offers, features it requires
 *                                          <--  version 8, the highest that both support; the
 *                                               features that both offer
 *                                     or   <--  EPROTONOSUPPORT and a sentence with both ranges, or
 *                                               with the features that one side requires and the
 *                                               other lacks; another HELLO may follow
 *   everything else, in version 8          -->
 *
 * - hdr.version is version_max in a HELLO and in its reply, and the agreed version in every other
 *   message. The daemon does not compare a HELLO's hdr.version with anything.
 * - A side that supports a range supports every version in it.
 * - A feature is a bit of a 64-bit mask. A side ignores unknown bits. It uses a feature only if the
 *   reply has its bit. A side that needs a feature also sets its bit in the mask of required
 *   features, which is a subset of those it offers.
 * - Spare bytes of a HELLO are zero in all versions. A later version that needs more fields defines
 *   a feature bit and a further message.
 * - A client up to version 6 sends a HELLO that ends after pid and four zero bytes. It gets
 *   EPROTONOSUPPORT and the sentence.
 *
 * A change of layout or meaning raises UROCE_ABI_VERSION. A daemon or client that still supports
 * the old layout keeps UROCE_ABI_VERSION_MIN. An addition that the other side may ignore
 * takes spare bytes and a feature bit instead.
 */
#ifndef UROCE_ABI_HELLO_H
#define UROCE_ABI_HELLO_H

#include <stddef.h>
#include <stdint.h>
#include "version.h"

/*
 * QPs may move to another worker: the client rings the doorbell of the worker that the SQ's header
 * names (ring.h). Otherwise that of the reply to CREATE_QP, for the life of the QP.
 */
#define UROCE_ABI_MOVES    1ull
#define UROCE_ABI_FEATURES UROCE_ABI_MOVES /* feature bits that this source offers */
#define UROCE_ABI_REQUIRED 0ull            /* feature bits that this source requires */

#define UROCE_DEV_NAME_MAX 32
#define UROCE_MAX_WORKERS  16

struct uroce_hello_req {
	char device[UROCE_DEV_NAME_MAX]; /* "uroce0", NUL terminated; "" for an observer */
	uint32_t pid;                    /* in the client's own pid namespace; for display */
	uint16_t version_min, version_max;
	uint64_t features;          /* offered */
	uint64_t features_required; /* a subset of features */
	uint8_t spare[40];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_hello_req) == 96, "the size of HELLO never changes");
UROCE_ABI_ASSERT(offsetof(struct uroce_hello_req, version_min) == 36, "nor does its layout");

enum uroce_hello_flags {
	UROCE_HELLO_YIELD = 1 << 0, /* cores are shared: yield on an empty poll */
	UROCE_HELLO_COPY = 1 << 1,  /* memory is copied: adopting it is of no use */
};

/*
 * An observer gets 0 workers. Descriptors of a context: [0] the asynchronous event socket, [1] the
 * doorbell segment, [2 ..] one eventfd for each worker, and behind these the workers' states
 * (struct uroce_worker_state), which cannot be mapped for writing.
 */
#define UROCE_HELLO_FDS (UROCE_MAX_WORKERS + 3) /* descriptors of a reply, at most */
struct uroce_hello_rep {
	uint32_t context; /* id, for urocectl */
	uint32_t flags;   /* enum uroce_hello_flags */
	uint32_t nworkers;
	uint16_t version; /* agreed: version_min to version_max of both sides */
	uint8_t spare0[2];
	uint64_t features; /* that both sides offer */
	uint64_t db_seg_bytes;
	uint64_t db_off[UROCE_MAX_WORKERS]; /* struct uroce_db_ring of each worker */
	uint8_t spare[32];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_hello_rep) == 192, "the size of HELLO's reply never changes");
UROCE_ABI_ASSERT(offsetof(struct uroce_hello_rep, version) == 12, "nor does its layout");

#endif
