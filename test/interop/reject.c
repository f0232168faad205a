/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of librdmacm that rejects, and its client, which prints what arrives:
 *
 *   reject -s ADDRESS PORT [HOW]    listens, rejects one request
 *   reject -c ADDRESS PORT [HOW]    connects, expects to be rejected
 *
 * HOW is one of these; both sides have the same:
 *
 *   data       with its own private data, reversed (if HOW is missing)
 *   accept     by rdma_accept with more private data than a REP holds
 *   service    likewise, for a UD service: a SIDR_REP
 *
 * The exit status is 0 if all of it came as expected.
 */
#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/rdma_cma.h>

#define TIMEOUT_MS 5000
#define CONSUMER   28  /* reason: the program has rejected */
#define ASKED      56  /* bytes of private data that a REQ carries beside rdma_cm's header */
#define ANSWERED   148 /* in a REJ */
#define SIDR_REJ   2   /* status of a SIDR_REP */

enum how { DATA, ACCEPT, SERVICE, NHOWS };

static const struct {
	const char *name;
	enum rdma_port_space space;
	uint8_t too_long; /* bytes of private data: one more than the message holds */
} hows[NHOWS] = {
	[DATA] = {"data", RDMA_PS_TCP},
	[ACCEPT] = {"accept", RDMA_PS_TCP, 197},
	[SERVICE] = {"service", RDMA_PS_UDP, 137},
};

static enum how how;
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

/* The peer learns of it before id is destroyed: it tells us by a second request. */
static void
accept_too_much(struct rdma_cm_id *id)
{
	static uint8_t data[256];
	struct rdma_conn_param param = {.private_data = data,
					.private_data_len = hows[how].too_long,
					.qp_num = 0x124};

	check(rdma_accept(id, &param) != 0 && errno == EINVAL, "a refused rdma_accept");
	rdma_ack_cm_event(next_event(RDMA_CM_EVENT_CONNECT_REQUEST));
}

static void
serve(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct rdma_cm_event *ev;
	uint8_t answer[ANSWERED] = {0};
	const uint8_t *data;
	size_t len;

	check(rdma_bind_addr(id, addr) == 0, "rdma_bind_addr");
	check(rdma_listen(id, 2) == 0, "rdma_listen");
	ev = next_event(RDMA_CM_EVENT_CONNECT_REQUEST);
	if (how != DATA) {
		accept_too_much(ev->id);
		rdma_ack_cm_event(ev);
		return;
	}
	data = ev->param.conn.private_data;
	len = ev->param.conn.private_data_len;
	check(len == ASKED, "length of the request's private data");
	for (size_t i = 0; i < len; i++)
		answer[i] = data[len - 1 - i];
	answer[ANSWERED - 1] = 0xee;
	check(rdma_reject(ev->id, answer, ANSWERED) == 0, "rdma_reject");
	rdma_ack_cm_event(ev);
}

static struct rdma_cm_id *
make_id(void)
{
	struct rdma_cm_id *id;

	check(rdma_create_id(channel, &id, NULL, hows[how].space) == 0, "rdma_create_id");
	return id;
}

static void
send_request(struct sockaddr *addr)
{
	struct rdma_cm_id *id = make_id();
	uint8_t data[ASKED];
	struct rdma_conn_param param = {.private_data = data,
					.private_data_len = sizeof(data),
					.retry_count = 7,
					.qp_num = 0x123};

	check(rdma_resolve_addr(id, NULL, addr, TIMEOUT_MS) == 0, "rdma_resolve_addr");
	rdma_ack_cm_event(next_event(RDMA_CM_EVENT_ADDR_RESOLVED));
	check(rdma_resolve_route(id, TIMEOUT_MS) == 0, "rdma_resolve_route");
	rdma_ack_cm_event(next_event(RDMA_CM_EVENT_ROUTE_RESOLVED));
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = asked_byte(i);
	check(rdma_connect(id, &param) == 0, "rdma_connect");
}

static void
check_data(const struct rdma_cm_event *ev)
{
	const uint8_t *got = ev->param.conn.private_data;

	check(ev->param.conn.private_data_len == ANSWERED, "the REJ");
	for (size_t i = 0; i < ASKED; i++)
		check(got[i] == asked_byte(ASKED - 1 - i), "its private data");
	check(got[ANSWERED - 1] == 0xee, "the last byte of its private data");
}

static void
ask(struct sockaddr *addr)
{
	bool service = how == SERVICE;
	struct rdma_cm_event *ev;

	send_request(addr);
	ev = next_event(service ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_REJECTED);
	printf("%s, status %d\n", rdma_event_str(ev->event), ev->status);
	check(ev->status == (service ? SIDR_REJ : CONSUMER), "the status");
	if (how == DATA)
		check_data(ev);
	rdma_ack_cm_event(ev);
	if (how == DATA)
		return;
	send_request(addr);
	check(rdma_get_cm_event(channel, &ev) == 0, "rdma_get_cm_event"); /* the server has ended */
	rdma_ack_cm_event(ev);
}

int
main(int argc, char **argv)
{
	struct addrinfo *found;

	while (argc == 5 && how < NHOWS && strcmp(argv[4], hows[how].name) != 0)
		how++;
	if (argc < 4 || argc > 5 || how == NHOWS ||
	    getaddrinfo(argv[2], argv[3], NULL, &found) != 0) {
		fprintf(stderr, "usage: reject -s|-c ADDRESS PORT [data|accept|service]\n");
		return 2;
	}
	channel = rdma_create_event_channel();
	check(channel != NULL, "rdma_create_event_channel");
	if (strcmp(argv[1], "-s") == 0)
		serve(make_id(), found->ai_addr);
	else
		ask(found->ai_addr);
	freeaddrinfo(found);
	return 0;
}
