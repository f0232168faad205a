/* SPDX-License-Identifier: BSD-3-Clause */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli/cli.h"
#include "ipc/client.h"

#define PROVIDER       "liburoce-rdmav34.so"
#define CONFIG_DIR     "/etc/libibverbs.d"
#define EXIT_NOT_FOUND 127 /* the value that shells use */
#define EXIT_NOT_EXEC  126

struct options {
	const char *socket;      /* NULL: $UROCE_SOCKET or the default */
	const char *provider;    /* NULL: the one of the build tree or the installation */
	bool install, uninstall; /* for the whole system, without a program */
	const char *container;   /* hook of a container's start: the device, or "all" */
	char **program;
};

static const struct cli_field options[] = {
	{.name = "socket",
	 .type = CLI_TEXT,
	 CLI_AT(struct options, socket),
	 .arg = "PATH",
	 .help = "control socket of the daemon\n[$" UROCE_SOCK_ENV
		 ", else the user's own daemon, else\n" UROCE_DEFAULT_SOCK "]"},
	{.name = "provider",
	 .type = CLI_TEXT,
	 CLI_AT(struct options, provider),
	 .arg = "PATH",
	 .help = "the provider library [the one this uroce-run came with]"},
	{.name = "install",
	 .type = CLI_SWITCH,
	 CLI_AT(struct options, install),
	 .help = "for root: let every program see the devices, until the reboot"},
	{.name = "uninstall",
	 .type = CLI_SWITCH,
	 CLI_AT(struct options, uninstall),
	 .help = "undo that, completely"},
	{.name = "container",
	 .type = CLI_TEXT,
	 CLI_AT(struct options, container),
	 .arg = "DEVICE|all",
	 .help = "for container runtimes, as a hook: show the device in the container\n(urocectl "
		 "cdi writes the file that asks for it)"},
	{NULL},
};

static const struct cli_program program = {
	.name = "uroce-run",
	.usage =
		"usage: uroce-run [options] PROGRAM [ARGUMENTS]\n"
		"       uroce-run [options] --install | --uninstall\n"
		"Runs an unmodified verbs program on the devices of a uroced; or shows them to all "
		"programs\n"
		"(also as urocectl install, urocectl uninstall).\n",
	.options = options,
	.command = true,
};

void
complain(const char *fmt, ...)
{
	va_list ap;

	fputs("uroce-run: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

static void
parse(int argc, char **argv, struct options *o)
{
	int words = cli_parse(&program, o, argc, argv);

	if (o->install + o->uninstall + (o->container != NULL) + (words > 0) > 1)
		cli_wrong(&program,
			  "give only one of --install, --uninstall, --container and a program");
	if (words == 0 && !o->install && !o->uninstall && o->container == NULL)
		cli_wrong(&program, "no program given (see --help)");
	o->program = argv + 1;
}

/* Stores the provider's absolute path in path (PATH_MAX bytes). */
static int
find_provider(const char *given, char *path)
{
	/* relative to this program: in a build tree; in the same folder, as in a container */
	static const char *const places[] = {"../../drivers/verbs/" PROVIDER, PROVIDER};
	char exe[PATH_MAX], beside[PATH_MAX];
	const char *dir;
	ssize_t n;

	if (given) {
		if (realpath(given, path))
			return 0;
		complain("no provider at %s: %s", given, strerror(errno));
		return -1;
	}
	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = 0;
	dir = dirname(exe);
	for (unsigned int i = 0; n > 0 && i < sizeof(places) / sizeof(places[0]); i++) {
		if ((size_t)snprintf(beside, sizeof(beside), "%s/%s", dir, places[i]) <
			    sizeof(beside) &&
		    realpath(beside, path))
			return 0;
	}
	if (realpath(UROCE_PROVIDER_DIR "/" PROVIDER, path))
		return 0;
	complain("no " PROVIDER " in %s nor in %s: put it beside uroce-run, or name it with "
		 "--provider PATH",
		 dir, UROCE_PROVIDER_DIR);
	return -1;
}

/* Stages class/misc in class, which was staged without it. */
static int
stage_misc(const char *class, int target)
{
	static const char *const hide_nothing[] = {NULL};
	char misc[PATH_MAX];

	if ((size_t)snprintf(misc, sizeof(misc), "%s/misc", class) >= sizeof(misc))
		return -1;
	if (target >= 0 && mount_ns_stage(misc, target, "/sys/class/misc", hide_nothing))
		return -1;
	return tree_rdma_cm(class);
}

/*
 * Stages all three directories below scratch, then swaps them in. copy: a descriptor of the
 * provider, which is not visible here and is put beside its configuration; -1: it is visible.
 */
static int
build_view(const struct run_root *r, const struct run_device *dev, unsigned int ndev,
	   const char *provider, int copy)
{
	/* class/misc is replaced only if the kernel has no rdma_cm there */
	bool misc = r->misc < 0 || faccessat(r->misc, "rdma_cm", F_OK, 0) < 0;
	const char *const hide_class[] = {"infiniband", "infiniband_verbs", misc ? "misc" : NULL,
					  NULL};
	static const char *const hide_dev[] = {"infiniband", NULL};
	const char *scratch = mount_ns_scratch(r);
	char class[PATH_MAX], node[PATH_MAX], config[PATH_MAX], beside[PATH_MAX + 8];

	if (!scratch)
		return -1;
	snprintf(class, sizeof(class), "%s/class", scratch);
	snprintf(node, sizeof(node), "%s/dev", scratch);
	snprintf(config, sizeof(config), "%s/config", scratch);
	if (mount_ns_stage(class, r->class, "/sys/class", hide_class) ||
	    mount_ns_stage(node, r->dev, "/dev", hide_dev) || mount_ns_stage_empty(config) ||
	    tree_common(class, node) || (misc && stage_misc(class, r->misc)))
		return -1;
	/* libibverbs reads files in config and ignores folders. */
	snprintf(beside, sizeof(beside), "%s/uroce", config);
	if (copy >= 0 && copy_file(copy, beside, PROVIDER))
		return -1;
	if (tree_driver(config, copy >= 0 ? CONFIG_DIR "/uroce/" PROVIDER : provider))
		return -1;
	/* Start with the last device: a tmpfs lists new entries first, and programs use the first
	 * one. */
	for (unsigned int i = ndev; i-- > 0;) {
		if (tree_device(class, node, &dev[i], i))
			return -1;
	}
	if (mount_ns_commit(class, r->class, "/sys/class") ||
	    mount_ns_commit(node, r->dev, "/dev") || mount_ns_commit(config, r->config, CONFIG_DIR))
		return -1;
	return mount_ns_leave(scratch);
}

/* Passes the socket to the provider as an absolute path: the program may change its directory. */
static int
export_socket(const char *path)
{
	char absolute[PATH_MAX];

	/* The program may run under another uid, for which the default socket differs. */
	path = ipc_client_path(path);
	if (strcmp(path, UROCE_DEFAULT_SOCK) == 0)
		return 0;
	if (!realpath(path, absolute) || setenv(UROCE_SOCK_ENV, absolute, 1) < 0) {
		complain("%s: %s", path, strerror(errno));
		return -1;
	}
	return 0;
}

static int
need_libibverbs(bool there)
{
	if (there)
		return 0;
	complain("no " CONFIG_DIR ": libibverbs (package libibverbs1, ibverbs-providers) "
		 "is not installed");
	return -1;
}

/* Installs the devices in the container that is being created. */
static int
show_in_container(const char *name, struct run_device *dev, unsigned int ndev, const char *provider)
{
	int fd = open(provider, O_RDONLY | O_CLOEXEC), rc = -1;
	struct run_root root;

	if (fd < 0) {
		complain("%s: %s", provider, strerror(errno));
		return -1;
	}
	if (container_enter(&root) == 0 && need_libibverbs(root.config >= 0) == 0) {
		ndev = container_choose(&root, dev, ndev, name);
		rc = ndev ? build_view(&root, dev, ndev, provider, fd) : -1;
	}
	close(fd);
	return rc;
}

/* Installs the devices for the program that this process will execute. */
static int
show_here(const struct run_device *dev, unsigned int ndev, const char *provider)
{
	struct run_root root;

	/* open the directories in the namespace in which they will be replaced */
	return mount_ns_enter() || root_open(&root) || build_view(&root, dev, ndev, provider, -1);
}

int
main(int argc, char **argv)
{
	static struct run_device dev[UROCE_MAX_DEVICES];
	struct options o = {0};
	char provider[PATH_MAX];
	unsigned int ndev;
	mode_t mask;
	int err;

	parse(argc, argv, &o);
	if (o.uninstall)
		return system_uninstall() ? EXIT_FAILURE : EXIT_SUCCESS;
	if (o.container == NULL && need_libibverbs(access(CONFIG_DIR, F_OK) == 0))
		return EXIT_FAILURE;
	if (find_provider(o.provider, provider) || fetch_devices(o.socket, dev, &ndev))
		return EXIT_FAILURE;
	if (ndev == 0) {
		complain("uroced has no device");
		return EXIT_FAILURE;
	}
	mask = umask(022);
	if (o.install)
		return system_install(dev, ndev, provider) ? EXIT_FAILURE : EXIT_SUCCESS;
	if (o.container)
		return show_in_container(o.container, dev, ndev, provider) ? EXIT_FAILURE
									   : EXIT_SUCCESS;
	if (export_socket(o.socket) || show_here(dev, ndev, provider))
		return EXIT_FAILURE;
	umask(mask);
	execvp(o.program[0], o.program);
	err = errno;
	complain("cannot run %s: %s", o.program[0], strerror(err));
	return err == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXEC;
}
