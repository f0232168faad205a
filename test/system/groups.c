/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A verbs program: datagrams to a multicast group across a link.
 *
 *   groups recv DEVICE GROUP      joins, prints "joined", and succeeds once SEEN datagrams have
 *                                 arrived, each exactly once
 *   groups send DEVICE GROUP GID  sends a numbered one each 50 ms with this GID index, until it is
 *                                 killed
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "kit/verbside.h"

#define GRH_BYTES 40
#define TEXT      "to the group, number 000000"
#define DIGITS    6
#define SENT      1000000
#define SEEN      3 /* the copies of one datagram arrive before the datagram after the next one */

static struct side side;
static struct ibv_sge sge;

static void
die(const char *what)
{
	perror(what);
	exit(1);
}

static struct ibv_qp *
datagram_qp(void)
{
	static const union ibv_gid none;
	struct ibv_qp_attr attr = verbs_attr(0, &none);
	struct ibv_qp *qp = side_qp(side.pd, IBV_QPT_UD, side.cq);

	if (qp == NULL || verbs_raise(qp, &attr, IBV_QPS_RTS) != 0)
		die("queue pair");
	return qp;
}

static int
receive(struct ibv_qp *qp, const union ibv_gid *group)
{
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	const char *text = (const char *)side.buf + GRH_BYTES;
	struct ibv_wc wc;
	int last = -1;

	sge.length = 256;
	if (ibv_post_recv(qp, &wr, &bad) != 0)
		die("receive");
	errno = ibv_attach_mcast(qp, group, 0);
	if (errno != 0)
		die("attach");
	puts("joined");
	fflush(stdout);
	for (int n = 0; n < SEEN; n++) {
		int number;

		if (!verbs_wait(side.cq, &wc) || wc.status != IBV_WC_SUCCESS ||
		    !(wc.wc_flags & IBV_WC_GRH) ||
		    memcmp(text, TEXT, sizeof(TEXT) - 1 - DIGITS) != 0)
			die("nothing came");
		number = atoi(text + sizeof(TEXT) - 1 - DIGITS);
		if (number <= last)
			die("the datagram arrived twice");
		last = number;
		if (ibv_post_recv(qp, &wr, &bad) != 0)
			die("receive");
	}
	return ibv_detach_mcast(qp, group, 0);
}

static int
transmit(struct ibv_qp *qp, const union ibv_gid *group, int index)
{
	struct ibv_ah_attr attr = {.is_global = 1,
				   .port_num = 1,
				   .grh = {.dgid = *group,
					   .sgid_index = (uint8_t)index,
					   .hop_limit = 3}};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_wc wc;

	sge.length = sizeof(TEXT);
	wr.wr.ud.ah = ibv_create_ah(side.pd, &attr);
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = VERBS_QKEY;
	if (wr.wr.ud.ah == NULL)
		die("address handle");
	for (int i = 0; i < SENT; i++) {
		snprintf((char *)side.buf, sizeof(TEXT), "%.*s%0*d", (int)sizeof(TEXT) - 1 - DIGITS,
			 TEXT, DIGITS, i);
		if (ibv_post_send(qp, &wr, &bad) != 0 || !verbs_wait(side.cq, &wc) ||
		    wc.status != IBV_WC_SUCCESS)
			die("send");
		usleep(50000);
	}
	return 0;
}

int
main(int argc, char **argv)
{
	union ibv_gid group;
	struct ibv_qp *qp;

	if (argc < 4 || inet_pton(AF_INET6, argv[3], &group) != 1)
		return 2;
	side_open(&side, argv[2]);
	sge.addr = (uintptr_t)side.buf;
	sge.lkey = side.mr->lkey;
	qp = datagram_qp();
	return argc > 4 ? transmit(qp, &group, atoi(argv[4])) : receive(qp, &group);
}
