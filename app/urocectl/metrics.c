/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * metrics: the daemon's counters as text for Prometheus, printed once or served by HTTP. A process
 * apart from the daemon, with the rights of its user: a scraper can delay other scrapers, but no
 * verbs program. It connects to the daemon for each reply, hence survives its restarts. At most
 * CONNS connections exist; a further one replaces the oldest.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "counters/counters.h"
#include "urocectl.h"

#define CONNS       8
#define REQUEST_MAX 4096
#define HEAD_MAX    256
#define FRESH_NS    250000000ull /* a text is at most that old */
#define PORT        "1"          /* of each device, as verbs number it */

const char metrics_help[] =
	"\nmetrics: prints the counters for Prometheus; with --listen, serves them at /metrics by "
	"HTTP\n";

/* --- the text. Names follow Prometheus: base units, suffix _total for counters. */

/* Names of counters and of quotas in metrics, if they differ from urocectl's; NULL: left out. */
static const struct {
	const char *from, *to;
} names[] = {
	{"rx_frames", "port_rcv_packets"},
	{"rx_bytes", "port_rcv_bytes"},
	{"tx_frames", "port_xmit_packets"},
	{"tx_bytes", "port_xmit_bytes"},
	{"clients", "connections"},
	{"cm-channels", "cm_channels"},
	{"cm-ids", "cm_ids"},
	{"mcast", "multicast_memberships"},
	{"fds", "descriptors"},
	{"maps", "mappings"},
	{"queue-mem", "queues"},
	{"reg-mem", "registered"},
	{"new", NULL},
};

static const char *
name_of(const char *from)
{
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(names[i].from, from) == 0)
			return names[i].to;
	}
	return from;
}

/* What a counter counts; its name if the daemon is newer than this program. */
static const char *
help_of(const char *counter)
{
	for (unsigned i = 0; i < COUNTER_NUM; i++) {
		if (strcmp(counter_name[i], counter) == 0)
			return counter_doc[i];
	}
	return counter;
}

static void
put_head(FILE *out, const char *name, const char *help, const char *type)
{
	fprintf(out, "# HELP uroce_%s %s\n# TYPE uroce_%s %s\n", name, help, name, type);
}

/* A label's value, with special characters escaped. */
static void
put_label(FILE *out, const char *name, const char *text)
{
	fprintf(out, "%s=\"", name);
	for (; *text != '\0'; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc(*text == '\n' ? ' ' : *text, out);
	}
	fputc('"', out);
}

/* A counter of every device and worker. reason: label of a drop, else NULL. */
static void
put_counter(FILE *out, const json_t *rows, const char *name, const char *key, const char *reason)
{
	json_t *row, *worker;
	size_t i, w;

	json_array_foreach(rows, i, row)
	{
		json_t *workers = json_object_get(row, "workers");
		size_t n = json_array_size(workers);
		/* The total also has those of the control thread, most of which stay 0. */
		long long left = row_int(json_object_get(row, "total"), key);

		for (w = 0; w <= n; w++) {
			long long v = left;
			char text[24] = "control";

			if (w < n) {
				worker = json_array_get(workers, w);
				v = row_int(worker, key);
				left -= v;
				snprintf(text, sizeof(text), "%zu", w);
			} else if (left == 0) {
				continue;
			}
			fprintf(out, "uroce_%s{device=\"%s\",port=\"" PORT "\",worker=\"%s\"", name,
				row_text(row, "device"), text);
			if (reason != NULL)
				fprintf(out, ",reason=\"%s\"", reason);
			fprintf(out, "} %lld\n", v);
		}
	}
}

static void
put_counters(FILE *out, const json_t *stats, const json_t *drops)
{
	const char *key;
	char name[80];
	json_t *v;

	json_object_foreach(json_object_get(json_array_get(stats, 0), "total"), key, v)
	{
		snprintf(name, sizeof(name), "%s_total", name_of(key));
		put_head(out, name, help_of(key), "counter");
		put_counter(out, stats, name, key, NULL);
	}
	put_head(out, "port_drops_total", "Received frames that were dropped", "counter");
	json_object_foreach(json_object_get(json_array_get(drops, 0), "total"), key, v)
		put_counter(out, drops, "port_drops_total", key, key);
}

static void
put_ports(FILE *out, const json_t *devices, const json_t *ports)
{
	json_t *row;
	size_t i;

	put_head(out, "port_info", "The port behind a device", "gauge");
	json_array_foreach(ports, i, row)
	{
		fprintf(out, "uroce_port_info{device=\"%s\",port=\"" PORT "\",",
			row_text(row, "device"));
		put_label(out, "name", row_text(row, "port"));
		fputc(',', out);
		put_label(out, "driver", row_text(row, "driver"));
		fputc(',', out);
		put_label(out, "netdev", row_text(row, "netdev"));
		fprintf(out, "} 1\n");
	}
	put_head(out, "port_up", "1 if the link is up", "gauge");
	json_array_foreach(devices, i, row)
		fprintf(out, "uroce_port_up{device=\"%s\",port=\"" PORT "\"} %d\n",
			row_text(row, "device"), strcmp(row_text(row, "link"), "up") == 0);
	put_head(out, "clients", "Programs that have the device open", "gauge");
	json_array_foreach(devices, i, row)
		fprintf(out, "uroce_clients{device=\"%s\"} %lld\n", row_text(row, "device"),
			row_int(row, "clients"));
}

/* key: a sum over all users, which the rows of each user have. */
static void
put_quotas(FILE *out, const json_t *rows, const char *unit, const char *name, const char *key,
	   const char *help)
{
	const char *first = row_text(json_array_get(rows, 0), "resource");
	json_t *row;
	size_t i;

	put_head(out, name, help, "gauge");
	json_array_foreach(rows, i, row)
	{
		const char *kind = name_of(row_text(row, "resource"));

		if (i != 0 && strcmp(row_text(row, "resource"), first) == 0)
			break; /* the rows of the next user have the same sums */
		if (kind != NULL && strcmp(row_text(row, "unit"), unit) == 0)
			fprintf(out, "uroce_%s{kind=\"%s\"} %lld\n", name, kind, row_int(row, key));
	}
}

/* Indices of topics, and of the rows that the daemon returns for each. */
enum { DEVICE, SHOWN_PORT, QUOTA, WORKER, STATS, DROPS, DAEMON, TOPICS };
static const char *const topics[TOPICS] = {"device", "port",  "quota", "worker",
					   "stats",  "drops", "daemon"};

static void
put_all(FILE *out, json_t *const rows[TOPICS])
{
	put_head(out, "build_info", "The daemon's version", "gauge");
	fprintf(out, "uroce_build_info{version=\"%s\"} 1\n",
		row_text(json_array_get(rows[DAEMON], 0), "version"));
	put_head(out, "workers", "Worker threads", "gauge");
	fprintf(out, "uroce_workers %zu\n", json_array_size(rows[WORKER]));
	put_ports(out, rows[DEVICE], rows[SHOWN_PORT]);
	put_quotas(out, rows[QUOTA], "objects", "objects", "all_used", "Objects that clients hold");
	put_quotas(out, rows[QUOTA], "objects", "objects_limit", "all_limit",
		   "Most objects of all clients together");
	put_quotas(out, rows[QUOTA], "bytes", "memory_bytes", "all_used",
		   "Memory that clients hold");
	put_quotas(out, rows[QUOTA], "bytes", "memory_limit_bytes", "all_limit",
		   "Most memory of all clients together");
	put_counters(out, rows[STATS], rows[DROPS]);
}

/* Asks the daemon. Returns the text, which the caller frees; NULL with errno. */
static char *
metrics_text(struct ipc_client *c)
{
	json_t *rows[TOPICS] = {0};
	char *text = NULL;
	size_t len;
	unsigned n = 0;
	FILE *out;

	while (n < TOPICS && (rows[n] = query_rows(c, topics[n])) != NULL)
		n++;
	out = n == TOPICS ? open_memstream(&text, &len) : NULL;
	if (out != NULL) {
		put_all(out, rows);
		fclose(out);
	}
	for (unsigned i = 0; i < n; i++)
		json_decref(rows[i]);
	return text;
}

/* --- the server */

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

struct conn {
	int fd;         /* -1: free */
	short events;   /* that it waits for */
	uint64_t since; /* order of arrival */
	bool eof;       /* the scraper has closed its direction */
	char *reply;    /* NULL: the request is not complete */
	size_t len, sent, got;
	char request[REQUEST_MAX + 1];
};

static struct {
	const struct request *rq;
	const char *path;    /* of a unix socket, else NULL */
	int listener, spare; /* spare: a descriptor to close when there is none left */
	struct conn conn[CONNS];
	uint64_t arrivals;
	char *text; /* made at made_ns */
	uint64_t made_ns;
	int failed; /* errno of the last failure to ask the daemon, which was printed; 0: none */
} server;

/* Parses value into *a. Returns the length of the address, or 0 if value is not an address. */
static socklen_t
address_of(const char *value, union address *a)
{
	char host[INET6_ADDRSTRLEN] = "127.0.0.1", *end;
	const char *port = strrchr(value, ':');
	bool six = *value == '[';
	unsigned long n;
	size_t len;

	memset(a, 0, sizeof(*a));
	if (*value == '/') {
		a->un.sun_family = AF_UNIX;
		len = strlen(value);
		if (len >= sizeof(a->un.sun_path))
			return 0;
		memcpy(a->un.sun_path, value, len);
		return (socklen_t)sizeof(a->un);
	}
	if (port != NULL) {
		len = (size_t)(port - value) - (six ? 2 : 0);
		if (len >= sizeof(host) || (six && port[-1] != ']'))
			return 0;
		memcpy(host, value + six, len);
		host[len] = '\0';
	}
	port = port != NULL ? port + 1 : value;
	n = *port >= '0' && *port <= '9' ? strtoul(port, &end, 10) : 0;
	if (n == 0 || n > 65535 || *end != '\0')
		return 0;
	a->in.sin_family = six ? AF_INET6 : AF_INET;
	a->in.sin_port = htons((uint16_t)n); /* at the same offset in both families */
	if (six)
		return inet_pton(AF_INET6, host, &a->in6.sin6_addr) == 1 ? sizeof(a->in6) : 0;
	return inet_pton(AF_INET, host, &a->in.sin_addr) == 1 ? sizeof(a->in) : 0;
}
_Static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port),
	       "one place for the port");

static void
conn_end(struct conn *c)
{
	close(c->fd);
	c->fd = -1;
	free(c->reply);
	c->reply = NULL;
}

/* Makes the text anew if it is old. Returns it, or NULL with the reason in why. */
static const char *
fresh_text(char why[256])
{
	struct ipc_client c;
	int rc;

	if (server.text != NULL && rates_now_ns() - server.made_ns <= FRESH_NS)
		return server.text;
	free(server.text);
	server.text = NULL;
	rc = daemon_connect(&c, server.rq, why, 256);
	if (rc == 0) {
		server.text = metrics_text(&c);
		server.made_ns = rates_now_ns();
		rc = server.text == NULL ? -errno : 0;
		if (rc != 0)
			snprintf(why, 256, "the daemon: %s", strerror(-rc));
		ipc_client_close(&c);
	}
	if (rc != 0 && rc != server.failed)
		fprintf(stderr, "urocectl: metrics: %s\n", why);
	server.failed = rc;
	return server.text;
}

/* Builds the reply to a complete request. Returns false if out of memory. */
static bool
answer(struct conn *c)
{
	const char *status = "200 OK", *body = "";
	char why[256];
	size_t body_len;
	int head;

	if (strncmp(c->request, "GET ", 4) != 0) {
		status = "405 Method Not Allowed";
	} else if (strncmp(c->request, "GET /metrics ", 13) != 0 &&
		   strncmp(c->request, "GET /metrics?", 13) != 0) {
		status = "404 Not Found";
		body = "the metrics are at /metrics\n";
	} else if ((body = fresh_text(why)) == NULL) {
		status = "503 Service Unavailable";
		strncat(why, "\n", sizeof(why) - strlen(why) - 1);
		body = why;
	}
	body_len = strlen(body);
	c->reply = malloc(HEAD_MAX + body_len);
	if (c->reply == NULL)
		return false;
	head = snprintf(c->reply, HEAD_MAX,
			"HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
			"Content-Length: %zu\r\nConnection: close\r\n\r\n",
			status, body_len);
	memcpy(c->reply + head, body, body_len);
	c->len = (size_t)head + body_len;
	c->sent = 0;
	return true;
}

/*
 * Sends as much as the socket accepts. Returns false if the connection must be closed: after an
 * error, or after the last byte if the scraper has closed its direction. Otherwise the scraper
 * closes first.
 */
static bool
send_more(struct conn *c)
{
	ssize_t n = send(c->fd, c->reply + c->sent, c->len - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && errno != EAGAIN)
		return false;
	c->sent += n > 0 ? (size_t)n : 0;
	if (c->sent < c->len) {
		c->events = c->eof ? POLLOUT : POLLIN | POLLOUT;
		return true;
	}
	if (c->eof)
		return false;
	/* Do not close yet: that could discard the end of the reply. */
	shutdown(c->fd, SHUT_WR);
	c->events = POLLIN;
	return true;
}

/* Reads; replies once the request is complete. Returns false if the connection must be closed. */
static bool
read_more(struct conn *c)
{
	char rest[512];
	bool have = c->reply != NULL; /* data after a request is ignored */
	ssize_t n = have ? recv(c->fd, rest, sizeof(rest), MSG_DONTWAIT)
			 : recv(c->fd, c->request + c->got, REQUEST_MAX - c->got, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN;
	if (n == 0) {
		c->eof = true;
		return have && c->sent < c->len && send_more(c);
	}
	if (have)
		return true;
	c->got += (size_t)n;
	c->request[c->got] = '\0';
	if (strstr(c->request, "\r\n\r\n") == NULL && strstr(c->request, "\n\n") == NULL)
		return c->got < REQUEST_MAX;
	return answer(c) && send_more(c);
}

static void
on_conn(struct conn *c, short events)
{
	bool keep = true;

	if (events & POLLIN)
		keep = read_more(c);
	else if (events & (POLLERR | POLLHUP))
		keep = false;
	if (keep && (events & POLLOUT) && c->reply != NULL && c->sent < c->len)
		keep = send_more(c);
	if (!keep)
		conn_end(c);
}

/* Returns a free entry. If there is none, closes the oldest connection. */
static struct conn *
conn_place(void)
{
	struct conn *oldest = &server.conn[0];

	for (unsigned i = 0; i < CONNS; i++) {
		struct conn *c = &server.conn[i];

		if (c->fd < 0)
			return c;
		if (c->since < oldest->since)
			oldest = c;
	}
	conn_end(oldest);
	return oldest;
}

static void
on_listener(void)
{
	int fd = accept4(server.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct conn *c;

	if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
		/* As long as it is pending, poll would return at once: close it. */
		close(server.spare);
		fd = accept4(server.listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			close(fd);
		server.spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
		return;
	}
	if (fd < 0)
		return;
	c = conn_place();
	c->fd = fd;
	c->events = POLLIN;
	c->eof = false;
	c->since = ++server.arrivals;
	c->got = 0;
}

/* Removes a socket that no process listens on any more. */
static void
remove_stale(const union address *a, socklen_t len)
{
	struct stat st;
	int fd;

	if (a->any.sa_family != AF_UNIX || lstat(a->un.sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, &a->any, len) < 0 && errno == ECONNREFUSED)
		unlink(a->un.sun_path);
	if (fd >= 0)
		close(fd);
}

/* Returns a listening socket, or -errno. */
static int
listen_at(const union address *a, socklen_t len)
{
	int one = 1, fd, rc;

	remove_stale(a, len);
	fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, &a->any, len) == 0 && listen(fd, 128) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

/* Also while it waits for the daemon. */
static void
on_signal(int sig)
{
	if (server.path != NULL)
		unlink(server.path);
	_exit(EXIT_SUCCESS);
}

/* Serves until a signal ends it. */
static void __attribute__((noreturn)) serve(void)
{
	struct sigaction act = {.sa_handler = on_signal};
	struct pollfd fds[CONNS + 1];
	struct conn *of[CONNS];

	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	for (;;) {
		nfds_t n = 0; /* poll refuses more entries than there may be descriptors */

		for (struct conn *c = server.conn; c < server.conn + CONNS; c++) {
			if (c->fd < 0)
				continue;
			of[n] = c;
			fds[n++] = (struct pollfd){c->fd, c->events, 0};
		}
		fds[n] = (struct pollfd){server.listener, POLLIN, 0};
		if (poll(fds, n + 1, -1) <= 0)
			continue;
		for (nfds_t k = 0; k < n; k++) {
			if (fds[k].revents != 0)
				on_conn(of[k], fds[k].revents);
		}
		if (fds[n].revents != 0)
			on_listener();
	}
}

static void
take_word(struct request *rq, unsigned nth, const char *word)
{
	usage_error("metrics: unexpected argument '%s'; legal: --listen WHERE", word);
}

static void
check(const struct request *rq)
{
	union address a;

	if (rq->listen != NULL && address_of(rq->listen, &a) == 0)
		usage_error("option --listen: '%.100s' is none of: PORT (1 to 65535, on "
			    "127.0.0.1), IP:PORT, [IPV6]:PORT, /PATH of a unix socket (at most "
			    "107 characters)",
			    rq->listen);
}

int
metrics_serve(const struct request *rq)
{
	union address a;
	socklen_t len = address_of(rq->listen, &a);

	server.rq = rq;
	for (unsigned i = 0; i < CONNS; i++)
		server.conn[i].fd = -1;
	server.spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	server.listener = listen_at(&a, len);
	if (server.listener < 0) {
		fprintf(stderr, "urocectl: metrics: %s: %s\n", rq->listen,
			strerror(-server.listener));
		return EXIT_FAILURE;
	}
	server.path = *rq->listen == '/' ? rq->listen : NULL;
	serve();
}

/* Without --listen: prints the text. */
static int
run(struct ipc_client *c, const struct request *rq)
{
	char *text = metrics_text(c);

	if (text == NULL)
		return -1;
	fputs(text, stdout);
	free(text);
	return EXIT_SUCCESS;
}

const struct command metrics_command = {"metrics", NULL, take_word, check, NULL, NULL, run};
