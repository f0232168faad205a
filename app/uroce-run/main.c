/* SPDX-License-Identifier: BSD-3-Clause */
#include "run.h"

#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROVIDER       "liburoce-rdmav34.so"
#define CONFIG_DIR     "/etc/libibverbs.d"

#define EXIT_USAGE     2
#define EXIT_NOT_FOUND 127 /* as shells have it */
#define EXIT_NOT_EXEC  126

struct options {
	const char *socket;      /* NULL: $UROCE_SOCKET or the default */
	const char *provider;    /* NULL: where it was built or installed */
	bool install, uninstall; /* system-wide; then there is no program */
	char **program;
};

static const char usage[] =
	"usage: uroce-run [options] PROGRAM [ARGUMENTS]\n"
	"       uroce-run [options] --install | --uninstall\n"
	"Runs an unmodified verbs program on the devices of a uroced; or shows them to all "
	"programs\n"
	"(also as urocectl install, urocectl uninstall).\n"
	"\n"
	"  --socket PATH    control socket of the daemon\n"
	"                   (default: $" UROCE_SOCK_ENV ", else " UROCE_DEFAULT_SOCK ")\n"
	"  --provider PATH  the provider library (default: the one this uroce-run came with)\n"
	"  --install        for root: let every program see the devices, until the reboot\n"
	"  --uninstall      undo that, completely\n"
	"  --help           this text\n"
	"  --version        version of uroce\n";

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

/* 0: go on; else exit with *status. */
static int
parse(int argc, char **argv, struct options *o, int *status)
{
	enum { OPT_SOCKET = 1, OPT_PROVIDER, OPT_INSTALL, OPT_UNINSTALL, OPT_HELP, OPT_VERSION };
	static const struct option longs[] = {
		{"socket", required_argument, NULL, OPT_SOCKET},
		{"provider", required_argument, NULL, OPT_PROVIDER},
		{"install", no_argument, NULL, OPT_INSTALL},
		{"uninstall", no_argument, NULL, OPT_UNINSTALL},
		{"help", no_argument, NULL, OPT_HELP},
		{"version", no_argument, NULL, OPT_VERSION},
		{NULL, 0, NULL, 0},
	};
	int c;

	*status = EXIT_USAGE;
	/* "+": what follows the program's name is the program's. ":": messages are ours. */
	while ((c = getopt_long(argc, argv, "+:h", longs, NULL)) != -1) {
		switch (c) {
		case OPT_SOCKET:
			o->socket = optarg;
			break;
		case OPT_PROVIDER:
			o->provider = optarg;
			break;
		case OPT_INSTALL:
			o->install = true;
			break;
		case OPT_UNINSTALL:
			o->uninstall = true;
			break;
		case 'h':
		case OPT_HELP:
			fputs(usage, stdout);
			*status = EXIT_SUCCESS;
			return -1;
		case OPT_VERSION:
			puts("uroce-run " UROCE_VERSION);
			*status = EXIT_SUCCESS;
			return -1;
		case ':':
			complain("option %s needs a value (see --help)", argv[optind - 1]);
			return -1;
		default:
			complain("unknown option %s (see --help)", argv[optind - 1]);
			return -1;
		}
	}
	if (o->install + o->uninstall + (optind < argc) > 1) {
		complain("--install, --uninstall and a program exclude each other");
		return -1;
	}
	if (optind == argc && !o->install && !o->uninstall) {
		complain("no program given (see --help)");
		return -1;
	}
	o->program = argv + optind;
	return 0;
}

/* The provider's absolute path into path (PATH_MAX bytes). */
static int
find_provider(const char *given, char *path)
{
	/* from this program's folder: a build tree; both in one folder, copied to a container */
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

/* Stages all three directories below scratch, then swaps them in. */
static int
build_view(const struct run_device *dev, unsigned int ndev, const char *provider)
{
	static const char *const hide_class[] = {"infiniband", "infiniband_verbs", NULL};
	static const char *const hide_dev[] = {"infiniband", NULL};
	const char *scratch = mount_ns_scratch();
	char class[PATH_MAX], node[PATH_MAX], config[PATH_MAX];

	if (!scratch)
		return -1;
	snprintf(class, sizeof(class), "%s/class", scratch);
	snprintf(node, sizeof(node), "%s/dev", scratch);
	snprintf(config, sizeof(config), "%s/config", scratch);
	if (mount_ns_stage(class, "/sys/class", hide_class) ||
	    mount_ns_stage(node, "/dev", hide_dev) || mount_ns_stage_empty(config) ||
	    tree_common(class, node) || tree_driver(config, provider))
		return -1;
	/* A tmpfs lists what was made last first, and programs take the first device they see. */
	for (unsigned int i = ndev; i-- > 0;) {
		if (tree_device(class, node, &dev[i], i))
			return -1;
	}
	if (mount_ns_commit(class, "/sys/class") || mount_ns_commit(node, "/dev") ||
	    mount_ns_commit(config, CONFIG_DIR))
		return -1;
	return mount_ns_leave();
}

/* Hands --socket on to the provider, which may run in another directory by then. */
static int
export_socket(const char *path)
{
	char absolute[PATH_MAX];

	if (!path)
		return 0;
	if (!realpath(path, absolute) || setenv(UROCE_SOCK_ENV, absolute, 1) < 0) {
		complain("%s: %s", path, strerror(errno));
		return -1;
	}
	return 0;
}

int
main(int argc, char **argv)
{
	static struct run_device dev[UROCE_MAX_DEVICES];
	struct options o = {0};
	char provider[PATH_MAX];
	unsigned int ndev;
	mode_t mask;
	int status, err;

	if (parse(argc, argv, &o, &status))
		return status;
	if (o.uninstall)
		return system_uninstall() ? EXIT_FAILURE : EXIT_SUCCESS;
	if (access(CONFIG_DIR, F_OK) < 0) {
		complain("no " CONFIG_DIR ": libibverbs (package libibverbs1, ibverbs-providers) "
			 "is not installed");
		return EXIT_FAILURE;
	}
	if (find_provider(o.provider, provider) || fetch_devices(o.socket, dev, &ndev))
		return EXIT_FAILURE;
	if (ndev == 0) {
		complain("uroced has no device");
		return EXIT_FAILURE;
	}
	mask = umask(022);
	if (o.install)
		return system_install(dev, ndev, provider) ? EXIT_FAILURE : EXIT_SUCCESS;
	if (export_socket(o.socket) || mount_ns_enter() || build_view(dev, ndev, provider))
		return EXIT_FAILURE;
	umask(mask);
	execvp(o.program[0], o.program);
	err = errno;
	complain("cannot run %s: %s", o.program[0], strerror(err));
	return err == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXEC;
}
