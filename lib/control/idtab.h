/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables from ids to objects: handles of a context, CQs and PDs of the daemon. An id combines a
 * slot number with the count of the slot's earlier uses, so that a stale id is not found. Ids fit
 * 31 bits. Control thread only.
 */
#ifndef CONTROL_IDTAB_H
#define CONTROL_IDTAB_H

#include <stdint.h>

#define IDTAB_SLOT_BITS 20
#define IDTAB_MAX       (1u << IDTAB_SLOT_BITS)

struct idtab_slot {
	void *obj;
	uint32_t gen;
};
struct idtab {
	struct idtab_slot *slot;
	uint32_t nslots; /* allocated so far */
	uint32_t max;    /* maximum number of objects, at most IDTAB_MAX */
	uint32_t used;
	uint32_t next; /* where the search for a free slot continues */
};

/* Initialises an empty table for at most max objects. */
void idtab_init(struct idtab *t, uint32_t max);
/* Frees the table, not the objects. */
void idtab_free(struct idtab *t);
/* Adds obj (not NULL) and assigns its id. Returns 0, -ENOSPC (max objects) or -ENOMEM. */
int idtab_add(struct idtab *t, void *obj, uint32_t *id);
/* Returns the object of id; NULL: unknown or stale. */
void *idtab_get(const struct idtab *t, uint32_t id);
/* Removes id. Ignores unknown ids. */
void idtab_del(struct idtab *t, uint32_t id);
/* Undoes an idtab_add whose id nobody has seen: the next object gets it. */
void idtab_undo(struct idtab *t, uint32_t id);
/*
 * Returns the next object at or after slot *pos and moves *pos past it; NULL: no more. Start with
 * *pos = 0. Objects may be removed between calls.
 */
void *idtab_next(const struct idtab *t, uint32_t *pos);
/*
 * The same in slices: subtracts 1 from *steps for each empty slot. Also returns NULL when *steps is
 * not above 0; the caller then continues later from *pos. *steps stays above 0 at the end.
 */
void *idtab_step(const struct idtab *t, uint32_t *pos, int *steps);

#endif
