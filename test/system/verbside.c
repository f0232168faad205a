/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbside.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAIT_NS  2000000000ull
#define MAX_SAID 20 /* failures of a test that are printed */

static int failures; /* of the test that runs */

void
side_failed(const char *file, int line, const char *what)
{
	if (failures++ < MAX_SAID)
		printf("# %s:%d: %s (errno %d: %s)\n", file, line, what, errno, strerror(errno));
}

int
side_failures(void)
{
	return failures;
}

void
side_open(struct side *s, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++) {
		if (!strcmp(ibv_get_device_name(list[i]), name))
			s->ctx = ibv_open_device(list[i]);
	}
	s->buf = calloc(1, SIDE_BYTES);
	s->pd = s->ctx ? ibv_alloc_pd(s->ctx) : NULL;
	s->cq = s->pd ? ibv_create_cq(s->ctx, 8 * SIDE_DEPTH, NULL, NULL, 0) : NULL;
	s->mr = s->cq && s->buf ? ibv_reg_mr(s->pd, s->buf, SIDE_BYTES, SIDE_ACCESS) : NULL;
	/* What the provider does not fill in shows. */
	memset(&s->attr, 0xff, sizeof(s->attr));
	if (!s->mr || ibv_query_device_ex(s->ctx, NULL, &s->attr)) {
		printf("Bail out! %s cannot be set up: %s\n", name, strerror(errno));
		exit(1);
	}
	ibv_free_device_list(list);
}

struct ibv_qp *
side_qp(struct ibv_pd *pd, enum ibv_qp_type type, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = SIDE_DEPTH,
			.max_recv_wr = SIDE_DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = type,
		.sq_sig_all = 1,
	};

	return ibv_create_qp(pd, &attr);
}

int
side_init_state(struct ibv_qp *qp)
{
	bool ud = qp->qp_type == IBV_QPT_UD;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = SIDE_QKEY,
		.qp_access_flags = ud ? 0 : SIDE_ACCESS & (qp->qp_type == IBV_QPT_RC ? ~0 : 3),
	};

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

int
side_raise(struct side *s, struct ibv_qp *qp, uint32_t dest)
{
	bool ud = qp->qp_type == IBV_QPT_UD, reliable = qp->qp_type == IBV_QPT_RC;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest,
		.max_dest_rd_atomic = (uint8_t)s->attr.orig_attr.max_qp_rd_atom,
		.max_rd_atomic = (uint8_t)s->attr.orig_attr.max_qp_init_rd_atom,
		.min_rnr_timer = 12,
		.timeout = 17,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.sgid_index = 1, .hop_limit = 1}},
	};
	int rtr = IBV_QP_STATE, rts = IBV_QP_STATE | IBV_QP_SQ_PSN;
	int rc = side_init_state(qp);

	if (!ud)
		rtr |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (reliable) {
		rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC;
	}
	if (rc == 0)
		rc = ibv_query_gid(s->ctx, 1, 1, &attr.ah_attr.grh.dgid);
	if (rc == 0)
		rc = ibv_modify_qp(qp, &attr, rtr);
	attr.qp_state = IBV_QPS_RTS;
	return rc ? rc : ibv_modify_qp(qp, &attr, rts);
}

static uint64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

bool
side_wait(struct ibv_cq *cq, struct ibv_wc *wc)
{
	uint64_t end = now_ns() + WAIT_NS;
	int n;

	while ((n = ibv_poll_cq(cq, 1, wc)) == 0 && now_ns() < end)
		sched_yield();
	return n == 1;
}

int
side_main(int argc, char **argv, struct side *s, const struct side_test *tests, unsigned int n)
{
	int bad = 0;

	if (argc != 2) {
		fprintf(stderr, "usage: %s DEVICE\n", argv[0]);
		return 2;
	}
	side_open(s, argv[1]);
	for (unsigned int i = 0; i < n; i++) {
		failures = 0;
		errno = 0;
		tests[i].run();
		bad += failures != 0;
		printf("%s %u - %s\n", failures ? "not ok" : "ok", i + 1, tests[i].name);
		fflush(stdout);
	}
	printf("1..%u\n", n);
	return bad != 0;
}
