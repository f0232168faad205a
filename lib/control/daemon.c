/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/daemon.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include "control/defer.h"
#include "control/device.h"
#include "control/log.h"

RTE_LOG_REGISTER(daemon_logtype, uroce.daemon, NOTICE);

uint64_t
daemon_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint32_t
random_u32(void)
{
	uint32_t v;

	while (getrandom(&v, sizeof(v), 0) != sizeof(v))
		;
	return v;
}

int
daemon_mr_add(struct daemon *d, struct mr *mr)
{
	int rc;

	do
		rc = mr_table_add(&d->mrs, mr, random_u32());
	while (rc == -EEXIST);
	return rc;
}

struct device *
daemon_device(const struct daemon *d, uint16_t port)
{
	for (uint32_t i = 0; i < d->ndevs; i++) {
		if (d->dev[i]->port.id == port)
			return d->dev[i];
	}
	return NULL;
}

struct device *
daemon_device_named(const struct daemon *d, const char *name)
{
	for (uint32_t i = 0; i < d->ndevs; i++) {
		if (strcmp(d->dev[i]->name, name) == 0)
			return d->dev[i];
	}
	return NULL;
}

int
daemon_tables_open(struct daemon *d)
{
	const struct control_config *c = d->cfg;
	uint32_t slots = pow2_at_least(2 * c->max_qps > 64 ? 2 * c->max_qps : 64);
	int rc = mr_table_init(&d->mrs, pow2_at_least(2 * c->max_mrs));

	if (rc == 0)
		rc = qp_table_init(&d->qps, slots);
	if (rc == 0)
		rc = qpn_init(&d->qpns, &d->qps, d->nworkers);
	if (rc == 0)
		rc = conn_keys_init(&d->conn_keys, c->max_qps,
				    (uint64_t)random_u32() << 32 | random_u32());
	if (rc == 0)
		rc = qp_history_init(&d->kept);
	TAILQ_INIT(&d->turns);
	if (rc == 0)
		rc = defer_open(d);
	idtab_init(&d->cqs, c->max_cqs);
	idtab_init(&d->pds, c->max_pds);
	TAILQ_INIT(&d->sessions);
	TAILQ_INIT(&d->new_sessions);
	TAILQ_INIT(&d->ending);
	TAILQ_INIT(&d->retrying);
	TAILQ_INIT(&d->deferred);
	return rc;
}

void
daemon_tables_close(struct daemon *d)
{
	defer_close(d);
	idtab_free(&d->pds);
	idtab_free(&d->cqs);
	qp_history_free(&d->kept);
	conn_keys_free(&d->conn_keys);
	qpn_free(&d->qpns);
	qp_table_free(&d->qps);
	mr_table_free(&d->mrs);
}
