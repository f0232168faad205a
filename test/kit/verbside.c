/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SAID 20 /* printed failures of a test, at most */

static int failures; /* of the current test */

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
	s->ctx = verbs_open(name);
	s->buf = calloc(1, SIDE_BYTES);
	s->pd = s->ctx ? ibv_alloc_pd(s->ctx) : NULL;
	s->cq = s->pd ? ibv_create_cq(s->ctx, 8 * SIDE_DEPTH, NULL, NULL, 0) : NULL;
	s->mr = s->cq && s->buf ? ibv_reg_mr(s->pd, s->buf, SIDE_BYTES, SIDE_ACCESS) : NULL;
	/* Shows fields that the provider does not set. */
	memset(&s->attr, 0xff, sizeof(s->attr));
	if (!s->mr || ibv_query_device_ex(s->ctx, NULL, &s->attr)) {
		printf("Bail out! %s cannot be set up: %s\n", name, strerror(errno));
		exit(1);
	}
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

static struct ibv_qp_attr
side_attr(const struct ibv_qp *qp, uint32_t dest, const union ibv_gid *dgid)
{
	struct ibv_qp_attr attr = verbs_attr(dest, dgid);

	/* UC has only the first two rights */
	attr.qp_access_flags = SIDE_ACCESS & (qp->qp_type == IBV_QPT_RC ? ~0 : 3);
	attr.min_rnr_timer = 12;
	return attr;
}

int
side_init_state(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = side_attr(qp, 0, &(union ibv_gid){0});

	return verbs_raise(qp, &attr, IBV_QPS_INIT);
}

int
side_raise(struct side *s, struct ibv_qp *qp, uint32_t dest)
{
	struct ibv_qp_attr attr;
	union ibv_gid gid;
	int rc = ibv_query_gid(s->ctx, 1, 1, &gid);

	attr = side_attr(qp, dest, &gid);
	attr.max_dest_rd_atomic = (uint8_t)s->attr.orig_attr.max_qp_rd_atom;
	attr.max_rd_atomic = (uint8_t)s->attr.orig_attr.max_qp_init_rd_atom;
	return rc ? rc : verbs_raise(qp, &attr, IBV_QPS_RTS);
}

int
side_main(int argc, char **argv, struct side *s, int sides, const struct side_test *tests,
	  unsigned int n)
{
	int bad = 0;

	if (argc != 1 + sides) {
		fprintf(stderr, "usage: %s DEVICE%s\n", argv[0], sides > 1 ? " DEVICE" : "");
		return 2;
	}
	for (int i = 0; i < sides; i++)
		side_open(&s[i], argv[1 + i]);
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
