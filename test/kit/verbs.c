/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include "program.h"

#define WAIT_NS 60000000000ull

static struct ibv_device *
in_list(struct ibv_device **list, const char *name)
{
	for (int i = 0; list && list[i]; i++) {
		if (!name || !strcmp(ibv_get_device_name(list[i]), name))
			return list[i];
	}
	errno = ENODEV;
	return NULL;
}

struct ibv_device *
verbs_find(const char *name)
{
	return in_list(ibv_get_device_list(NULL), name);
}

struct ibv_context *
verbs_open(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_device *dev = in_list(list, name);
	struct ibv_context *ctx = dev ? ibv_open_device(dev) : NULL;
	int why = errno;

	if (list)
		ibv_free_device_list(list);
	errno = why;
	return ctx;
}

struct ibv_qp_attr
verbs_attr(uint32_t dest, const union ibv_gid *dgid)
{
	return (struct ibv_qp_attr){
		.port_num = 1,
		.qkey = VERBS_QKEY,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.min_rnr_timer = 1,
		.timeout = 17,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = *dgid, .sgid_index = 1, .hop_limit = 64}},
	};
}

int
verbs_modify(struct ibv_qp *qp, const struct ibv_qp_attr *attr, enum ibv_qp_state to, int more)
{
	bool ud = qp->qp_type == IBV_QPT_UD, reliable = qp->qp_type == IBV_QPT_RC;
	struct ibv_qp_attr a = *attr;
	int mask = IBV_QP_STATE | more;

	a.qp_state = to;
	switch (to) {
	case IBV_QPS_INIT:
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
		break;
	case IBV_QPS_RTR:
		if (!ud)
			mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
		if (reliable)
			mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		break;
	case IBV_QPS_RTS:
		mask |= IBV_QP_SQ_PSN;
		if (reliable)
			mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				IBV_QP_MAX_QP_RD_ATOMIC;
		break;
	default:
		return EINVAL;
	}
	return ibv_modify_qp(qp, &a, mask);
}

int
verbs_raise(struct ibv_qp *qp, const struct ibv_qp_attr *attr, enum ibv_qp_state to)
{
	int rc = 0;

	for (int step = IBV_QPS_INIT; rc == 0 && step <= (int)to; step++)
		rc = verbs_modify(qp, attr, (enum ibv_qp_state)step, 0);
	return rc;
}

enum ibv_mtu
verbs_mtu(uint64_t bytes)
{
	for (int code = IBV_MTU_256; code <= IBV_MTU_4096; code++) {
		if (128u << code == bytes)
			return (enum ibv_mtu)code;
	}
	return (enum ibv_mtu)0;
}

bool
verbs_wait(struct ibv_cq *cq, struct ibv_wc *wc)
{
	uint64_t end = now_ns() + WAIT_NS;
	int n;

	while ((n = ibv_poll_cq(cq, 1, wc)) == 0 && now_ns() < end)
		sched_yield();
	return n == 1;
}

int
verbs_maps(struct verbs_map *maps, int max)
{
	FILE *f = fopen("/proc/self/maps", "r");
	uint64_t start, end;
	char line[512], perms[5];
	int n = 0;

	while (f && n < max && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &start, &end, perms) != 3 ||
		    strcmp(perms, "rw-s") || !strstr(line, "memfd:"))
			continue;
		maps[n].words = (volatile uint32_t *)(uintptr_t)start;
		maps[n++].count = (end - start) / 4;
	}
	if (f)
		fclose(f);
	return n;
}
