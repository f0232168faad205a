/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether packets reach a peer and return: questions to its uroced, small ones and of path MTU. */
#include "doctor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "urocectl.h"

#define TRIES   5
#define LOOK_MS 10
#define LOOKS   30 /* before the next try */
#define SMALL   256
#define ECHO_MS 1000

/* The peer, and the device and GID from which packets go there. */
struct way {
	struct sockaddr_storage to;
	socklen_t to_len;
	char to_text[INET6_ADDRSTRLEN];
	uint8_t gid[16];
	char from_text[INET6_ADDRSTRLEN]; /* the source that the kernel would use; "": none */
	const json_t *port;
	uint32_t gid_index;
};

enum outcome {
	ANSWERED,
	SILENT,
	NO_MAC,
	REFUSED, /* by the daemon, with a reason */
};

/* Resolves the name. Returns NULL, or the reason. */
static const char *
resolve(const char *name, struct way *w)
{
	struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *found;
	int rc = getaddrinfo(name, "4791", &hints, &found);

	if (rc != 0)
		return gai_strerror(rc);
	memcpy(&w->to, found->ai_addr, found->ai_addrlen);
	w->to_len = found->ai_addrlen;
	freeaddrinfo(found);
	if (w->to.ss_family == AF_INET) {
		const struct sockaddr_in *v4 = (const void *)&w->to;

		w->gid[10] = w->gid[11] = 0xff;
		memcpy(w->gid + 12, &v4->sin_addr, 4);
		inet_ntop(AF_INET, &v4->sin_addr, w->to_text, sizeof(w->to_text));
	} else {
		const struct sockaddr_in6 *v6 = (const void *)&w->to;

		memcpy(w->gid, &v6->sin6_addr, 16);
		inet_ntop(AF_INET6, &v6->sin6_addr, w->to_text, sizeof(w->to_text));
	}
	return NULL;
}

/* Finds the address from which the kernel would send to the peer. */
static void
find_source(struct way *w)
{
	int fd = socket(w->to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);

	if (fd >= 0 && connect(fd, (const struct sockaddr *)&w->to, w->to_len) == 0 &&
	    getsockname(fd, (struct sockaddr *)&from, &len) == 0)
		getnameinfo((const struct sockaddr *)&from, len, w->from_text, sizeof(w->from_text),
			    NULL, 0, NI_NUMERICHOST);
	if (fd >= 0)
		close(fd);
}

/* Returns true if the first `bits` bits of two GIDs are the same. */
static bool
same_prefix(const uint8_t a[16], const uint8_t b[16], long long bits)
{
	for (long long i = 0; i < bits && i < 128; i++) {
		if ((a[i / 8] ^ b[i / 8]) & 0x80 >> i % 8)
			return false;
	}
	return true;
}

/*
 * How well a GID serves to reach the peer: 0 not at all, 1 the same family, 2 its prefix has the
 * peer, 3 the kernel's choice.
 */
static unsigned
fitness(const struct way *w, const json_t *g)
{
	const char *text = row_text(g, "gid");
	bool v4 = w->to.ss_family == AF_INET;
	uint8_t gid[16] = {[10] = 0xff, [11] = 0xff};
	long long bits = row_int(g, "prefix") + (v4 ? 96 : 0);

	if (inet_pton(v4 ? AF_INET : AF_INET6, text, v4 ? gid + 12 : gid) != 1)
		return 0;
	if (strcmp(text, w->from_text) == 0)
		return 3;
	return bits > (v4 ? 96 : 0) && same_prefix(gid, w->gid, bits) ? 2 : 1;
}

static bool
find_way(struct way *w, const json_t *ports)
{
	unsigned best = 0;
	json_t *port, *g;
	size_t i, k;

	json_array_foreach(ports, i, port)
	{
		json_array_foreach(json_object_get(port, "gids"), k, g)
		{
			unsigned fit = fitness(w, g);

			if (fit <= best)
				continue;
			best = fit;
			w->port = port;
			w->gid_index = (uint32_t)row_int(g, "index");
		}
	}
	return best != 0;
}

/* Sends one request. Returns 0 or -errno; why: of the daemon. */
static int
ask(struct ipc_client *c, const struct uroce_ask_peer_req *req, struct uroce_ask_peer_rep *rep,
    char why[UROCE_CTRL_MAX_WHY + 1])
{
	struct ipc_call call = {.op = UROCE_CTRL_ASK_PEER,
				.req = req,
				.req_len = sizeof(*req),
				.rep = rep,
				.rep_len = sizeof(*rep)};
	int rc = ipc_client_call(c, &call);

	snprintf(why, UROCE_CTRL_MAX_WHY + 1, "%s", *call.why != '\0' ? call.why : strerror(-rc));
	return rc;
}

/* Asks the peer's daemon with packets of len bytes, until it answers or TRIES have failed. */
static enum outcome
probe(struct ipc_client *c, const struct way *w, uint32_t len, struct uroce_ask_peer_rep *rep,
      char why[UROCE_CTRL_MAX_WHY + 1])
{
	static const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000l};
	struct uroce_ask_peer_req req = {.gid_index = w->gid_index};
	bool sent = false;

	snprintf(req.device, sizeof(req.device), "%s", row_text(w->port, "device"));
	memcpy(req.remote, w->gid, 16);
	for (unsigned try = 0; try < TRIES; try++) {
		req.len = len;
		if (ask(c, &req, rep, why) != 0)
			return REFUSED;
		sent |= rep->state == UROCE_ASK_SENT;
		req.len = 0;
		req.number = rep->number;
		for (unsigned i = 0; i < LOOKS; i++) {
			if (ask(c, &req, rep, why) != 0)
				return REFUSED;
			if (rep->state == UROCE_ASK_ANSWERED)
				return ANSWERED;
			nanosleep(&pause, NULL);
		}
	}
	return sent ? SILENT : NO_MAC;
}

/* Sends an empty datagram to the peer's port 4791. Returns the error that comes back, or 0. */
static int
icmp_error(const struct way *w)
{
	int fd = socket(w->to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;
	struct pollfd p = {.fd = fd};
	socklen_t len = sizeof(err);

	if (fd < 0)
		return 0;
	if (connect(fd, (const struct sockaddr *)&w->to, w->to_len) < 0 || send(fd, "", 0, 0) < 0)
		err = errno;
	else if (poll(&p, 1, ECHO_MS) == 1)
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
	close(fd);
	return err;
}

/* Does the peer answer an ICMP echo request? Unknown: no. */
static bool
echoes(const struct way *w)
{
	bool v4 = w->to.ss_family == AF_INET;
	int proto = v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6;
	int fd = socket(w->to.ss_family, SOCK_RAW | SOCK_CLOEXEC, proto);
	struct icmphdr echo = {.type = v4 ? ICMP_ECHO : 128, .un.echo.sequence = htons(1)};
	struct pollfd p = {.events = POLLIN};
	char in[1500];
	bool ok = false;

	if (fd < 0)
		fd = socket(w->to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, proto);
	if (fd < 0)
		return false;
	echo.un.echo.id = htons((uint16_t)getpid());
	/* the kernel computes the checksum of ICMPv6 and of unprivileged sockets */
	echo.checksum = (uint16_t) ~(echo.type + echo.un.echo.id + echo.un.echo.sequence);
	p.fd = fd;
	if (connect(fd, (const struct sockaddr *)&w->to, w->to_len) == 0 &&
	    send(fd, &echo, sizeof(echo), 0) > 0)
		ok = poll(&p, 1, ECHO_MS) == 1 && recv(fd, in, sizeof(in), 0) > 0;
	close(fd);
	return ok;
}

/* Says why a peer that got a question did not answer. lost: packets that this kernel refused. */
static void
explain_silence(struct doctor *dr, const struct way *w, long long lost)
{
	int err = json_object_get(w->port, "udp") != NULL ? icmp_error(w) : 0;
	const char *dev = row_text(w->port, "device");

	if (dr->rule[0] != '\0')
		doctor_say(dr, VERDICT_FAULT, "peer", dev,
			   "this host's firewall refuses UDP port %u, so %s cannot be reached: %s",
			   ROCE_UDP_PORT, w->to_text, dr->rule);
	else if (lost > 0 || err == EPERM)
		doctor_say(
			dr, VERDICT_FAULT, "peer", dev,
			"this host's kernel does not send UDP port %u to %s: a firewall's output "
			"rule; uroced's log has the error",
			ROCE_UDP_PORT, w->to_text);
	else if (err == ECONNREFUSED)
		doctor_say(dr, VERDICT_FAULT, "peer", dev,
			   "%s refuses UDP port %u: no uroced runs there, or not on this address, "
			   "or its firewall rejects it: `urocectl doctor` there",
			   w->to_text, ROCE_UDP_PORT);
	else if (err == ENETUNREACH || err == EHOSTUNREACH)
		doctor_say(dr, VERDICT_FAULT, "peer", dev,
			   "no route to %s, or a router on it sends it back: `ip route get %s`",
			   w->to_text, w->to_text);
	else if (err != 0)
		doctor_say(dr, VERDICT_FAULT, "peer", dev,
			   "UDP port %u of %s: %s: a router or a firewall rejects it",
			   ROCE_UDP_PORT, w->to_text, strerror(err));
	else if (echoes(w))
		doctor_say(
			dr, VERDICT_FAULT, "peer", dev,
			"%s answers ping, but nothing on UDP port %u: a firewall drops it there%s "
			"(`nft insert rule inet filter input udp dport %u accept`), or its RoCE is "
			"not uroce (rxe, a NIC: try rping)",
			w->to_text, ROCE_UDP_PORT,
			dr->rules_known ? " or between" : ", here or between", ROCE_UDP_PORT);
	else
		doctor_say(dr, VERDICT_FAULT, "peer", dev,
			   "%s answers neither ping nor UDP port %u: is it up, and is this its "
			   "address?",
			   w->to_text, ROCE_UDP_PORT);
}

/* The packets that the kernel did not take, of the device's socket. */
static long long
tx_lost(struct ipc_client *c, const char *device)
{
	json_t *rows = query_rows(c, "port"), *row;
	long long lost = 0;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		if (strcmp(row_text(row, "device"), device) == 0)
			lost = row_int(json_object_get(row, "udp"), "tx_lost");
	}
	json_decref(rows);
	return lost;
}

/* The path MTU of the device in bytes. */
static uint32_t
path_mtu(struct ipc_client *c, const char *device)
{
	json_t *rows = query_rows(c, "device"), *row;
	uint32_t mtu = SMALL;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		if (strcmp(row_text(row, "device"), device) == 0)
			mtu = (uint32_t)row_int(row, "path_mtu");
	}
	json_decref(rows);
	return mtu;
}

/* The peer has answered a short question: do packets of the path MTU pass? */
static void
check_length(struct doctor *dr, struct ipc_client *c, const struct way *w,
	     const struct uroce_ask_peer_rep *small)
{
	const char *dev = row_text(w->port, "device");
	uint32_t mtu = path_mtu(c, dev), most = mtu < small->path_mtu ? mtu : small->path_mtu;
	char why[UROCE_CTRL_MAX_WHY + 1];
	struct uroce_ask_peer_rep rep;

	if (probe(c, w, mtu, &rep, why) == ANSWERED)
		doctor_say(
			dr, VERDICT_OK, "peer", dev,
			"uroced at %s answers in %.0f us, UDP port %u is open both ways, packets "
			"of path MTU %u pass",
			w->to_text, (double)small->rtt_ns / 1e3, ROCE_UDP_PORT, mtu);
	else if (small->path_mtu < mtu)
		doctor_say(dr, VERDICT_FAULT, "peer", dev,
			   "path MTU %u here, %u at %s: packets of %u bytes do not arrive: the "
			   "same MTU on both interfaces, or mtu=%u in --dev",
			   mtu, small->path_mtu, w->to_text, mtu, most);
	else
		doctor_say(dr, VERDICT_FAULT, "peer", dev,
			   "%s answers small packets, but none of path MTU %u: an interface or a "
			   "switch between has a smaller MTU: raise it, or mtu=1024 in --dev",
			   w->to_text, mtu);
}

void
doctor_peer(struct doctor *dr, struct ipc_client *c, const json_t *ports, const char *name)
{
	struct way w = {.gid_index = 0};
	const char *unknown = resolve(name, &w);
	char why[UROCE_CTRL_MAX_WHY + 1];
	struct uroce_ask_peer_rep rep;
	const char *dev;
	long long lost;

	if (unknown != NULL) {
		doctor_say(dr, VERDICT_FAULT, "peer", "", "'%s' is no host: %s", name, unknown);
		return;
	}
	find_source(&w);
	if (!find_way(&w, ports)) {
		doctor_say(dr, VERDICT_FAULT, "peer", "",
			   "no device has an %s address to reach %s from: `urocectl show gid`",
			   w.to.ss_family == AF_INET ? "IPv4" : "IPv6", w.to_text);
		return;
	}
	dev = row_text(w.port, "device");
	lost = tx_lost(c, dev);
	switch (probe(c, &w, SMALL, &rep, why)) {
	case ANSWERED:
		check_length(dr, c, &w, &rep);
		break;
	case SILENT:
		explain_silence(dr, &w, tx_lost(c, dev) - lost);
		break;
	case NO_MAC:
		doctor_say(dr, VERDICT_FAULT, "peer", dev,
			   "no answer to ARP or neighbour discovery for %s: is it up, and on this "
			   "network?",
			   w.to_text);
		break;
	case REFUSED:
		doctor_say(dr, VERDICT_FAULT, "peer", dev, "%s: %s", w.to_text, why);
		break;
	}
}
