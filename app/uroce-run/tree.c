/* SPDX-License-Identifier: BSD-3-Clause */
/* The files by which libibverbs, perftest, UCX and pyverbs know an RDMA device. */
#include "run.h"

#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_LEN 512

/* The kernel's version of the uverbs interface that libibverbs expects to find. */
#define UVERBS_ABI 6

/* Builds a path; one that does not fit comes out empty, which nothing can be written to. */
static const char *__attribute__((format(printf, 2, 3)))
path_of(char path[PATH_LEN], const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(path, PATH_LEN, fmt, ap);
	va_end(ap);
	if (n < 0 || n >= PATH_LEN) {
		complain("a path below %s is too long", path);
		path[0] = 0;
	}
	return path;
}

/* Makes a directory and those above it, as far as they are missing below root. */
static int
put_dir(const char *path)
{
	char part[PATH_LEN];
	size_t len = strlen(path);

	if (len == 0 || len >= sizeof(part))
		return -1;
	for (size_t i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i] != 0)
			continue;
		memcpy(part, path, i);
		part[i] = 0;
		if (mkdir(part, 0755) < 0 && errno != EEXIST) {
			complain("cannot make %s: %s", part, strerror(errno));
			return -1;
		}
	}
	return 0;
}

/* Writes a line into dir/file, making dir. */
static int __attribute__((format(printf, 3, 4)))
put(const char *dir, const char *file, const char *fmt, ...)
{
	char path[PATH_LEN];
	va_list ap;
	FILE *f;

	if (put_dir(dir))
		return -1;
	path_of(path, "%s/%s", dir, file);
	f = fopen(path, "we");
	if (!f) {
		complain("cannot write %s: %s", path, strerror(errno));
		return -1;
	}
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	fputc('\n', f);
	if (fclose(f)) {
		complain("cannot write %s: %s", path, strerror(errno));
		return -1;
	}
	return 0;
}

static int
put_gid(const char *port, unsigned int i, const uint8_t gid[16], const char *netdev)
{
	char dir[PATH_LEN], file[16], text[40];
	int rc;

	for (unsigned int k = 0; k < 8; k++)
		snprintf(text + 5 * k, sizeof(text) - 5 * k, "%02x%02x%s", gid[2 * k],
			 gid[2 * k + 1], k < 7 ? ":" : "");
	snprintf(file, sizeof(file), "%u", i);
	path_of(dir, "%s/gids", port);
	rc = put(dir, file, "%s", text);
	path_of(dir, "%s/gid_attrs/types", port);
	rc |= put(dir, file, "RoCE v2");
	if (*netdev) {
		path_of(dir, "%s/gid_attrs/ndevs", port);
		rc |= put(dir, file, "%s", netdev);
	}
	return rc;
}

/* Signalling rate in Gb/s of ibv_port_attr's speed and width codes. */
static unsigned int
rate_gbps(const struct uroce_port_rep *p)
{
	static const struct {
		uint32_t code;
		unsigned int gbps_x10;
	} lane[] = {{1, 25},   {2, 50},   {4, 100},  {8, 100},
		    {16, 140}, {32, 250}, {64, 500}, {128, 1000}};
	static const struct {
		uint32_t code;
		unsigned int lanes;
	} width[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
	unsigned int x10 = 0, lanes = 0;

	for (size_t i = 0; i < sizeof(lane) / sizeof(lane[0]); i++) {
		if (lane[i].code == p->active_speed)
			x10 = lane[i].gbps_x10;
	}
	for (size_t i = 0; i < sizeof(width) / sizeof(width[0]); i++) {
		if (width[i].code == p->active_width)
			lanes = width[i].lanes;
	}
	return x10 * lanes / 10;
}

static int
put_port(const char *ibdev, const struct run_device *d)
{
	static const char *const state[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE"};
	uint32_t s = d->port.state < 5 ? d->port.state : 0;
	char port[PATH_LEN], dir[PATH_LEN], file[16];
	int rc;

	path_of(port, "%s/ports/1", ibdev);
	rc = put(port, "state", "%u: %s", s, state[s]);
	rc |= put(port, "phys_state", "%u: %s", d->port.phys_state,
		  d->port.phys_state == 5 ? "LinkUp" : "Disabled");
	rc |= put(port, "rate", "%u Gb/sec", rate_gbps(&d->port));
	rc |= put(port, "link_layer", "Ethernet");
	rc |= put(port, "lid", "0x0");
	rc |= put(port, "sm_lid", "0x0");
	rc |= put(port, "lid_mask_count", "0");
	for (uint32_t i = 0; i < d->ngids; i++)
		rc |= put_gid(port, i, d->gid[i].gid, d->netdev);
	path_of(dir, "%s/pkeys", port);
	for (uint32_t i = 0; i < d->npkeys; i++) {
		snprintf(file, sizeof(file), "%u", i);
		rc |= put(dir, file, "0x%04x", d->pkey[i].pkey);
	}
	return rc;
}

static int
put_ibdev(const char *sysfs, const struct run_device *d)
{
	uint64_t guid = be64toh(d->dev.node_guid);
	char ibdev[PATH_LEN], dir[PATH_LEN], text[24];
	int rc;

	path_of(ibdev, "%s/infiniband/%s", sysfs, d->name);
	snprintf(text, sizeof(text), "%04x:%04x:%04x:%04x", (unsigned int)(guid >> 48),
		 (unsigned int)(guid >> 32 & 0xffff), (unsigned int)(guid >> 16 & 0xffff),
		 (unsigned int)(guid & 0xffff));
	rc = put(ibdev, "node_type", "1: CA");
	rc |= put(ibdev, "node_guid", "%s", text);
	rc |= put(ibdev, "sys_image_guid", "%s", text);
	rc |= put(ibdev, "node_desc", "%s", d->name);
	rc |= put(ibdev, "fw_ver", "%.*s", (int)sizeof(d->dev.fw_ver), d->dev.fw_ver);
	rc |= put(ibdev, "hca_type", "uroce");
	rc |= put(ibdev, "board_id", "uroce");
	rc |= put_port(ibdev, d);
	if (*d->netdev) {
		path_of(dir, "%s/device/net/%s", ibdev, d->netdev);
		rc |= put_dir(dir);
	}
	return rc;
}

/*
 * libibverbs wants a character device of the number in "dev"; the provider never uses it. To import
 * a context it tells devices apart by this number, so the first few get different ones. Everybody
 * may open these.
 */
static const struct {
	const char *path, *number;
} nodes[] = {
	{"/dev/null", "1:3"},   {"/dev/zero", "1:5"},    {"/dev/full", "1:7"},
	{"/dev/random", "1:8"}, {"/dev/urandom", "1:9"},
};
#define NNODES (sizeof(nodes) / sizeof(nodes[0]))

int
tree_device(const char *sysfs, const char *dev, const struct run_device *d, unsigned int index)
{
	unsigned int which = index < NNODES ? index : 0;
	char dir[PATH_LEN], node[PATH_LEN];
	int rc;

	rc = put_ibdev(sysfs, d);
	path_of(dir, "%s/infiniband_verbs/uverbs%u", sysfs, index);
	rc |= put(dir, "ibdev", "%s", d->name);
	rc |= put(dir, "abi_version", "%d", UROCE_ABI_VERSION);
	rc |= put(dir, "dev", "%s", nodes[which].number);
	path_of(dir, "%s/infiniband", dev);
	rc |= put_dir(dir);
	path_of(node, "%s/uverbs%u", dir, index);
	if (symlink(nodes[which].path, node) < 0) {
		complain("cannot make %s: %s", node, strerror(errno));
		return -1;
	}
	return rc ? -1 : 0;
}

int
tree_common(const char *sysfs, const char *dev)
{
	char dir[PATH_LEN];

	path_of(dir, "%s/infiniband", dev);
	if (put_dir(dir))
		return -1;
	path_of(dir, "%s/infiniband_verbs", sysfs);
	return put(dir, "abi_version", "%d", UVERBS_ABI);
}

int
tree_driver(const char *dir, const char *provider)
{
	static const char suffix[] = "-rdmav34.so";
	size_t len = strlen(provider);

	/* libibverbs appends the suffix of its private ABI itself. */
	if (len <= strlen(suffix) || strcmp(provider + len - strlen(suffix), suffix) != 0) {
		complain("%s is not named lib*%s", provider, suffix);
		return -1;
	}
	return put(dir, "uroce.driver", "driver %.*s", (int)(len - strlen(suffix)), provider);
}
