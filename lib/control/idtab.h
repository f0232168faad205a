/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables from ids to objects: handles of a context, CQs and PDs of the daemon. An id is a slot's
 * number and how often the slot was used before, so that an id which is out of date is not found.
 * Ids fit 31 bits. Control thread only.
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
	uint32_t max;    /* objects it may hold, at most IDTAB_MAX */
	uint32_t used;
	uint32_t next; /* where the search for a free slot goes on */
};

/* An empty table for at most max objects. */
void idtab_init(struct idtab *t, uint32_t max);
/* Frees the table, not the objects. */
void idtab_free(struct idtab *t);
/* Give obj (not NULL) an id. 0, -ENOSPC when max objects are in it, -ENOMEM. */
int idtab_add(struct idtab *t, void *obj, uint32_t *id);
/* The object of id; NULL: unknown, or no longer. */
void *idtab_get(const struct idtab *t, uint32_t id);
/* Take id out; unknown ones are ignored. */
void idtab_del(struct idtab *t, uint32_t id);
/*
 * The next object in the table at or behind slot *pos, which moves on past it; NULL: no more. Start
 * with *pos = 0. Objects may be taken out meanwhile.
 */
void *idtab_next(const struct idtab *t, uint32_t *pos);

#endif
