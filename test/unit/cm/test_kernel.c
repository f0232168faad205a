/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Captured exchanges of the kernel's CM: in place of either side, this CM sends the same bytes,
 * except for communication ids and transaction ids, which each side chooses.
 */
#include <stdio.h>
#include <pcap/pcap.h>
#include "harness.h"
#include "wire/opcode.h"
#include "wire/parse.h"

#define MADS 32

static struct wire_cm talk[MADS];
static uint32_t ntalk;
static struct node *const a = &nodes[0], *const p = &nodes[1];

static void
load(const char *name)
{
	char path[512], err[PCAP_ERRBUF_SIZE];
	struct pcap_pkthdr *hdr;
	const u_char *frame;
	struct wire_pkt pkt;
	pcap_t *pcap;

	snprintf(path, sizeof(path), "%s/%s", PCAP_DIR, name);
	pcap = pcap_open_offline(path, err);
	assert_non_null(pcap);
	ntalk = 0;
	while (pcap_next_ex(pcap, &hdr, &frame) == 1) {
		if (wire_parse(frame, hdr->caplen, &pkt) != WIRE_OK || pkt.qpn != WIRE_GSI_QPN)
			continue;
		assert_true(ntalk < MADS);
		assert_int_equal(wire_cm_parse(pkt.payload, pkt.payload_len, &talk[ntalk++]),
				 WIRE_CM_OK);
	}
	pcap_close(pcap);
}

/* The nth message of this attribute. */
static const struct wire_cm *
said(uint32_t attr, uint32_t nth)
{
	for (uint32_t i = 0; i < ntalk; i++)
		if (talk[i].attr == attr && nth-- == 0)
			return &talk[i];
	fail_msg("no %s", wire_cm_attr_name[WIRE_CM_INDEX(attr)]);
	return NULL;
}

/* Checks that n's last MAD is the kernel's message with these ids of ours in it. */
static void
check_same(const struct node *n, const struct wire_cm *kernel, uint64_t tid, uint32_t local,
	   uint32_t remote)
{
	struct wire_cm want = *kernel;
	uint8_t mad[WIRE_MAD_LEN];

	want.tid = tid;
	/* ids are at the same place in all of them; a REQ has only one */
	want.rtu.local_comm_id = local;
	if (want.attr != WIRE_CM_REQ)
		want.rtu.remote_comm_id = remote;
	wire_cm_build(&want, mad);
	assert_memory_equal(node_last(n, kernel->attr)->mad, mad, WIRE_MAD_LEN);
}

/* Delivers a message of the kernel to our id. */
static void
hear(struct node *n, const struct wire_cm *kernel, uint64_t tid, uint32_t ours)
{
	struct wire_cm m = *kernel;

	m.tid = tid;
	if (m.attr != WIRE_CM_REQ)
		m.rtu.remote_comm_id = ours;
	node_rx_msg(n, n == a ? p : a, &m);
}

/* Accepts with the parameters of the kernel's REP. */
static void
accept_as(uint32_t id, const struct wire_cm_rep *r)
{
	struct cm_accept c = {
		.ca_guid = r->ca_guid,
		.p.qpn = r->qpn,
		.p.psn = r->psn,
		.p.qkey = r->qkey,
		.p.responder_resources = r->responder_resources,
		.p.initiator_depth = r->initiator_depth,
		.target_ack_delay = r->target_ack_delay,
		.failover = r->failover,
		.p.flow_control = r->flow_control,
		.p.rnr_retry = r->rnr_retry,
		.p.srq = r->srq,
		.p.private_data = r->private_data,
		.p.private_len = sizeof(r->private_data),
	};

	assert_int_equal(cm_accept(p->cm, id, &c, p->now), 0);
}

static uint32_t
connect_as(const struct wire_cm_req *r)
{
	struct cm_connect c = {
		.addr.pkey = r->pkey,
		.service_id = r->service_id,
		.ca_guid = r->ca_guid,
		.p.qpn = r->qpn,
		.p.psn = r->psn,
		.p.qkey = r->qkey,
		.transport = r->transport,
		.mtu = r->mtu,
		.p.responder_resources = r->responder_resources,
		.p.initiator_depth = r->initiator_depth,
		.p.retry_count = r->retry_count,
		.p.rnr_retry = r->rnr_retry,
		.p.flow_control = r->flow_control,
		.p.srq = r->srq,
		.response_timeout = r->local_response_timeout,
		.max_retries = r->max_retries,
		.primary = r->primary,
		.alternate = r->alternate,
		.p.private_data = r->private_data,
		.p.private_len = sizeof(r->private_data),
	};
	uint32_t id;

	memcpy(c.addr.local, a->gid, 16);
	memcpy(c.addr.remote, p->gid, 16);
	assert_int_equal(cm_create(a->cm, NULL, &id), 0);
	assert_int_equal(cm_connect(a->cm, id, &c, a->now), 0);
	return id;
}

static void
listen_as(const struct wire_cm_req *r)
{
	struct cm_listen l = {.service_id = r->service_id, .dev = CM_DEV_ANY, .backlog = 8};
	uint32_t id;

	assert_int_equal(cm_create(p->cm, NULL, &id), 0);
	assert_int_equal(cm_listen(p->cm, id, &l), 0);
}

REQUIREMENT("CM-17")
UNIT_TEST(as_the_passive_side_of_a_kernel)
{
	const struct wire_cm *req, *dreq;
	const struct told *t;
	struct wire_cm_ip ip;
	uint32_t id, peer;

	load("cm_rping.pcap");
	node_make(0, NULL);
	node_make(1, NULL);
	req = said(WIRE_CM_REQ, 0);
	peer = req->req.local_comm_id;
	listen_as(&req->req);
	hear(p, req, req->tid, 0);
	t = node_event(p, CM_EV_CONNECT_REQUEST);
	id = t->ev.id;
	assert_true(wire_cm_ip_parse(t->ev.private_data, t->ev.private_len, &ip));
	assert_int_equal(ip.ip, 4);
	accept_as(id, &said(WIRE_CM_REP, 0)->rep);
	check_same(p, said(WIRE_CM_REP, 0), req->tid, id, peer);
	hear(p, said(WIRE_CM_RTU, 0), req->tid, id);
	node_event(p, CM_EV_ESTABLISHED);
	dreq = said(WIRE_CM_DREQ, 0);
	assert_int_equal(dreq->dreq.remote_qpn, said(WIRE_CM_REP, 0)->rep.qpn);
	hear(p, dreq, dreq->tid, id);
	node_event(p, CM_EV_DISCONNECTED);
	check_same(p, said(WIRE_CM_DREP, 0), dreq->tid, id, peer);
}

REQUIREMENT("CM-17")
UNIT_TEST(as_the_active_side_of_a_kernel)
{
	const struct wire_cm *req, *rep;
	uint32_t id;
	uint64_t tid;

	load("cm_rping.pcap");
	node_make(0, NULL);
	node_make(1, NULL);
	req = said(WIRE_CM_REQ, 0);
	rep = said(WIRE_CM_REP, 0);
	id = connect_as(&req->req);
	tid = a->sent[0].msg.tid;
	check_same(a, req, tid, id, 0);
	hear(a, rep, tid, id);
	node_event(a, CM_EV_CONNECT_RESPONSE);
	assert_int_equal(cm_ready(a->cm, id, NULL, 0, a->now), 0);
	check_same(a, said(WIRE_CM_RTU, 0), tid, id, rep->rep.local_comm_id);
	assert_int_equal(cm_disconnect(a->cm, id, NULL, 0, a->now), 0);
	check_same(a, said(WIRE_CM_DREQ, 0), a->sent[a->nsent - 1].msg.tid, id,
		   rep->rep.local_comm_id);
	hear(a, said(WIRE_CM_DREP, 0), a->sent[a->nsent - 1].msg.tid, id);
	node_event(a, CM_EV_DISCONNECTED);
}

/* The kernel responds to a duplicate REP with an MRA, which sets a time, and then an RTU. */
REQUIREMENT("CM-17")
UNIT_TEST(a_kernels_mra_prolongs_the_wait)
{
	const struct wire_cm *req, *mra;
	uint32_t id;

	load("cm_ucmatose_dup.pcap");
	node_make(0, NULL);
	node_make(1, NULL);
	req = said(WIRE_CM_REQ, 0);
	mra = said(WIRE_CM_MRA, 0);
	listen_as(&req->req);
	hear(p, req, req->tid, 0);
	id = node_event(p, CM_EV_CONNECT_REQUEST)->ev.id;
	accept_as(id, &said(WIRE_CM_REP, 0)->rep);
	hear(p, mra, req->tid, id);
	assert_int_equal(state_of(p, id), CM_MRA_REP_RCVD);
	pass(wire_cm_time_ns(mra->mra.service_timeout) - 1);
	assert_int_equal(node_count(p, WIRE_CM_REP), 1);
	hear(p, said(WIRE_CM_RTU, 0), req->tid, id);
	node_event(p, CM_EV_ESTABLISHED);
}

REQUIREMENT("CM-17")
UNIT_TEST(a_kernels_rej_is_reported)
{
	uint32_t id;

	load("cm_reject_no_listener.pcap");
	node_make(0, NULL);
	node_make(1, NULL);
	id = connect_as(&said(WIRE_CM_REQ, 0)->req);
	hear(a, said(WIRE_CM_REJ, 0), a->sent[0].msg.tid, id);
	assert_int_equal(node_event(a, CM_EV_REJECTED)->ev.reason, WIRE_CM_REJ_INVALID_SERVICE_ID);
	/* and without a listener we send the same */
	hear(p, said(WIRE_CM_REQ, 0), said(WIRE_CM_REQ, 0)->tid, 0);
	check_same(p, said(WIRE_CM_REJ, 0), said(WIRE_CM_REQ, 0)->tid,
		   said(WIRE_CM_REJ, 0)->rej.local_comm_id,
		   said(WIRE_CM_REQ, 0)->req.local_comm_id);
}

REQUIREMENT("CM-17")
UNIT_TEST(a_kernels_query_gets_the_same_answer)
{
	const struct wire_cm *req, *rep;
	struct cm_listen l = {.dev = CM_DEV_ANY, .backlog = 1, .sidr = true};
	struct cm_sidr_answer s;
	uint8_t mad[WIRE_MAD_LEN];
	uint32_t id;

	load("cm_udaddy.pcap");
	node_make(0, NULL);
	node_make(1, NULL);
	req = said(WIRE_CM_SIDR_REQ, 0);
	rep = said(WIRE_CM_SIDR_REP, 0);
	l.service_id = req->sidr_req.service_id;
	assert_int_equal(cm_create(p->cm, NULL, &id), 0);
	assert_int_equal(cm_listen(p->cm, id, &l), 0);
	node_rx_msg(p, a, req);
	s = (struct cm_sidr_answer){.p.qpn = rep->sidr_rep.qpn,
				    .p.qkey = rep->sidr_rep.qkey,
				    .p.private_data = rep->sidr_rep.private_data,
				    .p.private_len = WIRE_CM_SIDR_REP_PRIVATE};
	assert_int_equal(cm_sidr_answer(p->cm, node_event(p, CM_EV_SIDR_REQUEST)->ev.id, &s,
					p->now),
			 0);
	wire_cm_build(rep, mad);
	assert_memory_equal(node_last(p, WIRE_CM_SIDR_REP)->mad, mad, WIRE_MAD_LEN);
}
