/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which libibverbs is in this process, and calls of its private functions.
 *
 * One provider file serves every libibverbs from rdma-core 33 to 65. These have six private ABIs,
 * and within one ABI number structures grew, too:
 *
 *   private ABI   rdma-core   operations              in front of ibv_context (words)
 *   33            33          72                      40
 *   34            34          73                      40
 *                 35          75                      40
 *                 36 .. 56    76                      40
 *   57            57, 58      76                      40
 *   59            59 .. 61    79                      43
 *                 62, 63      81                      44
 *   64            64          83                      46
 *   65            65          93                      46
 *
 * The number tells which private functions there are. The layout follows from the public functions
 * that libibverbs exports, because each new operation came with one. The provider is not linked
 * against private functions but looks them up. What it cannot know is checked: a libibverbs that
 * lays out its structures in another way is refused with a message.
 */
#ifndef UROCE_VERBS_RDMA_CORE_H
#define UROCE_VERBS_RDMA_CORE_H

#include "rdma_core_abi.h"

/*
 * Adds ops to the list that libibverbs matches devices against. Called once, from the provider's
 * constructor. Returns false after printing a line if this libibverbs is unknown; then no other
 * function here may be called.
 */
bool rca_register(const struct verbs_device_ops *ops);

/*
 * Returns a zeroed block of size bytes with an initialised context in it, or NULL with errno.
 * offset: of a struct verbs_context in the block, with RCA_CONTEXT_HEADROOM in front. cmd_fd
 * belongs to the context from now on, also on failure.
 */
void *rca_context_alloc(struct ibv_device *device, int cmd_fd, size_t size, size_t offset);

/* Returns what libibverbs takes for its verbs_context. Both end with the same ibv_context. */
struct verbs_context *rca_context_seen(struct verbs_context *ctx);

/*
 * Gives ctx the operations in ops that are not NULL. Returns 0, or EPROTONOSUPPORT after printing a
 * line if this libibverbs is not laid out as its version says.
 */
int rca_context_set_ops(struct verbs_context *ctx, const struct verbs_context_ops *ops);

/* Undoes rca_context_alloc, but does not free the block; closes cmd_fd and async_fd. */
void rca_context_uninit(struct verbs_context *ctx);

/* Tells libibverbs that qp has the functions of ibv_qp_ex. */
void rca_qp_set_ex(struct verbs_qp *qp);

/* ---- the tables, for tests ---- */

/*
 * Returns the rdma-core version that brought the layout of a libibverbs: the last one whose new
 * public function exists. symbol: returns a function's address or NULL.
 */
unsigned int rca_version_find(void *(*symbol)(const char *name));

/*
 * Writes ops in the layout of an rdma-core version to slot, unused slots as NULL. Returns the
 * number of operations that this version has.
 */
size_t rca_ops_translate(unsigned int version, const struct verbs_context_ops *ops,
			 void *slot[RCA_SLOTS]);

/* Returns the bytes in front of the ibv_context in this version's verbs_context. */
size_t rca_context_head(unsigned int version);

/* Returns true if the public functions of ctx are those of ops, as far as ops has them. */
bool rca_context_check(const struct verbs_context *ctx, const struct verbs_context_ops *ops);

#endif
