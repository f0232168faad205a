/* SPDX-License-Identifier: BSD-3-Clause */
/* What `show` and `watch` can show. */
#ifndef UROCECTL_TOPIC_H
#define UROCECTL_TOPIC_H

#include <stdbool.h>

struct topic {
	const char *name; /* as in the request and in the answer */
	unsigned filters; /* enum filter_kind bits */
	bool counters;    /* rows of counters: device, total, workers */
	const char *help;
	const char *states, *types; /* legal values of these filters; NULL: there is none */
};

#define QP_STATES "RESET INIT RTR RTS SQD SQE ERR"
#define QP_TYPES  "RC UC UD"

/* The topic of that name. Exits with a usage error, which names the command `of`. */
const struct topic *topic_find(const char *of, const char *name);
/* Topic i; NULL after the last. */
const struct topic *topic_at(unsigned i);
/* The names with spaces between them. */
const char *topic_names(void);

#endif
