/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a program sees the devices. In a mount namespace the files are where libibverbs and other
 * libraries look for them, whatever the program calls and however it is linked, and a seccomp
 * filter keeps libibverbs from asking the kernel. Locked containers, kernels without user
 * namespaces and chroots refuse namespaces; then a preloaded library serves the same files
 * (preload.c).
 */
#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONFIG_DIR "/etc/libibverbs.d"
#define COPY       "liburoce.so" /* the provider's copy, beside the links to it */

static int
need_libibverbs(bool there)
{
	if (there)
		return 0;
	complain("no " CONFIG_DIR ": libibverbs (package libibverbs1, ibverbs-providers) "
		 "is not installed");
	return -1;
}

/* Stages class/misc in class, which was staged without it, with our rdma_cm for the kernel's. */
static int
stage_misc(const char *class, int target)
{
	static const char *const hide[] = {"rdma_cm", NULL};
	char misc[PATH_MAX];

	if ((size_t)snprintf(misc, sizeof(misc), "%s/misc", class) >= sizeof(misc))
		return -1;
	if (target >= 0 && mount_ns_stage(misc, target, "/sys/class/misc", hide))
		return -1;
	return tree_rdma_cm(class);
}

/* The same for a folder in class or /dev, with the kernel's entries; there may be none. */
static int
stage_kept(const char *parent, int target, const char *name, const char *const *hide)
{
	char stage[PATH_MAX];
	int fd = openat(target, name, O_PATH | O_DIRECTORY | O_CLOEXEC), rc = -1;

	if (fd < 0)
		return 0;
	if ((size_t)snprintf(stage, sizeof(stage), "%s/%s", parent, name) < sizeof(stage))
		rc = mount_ns_stage(stage, fd, name, hide);
	close(fd);
	return rc;
}

/* Stages what shows the kernel's devices beside ours. */
static int
stage_kernel(const struct run_root *r, const char *class, const char *node)
{
	static const char *const hide_nothing[] = {NULL};
	static const char *const hide_version[] = {"abi_version", NULL};
	static const char *const hide_cm[] = {"rdma_cm", NULL};

	return stage_kept(class, r->class, "infiniband", hide_nothing) ||
	       stage_kept(class, r->class, "infiniband_verbs", hide_version) ||
	       stage_kept(node, r->dev, "infiniband", hide_cm);
}

unsigned int
view_first_free(void)
{
	DIR *dir = opendir("/sys/class/infiniband_verbs");
	unsigned int n, first = 0;
	struct dirent *d;

	while (dir && (d = readdir(dir))) {
		if (sscanf(d->d_name, "uverbs%u", &n) == 1 && n >= first)
			first = n + 1;
	}
	if (dir)
		closedir(dir);
	return first;
}

/*
 * Stages all three directories below scratch, then swaps them in. copy: descriptors of the provider
 * and the preloaded library, which are not visible here and are put beside the configuration; NULL:
 * they are visible.
 */
static int
build_view(const struct run_plan *plan, const struct run_root *r, const struct run_device *dev,
	   unsigned int ndev, const int *copy)
{
	static const char *const hide_class[] = {"infiniband", "infiniband_verbs", "misc", NULL};
	static const char *const hide_dev[] = {"infiniband", NULL};
	static const char *const hide_driver[] = {RUN_DRIVER, RUN_LINKS, NULL};
	unsigned int first = plan->keep ? view_first_free() : 0;
	const char *scratch = mount_ns_scratch(r);
	char class[PATH_MAX], node[PATH_MAX], config[PATH_MAX], links[PATH_MAX + 8];

	if (!scratch)
		return -1;
	snprintf(class, sizeof(class), "%s/class", scratch);
	snprintf(node, sizeof(node), "%s/dev", scratch);
	snprintf(config, sizeof(config), "%s/config", scratch);
	if (mount_ns_stage(class, r->class, "/sys/class", hide_class) ||
	    mount_ns_stage(node, r->dev, "/dev", hide_dev) ||
	    (plan->keep ? mount_ns_stage(config, r->config, CONFIG_DIR, hide_driver)
			: mount_ns_stage_empty(config)) ||
	    (plan->keep && stage_kernel(r, class, node)) || tree_common(class, node) ||
	    stage_misc(class, r->misc))
		return -1;
	/* libibverbs reads files in config and ignores folders. */
	snprintf(links, sizeof(links), "%s/" RUN_LINKS, config);
	if (copy &&
	    (copy_file(copy[0], links, COPY) || copy_file(copy[1], links, UROCE_PRELOAD_NAME)))
		return -1;
	if (tree_driver(config, links, UROCE_CONTAINER_DIR, copy ? COPY : plan->provider))
		return -1;
	/*
	 * Start with the last device: a tmpfs lists new entries first, and programs use the first
	 * one.
	 */
	for (unsigned int i = ndev; i-- > 0;) {
		if (tree_device(class, node, &dev[i], first + i, plan->keep))
			return -1;
	}
	if (mount_ns_commit(class, r->class, "/sys/class") ||
	    mount_ns_commit(node, r->dev, "/dev") || mount_ns_commit(config, r->config, CONFIG_DIR))
		return -1;
	return mount_ns_leave(scratch);
}

int
view_container(const char *name, struct run_device *dev, unsigned int ndev,
	       const struct run_plan *plan)
{
	int fd[2] = {open(plan->provider, O_RDONLY | O_CLOEXEC),
		     open(plan->preload, O_RDONLY | O_CLOEXEC)};
	struct run_root root;
	int rc = -1;

	if (fd[0] < 0 || fd[1] < 0)
		complain("%s: %s", fd[0] < 0 ? plan->provider : plan->preload, strerror(errno));
	else if (container_enter(&root) == 0 && need_libibverbs(root.config >= 0) == 0) {
		ndev = container_choose(&root, dev, ndev, name);
		rc = ndev ? build_view(plan, &root, dev, ndev, fd) : -1;
	}
	for (unsigned int i = 0; i < 2; i++) {
		if (fd[i] >= 0)
			close(fd[i]);
	}
	return rc;
}

/* Does what build_view may not be allowed to do. Returns the exit status of a child that tried. */
static int
try_namespace(void)
{
	static const char *const hide[] = {"misc", NULL};
	struct run_root root;
	char class[PATH_MAX];
	const char *scratch;

	if (mount_ns_enter() || root_open(&root) || need_libibverbs(root.config >= 0))
		return EXIT_FAILURE;
	scratch = mount_ns_scratch(&root);
	if (!scratch)
		return EXIT_FAILURE;
	snprintf(class, sizeof(class), "%s/class", scratch);
	return mount_ns_stage(class, root.class, "/sys/class", hide) ? EXIT_FAILURE : EXIT_SUCCESS;
}

/*
 * Returns true if this process may build the view in a namespace. A child tries it, because a
 * process cannot leave a namespace whose other half was refused. Otherwise stores the reason in
 * why.
 */
static bool
namespace_allowed(char *why, size_t room)
{
	int out[2], status = -1;
	ssize_t n = 0, part;
	pid_t child;

	if (pipe2(out, O_CLOEXEC) < 0)
		return true; /* building it fails with the reason */
	child = fork();
	if (child == 0) {
		dup2(out[1], STDERR_FILENO);
		_exit(try_namespace());
	}
	close(out[1]);
	while (child > 0 && (part = read(out[0], why + n, room - 1 - (size_t)n)) > 0)
		n += part;
	close(out[0]);
	why[n] = '\0';
	why[strcspn(why, "\n")] = '\0';
	if (strncmp(why, COMPLAINT, strlen(COMPLAINT)) == 0)
		memmove(why, why + strlen(COMPLAINT), strlen(why + strlen(COMPLAINT)) + 1);
	return child < 0 || waitpid(child, &status, 0) < 0 ||
	       (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}

static int
show_in_namespace(const struct run_plan *plan, const struct run_device *dev, unsigned int ndev)
{
	struct run_root root;

	/* open the directories in the namespace in which they will be replaced */
	if (mount_ns_enter() || root_open(&root) || need_libibverbs(root.config >= 0) ||
	    build_view(plan, &root, dev, ndev, NULL))
		return -1;
	if (mount_ns_refuse_netlink() == 0)
		return 0;
	/* a kernel without seccomp filters */
	return preload_environment(plan->preload, NULL);
}

int
view_show(const struct run_plan *plan, const struct run_device *dev, unsigned int ndev,
	  const char *program)
{
	const char *verbose = getenv("UROCE_VERBOSE");
	char why[512] = "--view=preload was given", folder[PATH_MAX];

	if (plan->view == RUN_VIEW_NAMESPACE ||
	    (plan->view == RUN_VIEW_AUTO && namespace_allowed(why, sizeof(why)))) {
		if (verbose)
			complain("the devices are shown in a mount namespace");
		return show_in_namespace(plan, dev, ndev);
	}
	if (preload_folder(plan, dev, ndev, folder) || preload_environment(plan->preload, folder)) {
		complain("nor in a mount namespace: %s", why);
		return -1;
	}
	if (verbose)
		complain("the devices are shown by %s with files in %s (%s)", plan->preload, folder,
			 why);
	preload_check(program, why);
	return 0;
}
