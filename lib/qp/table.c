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
	if (t->slot == NULL)
		return -ENOMEM;
	t->mask = nslots - 1;
	return 0;
}

void
qp_table_free(struct qp_table *t)
{
	free(t->slot);
	t->slot = NULL;
	t->mask = 0;
}
