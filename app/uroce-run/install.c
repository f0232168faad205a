/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes the same files visible to every program on the system. sysfs accepts no new files, so they
 * are in a folder of /run, and an overlay shows them in /sys/class. Existing entries are never
 * changed: the installation fails on a machine with kernel RDMA devices.
 *
 * libibverbs reads these files only if it cannot open a netlink socket of the kernel's RDMA core,
 * and trying to open one loads ib_core. A file of modprobe.d prevents this load, but not that for
 * a driver of a device: then programs see that device again, in place of uroce's. ib_core and the
 * modules behind it are unloaded if nothing uses them.
 *
 * All names are fixed. Therefore uninstall needs no record, and it also cleans up after an
 * interrupted install.
 */
#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SYSTEM     "/run/uroce-system"
#define CLASS      "/sys/class"
#define NODES      "/dev/infiniband"
#define CONFIG_DIR "/etc/libibverbs.d"
#define DRIVER     CONFIG_DIR "/" RUN_DRIVER
#define LINKS      SYSTEM "/provider"
#define MODPROBE   "/run/modprobe.d"
#define NO_NETLINK "uroce.conf" /* in MODPROBE */
#define CORE       "/sys/module/ib_core"

/*
 * Returns true if the overlay over /sys/class is ours. A line of mountinfo:
 * id parent dev root POINT .. - type SOURCE ..
 */
static bool
is_mounted(void)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	bool found = false;
	char line[4096];

	while (f && !found && fgets(line, sizeof(line), f)) {
		const char *tail = strstr(line, " - ");

		found = strstr(line, " " CLASS " ") && tail &&
			strncmp(tail, " - overlay uroce ", 17) == 0;
	}
	if (f)
		fclose(f);
	return found;
}

static void
remove_link(const char *path)
{
	struct stat st;

	if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
		unlink(path);
}

/* Remove our links in /dev/infiniband, and then the folder if it is empty. */
static void
remove_nodes(void)
{
	char path[64];

	for (unsigned int i = 0; i < UROCE_MAX_DEVICES; i++) {
		snprintf(path, sizeof(path), NODES "/uverbs%u", i);
		remove_link(path);
	}
	remove_link(NODES "/rdma_cm");
	rmdir(NODES);
}

static int
need_root(const char *what)
{
	if (geteuid() == 0)
		return 0;
	complain("%s needs root", what);
	return -1;
}

/* Lets programs load the kernel's RDMA core again. */
static int
restore_core(void)
{
	if (unlink(MODPROBE "/" NO_NETLINK) < 0 && errno != ENOENT) {
		complain("cannot remove " MODPROBE "/" NO_NETLINK ": %s", strerror(errno));
		return -1;
	}
	rmdir(MODPROBE); /* if it is empty */
	return 0;
}

int
system_uninstall(void)
{
	int rc = 0;

	if (need_root("--uninstall"))
		return -1;
	while (rc == 0 && is_mounted()) {
		rc = umount2(CLASS, MNT_DETACH);
		if (rc < 0)
			complain("cannot unmount " CLASS ": %s", strerror(errno));
	}
	/* Nodes without the folder are not ours. */
	if (access(SYSTEM, F_OK) == 0)
		remove_nodes();
	if (unlink(DRIVER) < 0 && errno != ENOENT) {
		complain("cannot remove " DRIVER ": %s", strerror(errno));
		rc = -1;
	}
	if (restore_core())
		rc = -1;
	if (rc == 0 && put_remove(SYSTEM) < 0 && errno != ENOENT) {
		complain("cannot remove " SYSTEM ": %s", strerror(errno));
		rc = -1;
	}
	return rc;
}

static bool
has_entries(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *d;
	bool found = false;

	while (dir && !found && (d = readdir(dir)))
		found = d->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return found;
}

/*
 * Keeps the kernel from answering libibverbs. Fails if its RDMA core is in use, or is not a module.
 */
static int
silence_core(void)
{
	/* those that are loaded with it when a program looks for devices, users first */
	static const char *const module[] = {"rdma_ucm", "ib_umad",   "rdma_cm", "iw_cm",
					     "ib_cm",    "ib_uverbs", "ib_core"};

	if (put(MODPROBE, NO_NETLINK,
		"# made by urocectl install, removed by urocectl uninstall\n"
		"install net-pf-16-proto-20 /bin/false"))
		return -1;
	for (size_t i = 0; i < sizeof(module) / sizeof(module[0]); i++)
		syscall(SYS_delete_module, module[i], O_NONBLOCK);
	if (access(CORE, F_OK) < 0)
		return 0;
	complain("the kernel's RDMA core (ib_core) is in use, and programs would ask it for "
		 "devices: unload the modules that use it (lsmod), or run programs under "
		 "uroce-run");
	return -1;
}

/* Refuse to hide or extend entries that this program did not make. */
static int
check_free(void)
{
	static const char *const path[] = {CLASS "/infiniband", CLASS "/infiniband_verbs", NODES};

	if (access(SYSTEM, F_OK) == 0) {
		complain(SYSTEM " already exists: installed before (--uninstall undoes it)");
		return -1;
	}
	/* An idle core has empty folders there. */
	if (has_entries(CLASS "/infiniband")) {
		complain(CLASS "/infiniband already exists: the kernel has RDMA devices");
		return -1;
	}
	if (silence_core())
		return -1;
	for (size_t i = 0; i < sizeof(path) / sizeof(path[0]); i++) {
		if (access(path[i], F_OK) < 0)
			continue;
		complain("%s already exists: the kernel has RDMA devices", path[i]);
		return -1;
	}
	return 0;
}

int
system_install(const struct run_device *dev, unsigned int ndev, const char *provider)
{
	if (need_root("--install"))
		return -1;
	if (check_free()) {
		if (access(SYSTEM, F_OK) < 0)
			restore_core();
		return -1;
	}
	if (mkdir(SYSTEM, 0755) < 0) {
		complain("cannot make " SYSTEM ": %s", strerror(errno));
		return -1;
	}
	if (tree_common(SYSTEM "/class", "/dev") ||
	    tree_driver(CONFIG_DIR, LINKS, LINKS, provider) || tree_rdma_cm(SYSTEM "/class"))
		goto undo;
	for (unsigned int i = ndev; i-- > 0;) {
		if (tree_device(SYSTEM "/class", "/dev", &dev[i], i, true))
			goto undo;
	}
	if (mount("uroce", CLASS, "overlay", MS_NOSUID | MS_RDONLY,
		  "lowerdir=" SYSTEM "/class:" CLASS) == 0)
		return 0;
	complain("cannot mount an overlay over " CLASS ": %s", strerror(errno));
undo:
	system_uninstall();
	return -1;
}
