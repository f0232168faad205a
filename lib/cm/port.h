/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports of rdma_cm's port spaces, and their owners (CM-10). The rules are TCP's: an address and a
 * port belong to one owner, a wildcard overlaps every address of its families, and owners that all
 * allow reuse share a port as long as none of them listens on it.
 *
 * No I/O, no clock, no allocation; one thread, that of the struct cm. The rest of lib/cm does not
 * depend on this file: a listener's service id contains a port that was bound here.
 */
#ifndef CM_PORT_H
#define CM_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ports for owners that do not choose one: Linux's range. */
#define CM_PORT_FIRST 32768u
#define CM_PORT_LAST  60999u

struct cm_bind {
	uint16_t space;  /* WIRE_CM_PS_TCP .. */
	uint16_t port;   /* 0: any free one of CM_PORT_FIRST .. CM_PORT_LAST */
	bool v6;         /* family of a wildcard; not used for an address */
	bool afonly;     /* an IPv6 wildcard does not accept IPv4 */
	bool reuse;      /* REUSEADDR */
	uint8_t gid[16]; /* all zero: a wildcard */
	uint16_t dev;    /* which of the devices with this address; not used for a wildcard */
};

struct cm_ports;

/* Returns the bytes that cm_ports_init needs for at most max owners, 1 .. 2^20. */
size_t cm_ports_bytes(uint32_t max);
/*
 * Initialises an empty table at mem, aligned to 8, which the caller owns. seed: for the choice of
 * ports.
 */
struct cm_ports *cm_ports_init(void *mem, uint32_t max, uint64_t seed);
/*
 * Binds a port. Returns 0 with *owner (never 0) and *port; -EADDRINUSE: the port belongs to another
 * owner; -EADDRNOTAVAIL: no port is free; -ENOMEM: there are max owners.
 */
int cm_port_bind(struct cm_ports *p, const struct cm_bind *b, uint32_t *owner, uint16_t *port);
/*
 * Makes the owner a listener. Returns 0, also if it listens already; -EADDRINUSE: another owner,
 * which allowed reuse, shares its address and port; -ENOENT: no such owner.
 */
int cm_port_listen(struct cm_ports *p, uint32_t owner);
/* Releases the owner's port. owner 0 is ignored. */
void cm_port_release(struct cm_ports *p, uint32_t owner);

#endif
