/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A verbs program that executes commands, to observe a port that changes meanwhile. Each command is
 * a line on standard input, and gets a line in reply.
 *
 *   portclient DEVICE
 *
 *   look                       the port's state, GIDs and P_Keys from libibverbs, in JSON
 *   event MS                   the next asynchronous event: its type and element; or "none"
 *   qp N TYPE INDEX RETRIES    a queue pair (rc, uc, ud) in INIT, with P_Key INDEX: its QPN
 *   connect N SGID DGID DQPN   to RTR and RTS; UD: with an address handle
 *   index N INDEX              another P_Key index, by way of SQD
 *   recv N | send N | state N  post a receive, or a send; query the state
 *   poll MS                    the next completion: queue pair, status; or "none"
 *   destroy N
 *
 * A command that fails replies "error" with the errno.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kit/program.h"
#include "kit/verbs.h"

#define MAX_QPS 16
#define BYTES   256

static struct {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_port_attr port;
} dev;

static struct {
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	uint32_t remote;
	uint8_t retries;
} queue[MAX_QPS];

static char memory[2 * BYTES];

static void
say_error(void)
{
	printf("error %d\n", errno);
}

/* Reports calls that return an errno. */
static void
say(int rc)
{
	errno = rc;
	if (rc)
		say_error();
	else
		printf("ok\n");
}

static void
look(void)
{
	struct ibv_gid_entry table[256], entry;
	char text[INET6_ADDRSTRLEN];
	union ibv_gid gid;
	const char *sep = "";
	__be16 pkey;
	ssize_t n;

	if (ibv_query_port(dev.ctx, 1, &dev.port)) {
		say_error();
		return;
	}
	printf("{\"state\": %d, \"bad_pkey\": %u, \"gids\": {", dev.port.state,
	       dev.port.bad_pkey_cntr);
	for (int i = 0; i < dev.port.gid_tbl_len; i++) {
		static const union ibv_gid none;

		if (ibv_query_gid(dev.ctx, 1, i, &gid) || memcmp(&gid, &none, 16) == 0)
			continue;
		/* both calls must return the same */
		if (ibv_query_gid_ex(dev.ctx, 1, (uint32_t)i, &entry, 0) ||
		    memcmp(&entry.gid, &gid, 16) || entry.gid_type != IBV_GID_TYPE_ROCE_V2)
			strcpy(text, "?");
		else
			inet_ntop(AF_INET6, &gid, text, sizeof(text));
		printf("%s\"%d\": \"%s\"", sep, i, text);
		sep = ", ";
	}
	printf("}, \"table\": [");
	n = ibv_query_gid_table(dev.ctx, table, 256, 0);
	for (ssize_t i = 0; i < n; i++)
		printf("%s%u", i ? ", " : "", table[i].gid_index);
	printf("], \"pkeys\": [");
	for (int i = 0; i < dev.port.pkey_tbl_len; i++)
		printf("%s%d", i ? ", " : "",
		       ibv_query_pkey(dev.ctx, 1, i, &pkey) ? -1 : ntohs(pkey));
	printf("]}\n");
}

static void
next_event(int ms)
{
	struct pollfd pfd = {.fd = dev.ctx->async_fd, .events = POLLIN};
	struct ibv_async_event ev;

	if (poll(&pfd, 1, ms) != 1) {
		printf("none\n");
	} else if (ibv_get_async_event(dev.ctx, &ev)) {
		say_error();
	} else {
		printf("event %d %d\n", ev.event_type, ev.element.port_num);
		ibv_ack_async_event(&ev);
	}
}

static enum ibv_qp_type
type_of(const char *text)
{
	return strcmp(text, "rc") == 0   ? IBV_QPT_RC
	       : strcmp(text, "uc") == 0 ? IBV_QPT_UC
					 : IBV_QPT_UD;
}

static void
make_qp(int n, const char *type, int index, int retries)
{
	struct ibv_qp_init_attr init = {
		.send_cq = dev.cq,
		.recv_cq = dev.cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = type_of(type),
		.sq_sig_all = 1,
	};
	struct ibv_qp_attr attr = {
		.pkey_index = (uint16_t)index,
		.port_num = 1,
		.qkey = VERBS_QKEY,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	};
	int rc;

	queue[n].qp = ibv_create_qp(dev.pd, &init);
	if (!queue[n].qp) {
		say_error();
		return;
	}
	queue[n].retries = (uint8_t)retries;
	rc = verbs_modify(queue[n].qp, &attr, IBV_QPS_INIT, 0);
	if (rc) {
		ibv_destroy_qp(queue[n].qp);
		queue[n].qp = NULL;
		say(rc);
		return;
	}
	printf("qpn %u\n", queue[n].qp->qp_num);
}

static void
connect_qp(int n, int sgid, const char *dgid, uint32_t dqpn)
{
	struct ibv_qp_attr attr;
	union ibv_gid gid;
	int rc;

	if (inet_pton(AF_INET6, dgid, &gid) != 1) {
		say(EINVAL);
		return;
	}
	queue[n].remote = dqpn;
	attr = verbs_attr(dqpn, &gid);
	attr.ah_attr.grh.sgid_index = (uint8_t)sgid;
	attr.min_rnr_timer = 12;
	/* Many retries outlast a link that is down for seconds; few retries must fail. */
	attr.timeout = queue[n].retries > 1 ? 18 : 13;
	attr.retry_cnt = queue[n].retries;
	rc = verbs_modify(queue[n].qp, &attr, IBV_QPS_RTR, 0);
	if (rc == 0)
		rc = verbs_modify(queue[n].qp, &attr, IBV_QPS_RTS, 0);
	if (rc == 0 && queue[n].qp->qp_type == IBV_QPT_UD) {
		if (queue[n].ah)
			ibv_destroy_ah(queue[n].ah);
		queue[n].ah = ibv_create_ah(dev.pd, &attr.ah_attr);
		rc = queue[n].ah ? 0 : errno;
	}
	say(rc);
}

static void
set_index(int n, int index)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .pkey_index = (uint16_t)index}, now;
	struct ibv_qp_init_attr init;
	int rc = ibv_modify_qp(queue[n].qp, &attr, IBV_QP_STATE);

	do {
		if (rc == 0)
			rc = ibv_query_qp(queue[n].qp, &now, IBV_QP_STATE, &init);
	} while (rc == 0 && now.sq_draining);
	if (rc == 0)
		rc = ibv_modify_qp(queue[n].qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX);
	attr.qp_state = IBV_QPS_RTS;
	if (rc == 0)
		rc = ibv_modify_qp(queue[n].qp, &attr, IBV_QP_STATE);
	say(rc);
}

static void
post_recv(int n)
{
	struct ibv_sge sge = {(uintptr_t)memory, BYTES, dev.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = (uint64_t)n, .sg_list = &sge, .num_sge = 1}, *bad;

	say(ibv_post_recv(queue[n].qp, &wr, &bad));
}

static void
post_send(int n)
{
	struct ibv_sge sge = {(uintptr_t)memory + BYTES, 64, dev.mr->lkey};
	struct ibv_send_wr *bad,
		wr = {.wr_id = (uint64_t)n, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	if (queue[n].ah) {
		wr.wr.ud.ah = queue[n].ah;
		wr.wr.ud.remote_qpn = queue[n].remote;
		wr.wr.ud.remote_qkey = VERBS_QKEY;
	}
	say(ibv_post_send(queue[n].qp, &wr, &bad));
}

static void
poll_cq(int ms)
{
	uint64_t end = now_ns() + (uint64_t)ms * 1000000;
	struct ibv_wc wc;
	int n;

	do
		n = ibv_poll_cq(dev.cq, 1, &wc);
	while (n == 0 && now_ns() < end);
	if (n == 1)
		printf("wc %d %d %s\n", (int)wc.wr_id, wc.status,
		       wc.status == 0 && (wc.opcode & IBV_WC_RECV) ? "recv" : "send");
	else
		printf("none\n");
}

static void
say_state(int n)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	if (ibv_query_qp(queue[n].qp, &attr, IBV_QP_STATE, &init))
		say_error();
	else
		printf("state %d\n", attr.qp_state);
}

static void
destroy(int n)
{
	int rc = ibv_destroy_qp(queue[n].qp);

	if (rc == 0 && queue[n].ah)
		rc = ibv_destroy_ah(queue[n].ah);
	memset(&queue[n], 0, sizeof(queue[n]));
	say(rc);
}

static void
obey(const char *line)
{
	char word[4][64] = {"", "", "", ""};
	int number[4] = {0}, n;

	if (sscanf(line, "%63s %63s %63s %63s %d", word[0], word[1], word[2], word[3], &number[0]) <
	    1)
		return;
	for (int i = 1; i < 4; i++)
		number[i] = atoi(word[i]);
	n = number[1] & (MAX_QPS - 1);
	if (strcmp(word[0], "look") == 0)
		look();
	else if (strcmp(word[0], "event") == 0)
		next_event(number[1]);
	else if (strcmp(word[0], "poll") == 0)
		poll_cq(number[1]);
	else if (strcmp(word[0], "qp") == 0)
		make_qp(n, word[2], number[3], number[0]);
	else if (!queue[n].qp)
		say(ENOENT);
	else if (strcmp(word[0], "connect") == 0)
		connect_qp(n, number[2], word[3], (uint32_t)number[0]);
	else if (strcmp(word[0], "index") == 0)
		set_index(n, number[2]);
	else if (strcmp(word[0], "recv") == 0)
		post_recv(n);
	else if (strcmp(word[0], "send") == 0)
		post_send(n);
	else if (strcmp(word[0], "state") == 0)
		say_state(n);
	else if (strcmp(word[0], "destroy") == 0)
		destroy(n);
	else
		say(ENOSYS);
}

int
main(int argc, char **argv)
{
	char line[512];

	dev.ctx = argc == 2 ? verbs_open(argv[1]) : NULL;
	dev.pd = dev.ctx ? ibv_alloc_pd(dev.ctx) : NULL;
	dev.cq = dev.pd ? ibv_create_cq(dev.ctx, 64, NULL, NULL, 0) : NULL;
	dev.mr = dev.cq ? ibv_reg_mr(dev.pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!dev.mr) {
		say_error();
		return EXIT_FAILURE;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	return EXIT_SUCCESS;
}
