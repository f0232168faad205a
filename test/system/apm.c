/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two RC queue pairs, one on each of two joined devices, each with an alternate path to the other.
 * Data goes both ways, is read back and compared, until both have migrated to the alternate path.
 *
 *   apm DEVICE DEVICE exhaust          prints "armed", and waits for its first path to be cut off
 *   apm DEVICE DEVICE forced           changes path by modify
 *   apm DEVICE DEVICE unusable ADDR    exhaust, with an alternate of the first that leads to ADDR
 *
 * With unusable the alternate must be unusable by then, and the first one must get an event for it.
 *
 * GID 1 of each device is its end of the path in use, GID 2 of the alternate. Exit status 0 and
 * "ok", or 1 and the error, on stdout.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kit/program.h"
#include "kit/verbs.h"

#define LEN         20000 /* bytes of a message, several packets */
#define BYTES       (4 * LEN)
#define GID_FIRST   1
#define GID_ALT     2
#define TIMEOUT     17 /* 0.54 s: tolerates a busy machine .. */
#define FAR_TIMEOUT 23 /* .. and 34 s: there is none, because nothing is lost */
#define RETRIES     2
#define ROUNDS      50 /* before the migration, and again after it */

struct side {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	union ibv_gid gid[3];
	union ibv_gid alt_remote;
	uint8_t *bytes; /* out, in, read back */
	uint32_t migrated, mig_errors;
};

static struct side side[2];
static uint32_t rounds;
static uint8_t timeout = TIMEOUT; /* of the first path; that of the other one is one longer */

static void
need(bool ok, const char *what)
{
	if (!ok)
		die("%s: %s (round %u)", what, strerror(errno), rounds);
}

static void
open_side(struct side *s, const char *name)
{
	struct ibv_device_attr attr;
	int flags;

	s->ctx = verbs_open(name);
	need(s->ctx != NULL, name);
	need(ibv_query_device(s->ctx, &attr) == 0, "ibv_query_device");
	need(attr.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG, "IBV_DEVICE_AUTO_PATH_MIG");
	for (int i = GID_FIRST; i <= GID_ALT; i++)
		need(ibv_query_gid(s->ctx, 1, i, &s->gid[i]) == 0, "ibv_query_gid");
	flags = fcntl(s->ctx->async_fd, F_GETFL);
	need(fcntl(s->ctx->async_fd, F_SETFL, flags | O_NONBLOCK) == 0, "fcntl");
}

static void
make_qp(struct side *s)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
	};

	s->bytes = calloc(1, BYTES);
	s->pd = ibv_alloc_pd(s->ctx);
	need(s->pd != NULL, "ibv_alloc_pd");
	s->mr = ibv_reg_mr(s->pd, s->bytes, BYTES,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ);
	need(s->mr != NULL, "ibv_reg_mr");
	s->cq = ibv_create_cq(s->ctx, 64, NULL, NULL, 0);
	need(s->cq != NULL, "ibv_create_cq");
	init.send_cq = init.recv_cq = s->cq;
	s->qp = ibv_create_qp(s->pd, &init);
	need(s->qp != NULL, "ibv_create_qp");
}

static void
connect_side(struct side *s, const struct side *peer)
{
	struct ibv_qp_attr a = verbs_attr(peer->qp->qp_num, &peer->gid[GID_FIRST]);
	int rc;

	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	a.min_rnr_timer = 12;
	a.alt_ah_attr = a.ah_attr;
	a.alt_ah_attr.grh.dgid = s->alt_remote;
	a.alt_ah_attr.grh.sgid_index = GID_ALT;
	a.alt_port_num = 1;
	a.alt_timeout = timeout + 1;
	a.timeout = timeout;
	a.retry_cnt = RETRIES;
	a.path_mig_state = IBV_MIG_REARM;
	rc = verbs_modify(s->qp, &a, IBV_QPS_INIT, 0);
	rc = rc ? rc : verbs_modify(s->qp, &a, IBV_QPS_RTR, IBV_QP_ALT_PATH);
	errno = rc ? rc : verbs_modify(s->qp, &a, IBV_QPS_RTS, IBV_QP_PATH_MIG_STATE);
	need(errno == 0, "connect");
}

static struct ibv_qp_attr
queried(struct side *s)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	errno = ibv_query_qp(s->qp, &a, IBV_QP_PATH_MIG_STATE | IBV_QP_AV, &init);
	need(errno == 0, "ibv_query_qp");
	return a;
}

static void
take_events(struct side *s)
{
	struct ibv_async_event e;

	while (ibv_get_async_event(s->ctx, &e) == 0) {
		printf("side %d: %s\n", (int)(s - side), ibv_event_type_str(e.event_type));
		if (e.event_type == IBV_EVENT_PATH_MIG)
			s->migrated++;
		else if (e.event_type == IBV_EVENT_PATH_MIG_ERR)
			s->mig_errors++;
		else if (e.event_type != IBV_EVENT_COMM_EST && e.event_type != IBV_EVENT_GID_CHANGE)
			die("side %d: unexpected event", (int)(s - side));
		need(e.event_type == IBV_EVENT_GID_CHANGE || e.element.qp == s->qp,
		     "the event's QP");
		ibv_ack_async_event(&e);
	}
}

/* Waits for the next completion of s; handles events meanwhile. */
static struct ibv_wc
completion(struct side *s)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(s->cq, 1, &wc)) == 0) {
		take_events(&side[0]);
		take_events(&side[1]);
	}
	need(n == 1, "ibv_poll_cq");
	return wc;
}

static void
succeeds(struct side *s, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = completion(s);

	if (wc.status != IBV_WC_SUCCESS || wc.opcode != opcode)
		die("side %d, round %u: %s, opcode %d", (int)(s - side), rounds,
		    ibv_wc_status_str(wc.status), wc.opcode);
}

static void
post(struct side *s, const struct side *peer, enum ibv_wr_opcode opcode)
{
	bool read = opcode == IBV_WR_RDMA_READ;
	struct ibv_sge sge = {(uintptr_t)s->bytes + (read ? 2 * LEN : 0), LEN, s->mr->lkey};
	struct ibv_send_wr *bad, wr = {
					 .opcode = opcode,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .imm_data = htonl(rounds),
				 };

	wr.wr.rdma.remote_addr = (uintptr_t)peer->bytes + LEN;
	wr.wr.rdma.rkey = peer->mr->rkey;
	errno = ibv_post_send(s->qp, &wr, &bad);
	need(errno == 0, "ibv_post_send");
}

/* Sends a message from s, checks it at the peer, and reads it back. */
static void
one_way(struct side *s, struct side *peer)
{
	struct ibv_recv_wr *bad, recv = {0};

	for (uint32_t i = 0; i < LEN; i++)
		s->bytes[i] = (uint8_t)(i * 7 + rounds * 31 + (uint32_t)(s - side));
	errno = ibv_post_recv(peer->qp, &recv, &bad);
	need(errno == 0, "ibv_post_recv");
	post(s, peer, IBV_WR_RDMA_WRITE_WITH_IMM);
	succeeds(peer, IBV_WC_RECV_RDMA_WITH_IMM);
	succeeds(s, IBV_WC_RDMA_WRITE);
	post(s, peer, IBV_WR_RDMA_READ);
	succeeds(s, IBV_WC_RDMA_READ);
	need(memcmp(s->bytes, peer->bytes + LEN, LEN) == 0, "what the peer has");
	need(memcmp(s->bytes, s->bytes + 2 * LEN, LEN) == 0, "what was read back");
}

static void
one_round(void)
{
	one_way(&side[0], &side[1]);
	one_way(&side[1], &side[0]);
	rounds++;
}

static void
went_over(struct side *s)
{
	struct ibv_qp_attr a = queried(s);

	need(s->migrated == 1 && s->mig_errors == 0, "one migration");
	need(a.path_mig_state == IBV_MIG_MIGRATED, "MIGRATED");
	need(a.ah_attr.grh.sgid_index == GID_ALT && a.timeout == timeout + 1, "the path");
	need(memcmp(&a.ah_attr.grh.dgid, &s->alt_remote, 16) == 0, "its destination");
}

/* Runs until the first side cannot continue. */
static void
fails(struct side *s)
{
	struct ibv_wc wc;

	do {
		errno = 0;
		post(s, &side[1], IBV_WR_RDMA_WRITE);
		wc = completion(s);
	} while (wc.status == IBV_WC_SUCCESS);
	need(wc.status == IBV_WC_RETRY_EXC_ERR, ibv_wc_status_str(wc.status));
	while (s->mig_errors == 0)
		take_events(s);
	need(s->migrated == 0 && queried(s).qp_state == IBV_QPS_ERR, "the error state");
}

int
main(int argc, char **argv)
{
	const char *mode = argc >= 4 ? argv[3] : "";
	bool unusable = strcmp(mode, "unusable") == 0 && argc == 5;
	bool forced = strcmp(mode, "forced") == 0;

	if (!unusable && !forced && strcmp(mode, "exhaust") != 0)
		die("usage: apm DEVICE DEVICE exhaust|forced|unusable [ADDR]");
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (forced)
		timeout = FAR_TIMEOUT;
	for (int i = 0; i < 2; i++) {
		open_side(&side[i], argv[1 + i]);
		make_qp(&side[i]);
	}
	side[0].alt_remote = side[1].gid[GID_ALT];
	side[1].alt_remote = side[0].gid[GID_ALT];
	if (unusable)
		need(inet_pton(AF_INET, argv[4], side[0].alt_remote.raw + 12) == 1, argv[4]);
	connect_side(&side[0], &side[1]);
	connect_side(&side[1], &side[0]);
	while (rounds < ROUNDS)
		one_round();
	for (int i = 0; i < 2; i++)
		need(queried(&side[i]).path_mig_state == IBV_MIG_ARMED, "ARMED");
	printf("armed\n");
	if (unusable) {
		fails(&side[0]);
	} else {
		if (forced) {
			struct ibv_qp_attr a = {.path_mig_state = IBV_MIG_MIGRATED};

			errno = ibv_modify_qp(side[0].qp, &a, IBV_QP_PATH_MIG_STATE);
			need(errno == 0, "forced migration");
		}
		while (side[0].migrated == 0 || side[1].migrated == 0)
			one_round();
		for (uint32_t until = rounds + ROUNDS; rounds < until;)
			one_round();
		went_over(&side[0]);
		went_over(&side[1]);
	}
	printf("ok, %u rounds\n", rounds);
	return 0;
}
