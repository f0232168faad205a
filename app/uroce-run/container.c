/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The createContainer hook of the OCI runtime specification: a runtime (runc, crun) calls
 * `uroce-run --container` in the container's namespaces, after mounting and before it starts the
 * program. At that time the host's root is visible, and the container's root is a folder in it.
 * `urocectl cdi` writes the file that configures the hook.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Stores the folder of the container's root in root. The state on standard input names the folder
 * of the configuration ("bundle"), the configuration names the root ("root.path").
 */
static int
find_root(char root[PATH_MAX])
{
	json_error_t why = {0};
	const char *bundle = NULL, *path = NULL;
	json_t *state = json_loadf(stdin, 0, &why), *config = NULL;
	char file[PATH_MAX];
	int n = -1;

	if (json_unpack(state, "{s:s}", "bundle", &bundle) == 0 &&
	    (size_t)snprintf(file, sizeof(file), "%s/config.json", bundle) < sizeof(file))
		config = json_load_file(file, 0, &why);
	if (json_unpack(config, "{s:{s:s}}", "root", "path", &path) == 0)
		n = snprintf(root, PATH_MAX, "%s%s%s", *path == '/' ? "" : bundle,
			     *path == '/' ? "" : "/", path);
	if (n < 0 || n >= PATH_MAX)
		complain("--container: no state of a container on standard input%s%s (only a "
			 "container runtime calls this: urocectl cdi)",
			 *why.text ? ": " : "", why.text);
	json_decref(state);
	json_decref(config);
	return n < 0 || n >= PATH_MAX ? -1 : 0;
}

int
container_enter(struct run_root *r)
{
	char root[PATH_MAX];

	if (find_root(root))
		return -1;
	if (chdir(root) < 0 || chroot(".") < 0) {
		complain("cannot enter the container's root %s: %s", root, strerror(errno));
		return -1;
	}
	return root_open_container(r);
}

/* Returns true if the hook of another device has already made this device visible. */
static bool
is_shown(const struct run_root *r, const char *name)
{
	struct open_how how = {
		.flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	char path[PATH_LEN], type[8] = "";
	struct stat st;
	int fd;

	path_of(path, "infiniband/%s/hca_type", name);
	fd = (int)syscall(SYS_openat2, r->class, path, &how, sizeof(how));
	if (fd < 0)
		return false;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || read(fd, type, sizeof(type) - 1) < 0)
		type[0] = 0;
	close(fd);
	return strcmp(type, "uroce\n") == 0;
}

unsigned int
container_choose(const struct run_root *r, struct run_device *dev, unsigned int ndev,
		 const char *name)
{
	unsigned int kept = 0;
	bool found = false;

	for (unsigned int i = 0; i < ndev; i++) {
		bool wanted = strcmp(name, "all") == 0 || strcmp(name, dev[i].name) == 0;

		found |= wanted;
		if ((wanted || is_shown(r, dev[i].name)) && kept++ != i)
			dev[kept - 1] = dev[i];
	}
	if (!found)
		complain("--container %s: uroced has no such device (urocectl show device)", name);
	return found ? kept : 0;
}

int
copy_file(int from, const char *dir, const char *name)
{
	char path[PATH_LEN], buffer[16384];
	ssize_t n = -1;
	int to;

	if (put_dir(dir))
		return -1;
	to = open(path_of(path, "%s/%s", dir, name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	while (to >= 0 && (n = read(from, buffer, sizeof(buffer))) > 0) {
		if (write(to, buffer, (size_t)n) != n) {
			n = -1;
			break;
		}
	}
	if (n < 0)
		complain("cannot write %s: %s", path, strerror(errno));
	if (to >= 0)
		close(to);
	return n < 0 ? -1 : 0;
}
