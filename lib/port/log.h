/* SPDX-License-Identifier: BSD-3-Clause */
/* Log messages about one port: "uroce.port: net_tap0: ..". Private to lib/port. */
#ifndef PORT_LOG_H
#define PORT_LOG_H

#include <rte_log.h>

extern int port_logtype;

#define PORT_LOG(level, name, fmt, ...)                                                            \
	rte_log(RTE_LOG_##level, port_logtype, "uroce.port: %s: " fmt "\n", name, ##__VA_ARGS__)

#endif
