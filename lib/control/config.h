/* SPDX-License-Identifier: BSD-3-Clause */
/* The operator's settings of the control plane. The program fills them in first. */
#ifndef CONTROL_CONFIG_H
#define CONTROL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include "control/quota.h"

/* The program owns the strings and keeps them unchanged while the control plane runs. */
struct control_config {
	const char *socket; /* path that clients connect to */
	int listener;       /* a socket that listens there already; 0: none, make one */
	uint32_t socket_mode;
	const char *socket_group;  /* name or number; NULL: leave the group unchanged */
	const char *broker_socket; /* of a service that starts brokers; NULL: none */
	uint32_t hello_timeout_s;  /* limit for a connection's first request */
	uint32_t client_mem_mib;   /* limit of a client's queue memory */
	/* limits of all clients together; at least 1 each */
	uint32_t max_clients, max_pds, max_mrs, max_channels, max_cqs, max_srqs, max_qps, max_ahs,
		max_mcast, max_cm_channels, max_cm_ids;
	uint32_t max_queue_mem_mib, max_reg_mem_mib, max_maps,
		max_fds;                /* 0: derived from the machine (quota.c) */
	uint32_t per_uid[QUOTA_NKINDS]; /* MiB of memory; 0: a share */
	enum quota_by quota_by;
	bool copy_memory;  /* never map clients' memory */
	bool confine_root; /* no option: ipc_server_confine_root */
};

#endif
