/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs on libibverbs do alike: open a device by its name, raise queue pairs to RTS, wait
 * for a completion, find their rings. It knows nothing of uroce.
 */
#ifndef KIT_VERBS_H
#define KIT_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#define VERBS_QKEY 0x11111111u

/* The device of this name (NULL: the first one), good until the program ends; NULL and errno. */
struct ibv_device *verbs_find(const char *name);
/* Opens it. NULL and errno, ENODEV where there is none of the name. */
struct ibv_context *verbs_open(const char *name);

/*
 * What verbs_modify needs to connect a queue pair to dest at dgid: port 1, GID 1, path MTU 1024,
 * patient retries, one READ at once, no remote access. The caller changes what it wants otherwise.
 */
struct ibv_qp_attr verbs_attr(uint32_t dest, const union ibv_gid *dgid);
/*
 * One step, to INIT, RTR or RTS: all that the queue pair's type takes there, from attr, and what
 * more (IBV_QP_*) names. qp_state of attr is not looked at. 0 or an errno.
 */
int verbs_modify(struct ibv_qp *qp, const struct ibv_qp_attr *attr, enum ibv_qp_state to, int more);
/* All steps from RESET to INIT, RTR or RTS (or none, to RESET), the first failing one's errno. */
int verbs_raise(struct ibv_qp *qp, const struct ibv_qp_attr *attr, enum ibv_qp_state to);

/* A path MTU of 256 .. 4096 bytes as libibverbs has it, 0 where there is no such. */
enum ibv_mtu verbs_mtu(uint64_t bytes);
/* One completion within two seconds of waiting. */
bool verbs_wait(struct ibv_cq *cq, struct ibv_wc *wc);

/* Shared writable memory of this process, where its rings are. */
struct verbs_map {
	volatile uint32_t *words;
	size_t count;
};
/* Up to max of them. */
int verbs_maps(struct verbs_map *maps, int max);

#endif
