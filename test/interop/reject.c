/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of librdmacm that rejects, and its client, which prints what arrives:
 *
 *   reject -s ADDRESS PORT    listens, rejects one request with its own private data, reversed
 *   reject -c ADDRESS PORT    connects; expects a REJ with the reversed data
 *
 * The exit status is 0 if all of it came as expected.
 */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/rdma_cma.h>

#define TIMEOUT_MS 5000
#define CONSUMER   28  /* reason: the program has rejected */
#define ASKED      56  /* bytes of private data that a REQ carries beside rdma_cm's header */
#define ANSWERED   148 /* in a REJ */

static struct rdma_event_channel *channel;

static void
check(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static struct rdma_cm_event *
next_event(enum rdma_cm_event_type want)
{
	struct rdma_cm_event *ev;

	check(rdma_get_cm_event(channel, &ev) == 0, "rdma_get_cm_event");
	if (ev->event != want) {
		fprintf(stderr, "%s, status %d, instead of %s\n", rdma_event_str(ev->event),
			ev->status, rdma_event_str(want));
		exit(1);
	}
	return ev;
}

static uint8_t
asked_byte(size_t i)
{
	return (uint8_t)(i * 7 + 1);
}

static void
serve(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct rdma_cm_event *ev;
	uint8_t answer[ANSWERED] = {0};
	const uint8_t *data;
	size_t len;

	check(rdma_bind_addr(id, addr) == 0, "rdma_bind_addr");
	check(rdma_listen(id, 1) == 0, "rdma_listen");
	ev = next_event(RDMA_CM_EVENT_CONNECT_REQUEST);
	data = ev->param.conn.private_data;
	len = ev->param.conn.private_data_len;
	check(len == ASKED, "length of the request's private data");
	for (size_t i = 0; i < len; i++)
		answer[i] = data[len - 1 - i];
	answer[ANSWERED - 1] = 0xee;
	check(rdma_reject(ev->id, answer, ANSWERED) == 0, "rdma_reject");
	rdma_ack_cm_event(ev);
}

static void
ask(struct rdma_cm_id *id, struct sockaddr *addr)
{
	uint8_t data[ASKED];
	struct rdma_conn_param param = {.private_data = data,
					.private_data_len = sizeof(data),
					.retry_count = 7,
					.qp_num = 0x123};
	struct rdma_cm_event *ev;
	const uint8_t *got;

	check(rdma_resolve_addr(id, NULL, addr, TIMEOUT_MS) == 0, "rdma_resolve_addr");
	rdma_ack_cm_event(next_event(RDMA_CM_EVENT_ADDR_RESOLVED));
	check(rdma_resolve_route(id, TIMEOUT_MS) == 0, "rdma_resolve_route");
	rdma_ack_cm_event(next_event(RDMA_CM_EVENT_ROUTE_RESOLVED));
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = asked_byte(i);
	check(rdma_connect(id, &param) == 0, "rdma_connect");
	ev = next_event(RDMA_CM_EVENT_REJECTED);
	printf("REJECTED, reason %d, %d bytes\n", ev->status, ev->param.conn.private_data_len);
	got = ev->param.conn.private_data;
	check(ev->status == CONSUMER && ev->param.conn.private_data_len == ANSWERED, "the REJ");
	for (size_t i = 0; i < ASKED; i++)
		check(got[i] == asked_byte(ASKED - 1 - i), "its private data");
	check(got[ANSWERED - 1] == 0xee, "the last byte of its private data");
	rdma_ack_cm_event(ev);
}

int
main(int argc, char **argv)
{
	struct addrinfo *found;
	struct rdma_cm_id *id;

	if (argc != 4 || getaddrinfo(argv[2], argv[3], NULL, &found) != 0) {
		fprintf(stderr, "usage: reject -s|-c ADDRESS PORT\n");
		return 2;
	}
	channel = rdma_create_event_channel();
	check(channel != NULL, "rdma_create_event_channel");
	check(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
	if (strcmp(argv[1], "-s") == 0)
		serve(id, found->ai_addr);
	else
		ask(id, found->ai_addr);
	freeaddrinfo(found);
	return 0;
}
