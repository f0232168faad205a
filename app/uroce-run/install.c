/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes the same files visible to every program on the system. sysfs accepts no new files, so they
 * are in a folder of /run, and an overlay shows them in /sys/class. Existing entries are never
 * changed: the installation fails on a machine with kernel RDMA devices.
 *
 * All names are fixed. Therefore uninstall needs no record, and it also cleans up after an
 * interrupted install.
 */
#include "run.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM     "/run/uroce-system"
#define CLASS      "/sys/class"
#define NODES      "/dev/infiniband"
#define CONFIG_DIR "/etc/libibverbs.d"
#define DRIVER     CONFIG_DIR "/uroce.driver"

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

static int
remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
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
	if (rc == 0 && nftw(SYSTEM, remove_entry, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) < 0 &&
	    errno != ENOENT) {
		complain("cannot remove " SYSTEM ": %s", strerror(errno));
		rc = -1;
	}
	return rc;
}

/* Refuse to hide or extend entries that this program did not make. */
static int
check_free(void)
{
	static const char *const path[] = {CLASS "/infiniband", CLASS "/infiniband_verbs", NODES,
					   SYSTEM};

	for (size_t i = 0; i < sizeof(path) / sizeof(path[0]); i++) {
		if (access(path[i], F_OK) < 0)
			continue;
		complain("%s already exists: %s", path[i],
			 access(SYSTEM, F_OK) == 0 ? "installed before (--uninstall undoes it)"
						   : "the kernel has RDMA devices");
		return -1;
	}
	return 0;
}

int
system_install(const struct run_device *dev, unsigned int ndev, const char *provider)
{
	if (need_root("--install") || check_free())
		return -1;
	if (mkdir(SYSTEM, 0755) < 0) {
		complain("cannot make " SYSTEM ": %s", strerror(errno));
		return -1;
	}
	if (tree_common(SYSTEM "/class", "/dev") || tree_driver(CONFIG_DIR, provider) ||
	    (access(CLASS "/misc/rdma_cm", F_OK) < 0 && tree_rdma_cm(SYSTEM "/class")))
		goto undo;
	for (unsigned int i = ndev; i-- > 0;) {
		if (tree_device(SYSTEM "/class", "/dev", &dev[i], i))
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
