/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks combinations of options and makes the plan of a client. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "client.h"

#define INLINE_BYTES 64 /* largest inline message when one is sent at a time */

__attribute__((noreturn)) static void
refuse(const char *why)
{
	cli_wrong(&bench_program, "client: %s", why);
}

void
client_check(const struct bench_options *o)
{
	if (o->size == 0)
		refuse("--size 0: must be 1 .. 8388608, because there is no data to verify");
	if (o->batch > o->depth)
		refuse("--batch: must be 1 .. --depth, otherwise no batch is ever complete");
	if (o->dev != NULL && strlen(o->dev) >= CLIENT_NAME_MAX)
		refuse("--dev: must be shorter than 64 characters");
	if (o->peer_dev != NULL && strlen(o->peer_dev) >= CLIENT_NAME_MAX)
		refuse("--peer-dev: must be shorter than 64 characters");
	if (o->peer_socket != NULL && o->socket == NULL)
		refuse("--peer-socket: needs --socket for the daemon of this end");
	if (o->socket != NULL && (o->measure == BENCH_IDLE || o->measure == BENCH_MEMORY))
		refuse("--measure idle and memory: only without --socket, because they need a new "
		       "daemon");
	if (client_apart(o) && (o->measure == BENCH_WAKE || o->measure == BENCH_IDLE ||
				o->measure == BENCH_MEMORY || o->measure == BENCH_HOPS))
		refuse("--apart, --peer-socket, --peer-dev: only with --measure rate or latency");
	if (o->loss > 0 && (o->measure != BENCH_RATE || o->peer_socket != NULL))
		refuse("--loss: only with --measure rate, and both ends on one daemon");
	if (o->sweep)
		refuse("--sweep: only with mode engine");
}

bool
client_apart(const struct bench_options *o)
{
	return o->apart || o->peer_socket != NULL || o->peer_dev != NULL;
}

/* Does the measurement send one message at a time? */
static bool
single(const struct bench_options *o)
{
	return o->measure != BENCH_RATE && o->measure != BENCH_MEMORY;
}

void
client_plan_make(struct client_plan *p, const struct bench_options *o, enum client_role role)
{
	unsigned procs = o->clients * (client_apart(o) ? 2 : 1);
	const char *dev = role == CLIENT_PASSIVE && o->peer_dev != NULL ? o->peer_dev : o->dev;

	*p = (struct client_plan){
		.role = role,
		.op = o->measure == BENCH_HOPS ? BENCH_WRITE : o->op,
		.hops = o->measure == BENCH_HOPS,
		.worker_cpu = o->socket != NULL ? -1 : (int32_t)client_cpu(client_cpus() - 1),
		.size = o->size,
		.mtu = o->mtu,
		.qps = o->qps,
		.depth = o->depth,
		.batch = o->batch,
		.queue = o->depth,
		.inline_bytes = single(o) && o->size <= INLINE_BYTES ? o->size : 0,
		.yield = procs + (o->socket == NULL) > client_cpus(),
	};
	if (single(o)) {
		p->batch = 1;
		p->queue = 16;
	} else if (p->batch == 0) {
		p->batch = o->depth / 4 > 16 ? 16 : o->depth / 4 < 1 ? 1 : o->depth / 4;
	}
	if (dev != NULL)
		snprintf(p->dev, sizeof(p->dev), "%s", dev);
}
