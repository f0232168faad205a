/* SPDX-License-Identifier: BSD-3-Clause */
/* Why a modify was refused, for people: verbs return only EINVAL (QP-01 .. QP-04). */
#ifndef QP_REFUSAL_H
#define QP_REFUSAL_H

#include <stddef.h>
#include <stdint.h>

enum qp_refused {
	QP_REFUSED_NOT,        /* not refused */
	QP_REFUSED_STATE,      /* value: no enum ibv_qp_state */
	QP_REFUSED_CUR_STATE,  /* value: cur_qp_state, which is not the QP's */
	QP_REFUSED_TRANSITION, /* from, to */
	QP_REFUSED_MISSING,    /* bits: required attributes that attr_mask lacks */
	QP_REFUSED_EXTRA,      /* bits: attributes that this transition does not take */
	QP_REFUSED_DRAINING,   /* in SQD with requests outstanding (QP-16) */
	QP_REFUSED_VALUE,      /* field has value, not min .. max */
	QP_REFUSED_MTU,        /* value: a path_mtu, enum ibv_mtu, above the port's, max */
	QP_REFUSED_FLAGS,      /* field has the unknown flags bits */
	QP_REFUSED_PKEY,       /* field: the P_Key table's entry value is empty or outside of it */
	QP_REFUSED_PATH,       /* field: an address vector without GRH or with an empty GID index */
	QP_REFUSED_MIGRATION,  /* value: a path_mig_state that is not legal now */
};

struct qp_refusal {
	enum qp_refused why;
	uint8_t type, from, to; /* enum qp_type, enum qp_state */
	const char *field;      /* of struct ibv_qp_attr */
	uint32_t bits, value, min, max;
};

/*
 * Writes the reason as a sentence without full stop, of at most len - 1 bytes; NUL terminated. len:
 * at least 1; r->why is not QP_REFUSED_NOT. Any thread.
 */
void qp_refusal_print(const struct qp_refusal *r, char *to, size_t len);

#endif
