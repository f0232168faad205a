/* SPDX-License-Identifier: BSD-3-Clause */
/* The records of destroyed QPs (control/qp_history.h). */
#include <string.h>
#include "control/device.h"
#include "control/session.h"
#include "fake.h"
#include "../../kit/unit.h"

static struct device dev = {.name = "t0"};
static struct quota_user user = {.uid = 7};
static struct session s = {.dev = &dev,
			   .comm = "program",
			   .peer = {.uid = 7, .pid = 8},
			   .user = &user};
static struct qp qp;
static struct qp_recorder recorder;

/* Destroys a QP of this number, with a reason or none. */
static void
destroy(struct qp_history *k, uint32_t qpn, enum uroce_error why)
{
	struct obj_qp q = {.o.s = &s, .qp = &qp};

	qp.conn.qpn = qpn;
	qp.bind.recorder = &recorder;
	recorder.fault.reason = (uint16_t)why;
	qp_history_add(k, &q);
}

UNIT_TEST(others_do_not_displace_failed_ones)
{
	struct qp_history k = {0};
	const struct past_qp *q = NULL, *last = NULL;
	uint32_t i, n = 0, pos = 0;

	assert_int_equal(qp_history_init(&k), 0);
	recorder.count = 1;
	destroy(&k, 42, UROCE_ERROR_RKEY_BOUNDS);
	for (i = 0; i < 10 * QP_HISTORY; i++)
		destroy(&k, 1000 + i, UROCE_ERROR_NONE);
	while ((q = qp_history_next(&k, &pos)) != NULL) {
		if (last != NULL && q->qpn != 42)
			assert_true(q->qpn > last->qpn); /* oldest first */
		last = q;
		n++;
	}
	assert_int_equal(n, QP_HISTORY / 2 + 1);
	assert_int_equal(last->qpn, 42);
	assert_int_equal(last->recorder.fault.reason, UROCE_ERROR_RKEY_BOUNDS);
	assert_int_equal(last->uid, 7);
	assert_int_equal(last->pid, 8);
	assert_string_equal(last->comm, "program");
	assert_string_equal(last->dev, "t0");
	qp_history_free(&k);
}

UNIT_TEST(failed_ones_are_bounded_too)
{
	struct qp_history k = {0};
	const struct past_qp *q;
	uint32_t i, n = 0, pos = 0;

	assert_int_equal(qp_history_init(&k), 0);
	for (i = 0; i < 3 * QP_HISTORY; i++)
		destroy(&k, i, UROCE_ERROR_NO_RESPONSE);
	while ((q = qp_history_next(&k, &pos)) != NULL)
		assert_int_equal(q->qpn, 3 * QP_HISTORY - QP_HISTORY / 2 + n++);
	assert_int_equal(n, QP_HISTORY / 2);
	qp_history_free(&k);
}

UNIT_TEST(qp_that_did_nothing_is_not_kept)
{
	struct qp_history k = {0};
	uint32_t pos = 0;

	assert_int_equal(qp_history_init(&k), 0);
	recorder.count = 0;
	destroy(&k, 5, UROCE_ERROR_NONE);
	assert_null(qp_history_next(&k, &pos));
	qp_history_free(&k);
}
