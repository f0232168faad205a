/* SPDX-License-Identifier: BSD-3-Clause */
#include "privilege.h"

#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "control/log.h"
#include "sandbox.h"

#define BIT(cap)  (1ull << (cap))
#define CAPS      64u
#define KEEPS_ALL UINT64_MAX

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#define CAP_BPF     39
#endif
#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40
#endif

/* Larger buffers than net.core.rmem_max, promiscuous mode, changes of an interface. */
#define NET   BIT(CAP_NET_ADMIN)
#define FRAME (NET | BIT(CAP_NET_RAW))

/*
 * Socket families. Any daemon: clients, the service manager; addresses and routes of the host; its
 * interfaces, by ioctls of an INET socket.
 */
#define ANY_PORT (BIT(AF_UNIX) | BIT(AF_NETLINK) | BIT(AF_INET) | BIT(AF_INET6))
#ifndef AF_XDP
#define AF_XDP 44
#endif

/*
 * What a driver needs to open, run and open again: a prefix of --vdev's value. The list ends with
 * the empty prefix: an unknown driver keeps everything.
 */
static const struct {
	const char *driver;
	uint64_t caps;
	uint64_t families; /* besides ANY_PORT */
} drivers[] = {
	{"net_ring", 0, 0},
	{"net_null", 0, 0},
	{"net_memif", 0, 0},
	{"net_pcap", FRAME, BIT(AF_PACKET)},
	{"net_af_packet", FRAME, BIT(AF_PACKET)},
	{"net_tap", FRAME, BIT(AF_PACKET)},
	/*
	 * CAP_SYS_ADMIN: looks for the program of an earlier uroced. CAP_SYS_RESOURCE: memory of
	 * maps before Linux 5.11.
	 */
	{"net_af_xdp",
	 FRAME | BIT(CAP_BPF) | BIT(CAP_PERFMON) | BIT(CAP_SYS_ADMIN) | BIT(CAP_SYS_RESOURCE),
	 BIT(AF_PACKET) | BIT(AF_XDP)},
	{"", KEEPS_ALL, KEEPS_ALL},
};

/* The same for what stands in a --dev. */
static const struct {
	const char *text;
	uint64_t caps;
	uint64_t families;
} words[] = {
	{"port=udp", NET, 0},
	{"port=packet", FRAME, BIT(AF_PACKET)},
	{"hostif=", NET, 0}, /* also for each later change of its addresses */
};

static const char *const names[] = {
	"chown",
	"dac_override",
	"dac_read_search",
	"fowner",
	"fsetid",
	"kill",
	"setgid",
	"setuid",
	"setpcap",
	"linux_immutable",
	"net_bind_service",
	"net_broadcast",
	"net_admin",
	"net_raw",
	"ipc_lock",
	"ipc_owner",
	"sys_module",
	"sys_rawio",
	"sys_chroot",
	"sys_ptrace",
	"sys_pacct",
	"sys_admin",
	"sys_boot",
	"sys_nice",
	"sys_resource",
	"sys_time",
	"sys_tty_config",
	"mknod",
	"lease",
	"audit_write",
	"audit_control",
	"setfcap",
	"mac_override",
	"mac_admin",
	"syslog",
	"wake_alarm",
	"block_suspend",
	"audit_read",
	"perfmon",
	"bpf",
	"checkpoint_restore",
};

const char *
privilege_name(unsigned cap)
{
	return cap < sizeof(names) / sizeof(names[0]) ? names[cap] : NULL;
}

static unsigned
driver_of(const char *vdev)
{
	unsigned i = 0;

	while (strncmp(vdev, drivers[i].driver, strlen(drivers[i].driver)) != 0)
		i++;
	return i;
}

static bool
since_5_9(void)
{
	static int known = -1; /* read once, before the sandbox */

	if (known < 0)
		known = prctl(PR_CAPBSET_READ, CAP_CHECKPOINT_RESTORE, 0, 0, 0) >= 0;
	return known;
}

uint64_t
privilege_of_options(const struct options *o)
{
	/* CAP_DAC_OVERRIDE: a socket in another user's folder. CAP_IPC_LOCK: huge pages. */
	uint64_t caps = BIT(CAP_DAC_OVERRIDE) | BIT(CAP_IPC_LOCK);

	if (o->control.socket_group != NULL)
		caps |= BIT(CAP_CHOWN);
	if (o->allow.n != 0)
		return KEEPS_ALL; /* a NIC's driver: unknown */
	if (o->pair.n + o->dev.n + o->vdev.n == 0)
		caps |= NET; /* the host's own interfaces, by port=udp */
	for (uint32_t i = 0; i < o->vdev.n; i++)
		caps |= drivers[driver_of(o->vdev.v[i])].caps;
	for (uint32_t i = 0; i < o->dev.n; i++) {
		for (unsigned w = 0; w < sizeof(words) / sizeof(words[0]); w++)
			if (strstr(o->dev.v[i], words[w].text) != NULL)
				caps |= words[w].caps;
	}
	/* SO_BINDTODEVICE of port=udp before Linux 5.7 */
	if ((caps & NET) != 0 && !since_5_9())
		caps |= BIT(CAP_NET_RAW);
	return caps;
}

uint64_t
privilege_families(const struct options *o)
{
	uint64_t families = ANY_PORT;

	if (o->allow.n != 0)
		return KEEPS_ALL;
	for (uint32_t i = 0; i < o->vdev.n; i++)
		families |= drivers[driver_of(o->vdev.v[i])].families;
	for (uint32_t i = 0; i < o->dev.n; i++) {
		for (unsigned w = 0; w < sizeof(words) / sizeof(words[0]); w++)
			if (strstr(o->dev.v[i], words[w].text) != NULL)
				families |= words[w].families;
	}
	return families;
}

/* What looks into clients of every user. */
static uint64_t
looking(void)
{
	/* CAP_SYS_NICE: copying threads are SCHED_FIFO. */
	uint64_t caps = BIT(CAP_SYS_PTRACE) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_SYS_NICE);

	/* CAP_SYS_ADMIN had to do for map_files before Linux 5.9. */
	return caps | (since_5_9() ? BIT(CAP_CHECKPOINT_RESTORE) : BIT(CAP_SYS_ADMIN));
}

static struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};

static uint64_t
both(uint32_t low, uint32_t high)
{
	return low | (uint64_t)high << 32;
}

void
privilege_get(uint64_t *effective, uint64_t *permitted)
{
	struct __user_cap_data_struct data[2] = {{0}};

	if (syscall(SYS_capget, &header, data) < 0)
		memset(data, 0, sizeof(data));
	*effective = both(data[0].effective, data[1].effective);
	*permitted = both(data[0].permitted, data[1].permitted);
}

/*
 * Capabilities of the broker, asked by its process or one that starts it. All if CAP_SYS_PTRACE is
 * not permitted, as to root of a container.
 */
static uint64_t
caps_of_broker(void)
{
	uint64_t effective, permitted;

	privilege_get(&effective, &permitted);
	/* Without it Linux shows only processes whose capabilities the broker has, too. */
	return permitted & BIT(CAP_SYS_PTRACE) ? looking() : KEEPS_ALL;
}

/* Leaves the sets effective and other (permitted, inheritable) as far as they are there. */
static void
keep(uint64_t effective, uint64_t other)
{
	struct __user_cap_data_struct data[2] = {{0}};

	if (syscall(SYS_capget, &header, data) < 0)
		return;
	for (unsigned i = 0; i < 2; i++) {
		data[i].effective &= (uint32_t)(effective >> 32 * i);
		data[i].permitted &= (uint32_t)(other >> 32 * i);
		data[i].inheritable &= (uint32_t)(other >> 32 * i);
	}
	(void)syscall(SYS_capset, &header, data);
}

static void
limit(uint64_t caps)
{
	for (unsigned i = 0; i < CAPS; i++)
		if (!(caps >> i & 1))
			(void)prctl(PR_CAPBSET_DROP, i, 0, 0, 0); /* needs CAP_SETPCAP */
	keep(caps, caps);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

void
privilege_limit(const struct options *o)
{
	uint64_t caps = privilege_of_options(o), broker = caps_of_broker();

	limit(o->control.broker_socket == NULL ? caps | broker : caps);
	/* Behind the changes of capabilities, which reset it. */
	(void)prctl(PR_SET_DUMPABLE, o->core_dumps, 0, 0, 0);
}

uint64_t
privilege_of_process(pid_t pid)
{
	unsigned long long caps = 0;
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "CapEff: %llx", &caps) == 1)
			break;
	if (f != NULL)
		fclose(f);
	return caps;
}

void
privilege_limit_broker(void)
{
	limit(caps_of_broker());
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

void
privilege_lower(const struct options *o)
{
	/* The daemon, too, opens files with CAP_DAC_OVERRIDE. */
	keep((privilege_of_options(o) & ~looking()) | BIT(CAP_DAC_OVERRIDE), KEEPS_ALL);
}

/* Any thread, as a signal handler. */
static void
drop_in_thread(void *arg)
{
	const uint64_t *caps = arg;

	keep(*caps, *caps);
}

void
privilege_drop(const struct options *o)
{
	uint64_t caps = privilege_of_options(o);

	if (!sandbox_every_thread(drop_in_thread, &caps))
		LOG(WARNING, "a thread of uroced keeps capabilities that it does not need");
}
