/* SPDX-License-Identifier: BSD-3-Clause */
/* The warning about peers that guess R_Keys (guess_look in control/device.h). */
#include <stdio.h>
#include <stdlib.h>
#include <rte_log.h>
#include "control/device.h"
#include "control/obj.h"
#include "control/session.h"
#include "fake.h"
#include "../../kit/unit.h"

#define LOOK_NS (2 * QP_WRONG_KEY_NS)

static struct daemon d;
static struct device *dev;

/* A peer tries n keys on each of nqps QPs, and packets packets of paused QPs are dropped. */
static void
tries(struct obj_qp *q, unsigned nqps, uint32_t n, uint32_t packets)
{
	struct counter_block *b = worker_counters(worker_get(d.workers, 1), dev->port.id);

	for (unsigned i = 0; i < nqps; i++)
		q[i].qp->conn.wrong_keys.total += n;
	b->ctr[COUNTER_RSP_WRONG_KEY] += nqps * n;
	b->drop[DROP_KEY_PAUSE] += packets;
}

/* What the next look logs; the caller frees it. */
static char *
look(void)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	rte_openlog_stream(f);
	guess_look(dev);
	rte_openlog_stream(NULL);
	fclose(f);
	return text;
}

static void
expect(const char *part)
{
	char *said = look();

	if (part == NULL ? said[0] != '\0' : strstr(said, part) == NULL)
		fail_msg("'%s' instead of '%s'", said, part != NULL ? part : "");
	free(said);
}

/* Keys and dropped requests since the last look count together; the QP with most is named. */
REQUIREMENT("MEM-01")
UNIT_TEST(more_wrong_keys_than_a_mistake_are_logged)
{
	struct session s = {.peer = {.pid = 77, .uid = 1234}};
	struct qp qp[2] = {{.conn.qpn = 0x51}, {.conn.qpn = 0x52}};
	struct obj_qp q[2] = {{.o.s = &s, .qp = &qp[0]}, {.o.s = &s, .qp = &qp[1]}};

	fake_open(&d);
	dev = d.dev[0];
	expect(NULL);
	for (unsigned i = 0; i < 2; i++)
		TAILQ_INSERT_TAIL(&dev->qps, &q[i], dev_link);
	fake_now_ns += LOOK_NS;
	tries(q, 2, QP_WRONG_KEYS / 2, 0);
	expect(NULL);
	tries(q, 1, 2, 0);
	tries(q + 1, 1, 3, QP_WRONG_KEYS);
	fake_now_ns += LOOK_NS - 1;
	expect(NULL);
	fake_now_ns++;
	expect("t0: peers use R_Keys of no region: 21 requests since the last check, 3 of them to "
	       "QP 0x52 of uid 1234 (pid 77), which has received 11 in total");
	fake_now_ns += LOOK_NS;
	expect(NULL);
	tries(q, 1, QP_WRONG_KEYS + 1, 0);
	for (unsigned i = 0; i < 2; i++)
		TAILQ_REMOVE(&dev->qps, &q[i], dev_link);
	fake_now_ns += LOOK_NS;
	expect("17 requests since the last check, to QPs that no longer exist");
	fake_close(&d);
}
