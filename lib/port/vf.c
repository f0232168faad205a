/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A PF that resets its VF (down and up, or by an administrator's setting) stops the VF's queues.
 * The VF's driver learns that in one of two ways:
 *
 * - by a message of the PF, which ethdev reports as RTE_ETH_EVENT_INTR_RESET on EAL's interrupt
 *   thread (the drivers of iavf and of VFs of ixgbe);
 * - not at all, except that the link goes down and comes back (net_e1000_igb_vf under QEMU, whose
 *   message the driver overlooks).
 *
 * Both lead to port_restart, and so does a PF that comes up: a VF that was started before has had
 * no answer to its reset. A new MAC or VLAN may come without either. The drivers cannot be asked
 * for them, but the PF's kernel driver can, if the PF belongs to this kernel.
 */
#include "port/ethdev.h"
#include <dirent.h>
#include <libgen.h>
#include <limits.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include "port/host.h"
#include "port/log.h"

/*
 * Polls of the link, twice a second, after a start of the port. A link that comes up meanwhile for
 * the first time does so because of the start.
 */
#define SETTLE_POLLS 10
#define NUMBERS_MAX  256 /* numbers of VFs that are tried */

/* A bit per ethdev port id: its driver wants a reset. EAL's interrupt thread sets it. */
static uint16_t resets;
_Static_assert(PORT_IDS_MAX <= 16, "a bit per port id");

static uint16_t
port_bit(const struct port *p)
{
	return (uint16_t)(1u << p->id);
}

static int
on_reset(uint16_t id, enum rte_eth_event_type type, void *arg, void *ret)
{
	(void)type;
	(void)arg;
	(void)ret;
	__atomic_fetch_or(&resets, (uint16_t)(1u << id), __ATOMIC_RELEASE);
	return 0;
}

/* The names of drivers of VFs alone end in "vf": net_e1000_igb_vf, net_iavf. */
static bool
is_vf(const struct port *p)
{
	size_t len = strlen(p->driver);

	return len > 2 && strcmp(p->driver + len - 2, "vf") == 0;
}

/* Stores the index of the PF's interface; 0: the kernel has no such interface. */
static void
find_pf(struct port *p)
{
	char path[128];
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/physfn/net", p->name);
	dir = opendir(path);
	if (dir == NULL)
		return;
	for (const struct dirent *e; p->vf.pf == 0 && (e = readdir(dir)) != NULL;) {
		if (e->d_name[0] != '.')
			p->vf.pf = if_nametoindex(e->d_name);
	}
	closedir(dir);
}

/* Stores the VF's number among those of its PF. Returns false if it is not found. */
static bool
find_number(struct port *p)
{
	char path[128], target[PATH_MAX];

	for (uint32_t i = 0; i < NUMBERS_MAX; i++) {
		ssize_t len;

		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/physfn/virtfn%u", p->name, i);
		len = readlink(path, target, sizeof(target) - 1);
		if (len < 0)
			return false;
		target[len] = '\0';
		if (strcmp(basename(target), p->name) != 0)
			continue;
		p->vf.number = i;
		return true;
	}
	return false;
}

void
port_vf_open(struct port *p)
{
	if (p->id >= PORT_IDS_MAX)
		return;
	port_vf_restart(p);
	if (rte_eth_dev_callback_register(p->id, RTE_ETH_EVENT_INTR_RESET, on_reset, NULL) != 0)
		PORT_LOG(WARNING, p->name, "resets of the device will not be noticed");
	memcpy(p->vf.mac, p->mac, sizeof(p->vf.mac));
	if (!is_vf(p) || !port_is_pci(p->name))
		return;
	find_pf(p);
	if (p->vf.pf != 0 && !find_number(p))
		p->vf.pf = 0;
}

void
port_vf_close(const struct port *p)
{
	if (p->id >= PORT_IDS_MAX)
		return;
	(void)rte_eth_dev_callback_unregister(p->id, RTE_ETH_EVENT_INTR_RESET, on_reset, NULL);
	/* the id may become another port's */
	__atomic_fetch_and(&resets, (uint16_t)~port_bit(p), __ATOMIC_RELAXED);
}

void
port_vf_link(struct port *p, bool up, bool changed)
{
	if (!is_vf(p))
		return;
	if (up && changed && p->vf.settling == 0)
		p->vf.returned = true;
	if (up)
		p->vf.settling = 0;
	else if (p->vf.settling != 0)
		p->vf.settling--;
}

bool
port_vf_must_reset(const struct port *p)
{
	return p->id < PORT_IDS_MAX &&
	       (__atomic_load_n(&resets, __ATOMIC_ACQUIRE) & port_bit(p)) != 0;
}

void
port_vf_ask_reset(const struct port *p)
{
	__atomic_fetch_or(&resets, port_bit(p), __ATOMIC_RELEASE);
}

bool
port_vf_restart(struct port *p)
{
	bool reset = port_vf_must_reset(p);

	/* first: the driver may report again while the device is reset */
	if (reset)
		__atomic_fetch_and(&resets, (uint16_t)~port_bit(p), __ATOMIC_ACQ_REL);
	p->vf.returned = false;
	p->vf.settling = SETTLE_POLLS;
	return reset;
}

/* ---- the PF's settings ---- */

/* Returns the data of an attribute of an IFLA_VF_INFO, at least len bytes; else NULL. */
static const void *
vf_attr(const struct rtattr *info, unsigned short type, size_t len)
{
	const struct rtattr *a = host_attr(RTA_DATA(info), RTA_PAYLOAD(info), type);

	return a != NULL && RTA_PAYLOAD(a) >= len ? RTA_DATA(a) : NULL;
}

bool
port_vf_parse(const void *message, size_t len, uint32_t number, struct port_vf_config *c)
{
	const struct nlmsghdr *h = message;
	const struct rtattr *list, *info, *ups;
	size_t rest;

	memset(c, 0, sizeof(*c));
	if (!NLMSG_OK(h, len) || h->nlmsg_type != RTM_NEWLINK ||
	    h->nlmsg_len < NLMSG_SPACE(sizeof(struct ifinfomsg)))
		return false;
	rest = h->nlmsg_len - NLMSG_SPACE(sizeof(struct ifinfomsg));
	ups = host_attr(IFLA_RTA(NLMSG_DATA(h)), rest, IFLA_CARRIER_UP_COUNT);
	if (ups != NULL && RTA_PAYLOAD(ups) >= sizeof(c->pf_ups))
		memcpy(&c->pf_ups, RTA_DATA(ups), sizeof(c->pf_ups));
	list = host_attr(IFLA_RTA(NLMSG_DATA(h)), rest, IFLA_VFINFO_LIST);
	if (list == NULL)
		return false;
	rest = RTA_PAYLOAD(list);
	for (info = RTA_DATA(list); RTA_OK(info, rest); info = RTA_NEXT(info, rest)) {
		const struct ifla_vf_mac *mac = vf_attr(info, IFLA_VF_MAC, sizeof(*mac));
		const struct ifla_vf_vlan *vlan = vf_attr(info, IFLA_VF_VLAN, sizeof(*vlan));

		if (mac == NULL || mac->vf != number)
			continue;
		memcpy(c->mac, mac->mac, sizeof(c->mac));
		c->vlan = vlan != NULL ? (uint16_t)vlan->vlan : 0;
		return true;
	}
	return false;
}

/* Asks the kernel for the settings of the VF. Returns false if it does not tell. */
static bool
ask_pf(const struct port *p, struct port_vf_config *c)
{
	static uint8_t answer[65536] __attribute__((aligned(8))); /* some 200 bytes for each VF */
	const struct ifinfomsg link = {.ifi_index = (int)p->vf.pf};
	const uint32_t mask = RTEXT_FILTER_VF | RTEXT_FILTER_SKIP_STATS;
	struct host_ask ask;
	int len;

	host_ask_begin(&ask, RTM_GETLINK, 0, &link, sizeof(link));
	host_ask_add(&ask, IFLA_EXT_MASK, &mask, sizeof(mask));
	len = host_ask(&ask, answer, sizeof(answer));
	return len > 0 && port_vf_parse(answer, (size_t)len, p->vf.number, c);
}

static void
log_mac(const struct port *p, const uint8_t now[6])
{
	char ours[RTE_ETHER_ADDR_FMT_SIZE], its[RTE_ETHER_ADDR_FMT_SIZE], pf[IF_NAMESIZE] = "?";

	rte_ether_format_addr(ours, sizeof(ours), (const struct rte_ether_addr *)p->mac);
	rte_ether_format_addr(its, sizeof(its), (const struct rte_ether_addr *)now);
	(void)if_indextoname(p->vf.pf, pf);
	if (memcmp(now, p->mac, 6) == 0)
		PORT_LOG(NOTICE, p->name, "its PF %s has set its MAC to %s again", pf, ours);
	else
		PORT_LOG(ERR, p->name,
			 "its PF %s has set its MAC to %s, and no longer passes frames of %s, the "
			 "MAC of the device: restart uroced, or `ip link set %s vf %u mac %s`",
			 pf, its, ours, pf, p->vf.number, ours);
}

static void
log_vlan(const struct port *p, uint16_t vlan)
{
	if (vlan == 0)
		PORT_LOG(NOTICE, p->name, "its PF has taken it out of VLAN %u", p->vf.vlan);
	else
		PORT_LOG(WARNING, p->name,
			 "its PF has put it into VLAN %u: it reaches only hosts in that VLAN, "
			 "and needs no vlan= for that",
			 vlan);
}

void
port_vf_follow(struct port *p, const struct port_vf_config *c)
{
	static const uint8_t unset[6];

	if (memcmp(c->mac, unset, 6) != 0 && memcmp(c->mac, p->vf.mac, 6) != 0) {
		log_mac(p, c->mac);
		memcpy(p->vf.mac, c->mac, sizeof(p->vf.mac));
	}
	if (c->vlan != p->vf.vlan) {
		log_vlan(p, c->vlan);
		p->vf.vlan = c->vlan;
	}
	if (p->vf.asked && c->pf_ups != p->vf.pf_ups)
		p->vf.returned = true;
	p->vf.asked = true;
	p->vf.pf_ups = c->pf_ups;
}

void
port_vf_look(struct port *p)
{
	struct port_vf_config c;

	if (p->vf.pf != 0 && ask_pf(p, &c))
		port_vf_follow(p, &c);
}
