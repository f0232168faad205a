/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cdi: a file by which container engines give containers the daemon's devices, as the Container
 * Device Interface defines it. A hook (uroce-run --container) makes the files that libibverbs
 * looks for when the container starts; a mount shows the daemon's socket.
 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "urocectl.h"

#define KIND    "uroce.dev/rdma"
#define VERSION "0.3.0" /* the earliest that has everything used here */

const char cdi_help[] =
	"\ncdi: a file of the Container Device Interface, which podman and others read in /etc/cdi "
	"and\n"
	"  /run/cdi: podman run --device " KIND "=DEVICE .., or =all. To standard output, or\n"
	"  with --output into FILE. A container started later has the devices of that time;\n"
	"  write the file again when the daemon has other devices.\n";

/*
 * What a container gets for the device name. The specification sets the hook's environment:
 * otherwise it may come from the runtime's caller, and the hook runs programs along PATH as root.
 */
static json_t *
device(const char *name, const char *run, const char *socket)
{
	return json_pack("{s:s, s:{s:[{s:s, s:s, s:[s,s,s,s,s], s:[s]}]}}", "name", name,
			 "containerEdits", "hooks", "hookName", "createContainer", "path", run,
			 "args", "uroce-run", "--socket", socket, "--container", name, "env",
			 "PATH=/usr/sbin:/usr/bin:/sbin:/bin");
}

/*
 * What a container gets once, whichever devices it has: the folder of the socket, and the library
 * that keeps libibverbs from asking the kernel (drivers/verbs/preload.c), which the hook puts
 * there.
 */
static json_t *
common_edits(const char *socket)
{
	char copy[PATH_MAX];
	const char *dir;
	json_t *edits, *env;

	snprintf(copy, sizeof(copy), "%s", socket);
	dir = dirname(copy);
	edits = json_pack("{s:[{s:s, s:s, s:[s,s,s,s,s]}]}", "mounts", "hostPath", dir,
			  "containerPath", dir, "options", "rbind", "ro", "nosuid", "nodev",
			  "noexec");
	env = json_pack("[s]", "LD_PRELOAD=" UROCE_CONTAINER_DIR "/" UROCE_PRELOAD_NAME);
	if (strcmp(socket, UROCE_DEFAULT_SOCK) != 0)
		json_array_append_new(env, json_sprintf(UROCE_SOCK_ENV "=%s", socket));
	json_object_set_new(edits, "env", env);
	return edits;
}

static void
take_word(struct request *rq, unsigned nth, const char *word)
{
	(void)rq;
	(void)nth;
	usage_error("cdi: unexpected argument '%s'; legal: cdi [--output FILE]", word);
}

static void
check(const struct request *rq)
{
	(void)rq;
}

/* The document; NULL with errno, which is 0 when the reason was printed. */
static json_t *
document(struct ipc_client *c, const struct request *rq)
{
	struct uroce_list_devices_rep list;
	struct ipc_call call = {
		.op = UROCE_CTRL_LIST_DEVICES,
		.rep = &list,
		.rep_len = sizeof(list),
	};
	char run[PATH_MAX], socket[PATH_MAX];
	json_t *devices;
	int rc = ipc_client_call(c, &call);

	errno = rc < 0 ? -rc : list.ndevices > UROCE_MAX_DEVICES ? EPROTO : 0;
	if (errno != 0 || realpath(ipc_client_path(rq->socket), socket) == NULL)
		return NULL;
	if (find_uroce_run(run) < 0) {
		fprintf(stderr, "urocectl: cdi: no uroce-run next to urocectl: %s\n",
			strerror(errno));
		errno = 0;
		return NULL;
	}
	devices = json_array();
	for (unsigned i = 0; i < list.ndevices; i++) {
		list.dev[i].name[sizeof(list.dev[i].name) - 1] = '\0';
		json_array_append_new(devices, device(list.dev[i].name, run, socket));
	}
	json_array_append_new(devices, device("all", run, socket));
	return json_pack("{s:s, s:s, s:o, s:o}", "cdiVersion", VERSION, "kind", KIND,
			 "containerEdits", common_edits(socket), "devices", devices);
}

/*
 * Writes the document to path under another name first, because an engine may read the folder at
 * any time; it reads only names that end with .json or .yaml.
 */
static int
write_file(const json_t *all, const char *path)
{
	char fresh[PATH_MAX], folder[PATH_MAX];

	if ((size_t)snprintf(fresh, sizeof(fresh), "%s.new", path) >= sizeof(fresh)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	snprintf(folder, sizeof(folder), "%s", path);
	umask(022); /* engines of ordinary users read the file, too */
	if (mkdir(dirname(folder), 0755) < 0 && errno != EEXIST && errno != EROFS)
		return -1;
	if (json_dump_file(all, fresh, JSON_INDENT(1)) < 0)
		return -1;
	if (rename(fresh, path) == 0)
		return 0;
	unlink(fresh);
	return -1;
}

static int
run(struct ipc_client *c, const struct request *rq)
{
	json_t *all = document(c, rq);
	int rc = 0;

	if (all == NULL)
		return -1;
	if (rq->output == NULL) {
		print_json(all);
	} else if (write_file(all, rq->output) < 0) {
		rc = EXIT_FAILURE;
		fprintf(stderr, "urocectl: cdi: cannot write %s: %s\n", rq->output,
			strerror(errno));
	}
	json_decref(all);
	return rc;
}

const struct command cdi_command = {"cdi", NULL, take_word, check, NULL, NULL, run};
