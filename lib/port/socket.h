/* SPDX-License-Identifier: BSD-3-Clause */
/* Socket helpers shared by the ports udp and packet. Private to lib/port. */
#ifndef PORT_SOCKET_H
#define PORT_SOCKET_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <rte_mbuf.h>

/* Control thread. Sets an integer option of fd. Returns false if the kernel refuses it. */
bool port_socket_set(int fd, int level, int option, int value);

/*
 * Control thread. Requests large buffers for fd. With CAP_NET_ADMIN the system's limit does not
 * apply. tell: logs under the port's name if the receive buffer stays too small.
 */
void port_socket_buffers(int fd, const char *name, bool tell);

#define PORT_SAID 3 /* words with a bit per errno */

/*
 * Worker. Counts a failed receive call in *errors, and logs each errno once under the port's name.
 * said: those that were logged, zero at first.
 */
void port_socket_failed(const char *name, int err, uint64_t said[PORT_SAID], uint64_t *errors);

/*
 * Worker. Moves at most n of the received frames ready[*at .. end) to m and advances *at. Returns
 * their number. The caller owns them from then on.
 */
static inline uint16_t
port_ready_take(struct rte_mbuf **m, uint16_t n, struct rte_mbuf *const *ready, uint32_t *at,
		uint32_t end)
{
	uint32_t left = end - *at;

	if (left > n)
		left = n;
	memcpy(m, ready + *at, left * sizeof(*m));
	*at += left;
	return (uint16_t)left;
}

/* Device numbers of ports that are not ethdevs. Private to lib/port. Control thread. */

/* Reserves an id that no ethdev or other port uses. Returns PORT_IDS_MAX if none is free. */
uint16_t port_id_take(void);
void port_id_give(uint16_t id);

#endif
