/* SPDX-License-Identifier: BSD-3-Clause */
#include "run.h"

#include <errno.h>
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

#define EXIT_NOT_FOUND 127 /* the value that shells use */
#define EXIT_NOT_EXEC  126

struct options {
	const char *socket;      /* NULL: $UROCE_SOCKET or the default */
	const char *provider;    /* NULL: the one of the build tree or the installation */
	bool install, uninstall; /* for the whole system, without a program */
	const char *container;   /* hook of a container's start: the device, or "all" */
	enum run_view view;
	bool keep;
	char **program;
};

static const char *const views[] = {"auto", "namespace", "preload", NULL};

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
	{.name = "view",
	 .type = CLI_CHOICE,
	 CLI_AT(struct options, view),
	 .names = views,
	 .arg = "KIND",
	 .def = "auto",
	 .help = "how the program sees the devices: in a mount\n"
		 "namespace, or by a preloaded library, which needs no\n"
		 "privilege (not for static and set-user-id programs);\n"
		 "auto: preload if namespaces are refused"},
	{.name = "keep",
	 .type = CLI_SWITCH,
	 CLI_AT(struct options, keep),
	 .help = "show the kernel's RDMA devices, too; programs connect\n"
		 "by rdma_cm only over uroce's"},
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

	fputs(COMPLAINT, stderr);
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
	if (words == 0 && (o->keep || o->view != RUN_VIEW_AUTO))
		cli_wrong(&program, "--keep and --view are for a program");
	if (words == 0 && !o->install && !o->uninstall && o->container == NULL)
		cli_wrong(&program, "no program given (see --help)");
	o->program = argv + 1;
}

/* Stores the provider's absolute path in path (PATH_MAX bytes). */
static int
find_provider(const char *given, char *path)
{
	/* relative to this program: in a build tree; in the same folder, as in a container;
	   installed in any place */
	static const char *const places[] = {"../../drivers/verbs/" RUN_PROVIDER, RUN_PROVIDER,
					     "../lib/libibverbs/" RUN_PROVIDER};

	if (given) {
		if (realpath(given, path))
			return 0;
		complain("no provider at %s: %s", given, strerror(errno));
		return -1;
	}
	if (cli_find_beside(places, sizeof(places) / sizeof(places[0]), path) == 0 ||
	    realpath(UROCE_PROVIDER_DIR "/" RUN_PROVIDER, path))
		return 0;
	complain("no " RUN_PROVIDER " beside uroce-run nor in " UROCE_PROVIDER_DIR
		 ": put it there, or "
		 "name it with --provider PATH");
	return -1;
}

/* Finds the provider, and the preloaded library in the same folder. */
static int
find_libraries(const char *given, struct run_plan *plan)
{
	char copy[PATH_MAX];

	if (find_provider(given, plan->provider))
		return -1;
	strcpy(copy, plan->provider);
	snprintf(plan->preload, sizeof(plan->preload), "%s/" UROCE_PRELOAD_NAME, dirname(copy));
	return 0;
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

int
main(int argc, char **argv)
{
	static struct run_device dev[UROCE_MAX_DEVICES];
	struct options o = {0};
	struct run_plan plan;
	unsigned int ndev;
	mode_t mask;
	int err;

	cli_streams_open();
	parse(argc, argv, &o);
	if (o.uninstall)
		return system_uninstall() ? EXIT_FAILURE : EXIT_SUCCESS;
	if (find_libraries(o.provider, &plan) || fetch_devices(o.socket, dev, &ndev))
		return EXIT_FAILURE;
	if (ndev == 0) {
		complain("uroced has no device");
		return EXIT_FAILURE;
	}
	plan.view = o.view;
	plan.keep = o.keep;
	mask = umask(022);
	if (o.install)
		return system_install(dev, ndev, plan.provider) ? EXIT_FAILURE : EXIT_SUCCESS;
	if (o.container)
		return view_container(o.container, dev, ndev, &plan) ? EXIT_FAILURE : EXIT_SUCCESS;
	if (export_socket(o.socket) || view_show(&plan, dev, ndev, o.program[0]))
		return EXIT_FAILURE;
	umask(mask);
	execvp(o.program[0], o.program);
	err = errno;
	complain("cannot run %s: %s", o.program[0], strerror(err));
	return err == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXEC;
}
