/* SPDX-License-Identifier: BSD-3-Clause */
#include "doctor.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "urocectl.h"

#define BUFFER_ENOUGH (2 << 20) /* bytes; as lib/port/socket.c */
#define FULL_MTU      4096
#define FULL_LINK_MTU 4200 /* of an interface, for path MTU 4096 */

const char doctor_help[] =
	"\ndoctor [PEER]: checks daemon, socket, rights, kernel, memory, firewall and each device; "
	"with PEER,\n  a host name or an address, also UDP port 4791 both ways. Each line is ok, "
	"hint (it works, but\n  could be better) or fault, with what to do. Exit status 1 if there "
	"is a fault\n";

void
doctor_say(struct doctor *dr, enum verdict v, const char *check, const char *device,
	   const char *fmt, ...)
{
	static const char *const word[] = {
		[VERDICT_OK] = "ok", [VERDICT_HINT] = "hint", [VERDICT_FAULT] = "fault"};
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	dr->fault |= v == VERDICT_FAULT;
	if (dr->rq->json) {
		json_array_append_new(dr->lines,
				      json_pack("{s:s, s:s, s:s, s:s}", "check", check, "device",
						device, "verdict", word[v], "text", text));
		return;
	}
	printf("%-5s  %-8s  %s%s%s\n", word[v], check, device, *device != '\0' ? ": " : "", text);
	fflush(stdout); /* the next line may take a second */
}

static void
take_word(struct request *rq, unsigned nth, const char *word)
{
	if (nth > 0)
		usage_error("doctor: unexpected argument '%s'; legal: doctor [PEER]", word);
	if (*word == '\0')
		usage_error("doctor: PEER is empty; legal: a host name or an address");
	rq->value = word;
}

static void
check(const struct request *rq)
{
}

/* --- the daemon */

static void
check_daemon(struct doctor *dr, const json_t *daemon)
{
	long long uid = row_int(daemon, "uid");

	doctor_say(dr, VERDICT_OK, "daemon", "", "uroced %s, pid %lld, uid %lld",
		   row_text(daemon, "version"), row_int(daemon, "pid"), uid);
	if (geteuid() == 0 || geteuid() == (uid_t)uid)
		doctor_say(dr, VERDICT_OK, "rights", "", "uid %u may use and change everything",
			   geteuid());
	else
		doctor_say(dr, VERDICT_OK, "rights", "",
			   "uid %u may use devices; only root and uid %lld may change them",
			   geteuid(), uid);
}

/* --- devices */

static const char *
name_of(const json_t *port)
{
	return row_text(port, "device");
}

static void
check_link(struct doctor *dr, const json_t *port)
{
	const char *netdev = row_text(port, "netdev");

	if (strcmp(row_text(port, "link"), "up") == 0)
		doctor_say(dr, VERDICT_OK, "link", name_of(port), "%s is up",
			   row_text(port, "port"));
	else if (*netdev != '\0')
		doctor_say(dr, VERDICT_FAULT, "link", name_of(port),
			   "%s is down: `ip link set %s up`", netdev, netdev);
	else
		doctor_say(dr, VERDICT_FAULT, "link", name_of(port),
			   "port %s is down: start the other end", row_text(port, "port"));
}

static void
check_gids(struct doctor *dr, const json_t *port)
{
	json_t *gids = json_object_get(port, "gids"), *g;
	const char *netdev = row_text(port, "netdev");
	char list[256] = "";
	size_t i, len = 0;
	bool useful = false;

	json_array_foreach(gids, i, g)
	{
		useful |= row_int(g, "index") >= 1;
		if (len < sizeof(list))
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%lld %s",
						i > 0 ? ", " : "", row_int(g, "index"),
						row_text(g, "gid"));
	}
	if (useful)
		doctor_say(dr, VERDICT_OK, "gids", name_of(port), "%s", list);
	else if (json_object_get(port, "udp") != NULL)
		doctor_say(dr, VERDICT_FAULT, "gids", name_of(port),
			   "%s has no address: `ip addr add ADDRESS/LENGTH dev %s`", netdev,
			   netdev);
	else
		doctor_say(dr, VERDICT_FAULT, "gids", name_of(port),
			   "no address: `urocectl addr add ADDRESS/LENGTH dev %s`, or addr= in "
			   "its --dev",
			   name_of(port));
}

/* Returns the MTU that the interface has now; 0: unknown. */
static long
mtu_now(const char *netdev)
{
	char path[128];
	long mtu = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/net/%s/mtu", netdev);
	f = *netdev != '\0' ? fopen(path, "re") : NULL;
	if (f != NULL && fscanf(f, "%ld", &mtu) != 1)
		mtu = 0;
	if (f != NULL)
		fclose(f);
	return mtu;
}

static void
check_mtu(struct doctor *dr, const json_t *port, long long path_mtu)
{
	long long at_start = row_int(port, "link_mtu");
	const char *netdev = row_text(port, "netdev");
	long now = mtu_now(netdev);

	if (now != 0 && now < at_start && now < path_mtu + FULL_LINK_MTU - FULL_MTU)
		doctor_say(dr, VERDICT_FAULT, "mtu", name_of(port),
			   "%s has MTU %ld, and had %lld or more when uroced started: path MTU "
			   "%lld does not fit: `ip link set %s mtu %lld`, or restart uroced",
			   netdev, now, at_start, path_mtu, netdev, at_start);
	else if (path_mtu < FULL_MTU)
		doctor_say(dr, VERDICT_OK, "mtu", name_of(port),
			   "MTU %lld gives path MTU %lld; MTU %d would give %d", at_start, path_mtu,
			   FULL_LINK_MTU, FULL_MTU);
	else
		doctor_say(dr, VERDICT_OK, "mtu", name_of(port), "path MTU %lld", path_mtu);
}

static void
check_buffers(struct doctor *dr, const json_t *port)
{
	const json_t *sock = json_object_get(port, "udp");
	long long bytes, lost;

	if (sock == NULL)
		sock = json_object_get(port, "packet");
	if (sock == NULL)
		return;
	bytes = row_int(sock, "rx_buffer_bytes");
	lost = row_int(sock, "rx_socket_full");
	if (bytes != 0 && bytes < BUFFER_ENOUGH)
		doctor_say(dr, VERDICT_HINT, "buffers", name_of(port),
			   "the socket holds %lld KiB only, and %lld messages were lost: "
			   "`sysctl net.core.rmem_max=4194304`, and restart uroced",
			   bytes / 1024, lost);
	else
		doctor_say(dr, VERDICT_OK, "buffers", name_of(port),
			   "the socket holds %lld KiB; %lld messages were lost", bytes / 1024,
			   lost);
}

static void
check_devices(struct doctor *dr, const json_t *ports, const json_t *devices)
{
	json_t *port;
	size_t i;

	json_array_foreach(ports, i, port)
	{
		dr->sockets |= json_object_get(port, "udp") != NULL;
		check_link(dr, port);
		check_gids(dr, port);
		check_mtu(dr, port, row_int(json_array_get(devices, i), "path_mtu"));
		check_buffers(dr, port);
	}
}

/* Everything that the daemon says, and a peer. Returns false with errno if the daemon fails. */
static bool
look(struct doctor *dr, struct ipc_client *c)
{
	json_t *daemon = query_rows(c, "daemon"), *ports = query_rows(c, "port"),
	       *devices = query_rows(c, "device");
	bool ok = daemon != NULL && ports != NULL && devices != NULL;

	if (ok) {
		check_daemon(dr, json_array_get(daemon, 0));
		doctor_kernel(dr, ports);
		doctor_memory(dr, json_array_get(daemon, 0));
		doctor_memlock(dr, json_array_get(daemon, 0));
		check_devices(dr, ports, devices);
		if (dr->sockets)
			doctor_firewall(dr);
		if (dr->rq->value != NULL)
			doctor_peer(dr, c, ports, dr->rq->value);
	}
	json_decref(daemon);
	json_decref(ports);
	json_decref(devices);
	return ok;
}

static void
meet(struct doctor *dr)
{
	const char *path = ipc_client_path(dr->rq->socket);
	int fds[UROCE_HELLO_FDS];
	char why[UROCE_CTRL_MAX_WHY + 1];
	struct uroce_hello_rep hello;
	struct ipc_client c;
	unsigned int nfds;
	int rc = ipc_client_connect(&c, dr->rq->socket);

	if (rc < 0) {
		doctor_no_daemon(dr, -rc);
		doctor_kernel(dr, NULL);
		return;
	}
	doctor_say(dr, VERDICT_OK, "socket", "", "%s", path);
	rc = ipc_client_hello(&c, "", &hello, fds, &nfds, why);
	if (rc != 0)
		doctor_say(dr, VERDICT_FAULT, "daemon", "", "it refuses urocectl: %s",
			   *why != '\0' ? why : strerror(-rc));
	else if (!look(dr, &c))
		doctor_say(dr, VERDICT_FAULT, "daemon", "",
			   "it does not answer as this urocectl expects (%s): use the same "
			   "version of both",
			   strerror(errno));
	ipc_client_close(&c);
}

int
doctor_run(const struct request *rq)
{
	struct doctor dr = {.rq = rq, .lines = json_array()};
	json_t *all;

	meet(&dr);
	all = json_pack("{s:o}", "doctor", dr.lines);
	if (rq->json)
		print_json(all);
	json_decref(all);
	return dr.fault ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* It connects by itself: a daemon that is not there is its first finding. */
const struct command doctor_command = {"doctor", "doctor", take_word, check, NULL, NULL, NULL};
