/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A port that is a VF: a virtual function of a NIC (SR-IOV), whose PF may reset it, give it another
 * MAC or move it to a VLAN. Private to lib/port. Control thread only.
 */
#ifndef PORT_VF_H
#define PORT_VF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "port/port.h"

/* What the PF's kernel driver has set for a VF. */
struct port_vf_config {
	uint8_t mac[6];  /* all zero: not set */
	uint16_t vlan;   /* 0: none */
	uint32_t pf_ups; /* how often the PF's carrier came up; 0 if the kernel does not tell */
};

/* Starts to follow resets of an ethdev and, for a VF, its PF. The port has started. */
void port_vf_open(struct port *p);
void port_vf_close(const struct port *p);
/* Evaluates a poll of the link. up: its state now. changed: since the last poll. */
void port_vf_link(struct port *p, bool up, bool changed);
/*
 * Logs if the PF has changed MAC or VLAN of the VF, and what to do. Does nothing for other ports,
 * or if the PF is not an interface of this process's network namespace.
 */
void port_vf_look(struct port *p);
/*
 * Applies what the PF's kernel driver tells now: logs changes as above, and lets the port start
 * again if the PF has come up since the last call. A VF that starts while its PF is down gets no
 * answer to its reset, and its driver does not try again.
 */
void port_vf_follow(struct port *p, const struct port_vf_config *c);
/* Returns true if the driver reported that the device must be reset. */
bool port_vf_must_reset(const struct port *p);
/* The same for later: a reset has failed. */
void port_vf_ask_reset(const struct port *p);
/* Before a restart of the port: clears the demand for it. Returns what port_vf_must_reset said. */
bool port_vf_restart(struct port *p);
/*
 * Reads the configuration of the VF with this number from a message of rtnetlink about the PF's
 * interface. Returns false if the message, of len bytes, is another one or lacks the VF's MAC.
 */
bool port_vf_parse(const void *message, size_t len, uint32_t number, struct port_vf_config *c);

#endif
