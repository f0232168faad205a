/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroce-run: runs an unmodified verbs program so that libibverbs finds the devices of a uroced.
 *
 * libibverbs looks for devices in /sys/class/infiniband*, for their nodes in /dev/infiniband and
 * for providers in /etc/libibverbs.d. None of these exist for a device without a kernel driver,
 * so they are made in a separate mount namespace. The host does not see them, and they disappear
 * with the last process of the namespace. Where namespaces are not allowed, the files are in a
 * folder, and a preloaded library finds them there. The files hold the GIDs and P_Keys as of the
 * start; the provider gives verbs programs the current ones (drivers/verbs/sysfs.c).
 *
 * libibverbs asks the kernel's RDMA core first, over netlink, and reads these files only if no such
 * socket can be opened. So the program may not open one.
 *
 *   main.c    options, order of the steps, exec
 *   fetch.c   asks the daemon which devices it has
 *   tree.c    the files that represent a device and its hardware
 *   put.c     writes a file
 *   root.c    the directories that get additional entries
 *   view.c    namespace or preloaded library; the view of a container
 *   mount_ns.c   namespaces; directories with additional entries; no netlink to the RDMA core
 *   preload.c    the folder of the preloaded library, and the environment that loads it
 *   install.c the same files for every program on the system
 *   container.c  the same files for a container, as a hook of its runtime
 *
 * Single threaded. Functions return 0, or print the reason and return -1.
 */
#ifndef UROCE_RUN_RUN_H
#define UROCE_RUN_RUN_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include "uroce_abi/ctrl.h"

struct run_device {
	char name[UROCE_DEV_NAME_MAX];
	char netdev[32]; /* interface under the port, or "" */
	char live[256];  /* folder with the files that the daemon updates, or "" */
	struct uroce_device_rep dev;
	struct uroce_port_rep port;
	/* hardware under netdev: NUMA node, local CPUs, folder of the PCI device; or "" */
	char numa_node[16], cpulist[320], pci[256];
	uint32_t ngids, npkeys;
	struct uroce_gid_rep gid[UROCE_MAX_GIDS];
	struct uroce_pkey_rep pkey[UROCE_MAX_PKEYS];
};

#define RUN_PROVIDER "liburoce-rdmav34.so"
/* In /etc/libibverbs.d: what names the provider, and a folder with links to it. */
#define RUN_DRIVER "uroce.driver"
#define RUN_LINKS  "uroce"

/* --view; the order is that of its names. */
enum run_view {
	RUN_VIEW_AUTO,
	RUN_VIEW_NAMESPACE,
	RUN_VIEW_PRELOAD,
};

/* What a program is to see, and how. */
struct run_plan {
	enum run_view view;
	bool keep; /* the kernel's RDMA devices, too */
	/* absolute paths; the preloaded library (drivers/verbs/preload.c) may be missing */
	char provider[PATH_MAX], preload[PATH_MAX];
};

#define COMPLAINT "uroce-run: "
/* Prints COMPLAINT and the message on stderr. */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- put.c: files of the emulated sysfs tree ---- */
#define PATH_LEN 512

/* Builds a path. One that does not fit becomes "", and every write to it fails. */
const char *path_of(char path[PATH_LEN], const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Makes a directory and its missing parents. */
int put_dir(const char *path);
/* Writes a line into dir/file, making dir. */
int put(const char *dir, const char *file, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * Makes dir/file a hard link to dir/other, which has the same contents. This saves a page of tmpfs.
 */
int put_like(const char *dir, const char *file, const char *other);
/* Removes a folder with all its contents, but nothing that is mounted in it. 0 or -1 with errno. */
int put_remove(const char *dir);
/* Makes dir/name a symbolic link to target, making dir. */
int put_link(const char *dir, const char *name, const char *target);

/* ---- fetch.c ---- */
/* Gets the devices of the daemon at socket (NULL: default). dev has UROCE_MAX_DEVICES elements. */
int fetch_devices(const char *socket, struct run_device *dev, unsigned int *n);

/* ---- tree.c ---- */
/*
 * Writes the device's entries below the directories sysfs (in place of /sys/class) and dev (in
 * place of /dev). index: its number among the verbs devices, as in "uverbs0". others: programs see
 * other providers, too.
 */
int tree_device(const char *sysfs, const char *dev, const struct run_device *d, unsigned int index,
		bool others);
/* Writes the files that all devices share. */
int tree_common(const char *sysfs, const char *dev);
/* Writes class/misc/rdma_cm. */
int tree_rdma_cm(const char *sysfs);
/*
 * Writes the file that makes libibverbs load the provider, in config, and links to the provider in
 * the folder links, which programs see as seen. One of the links has the name that a program's
 * libibverbs looks for.
 */
int tree_driver(const char *config, const char *links, const char *seen, const char *provider);

/* Reads what the host's sysfs says about the hardware under d->netdev. */
void parent_read(struct run_device *d);

/* ---- root.c ---- */
/*
 * The directories of the root file system that are read or replaced, as descriptors. The checked
 * directories are used even if a program with the same files renames them meanwhile. misc and
 * config: -1 if there is no such directory.
 */
struct run_root {
	bool container; /* of a container, whose image nobody has checked */
	int tmp, class, misc, dev, config;
};

/* Opens the directories of this process's root. */
int root_open(struct run_root *r);
/*
 * The same for a container, whose root is the working directory. Fails if the path of a directory
 * contains a symbolic link, or if /sys is not a sysfs.
 */
int root_open_container(struct run_root *r);

/* ---- mount_ns.c ---- */
/*
 * Moves this process into a new mount namespace; for an ordinary user also into a new user
 * namespace, which maps the ids to themselves.
 */
int mount_ns_enter(void);
/*
 * Creates a scratch directory that only this process sees, until mount_ns_leave. Returns its path,
 * or NULL. In a container it becomes the working directory.
 */
const char *mount_ns_scratch(const struct run_root *r);
/*
 * Makes stage, a directory in the scratch, show the entries of target except those in hide
 * (NULL-terminated). The caller can then add entries. name: of target, for messages.
 */
int mount_ns_stage(const char *stage, int target, const char *name, const char *const *hide);
/* Makes stage an empty directory, as a separate mount. */
int mount_ns_stage_empty(const char *stage);
/* Replaces target by the staged directory. */
int mount_ns_commit(const char *stage, int target, const char *name);
/* Hides the scratch directory. */
int mount_ns_leave(const char *scratch);
/*
 * Makes every later socket(AF_NETLINK, .., NETLINK_RDMA) of this process and its children fail with
 * EPROTONOSUPPORT, by a seccomp filter. Needs CAP_SYS_ADMIN in this process's user namespace.
 * Prints nothing if it fails: there is another way.
 */
int mount_ns_refuse_netlink(void);

/* ---- view.c ---- */
/*
 * Makes the program that this process will execute, and its children, see the devices. program: as
 * it was given, for warnings.
 */
int view_show(const struct run_plan *plan, const struct run_device *dev, unsigned int ndev,
	      const char *program);
/* The number of the first verbs device behind the kernel's. */
unsigned int view_first_free(void);
/*
 * Hook of a container's start (container.c): makes the device called name, or all, visible in the
 * container that is being created. The container's processes need LD_PRELOAD with
 * UROCE_CONTAINER_DIR/UROCE_PRELOAD_NAME.
 */
int view_container(const char *name, struct run_device *dev, unsigned int ndev,
		   const struct run_plan *plan);

/* ---- preload.c ---- */
/*
 * Makes a folder with the files that the preloaded library shows, or finds one with the same files.
 * It is named by a hash of its contents. This process and the programs that it becomes or starts
 * share the lock of the folder; a later call of the same user removes the folders whose lock nobody
 * shares. Stores its path in folder (PATH_MAX bytes).
 */
int preload_folder(const struct run_plan *plan, const struct run_device *dev, unsigned int ndev,
		   char *folder);
/*
 * Sets LD_PRELOAD, behind libraries that it names already, and UROCE_VIEW. folder NULL: the library
 * only refuses netlink sockets.
 */
int preload_environment(const char *preload, const char *folder);
/*
 * Prints a warning if the preloaded library does not see program's system calls: static,
 * set-user-id and Go programs. why: the reason why there is no namespace.
 */
void preload_check(const char *program, const char *why);

/* ---- install.c ---- */
/*
 * Makes the devices visible to every program, until system_uninstall or a reboot. Needs root. After
 * a failure nothing remains. provider: its absolute path.
 */
int system_install(const struct run_device *dev, unsigned int ndev, const char *provider);
/* Undoes system_install. 0 also if nothing is installed. */
int system_uninstall(void);

/* ---- container.c ---- */
/*
 * Reads a container's state (OCI runtime specification) from standard input, makes the container's
 * root the root of this process, and opens it. This process is already in the container's mount
 * namespace.
 */
int container_enter(struct run_root *r);
/*
 * Reduces dev to the devices for the container: the one called name, or every device if name is
 * "all", and those that an earlier call has installed. Returns their number; 0: no device is called
 * name.
 */
unsigned int container_choose(const struct run_root *r, struct run_device *dev, unsigned int ndev,
			      const char *name);
/* Copies the rest of the file from, starting at its offset, to a new executable file dir/name. */
int copy_file(int from, const char *dir, const char *name);

#endif
