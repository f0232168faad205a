/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `urocectl doctor`: one line for each thing that RDMA needs, `ok` or what to do.
 *
 *   doctor.c       the command; the daemon and its devices
 *   doctor_host.c  the control socket, the kernel and its firewall, memory, UDP port 4791
 *   doctor_peer.c  the way to a peer
 */
#ifndef UROCECTL_DOCTOR_H
#define UROCECTL_DOCTOR_H

#include <netinet/in.h>
#include "urocectl.h"

#define ROCE_UDP_PORT 4791

enum verdict {
	VERDICT_OK,
	VERDICT_HINT,  /* RDMA works, but slower or not for everyone */
	VERDICT_FAULT, /* RDMA does not work: exit status 1 */
};

struct doctor {
	const struct request *rq;
	json_t *lines; /* an object for each line */
	bool fault;
	bool sockets; /* a device uses the kernel's UDP sockets */
	/* of doctor_firewall: */
	bool rules_known;
	char rule[400]; /* the rule that refuses UDP port 4791, and where it is; "": none */
};

/* Adds the result of a check. device: the device that it concerns, or "". */
void doctor_say(struct doctor *dr, enum verdict v, const char *check, const char *device,
		const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Explains why there is no connection to the daemon; err: of connect(2), positive. */
void doctor_no_daemon(struct doctor *dr, int err);
/* RDMA modules of the kernel; ports: rows of `show port`, NULL: there is no daemon. */
void doctor_kernel(struct doctor *dr, const json_t *ports);
/* Which memory programs of this user can register; daemon: the row of `show daemon`. */
void doctor_memory(struct doctor *dr, const json_t *daemon);
/* RLIMIT_MEMLOCK of the daemon and of this process; daemon: the row of `show daemon`. */
void doctor_memlock(struct doctor *dr, const json_t *daemon);
/* Rules of the kernel's firewall about UDP port 4791. */
void doctor_firewall(struct doctor *dr);

/* The way to the peer of that name or address; ports: rows of `show port`. */
void doctor_peer(struct doctor *dr, struct ipc_client *c, const json_t *ports, const char *name);

#endif
