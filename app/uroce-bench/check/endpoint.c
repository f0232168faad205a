/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <openssl/evp.h>
#include "rcdata.h"

uint64_t
random_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

uint64_t
random_range(uint64_t *state, uint64_t lo, uint64_t hi)
{
	return lo + random_next(state) % (hi - lo + 1);
}

void
random_fill(void *buf, size_t len, uint64_t seed)
{
	uint8_t *p = buf;
	uint64_t word;

	for (; len >= sizeof(word); len -= sizeof(word), p += sizeof(word)) {
		word = random_next(&seed);
		memcpy(p, &word, sizeof(word));
	}
	word = random_next(&seed);
	memcpy(p, &word, len);
}

static size_t
buffer_total(size_t len)
{
	return len + 2 * GUARD_BYTES;
}

struct buffer
buffer_make(struct ibv_pd *pd, enum mem_kind kind, size_t len, int access)
{
	struct buffer buf = {.len = len, .kind = kind};
	int flags = kind == MEM_SHARED ? MAP_SHARED : MAP_PRIVATE;
	size_t total = buffer_total(len);

	if (kind == MEM_HEAP) {
		buf.base = malloc(total);
	} else {
		buf.base = mmap(NULL, total, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
		if (buf.base == MAP_FAILED)
			buf.base = NULL;
	}
	if (!buf.base)
		die("no memory for %zu bytes", total);
	memset(buf.base, GUARD_FILL, total);
	buf.addr = buf.base + GUARD_BYTES;
	buf.mr = ibv_reg_mr(pd, buf.addr, len, access);
	if (!buf.mr)
		die("ibv_reg_mr of %zu bytes, kind %d: %s", len, kind, strerror(errno));
	return buf;
}

void
buffer_free(struct buffer *buf)
{
	int rc = ibv_dereg_mr(buf->mr);

	if (rc)
		die("ibv_dereg_mr: %s", strerror(rc));
	if (buf->kind == MEM_HEAP)
		free(buf->base);
	else
		munmap(buf->base, buffer_total(buf->len));
	*buf = (struct buffer){0};
}

bool
all_guard(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != GUARD_FILL)
			return false;
	return true;
}

bool
buffer_guards_intact(const struct buffer *buf)
{
	return all_guard(buf->base, GUARD_BYTES) && all_guard(buf->addr + buf->len, GUARD_BYTES);
}

struct digest *
digest_start(void)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();

	if (!md || !EVP_DigestInit_ex(md, EVP_sha256(), NULL))
		die("no SHA-256");
	return (struct digest *)md;
}

void
digest_add(struct digest *dig, const void *buf, size_t len)
{
	if (!EVP_DigestUpdate((EVP_MD_CTX *)dig, buf, len))
		die("SHA-256 failed");
}

void
digest_end(struct digest *dig, uint8_t *sha)
{
	if (!EVP_DigestFinal_ex((EVP_MD_CTX *)dig, sha, NULL))
		die("SHA-256 failed");
	EVP_MD_CTX_free((EVP_MD_CTX *)dig);
}

#define MAX_SGE       4
#define WANT_INLINE   64
#define READS_AT_ONCE 8
#define EVENT_WAIT_MS 200

/* What a peer needs in order to connect to a queue pair. */
struct qp_address {
	uint8_t gid[16];
	uint32_t qpn;
	uint32_t psn;
	uint32_t mtu;
	uint32_t reads; /* READ requests it accepts at once */
};

static struct ibv_srq *
srq_make(struct ibv_pd *pd, const struct plan *plan)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = plan->depth * plan->qps, .max_sge = 2}};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);

	if (!srq)
		die("ibv_create_srq: %s", strerror(errno));
	return srq;
}

static void
queues_make(struct endpoint *ep, const struct options *opt, const struct plan *plan)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = plan->depth,
			.max_recv_wr = plan->depth,
			.max_send_sge = MAX_SGE,
			.max_recv_sge = 2,
			.max_inline_data = WANT_INLINE},
	};

	ep->pd = ibv_alloc_pd(ep->ctx);
	if (!ep->pd)
		die("ibv_alloc_pd: %s", strerror(errno));
	if (opt->events && !(ep->channel = ibv_create_comp_channel(ep->ctx)))
		die("ibv_create_comp_channel: %s", strerror(errno));
	ep->cq = ibv_create_cq(ep->ctx, 2 * plan->depth * plan->qps, ep, ep->channel, 0);
	if (!ep->cq)
		die("ibv_create_cq: %s", strerror(errno));
	if (ep->channel && ibv_req_notify_cq(ep->cq, 0))
		die("ibv_req_notify_cq: %s", strerror(errno));
	init.send_cq = init.recv_cq = ep->cq;
	if (plan->srq)
		init.srq = ep->srq = srq_make(ep->pd, plan);
	for (ep->nqps = 0; ep->nqps < plan->qps; ep->nqps++) {
		struct ibv_qp_init_attr granted = init;

		ep->qp[ep->nqps] = ibv_create_qp(ep->pd, &granted);
		if (!ep->qp[ep->nqps])
			die("ibv_create_qp: %s", strerror(errno));
		ep->max_inline = granted.cap.max_inline_data;
	}
}

static void
qp_connect(struct ibv_qp *qp, const struct options *opt, const struct qp_address *mine,
	   const struct qp_address *peer, int access)
{
	union ibv_gid gid;
	struct ibv_qp_attr attr;
	int rc;

	memcpy(gid.raw, peer->gid, sizeof(gid.raw));
	attr = verbs_attr(peer->qpn, &gid);
	attr.port_num = attr.ah_attr.port_num = opt->ib_port;
	attr.ah_attr.grh.sgid_index = opt->gid_index;
	attr.qp_access_flags = access;
	attr.path_mtu = mine->mtu < peer->mtu ? mine->mtu : peer->mtu;
	attr.rq_psn = peer->psn;
	attr.sq_psn = mine->psn;
	attr.max_dest_rd_atomic = mine->reads;
	attr.max_rd_atomic = mine->reads < peer->reads ? mine->reads : peer->reads;
	attr.min_rnr_timer = 1; /* 10 us: the receiver reposts at once */
	attr.timeout = opt->timeout;
	attr.retry_cnt = opt->retry;
	rc = verbs_raise(qp, &attr, IBV_QPS_RTS);
	if (rc)
		die("connect: %s", strerror(rc));
}

static void
queues_connect(struct endpoint *ep, const struct options *opt, const struct plan *plan)
{
	struct qp_address mine = {0}, peer;
	struct ibv_device_attr dev;
	struct ibv_port_attr port;
	union ibv_gid gid;
	uint64_t psn_state = now_ns();
	int access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
		     (plan->mixed ? IBV_ACCESS_REMOTE_ATOMIC : 0);

	if (ibv_query_device(ep->ctx, &dev) || ibv_query_port(ep->ctx, opt->ib_port, &port) ||
	    ibv_query_gid(ep->ctx, opt->ib_port, opt->gid_index, &gid))
		die("query of the device, port %u or GID %u failed", opt->ib_port, opt->gid_index);
	memcpy(mine.gid, gid.raw, sizeof(mine.gid));
	mine.mtu = plan->mtu ? plan->mtu : port.active_mtu;
	mine.reads = dev.max_qp_rd_atom < READS_AT_ONCE ? dev.max_qp_rd_atom : READS_AT_ONCE;
	for (uint32_t i = 0; i < ep->nqps; i++) {
		mine.qpn = ep->qp[i]->qp_num;
		mine.psn = random_next(&psn_state) & 0xffffff;
		link_swap(ep->link, &mine, &peer, sizeof(mine));
		qp_connect(ep->qp[i], opt, &mine, &peer, access);
	}
}

void
endpoint_open(struct endpoint *ep, const struct options *opt, const struct plan *plan)
{
	ep->ctx = verbs_open(opt->dev);
	if (!ep->ctx)
		die("verbs device %s: %s", opt->dev ? opt->dev : "of any name", strerror(errno));
	queues_make(ep, opt, plan);
	queues_connect(ep, opt, plan);
}

void
endpoint_close(struct endpoint *ep)
{
	int rc = 0;

	for (uint32_t i = 0; i < ep->nqps; i++)
		rc |= ibv_destroy_qp(ep->qp[i]);
	if (ep->srq)
		rc |= ibv_destroy_srq(ep->srq);
	rc |= ibv_destroy_cq(ep->cq);
	if (ep->channel)
		rc |= ibv_destroy_comp_channel(ep->channel);
	rc |= ibv_dealloc_pd(ep->pd);
	rc |= ibv_close_device(ep->ctx);
	if (rc)
		die("an object could not be destroyed: %d", rc);
}

void
endpoint_wc_failed(const struct ibv_wc *wc)
{
	printf("rcdata: completion error: qpn 0x%06x wr_id %#llx status %d (%s) vendor_err %#x\n",
	       wc->qp_num, (unsigned long long)wc->wr_id, wc->status, ibv_wc_status_str(wc->status),
	       wc->vendor_err);
	fflush(stdout);
	exit(EXIT_WC_ERROR);
}

/* Sleeps until the channel has an event, takes it and arms the CQ again. */
static void
channel_wait(struct endpoint *ep)
{
	struct pollfd pfd = {.fd = ep->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *cookie;

	if (poll(&pfd, 1, EVENT_WAIT_MS) != 1)
		return;
	if (ibv_get_cq_event(ep->channel, &cq, &cookie) || cq != ep->cq || cookie != ep)
		die("ibv_get_cq_event: a wrong event");
	ibv_ack_cq_events(cq, 1);
	if (ibv_req_notify_cq(ep->cq, 0))
		die("ibv_req_notify_cq: %s", strerror(errno));
}

int
endpoint_poll(struct endpoint *ep, struct ibv_wc *wc, int max)
{
	int n = ibv_poll_cq(ep->cq, max, wc);

	if (n == 0) {
		if (ep->channel)
			channel_wait(ep);
		else
			sched_yield();
		n = ibv_poll_cq(ep->cq, max, wc);
	}
	if (n < 0)
		die("ibv_poll_cq failed");
	for (int i = 0; i < n; i++)
		if (wc[i].status != IBV_WC_SUCCESS)
			endpoint_wc_failed(&wc[i]);
	return n;
}
