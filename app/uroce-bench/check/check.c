/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include "check.h"

#define POLL_BATCH 32

struct check {
	struct endpoint *ep;
	const struct options *opt;
	const struct plan *plan;
	struct stream stream[MAX_QPS];
	struct shared_in shared_in; /* with plan->srq */
	struct buffer shared;       /* words for atomics of all the peer's streams */
	struct adders adders;
	uint64_t start_ns, progress_ns; /* when the run began, when a request last completed */
	bool posting;                   /* this side has requests left to post */
	bool told;                      /* the peer has our stream_done */
	bool heard;                     /* we have the peer's stream_done */
	bool peer_gone;
	struct stream_done peer[MAX_QPS];
};

static volatile sig_atomic_t enough; /* set by a signal: post no more requests */

static void
on_enough(int sig)
{
	enough = 1;
}

static uint64_t
source_seed(const struct plan *plan, bool server, uint32_t qp)
{
	return plan->seed * 1000003 + qp * 2 + server;
}

static void
stream_open(struct check *ck, uint32_t i)
{
	struct stream *st = &ck->stream[i];
	const struct plan *plan = ck->plan;
	bool server = !ck->opt->host;
	struct remote_area mine;
	size_t len = area_len(plan);

	*st = (struct stream){
		.qp = ck->ep->qp[i],
		.plan = plan,
		.rng = source_seed(plan, server, i) ^ 0x5eed,
		.max_inline = ck->ep->max_inline,
		.src = buffer_make(ck->ep->pd, i % MEM_KINDS, len, IBV_ACCESS_REMOTE_READ),
		.land = buffer_make(ck->ep->pd, (i + 1) % MEM_KINDS,
				    (size_t)slot_stride(plan) * plan->depth,
				    IBV_ACCESS_LOCAL_WRITE),
		.echo = buffer_make(ck->ep->pd, i % MEM_KINDS,
				    plan->mixed ? (size_t)slot_stride(plan) * plan->depth : 1,
				    IBV_ACCESS_LOCAL_WRITE),
		.adders = &ck->adders,
		.peer_src = malloc(len),
		.image = malloc(len),
		.inflight = calloc(plan->depth, sizeof(struct request)),
		.messages = digest_start(),
	};
	if (!st->peer_src || !st->image || !st->inflight)
		die("no memory");
	random_fill(st->src.addr, len, source_seed(plan, server, i));
	random_fill(st->peer_src, len, source_seed(plan, !server, i));
	memset(st->image, GUARD_FILL, len);
	stream_in_open(st, ck->ep->pd, (i + 2) % MEM_KINDS, plan->srq ? &ck->shared_in : NULL);
	mine = (struct remote_area){
		.src_addr = (uintptr_t)st->src.addr,
		.src_rkey = st->src.mr->rkey,
		.target_addr = (uintptr_t)st->in.target.addr,
		.target_rkey = st->in.target.mr->rkey,
		.own_addr = (uintptr_t)st->in.own.addr,
		.own_rkey = st->in.own.mr->rkey,
		.shared_addr = (uintptr_t)ck->shared.addr,
		.shared_rkey = ck->shared.mr->rkey,
	};
	link_swap(ck->ep->link, &mine, &st->peer, sizeof(mine));
}

static void
stream_close(struct stream *st)
{
	buffer_free(&st->src);
	buffer_free(&st->land);
	buffer_free(&st->echo);
	stream_in_close(st);
	free(st->peer_src);
	free(st->image);
	free(st->inflight);
}

static struct stream *
stream_of(struct check *ck, uint32_t qp_num)
{
	for (uint32_t i = 0; i < ck->plan->qps; i++)
		if (ck->stream[i].qp->qp_num == qp_num)
			return &ck->stream[i];
	die("completion of an unknown QP %#x", qp_num);
}

/* Has the stream posted all its requests? */
static bool
stream_posted_all(const struct check *ck, const struct stream *st)
{
	return !ck->posting || (!ck->plan->duration_ms && st->posted >= ck->plan->ops);
}

/* Posts what fits; returns true if all of this side's work is done. */
static bool
post_all(struct check *ck)
{
	bool done = true;

	if (enough ||
	    (ck->plan->duration_ms && now_ns() - ck->start_ns > ck->plan->duration_ms * 1000000))
		ck->posting = false;
	for (uint32_t i = 0; i < ck->plan->qps; i++) {
		struct stream *st = &ck->stream[i];

		while (!stream_posted_all(ck, st) && st->posted - st->completed < ck->plan->depth)
			stream_post(st);
		if (stream_posted_all(ck, st))
			stream_flush(st);
		done &= stream_posted_all(ck, st) && st->posted == st->completed;
	}
	return done;
}

static void
tell_peer(struct check *ck)
{
	for (uint32_t i = 0; i < ck->plan->qps; i++) {
		struct stream *st = &ck->stream[i];
		struct stream_done mine = {0};
		struct digest *image = digest_start();

		mine.messages =
			st->count[REQ_SEND] + st->count[REQ_SEND_IMM] + st->count[REQ_WRITE_IMM];
		digest_end(st->messages, mine.messages_sha);
		digest_add(image, st->image, area_len(ck->plan));
		digest_end(image, mine.image_sha);
		memcpy(mine.own, st->own, sizeof(mine.own));
		memcpy(mine.adds, st->adds, sizeof(mine.adds));
		link_send(ck->ep->link, &mine, sizeof(mine));
	}
	ck->told = true;
}

/* Takes the peer's report if it has arrived. A dead peer must show as a completion error first. */
static void
hear_peer(struct check *ck)
{
	char byte;

	if (ck->heard || ck->peer_gone || !link_readable(ck->ep->link))
		return;
	if (recv(ck->ep->link, &byte, 1, MSG_PEEK) <= 0) {
		ck->peer_gone = true;
		return;
	}
	link_recv(ck->ep->link, ck->peer, sizeof(ck->peer[0]) * ck->plan->qps);
	ck->heard = true;
}

static bool
all_received(const struct check *ck)
{
	for (uint32_t i = 0; ck->heard && i < ck->plan->qps; i++)
		if (ck->stream[i].in.received < ck->peer[i].messages)
			return false;
	return ck->heard;
}

static void
take_completions(struct check *ck)
{
	struct ibv_wc wc[POLL_BATCH];
	int n = endpoint_poll(ck->ep, wc, POLL_BATCH);

	for (int i = 0; i < n; i++) {
		struct stream *st = stream_of(ck, wc[i].qp_num);

		if (wc[i].wr_id & RECV_TAG)
			stream_in_complete(st, &wc[i]);
		else
			stream_complete(st, &wc[i]);
	}
	if (n)
		ck->progress_ns = now_ns();
	if (now_ns() - ck->progress_ns < ck->opt->stall_s * 1e9)
		return;
	printf("rcdata: no completion for %.0f s%s\n", ck->opt->stall_s,
	       ck->peer_gone ? ", and the peer is gone" : "");
	for (uint32_t i = 0; i < ck->plan->qps; i++)
		printf("rcdata: stream %u: posted %llu completed %llu received %llu\n", i,
		       (unsigned long long)ck->stream[i].posted,
		       (unsigned long long)ck->stream[i].completed,
		       (unsigned long long)ck->stream[i].in.received);
	fflush(stdout);
	exit(EXIT_STALLED);
}

static void
check_open(struct check *ck)
{
	const struct plan *plan = ck->plan;
	int access = IBV_ACCESS_LOCAL_WRITE | (plan->mixed ? IBV_ACCESS_REMOTE_ATOMIC : 0);

	ck->shared = buffer_make(ck->ep->pd, MEM_ANON, SHARED_WORDS * sizeof(uint64_t), access);
	memset(ck->shared.addr, 0, ck->shared.len);
	if (plan->srq)
		shared_in_open(&ck->shared_in, ck->ep->pd, ck->ep->srq, plan);
	for (uint32_t i = 0; i < plan->qps; i++)
		stream_open(ck, i);
}

static void
check_close(struct check *ck)
{
	for (uint32_t i = 0; i < ck->plan->qps; i++)
		stream_close(&ck->stream[i]);
	for (uint32_t i = 0; i < SHARED_WORDS; i++)
		free(ck->adders.brought[i]);
	if (ck->plan->srq)
		buffer_free(&ck->shared_in.slots);
	free(ck->shared_in.posted);
	buffer_free(&ck->shared);
}

/* Checks the state that all streams of a side share: the peer's adds to these words. */
static bool
shared_verify(struct check *ck)
{
	bool good = adders_verify(&ck->adders) && buffer_guards_intact(&ck->shared) &&
		    (!ck->plan->srq || buffer_guards_intact(&ck->shared_in.slots));

	for (uint32_t w = 0; w < SHARED_WORDS; w++) {
		uint64_t adds = 0;

		for (uint32_t i = 0; i < ck->plan->qps; i++)
			adds += ck->peer[i].adds[w];
		good &= word_verify("shared", w, (uint64_t *)ck->shared.addr + w, adds);
	}
	return good;
}

/* After both sides are done nothing more may complete. */
static bool
quiet_at_the_end(struct check *ck)
{
	struct ibv_wc wc;

	link_barrier(ck->ep->link);
	/* Wait for frames still in the network before the queue pairs are destroyed. */
	for (int i = 0; i < (ck->plan->mixed ? 100 : 10); i++) {
		if (ibv_poll_cq(ck->ep->cq, 1, &wc)) {
			printf("rcdata: an extra completion: wr_id %#llx\n",
			       (unsigned long long)wc.wr_id);
			return false;
		}
		nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
	}
	return true;
}

static void
report(const struct check *ck, bool good)
{
	uint64_t count[REQ_KINDS] = {0}, bytes = 0, received = 0;
	double seconds = (now_ns() - ck->start_ns) / 1e9;
	const char *sep = ck->opt->json ? "\", \"" : "";

	for (uint32_t i = 0; i < ck->plan->qps; i++) {
		for (int k = 0; k < REQ_KINDS; k++)
			count[k] += ck->stream[i].count[k];
		bytes += ck->stream[i].bytes;
		received += ck->stream[i].in.received;
	}
	if (ck->opt->json)
		printf("{\"mode\": \"check\", \"ok\": %s, \"qps\": %u, \"bytes\": %llu, "
		       "\"received\": %llu, \"seconds\": %.3f",
		       good ? "true" : "false", ck->plan->qps, (unsigned long long)bytes,
		       (unsigned long long)received, seconds);
	else
		printf("%s: %u QPs, posted %llu bytes, received %llu messages in %.2f s:",
		       good ? "all bytes equal" : "DATA DIFFER", ck->plan->qps,
		       (unsigned long long)bytes, (unsigned long long)received, seconds);
	for (int k = 0; k < REQ_KINDS; k++)
		printf(*sep ? ", \"%s\": %llu" : " %s %llu", request_kind_name[k],
		       (unsigned long long)count[k]);
	printf(*sep ? "}\n" : "\n");
}

bool
check_run(struct endpoint *ep, const struct options *opt, const struct plan *plan)
{
	static struct check ck;
	bool good = true;

	ck = (struct check){.ep = ep, .opt = opt, .plan = plan};
	ck.posting = opt->host || !plan->oneway;
	signal(SIGUSR1, on_enough);
	check_open(&ck);
	link_barrier(ep->link);
	ck.start_ns = ck.progress_ns = now_ns();
	while (!ck.told || !all_received(&ck)) {
		bool done = post_all(&ck);

		if (done && !ck.told && !ck.peer_gone)
			tell_peer(&ck);
		if (done && ck.peer_gone)
			die("the peer is gone, and nothing was left in flight");
		hear_peer(&ck);
		take_completions(&ck);
	}
	good = quiet_at_the_end(&ck);
	for (uint32_t i = 0; i < plan->qps; i++)
		good &= stream_in_verify(&ck.stream[i], &ck.peer[i]);
	good &= shared_verify(&ck);
	report(&ck, good);
	link_barrier(ep->link);
	check_close(&ck);
	return good;
}
