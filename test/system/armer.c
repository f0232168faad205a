/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hostile client: many CQs that complete and are armed again all the time, so that the daemon's
 * control thread always has another event to deliver.
 *
 *   armer DEVICE
 *
 * Prints "armed" once all CQs are busy and runs until it is killed.
 */
#include "kit/verbside.h"

#include <fcntl.h>
#include <stdio.h>

#define QPS 512

static struct side side;
static struct ibv_comp_channel *channel;
static struct {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	int out; /* WRs posted and not completed */
} end[QPS];

/* UC to itself without receives: a SEND completes as soon as it is sent. */
static bool
make(void)
{
	channel = ibv_create_comp_channel(side.ctx);
	if (!channel || fcntl(channel->fd, F_SETFL, O_NONBLOCK))
		return false;
	for (int i = 0; i < QPS; i++) {
		end[i].cq = ibv_create_cq(side.ctx, SIDE_DEPTH * 2, NULL, channel, 0);
		if (!end[i].cq)
			return false;
		end[i].qp = side_qp(side.pd, IBV_QPT_UC, end[i].cq);
		if (!end[i].qp || side_raise(&side, end[i].qp, end[i].qp->qp_num))
			return false;
	}
	return true;
}

static void
step(int i)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc[SIDE_DEPTH];
	int n = ibv_poll_cq(end[i].cq, SIDE_DEPTH, wc);

	end[i].out -= n > 0 ? n : 0;
	ibv_req_notify_cq(end[i].cq, 0);
	if (end[i].out < SIDE_DEPTH && ibv_post_send(end[i].qp, &wr, &bad) == 0)
		end[i].out++;
}

int
main(int argc, char **argv)
{
	struct ibv_cq *cq;
	void *ctx;

	if (argc != 2)
		return 2;
	side_open(&side, argv[1]);
	if (!make()) {
		printf("cannot make the queues\n");
		return 1;
	}
	for (int i = 0; i < QPS; i++)
		step(i);
	printf("armed\n");
	fflush(stdout);
	for (;;) {
		for (int i = 0; i < QPS; i++)
			step(i);
		for (int i = 0; i < QPS && ibv_get_cq_event(channel, &cq, &ctx) == 0; i++)
			;
	}
}
