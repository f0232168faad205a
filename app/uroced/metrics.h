/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exporter for Prometheus: GET /metrics by HTTP on a TCP or unix socket (option metrics). The
 * control thread serves it and never waits for a scraper. At most METRICS_CONNS connections exist;
 * a further one replaces the oldest. The text is regenerated at most four times a second.
 */
#ifndef UROCED_METRICS_H
#define UROCED_METRICS_H

#include <stddef.h>

struct daemon;

#define METRICS_CONNS 8

/*
 * Checks the option's value: PORT (on 127.0.0.1), IP:PORT, [IPV6]:PORT or /PATH. Returns 0; or
 * -EINVAL with the reason in err, which has room bytes.
 */
int metrics_check(const char *value, char *err, size_t room);

/* Control thread. Listens at where, a value that metrics_check accepts. 0, or -errno: logged. */
int metrics_start(struct daemon *d, const char *where);
/* Control thread. Closes connections and stops listening. Safe without metrics_start. */
void metrics_stop(struct daemon *d);

/* Control thread. Returns all metrics as text of *len bytes, which the caller frees; or NULL. */
char *metrics_text(const struct daemon *d, size_t *len);

#endif
