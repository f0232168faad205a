/* SPDX-License-Identifier: BSD-3-Clause */
/* A client of rdma_cm channels, and a daemon built from fakes that serves it. EAL is for mbufs. */
#ifndef TEST_CONTROL_CM_CLIENT_H
#define TEST_CONTROL_CM_CLIENT_H

#include <errno.h>
#include <string.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <uroce_abi/cm.h>
#include "control/cm.h"
#include "../../kit/unit.h"
#include "fake.h"

#define CM_TEST(name) UNIT_TEST_IN(name, cm_setup, cm_teardown)

struct cm_client {
	int fd, commands;
	uint8_t secret[UROCE_CM_CHANNEL_ID];
};

extern struct daemon d;
extern struct cm_client one, two; /* channels of uid 0 */

int cm_setup(void **state);
int cm_teardown(void **state);

/* Runs the daemon until it has nothing to do. */
void cm_turn(void);
/* Opens a channel by a session of uid, which is closed again. Returns the status. */
uint32_t cm_client_open(struct cm_client *c, uid_t uid);
void cm_client_close(struct cm_client *c);
/* Sends a message to the command socket and runs the daemon. */
void cm_client_send(struct cm_client *c, const struct uroce_cm_req *req, const void *body,
		    size_t len);
/*
 * A command, its response of at most out bytes to rep. Returns the status; FAKE_NO_REPLY: the
 * channel has ended. Takes the token if the reply says so; then cm_taken is set.
 */
uint32_t cm_ask(struct cm_client *c, uint32_t cmd, const void *body, size_t len, void *rep,
		size_t out);
extern bool cm_taken;
/* The secret that the next MIGRATE_ID carries. */
extern const uint8_t *cm_from;
/* Does poll report an event, or that the daemon hung up? */
bool cm_readable(const struct cm_client *c);
bool cm_ended(const struct cm_client *c);

/* Calls that must succeed. */
uint32_t cm_make_id(struct cm_client *c, uint64_t uid, uint16_t space);
uint32_t cm_end_id(struct cm_client *c, uint32_t id);
void cm_event(struct cm_client *c, uint32_t type, struct rdma_ucm_event_resp *ev);
struct sockaddr_in cm_ipv4(const char *address, uint16_t port);
void cm_bind_to(struct cm_client *c, uint32_t id, const struct sockaddr_in *addr);
/* Address and route of id, whose events are taken: a destination of the fakes' device. */
void cm_resolve_to(struct cm_client *c, uint32_t id, const struct sockaddr_in *addr);
/* RESOLVE_ADDR's status. */
uint32_t cm_ask_addr(struct cm_client *c, uint32_t id, const struct sockaddr_in *addr);

/* Delivers the frames that were sent to the device itself, until there is none. */
void cm_deliver(void);

#endif
