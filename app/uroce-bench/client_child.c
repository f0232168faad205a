/* SPDX-License-Identifier: BSD-3-Clause */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include "client_int.h"

/* This process ends when the mode closes the socket. */
static void
hear(struct client *c, void *msg, size_t len)
{
	if (client_recv(c->sock, msg, len) < 0)
		exit(1);
}

static void
say(struct client *c, const void *msg, size_t len)
{
	if (client_send(c->sock, msg, len) < 0)
		exit(1);
}

/* CLIENT_CONNECT: receive the addresses of the peer's QPs, unless this process has both sides. */
static void
connect_ends(struct client *c)
{
	uint32_t qps = c->plan.qps;
	struct client_address *a = calloc(qps, sizeof(*a));

	if (a == NULL)
		client_die("out of memory");
	for (unsigned side = 0; side < 2; side++) {
		if (!c->has[side])
			continue;
		if (c->has[!side])
			client_addresses(c, !side, a);
		else
			for (uint32_t q = 0; q < qps; q++)
				hear(c, &a[q], sizeof(a[q]));
		client_connect(c, side, a);
	}
	free(a);
}

/* A client with one side sends the addresses of its QPs before it connects. */
static void
say_addresses(struct client *c)
{
	unsigned side = c->has[1];
	struct client_address *a;

	if (c->has[0] && c->has[1])
		return;
	a = calloc(c->plan.qps, sizeof(*a));
	if (a == NULL)
		client_die("out of memory");
	client_addresses(c, side, a);
	for (uint32_t q = 0; q < c->plan.qps; q++)
		say(c, &a[q], sizeof(a[q]));
	free(a);
}

static void
carry_out(struct client *c, const struct client_command *cmd)
{
	static struct client_hist h;
	struct client_pieces pieces;
	struct client_answer a = {0};

	switch ((enum client_order)cmd->order) {
	case CLIENT_CONNECT:
		client_open_qps(c);
		say_addresses(c);
		connect_ends(c);
		break;
	case CLIENT_PATTERN:
		client_pattern(c, cmd->seed);
		break;
	case CLIENT_RATE:
		client_rate(c, cmd, &a);
		break;
	case CLIENT_PING:
		h = (struct client_hist){0};
		client_ping(c, cmd, &a, &h);
		break;
	case CLIENT_HOPS:
		client_hops(c, cmd->count, &pieces);
		break;
	case CLIENT_SERVE:
		client_serve(c, cmd->count != 0);
		return;
	case CLIENT_STOP:
		break;
	case CLIENT_VERIFY:
		a.equal = client_verify(c, cmd->seed, cmd->count);
		break;
	}
	say(c, &a, sizeof(a));
	if (cmd->order == CLIENT_PING)
		say(c, &h, sizeof(h));
	if (cmd->order == CLIENT_HOPS)
		say(c, &pieces, sizeof(pieces));
}

int
client_main(int argc, char **argv)
{
	struct client_command cmd;
	struct client c = {.sock = argc == 3 ? atoi(argv[2]) : -1};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	hear(&c, &c.plan, sizeof(c.plan));
	client_open(&c);
	for (;;) {
		hear(&c, &cmd, sizeof(cmd));
		carry_out(&c, &cmd);
	}
}
