/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroce-run: runs an unmodified verbs program where libibverbs finds the devices of a uroced.
 *
 * libibverbs looks for devices in /sys/class/infiniband*, for their nodes in /dev/infiniband and
 * for providers in /etc/libibverbs.d. None of these exist for a device without a kernel driver,
 * so they are made in a mount namespace of the program's own; the host sees nothing of them, and
 * they go away with the last process in it. GIDs and P_Keys in them are those of the start; a verbs
 * program is told the present ones all the same (drivers/verbs/sysfs.c).
 *
 *   main.c    options, order of things, exec
 *   fetch.c   asks the daemon which devices it has
 *   tree.c    the files that stand for a device
 *   parent.c  those for the hardware under it
 *   put.c     writes a file
 *   mount_ns.c   namespaces, and directories that look like the old ones plus something
 *   install.c the same files for every program of the system
 *
 * Single threaded. Functions return 0, or print why not and return -1.
 */
#ifndef UROCE_RUN_RUN_H
#define UROCE_RUN_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include "uroce_abi/ctrl.h"

struct run_device {
	char name[UROCE_DEV_NAME_MAX];
	char netdev[32]; /* interface under the port, or "" */
	char live[256];  /* where the daemon keeps what changes of its files, or "" */
	struct uroce_device_rep dev;
	struct uroce_port_rep port;
	uint32_t ngids, npkeys;
	struct uroce_gid_rep gid[UROCE_MAX_GIDS];
	struct uroce_pkey_rep pkey[UROCE_MAX_PKEYS];
};

/* Prints "uroce-run: " and the message on stderr. */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- fetch.c ---- */
/* Devices of the daemon at socket (NULL: the default); room for UROCE_MAX_DEVICES. */
int fetch_devices(const char *socket, struct run_device *dev, unsigned int *n);

/* ---- tree.c ---- */
/*
 * Writes the device's entries below the directories sysfs (as /sys/class), where index is its
 * number among the verbs devices, and dev (as /dev).
 */
int tree_device(const char *sysfs, const char *dev, const struct run_device *d, unsigned int index);
/* Writes what is there once for all devices. */
int tree_common(const char *sysfs, const char *dev);
/* Writes the file that makes libibverbs load the provider at path, in dir. */
int tree_driver(const char *dir, const char *provider);

/* ---- parent.c ---- */
/* Writes the folder "device" of the RDMA device whose folder is ibdev. */
int tree_parent(const char *ibdev, const struct run_device *d);

/* ---- mount_ns.c ---- */
/*
 * Moves this process into a mount namespace of its own, as root or as an ordinary user (then in
 * a user namespace too, with its own ids mapped to themselves).
 */
int mount_ns_enter(void);
/* A scratch directory only this process sees, until mount_ns_leave. Returns its path, or NULL. */
const char *mount_ns_scratch(void);
/*
 * Makes stage, a directory in the scratch, show everything that target shows but the entries
 * named in hide (NULL-terminated): more can then be put in.
 */
int mount_ns_stage(const char *stage, const char *target, const char *const *hide);
/* Makes stage an empty directory of its own mount. */
int mount_ns_stage_empty(const char *stage);
/* Puts the staged directory in target's place. */
int mount_ns_commit(const char *stage, const char *target);
/* Removes the scratch from sight. */
int mount_ns_leave(void);

/* ---- install.c ---- */
/*
 * Shows the devices to every program, until system_uninstall or a reboot. For root; in failure
 * nothing of it is left. provider: its absolute path.
 */
int system_install(const struct run_device *dev, unsigned int ndev, const char *provider);
/* Undoes all of system_install; 0 also where there is nothing to undo. */
int system_uninstall(void);

#endif
