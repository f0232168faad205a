/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hook of a container's start: an OCI runtime (runc, crun) calls `uroce-run --container` in the
 * container's namespaces after its mounts and before its program ("createContainer" of the runtime
 * specification). The root of the host is visible then, that of the container is a folder in it.
 * `urocectl cdi` writes the file that makes the runtime do so.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "put.h"

#define CLASS "/sys/class/infiniband"

/*
 * The folder of the container's root into root: "root.path" of the configuration in the folder that
 * "bundle" of the state on standard input names.
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

/* Opens a path of the container, whose root is the working directory; never outside of it. */
static int
open_inside(const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = {
		.flags = flags | O_CLOEXEC,
		.resolve = resolve | RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};

	return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

/*
 * Refuses an image in which a path that is mounted over or bound is a symbolic link. One through
 * /proc/1/root would lead out of the container: chroot does not stop it.
 */
static int
check_paths(void)
{
	static const char *const paths[] = {"/tmp",       "/etc/libibverbs.d",
					    "/sys/class", "/sys/class/misc",
					    "/dev",       "/dev/full"};
	struct statfs fs;
	int fd;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		fd = open_inside(paths[i], O_PATH, RESOLVE_NO_SYMLINKS);
		if (fd < 0 && errno != ENOENT) {
			complain("%s of the container: %s", paths[i],
				 errno == ELOOP ? "a symbolic link, which could lead out of the "
						  "container; use an image that has a folder there"
						: strerror(errno));
			return -1;
		}
		if (fd >= 0)
			close(fd);
	}
	/* Links below it are the kernel's. */
	if (statfs("/sys", &fs) < 0 || fs.f_type != SYSFS_MAGIC) {
		complain("/sys of the container is not a sysfs");
		return -1;
	}
	return 0;
}

int
container_enter(void)
{
	char root[PATH_MAX];

	if (find_root(root))
		return -1;
	if (chdir(root) < 0 || chroot(".") < 0) {
		complain("cannot enter the container's root %s: %s", root, strerror(errno));
		return -1;
	}
	return check_paths();
}

/* Does the container see this device already, by the hook of another device? */
static bool
is_shown(const char *name)
{
	char path[PATH_LEN], type[8] = "";
	int fd = open_inside(path_of(path, CLASS "/%s/hca_type", name), O_RDONLY | O_NONBLOCK, 0);
	struct stat st;

	if (fd < 0)
		return false;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || read(fd, type, sizeof(type) - 1) < 0)
		type[0] = 0;
	close(fd);
	return strcmp(type, "uroce\n") == 0;
}

unsigned int
container_choose(struct run_device *dev, unsigned int ndev, const char *name)
{
	unsigned int kept = 0;
	bool found = false;

	for (unsigned int i = 0; i < ndev; i++) {
		bool wanted = strcmp(name, "all") == 0 || strcmp(name, dev[i].name) == 0;

		found |= wanted;
		if ((wanted || is_shown(dev[i].name)) && kept++ != i)
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
