/* SPDX-License-Identifier: BSD-3-Clause */
/* A verbs device: one port with its addresses. Control thread only. */
#ifndef CONTROL_DEVICE_H
#define CONTROL_DEVICE_H

#include <sys/queue.h>
#include "control/daemon.h"
#include "control/devspec.h"
#include "net/net.h"
#include "port/port.h"

struct obj_qp;
struct obj_member;
struct device_capture;
TAILQ_HEAD(device_qps, obj_qp);
TAILQ_HEAD(device_members, obj_member);

struct device {
	struct daemon *d;
	char name[UROCE_DEV_NAME_MAX];
	struct port port;
	struct net_dev net;
	uint16_t pkey[UROCE_MAX_PKEYS]; /* P_Key table, which workers read too: 0 for an empty entry
					 */
	uint8_t max_mtu;                /* enum ibv_mtu code, 1 .. 5 */
	struct device_qps qps;          /* of this device, for changes of neighbours */
	struct device_members members;  /* of multicast groups */
	struct engine_addrs *addrs;     /* what workers know of net and members */
	struct device_capture *capture; /* the program's; NULL: not captured */
	struct watch host;              /* of a PORT_UDP: netlink, changes of addresses and links */
	struct watch tick;      /* timerfd: neighbours to ask again, link state to look at */
	uint64_t next_ask_ns;   /* when to look again for who waits for a neighbour */
	uint64_t next_link_ns;  /* when to look at the link again */
	uint64_t next_guess_ns; /* when to look at what follows again */
	uint64_t wrong_keys;    /* that peers have tried, at the last look (guess.c) */
};

/*
 * Open the port that spec names and make a device of it, known to the daemon and to the workers.
 * inward: see
 * struct port_params. Errors are logged. 0 or -errno (-ENODEV: no such port).
 */
int device_create(struct daemon *d, const struct devspec *spec, bool inward);
/* Every client of the device is gone. */
void device_destroy(struct device *dev);

/*
 * device_addrs.c: tell the workers the device's addresses and groups as they are now. 0 or -ENOMEM,
 * and they go on with what they knew.
 */
int device_addrs_update(struct device *dev);
void device_addrs_clear(struct device *dev);

/* device_attr.c. Limits that a modify is checked against. */
void device_limits(const struct device *dev, struct qp_limits *lim);
/* Attributes as clients ask for them: limits are those of user. port: 1; index: below the table's
 * length; else EINVAL. */
void device_attr(const struct device *dev, const struct quota_user *user,
		 struct uroce_device_rep *rep);
int device_port_attr(const struct device *dev, uint32_t port, struct uroce_port_rep *rep);
int device_gid(const struct device *dev, uint32_t port, uint32_t index, struct uroce_gid_rep *rep);
int device_pkey(const struct device *dev, uint32_t port, uint32_t index,
		struct uroce_pkey_rep *rep);
void device_list(const struct daemon *d, struct uroce_list_devices_rep *rep);

#endif
