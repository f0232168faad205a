/* SPDX-License-Identifier: BSD-3-Clause */
#include "vdev.h"

#include <errno.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SLOT_OVERHEAD (64 + 18) /* the kernel's header; Ethernet header and VLAN tag */
#define SLOT_SMALLEST 2048      /* smallest default */
#define BLOCK_BYTES   16384     /* or a page, if that is larger */
#define SLOTS         1024

/* Drivers and their arguments that name an interface, which must exist. */
static const struct {
	const char *driver; /* prefix of the device name */
	const char *key;
} interfaces[] = {
	{"net_af_packet", "iface"}, {"eth_af_packet", "iface"}, {"net_af_xdp", "iface"},
	{"net_tap", "remote"},      {"eth_tap", "remote"},      {"net_pcap", "iface"},
	{"net_pcap", "rx_iface"},   {"net_pcap", "tx_iface"},   {"eth_pcap", "iface"},
};

bool
vdev_value(const char *args, const char *key, char value[VDEV_VALUE_MAX])
{
	size_t len = strlen(key);
	const char *p = args;

	while ((p = strchr(p, ',')) != NULL) {
		p++;
		if (strncmp(p, key, len) != 0 || p[len] != '=')
			continue;
		p += len + 1;
		snprintf(value, VDEV_VALUE_MAX, "%.*s", (int)strcspn(p, ","), p);
		return true;
	}
	return false;
}

/* "lo, eth0, ..": the interfaces of this network namespace. */
static void
list_interfaces(char *text, size_t room)
{
	struct if_nameindex *all = if_nameindex();
	size_t used = 0;

	text[0] = '\0';
	for (const struct if_nameindex *i = all; i != NULL && i->if_index != 0; i++) {
		int n = snprintf(text + used, room - used, "%s%s", used > 0 ? ", " : "",
				 i->if_name);

		if (n < 0 || (size_t)n >= room - used) {
			text[used] = '\0'; /* list only as many as fit */
			break;
		}
		used += (size_t)n;
	}
	if_freenameindex(all);
}

static bool
interface_exists(const char *args, const char *key, const char *value, char *err, size_t room)
{
	char list[256];

	if (if_nametoindex(value) != 0)
		return true;
	list_interfaces(list, sizeof(list));
	snprintf(err, room, "option --vdev %.*s: %s=%s: interface %s not found; interfaces: %s",
		 (int)strcspn(args, ","), args, key, value, value, list);
	return false;
}

static bool
interfaces_exist(const char *args, char *err, size_t room)
{
	char value[VDEV_VALUE_MAX];

	for (unsigned i = 0; i < sizeof(interfaces) / sizeof(interfaces[0]); i++) {
		if (strncmp(args, interfaces[i].driver, strlen(interfaces[i].driver)) == 0 &&
		    vdev_value(args, interfaces[i].key, value) &&
		    !interface_exists(args, interfaces[i].key, value, err, room))
			return false;
	}
	return true;
}

static uint32_t
interface_mtu(const char *name)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq req = {0};
	uint32_t mtu = 1500;

	if (fd < 0)
		return mtu;
	memcpy(req.ifr_name, name, strnlen(name, sizeof(req.ifr_name) - 1));
	if (ioctl(fd, SIOCGIFMTU, &req) == 0 && req.ifr_mtu > 0)
		mtu = (uint32_t)req.ifr_mtu;
	close(fd);
	return mtu;
}

uint32_t
vdev_slot_bytes(uint32_t mtu)
{
	uint32_t slot = SLOT_SMALLEST;

	while (slot < VDEV_SLOT_MAX && slot - SLOT_OVERHEAD < mtu)
		slot *= 2;
	return slot;
}

/* The sizes of an af_packet ring, and which of them the user gave. */
struct ring {
	uint32_t block, slot, slots;
	bool block_given, slot_given, slots_given;
};

/* Gets the number given for key, min .. max, or fallback if the argument is absent. */
static bool
take_size(const char *args, const char *key, uint32_t min, uint32_t max, uint32_t *size,
	  bool *given, char *err, size_t room)
{
	char value[VDEV_VALUE_MAX], *end;
	unsigned long n;

	*given = vdev_value(args, key, value);
	if (!*given)
		return true;
	n = strtoul(value, &end, 10);
	*size = (uint32_t)n;
	if (*value >= '0' && *value <= '9' && *end == '\0' && n >= min && n <= max)
		return true;
	snprintf(err, room, "option --vdev %.*s: %s=%s is not a number from %u to %u",
		 (int)strcspn(args, ","), args, key, value, min, max);
	return false;
}

/* Derive the missing sizes from the given ones and from the interface's MTU. */
static bool
choose_ring(const char *args, uint32_t mtu, uint32_t page, struct ring *r, char *err, size_t room)
{
	const uint32_t block = page > BLOCK_BYTES ? page : BLOCK_BYTES;

	if (!take_size(args, "framesz", VDEV_SLOT_MIN, VDEV_SLOT_MAX, &r->slot, &r->slot_given, err,
		       room) ||
	    !take_size(args, "blocksz", page, VDEV_BLOCK_MAX, &r->block, &r->block_given, err,
		       room) ||
	    !take_size(args, "framecnt", 1, 1u << 20, &r->slots, &r->slots_given, err, room))
		return false;
	if (!r->block_given)
		r->block = block;
	if (!r->slot_given)
		r->slot = vdev_slot_bytes(mtu);
	while (!r->slot_given && r->slot > r->block)
		r->slot /= 2;
	if (!r->slots_given)
		r->slots = SLOTS > r->block / r->slot ? SLOTS : r->block / r->slot;
	if (r->block % page == 0 && r->block % r->slot == 0 && r->slots % (r->block / r->slot) == 0)
		return true;
	snprintf(err, room,
		 "option --vdev %.*s: blocksz=%u must be a multiple of the page size %u and of "
		 "framesz=%u, and framecnt=%u a multiple of blocksz / framesz; such as "
		 "blocksz=%u,framesz=%u,framecnt=%u",
		 (int)strcspn(args, ","), args, r->block, page, r->slot, r->slots, block,
		 vdev_slot_bytes(mtu), SLOTS);
	return false;
}

static char *
prepare_af_packet(const char *args, uint32_t page, char *err, size_t room)
{
	struct ring r = {0};
	char name[VDEV_VALUE_MAX], *text = NULL;
	size_t len;
	FILE *out;

	if (!vdev_value(args, "iface", name)) {
		snprintf(err, room, "option --vdev %s: needs iface=, the name of an interface",
			 args);
		return NULL;
	}
	if (!choose_ring(args, interface_mtu(name), page, &r, err, room))
		return NULL;
	out = open_memstream(&text, &len);
	if (out == NULL) {
		snprintf(err, room, "option --vdev: out of memory");
		return NULL;
	}
	fputs(args, out);
	if (!r.block_given)
		fprintf(out, ",blocksz=%u", r.block);
	if (!r.slot_given)
		fprintf(out, ",framesz=%u", r.slot);
	if (!r.slots_given)
		fprintf(out, ",framecnt=%u", r.slots);
	fclose(out);
	return text;
}

/*
 * Removes the socket file that a killed memif server left, because a new server could not bind it.
 * Returns false if a process listens on it. The probe uses a stream socket, which cannot connect to
 * a memif's socket; the error shows whether a process listens, without disturbing it.
 */
static bool
memif_socket_ready(const char *args, char *err, size_t room)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	char role[VDEV_VALUE_MAX], abstract[VDEV_VALUE_MAX], path[VDEV_VALUE_MAX];
	struct stat st;
	int fd, rc;

	if (!vdev_value(args, "role", role) || strcmp(role, "server") != 0 ||
	    !vdev_value(args, "socket-abstract", abstract) || strcmp(abstract, "no") != 0 ||
	    !vdev_value(args, "socket", path) || strlen(path) >= sizeof(un.sun_path) ||
	    lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return true;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return true;
	strcpy(un.sun_path, path);
	rc = connect(fd, (struct sockaddr *)&un, sizeof(un)) < 0 ? errno : 0;
	close(fd);
	if (rc == ECONNREFUSED)
		unlink(path);
	if (rc != 0 && rc != EPROTOTYPE)
		return true;
	snprintf(err, room,
		 "option --vdev %.*s: socket=%s: another process listens on it; give another path, "
		 "or role=client to connect to that process",
		 (int)strcspn(args, ","), args, path);
	return false;
}

char *
vdev_prepare(const char *args, uint32_t page, char *err, size_t room)
{
	char *copy;

	if (!interfaces_exist(args, err, room))
		return NULL;
	if (strncmp(args, "net_memif", strlen("net_memif")) == 0 &&
	    !memif_socket_ready(args, err, room))
		return NULL;
	/* DPDK also accepts the old name of each driver. */
	if (strncmp(args, "net_af_packet", strlen("net_af_packet")) == 0 ||
	    strncmp(args, "eth_af_packet", strlen("eth_af_packet")) == 0)
		return prepare_af_packet(args, page, err, room);
	copy = strdup(args);
	if (copy == NULL)
		snprintf(err, room, "option --vdev: out of memory");
	return copy;
}
