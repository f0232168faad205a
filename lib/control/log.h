/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines of the daemon, under a separate DPDK log type (registered before main). */
#ifndef CONTROL_LOG_H
#define CONTROL_LOG_H

#include <stdbool.h>
#include <time.h>
#include <rte_log.h>

extern int daemon_logtype;

#define LOG(level, fmt, ...)                                                                       \
	rte_log(RTE_LOG_##level, daemon_logtype, "uroced: " fmt "\n", ##__VA_ARGS__)

/* Limits lines that a client can trigger at will: at most ten a second per call site. */
struct log_limit {
	time_t second;
	unsigned lines;
};
static inline bool
log_allowed(struct log_limit *limit)
{
	time_t now = time(NULL);

	if (limit->second != now)
		*limit = (struct log_limit){.second = now};
	return limit->lines++ < 10;
}

#define LOG_LIMITED(level, fmt, ...)                                                               \
	do {                                                                                       \
		static struct log_limit limit_;                                                    \
                                                                                                   \
		if (log_allowed(&limit_))                                                          \
			LOG(level, fmt, ##__VA_ARGS__);                                            \
	} while (0)

#endif
