/* SPDX-License-Identifier: BSD-3-Clause */
/* A verbs device: one port with its addresses. Control thread only. */
#ifndef CONTROL_DEVICE_H
#define CONTROL_DEVICE_H

#include <sys/queue.h>
#include "control/daemon.h"
#include "control/devspec.h"
#include "control/sr_peer.h"
#include "hostif/hostif.h"
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
	uint16_t pkey[UROCE_MAX_PKEYS]; /* P_Key table, also read by workers; 0: empty entry */
	struct cc_param cc;             /* congestion policy of QPs that are created (cc/param.h) */
	uint8_t plain;                  /* QP_PLAIN_* of QPs that are created (qp/env.h) */
	uint8_t max_mtu;                /* enum ibv_mtu code, 1 .. 5 */
	struct device_qps qps;          /* of this device, for updates of neighbours */
	struct device_members members;  /* of multicast groups */
	struct engine_peers peers;      /* that its port accepts; fixed when it is created */
	struct engine_addrs *addrs;     /* the workers' copy of net and members */
	struct device_capture *capture; /* owned by the program; NULL: no capture */
	struct hostif *hostif;          /* its kernel interface, or NULL */
	struct watch host;    /* with the host's addresses: netlink socket, changes of addresses and
				 links */
	bool addrs_late;      /* the host's addresses could not be read */
	struct watch answers; /* of a port with neigh_fd: that descriptor */
	struct watch tick;    /* timerfd: next request to a neighbour, next link check */
	uint64_t next_ask_ns; /* next check for users that wait for a neighbour */
	uint64_t next_link_ns;    /* next link check */
	uint64_t next_restart_ns; /* not before, after a port_restart that failed */
	uint64_t next_guess_ns;   /* next check of wrong_keys */
	enum devspec_sr sr_mode;
	struct sr_peers sr;  /* peers that have agreed to selective repeat */
	uint64_t wrong_keys; /* wrong keys tried by peers, at the last check (guess.c) */
	/* multicast routers of these versions count as present until then; 0: none (cm_group.c) */
	uint64_t igmp_v1_until_ns, igmp_v2_until_ns, mld_v1_until_ns;
};

/*
 * Opens the port that spec names and creates a device on it, visible to the daemon and the workers.
 * inward: see struct port_params. Logs errors. Returns 0 or -errno (-ENODEV: no such port).
 */
int device_create(struct daemon *d, const struct devspec *spec, bool inward);
/* Destroys the device. It has no clients any more. */
void device_destroy(struct device *dev);

/*
 * device_addrs.c: publishes the device's addresses and groups to the workers. Returns 0, or -ENOMEM
 * and the workers keep the old ones.
 */
int device_addrs_update(struct device *dev);
void device_addrs_clear(struct device *dev);

/*
 * device_hostif.c: creates the kernel interface of this name with the device's addresses ("":
 * none), between port_open and worker_add_port; removes it after worker_del_port. Logs errors.
 * Returns 0 or -errno.
 */
int device_hostif_open(struct device *dev, const char *name);
void device_hostif_close(struct device *dev);
/* Adds or removes an address of the kernel's interface, if there is one. 0 or -errno. */
int device_hostif_addr(struct device *dev, const struct net_addr *a, bool add);

/*
 * guess.c: reports peers that keep trying R_Keys (MEM-01), at most every two seconds. Workers count
 * keys that match no region and stop receiving for a QP whose peer tries too many (struct
 * qp_wrong_keys). A program's mistake costs its connection and stays below the limit.
 */
void guess_look(struct device *dev);

/* A device's local CA ACK delay: 4.096 us * 2^15, for a busy shared core. */
#define DEVICE_ACK_DELAY 15

/* device_attr.c. Returns the node GUID, in network order: the EUI-64 of the MAC. */
uint64_t device_guid(const struct device *dev);
/* Gets the limits that a modify is checked against. */
void device_limits(const struct device *dev, struct qp_limits *lim);
/*
 * Get attributes for a client; limits are those of user. port must be 1, and index less than the
 * table's length; else they return EINVAL.
 */
void device_attr(const struct device *dev, const struct quota_user *user,
		 struct uroce_device_rep *rep);
int device_port_attr(const struct device *dev, uint32_t port, struct uroce_port_rep *rep);
int device_gid(const struct device *dev, uint32_t port, uint32_t index, struct uroce_gid_rep *rep);
int device_pkey(const struct device *dev, uint32_t port, uint32_t index,
		struct uroce_pkey_rep *rep);
void device_list(const struct daemon *d, struct uroce_list_devices_rep *rep);

/*
 * host.c: devices on kernel sockets that use the host's addresses (PORT_UDP, shared PORT_PACKET).
 * Netlink reports changes of addresses and links; the device updates its GID table and link state
 * and notifies its programs. Control thread only.
 */

/*
 * Reads the addresses before the device is visible. Returns 0, or after logging the error
 * -EADDRNOTAVAIL if there are none, or another -errno if the kernel cannot be queried.
 */
int host_addrs_first(struct device *dev);
/* Starts following the kernel's changes. Returns 0 or -errno. */
int host_follow(struct device *dev);
void host_unfollow(struct device *dev);
/* Call periodically: reads the addresses again if that has failed, for lack of descriptors. */
void host_tick(struct device *dev);

#endif
