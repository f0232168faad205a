/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include "qp/table.h"

int
qp_table_init(struct qp_table *t, uint32_t nslots)
{
	if (nslots == 0 || (nslots & (nslots - 1)) != 0 || nslots > WIRE_QPN_MASK)
		return -EINVAL;
	t->slot = calloc(nslots, sizeof(*t->slot));
	t->owner = calloc(nslots, sizeof(*t->owner));
	if (t->slot == NULL || t->owner == NULL) {
		qp_table_free(t);
		return -ENOMEM;
	}
	t->mask = nslots - 1;
	return 0;
}

void
qp_table_free(struct qp_table *t)
{
	free(t->slot);
	free(t->owner);
	t->slot = NULL;
	t->owner = NULL;
	t->mask = 0;
}
