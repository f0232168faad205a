/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helpers for libibverbs programs: open a device by its name, move queue pairs to RTS, wait for a
 * completion, find the rings. Independent of uroce.
 */
#ifndef KIT_VERBS_H
#define KIT_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#define VERBS_QKEY 0x11111111u

/* The device of this name (NULL: the first one), valid until the program ends; NULL and errno. */
struct ibv_device *verbs_find(const char *name);
/* Opens the device. NULL and errno; ENODEV if there is no such device. */
struct ibv_context *verbs_open(const char *name);

/*
 * Attributes for verbs_modify that connect a queue pair to dest at dgid: port 1, GID 1, path MTU
 * 1024, long timeouts, one outstanding READ, no remote access. The caller may change them.
 */
struct ibv_qp_attr verbs_attr(uint32_t dest, const union ibv_gid *dgid);
/*
 * Makes one step, to INIT, RTR or RTS, with the attributes that the queue pair's type needs and
 * those in more (IBV_QP_*). Ignores qp_state of attr. 0 or an errno.
 */
int verbs_modify(struct ibv_qp *qp, const struct ibv_qp_attr *attr, enum ibv_qp_state to, int more);
/* Makes all steps from RESET to INIT, RTR or RTS. 0, or the errno of the first that fails. */
int verbs_raise(struct ibv_qp *qp, const struct ibv_qp_attr *attr, enum ibv_qp_state to);

/* The libibverbs code of a path MTU of 256 .. 4096 bytes, or 0. */
enum ibv_mtu verbs_mtu(uint64_t bytes);
/* Waits at most a minute, which only ends a hang, for one completion. */
bool verbs_wait(struct ibv_cq *cq, struct ibv_wc *wc);

/* Shared writable memory of this process, which contains its rings. */
struct verbs_map {
	volatile uint32_t *words;
	size_t count;
};
/* Finds up to max mappings; returns their number. */
int verbs_maps(struct verbs_map *maps, int max);

#endif
