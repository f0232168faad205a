/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>
#include "cm/port.h"

#define BUCKETS 4096u /* a power of two */
#define NONE    UINT32_MAX

struct owner {
	struct cm_bind bind;
	bool used, listens;
	uint32_t next; /* of the same bucket, or free */
};

struct cm_ports {
	uint64_t rng;
	uint32_t max, free;
	uint32_t bucket[BUCKETS];
	struct owner owner[];
};

size_t
cm_ports_bytes(uint32_t max)
{
	return sizeof(struct cm_ports) + max * sizeof(struct owner);
}

struct cm_ports *
cm_ports_init(void *mem, uint32_t max, uint64_t seed)
{
	struct cm_ports *p = mem;

	p->rng = seed;
	p->max = max;
	p->free = 0;
	for (uint32_t i = 0; i < BUCKETS; i++)
		p->bucket[i] = NONE;
	for (uint32_t i = 0; i < max; i++) {
		p->owner[i].used = false;
		p->owner[i].next = i + 1 < max ? i + 1 : NONE;
	}
	return p;
}

static uint32_t *
bucket_of(struct cm_ports *p, uint16_t space, uint16_t port)
{
	return &p->bucket[(port ^ space * 31u) % BUCKETS];
}

static bool
is_any(const struct cm_bind *b)
{
	static const uint8_t zero[16];

	return memcmp(b->gid, zero, 16) == 0;
}

static bool
is_v4(const struct cm_bind *b)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return is_any(b) ? !b->v6 : memcmp(b->gid, mapped, sizeof(mapped)) == 0;
}

/* Returns true if b accepts addresses of this family. */
static bool
takes(const struct cm_bind *b, bool v4)
{
	if (is_any(b) && b->v6 && !b->afonly)
		return true;
	return is_v4(b) == v4;
}

/* Returns true if there is an address that both accept. */
static bool
overlap(const struct cm_bind *a, const struct cm_bind *b)
{
	if (!is_any(a) && !is_any(b))
		return a->dev == b->dev && memcmp(a->gid, b->gid, 16) == 0;
	return (takes(a, true) && takes(b, true)) || (takes(a, false) && takes(b, false));
}

/* Returns true if another owner conflicts with b. alone: even if both allow reuse. */
static bool
in_use(struct cm_ports *p, const struct cm_bind *b, uint16_t port, const struct owner *self,
       bool alone)
{
	uint32_t at = *bucket_of(p, b->space, port);

	for (; at != NONE; at = p->owner[at].next) {
		const struct owner *o = &p->owner[at];

		if (o == self || o->bind.space != b->space || o->bind.port != port)
			continue;
		if (!alone && !o->listens && b->reuse && o->bind.reuse)
			continue;
		if (overlap(&o->bind, b))
			return true;
	}
	return false;
}

/* Returns a free port, searching from a random one; 0: none. */
static uint16_t
choose(struct cm_ports *p, const struct cm_bind *b)
{
	uint32_t n = CM_PORT_LAST - CM_PORT_FIRST + 1, start;

	p->rng = p->rng * 6364136223846793005u + 1442695040888963407u;
	start = (uint32_t)(p->rng >> 33) % n;
	for (uint32_t i = 0; i < n; i++) {
		uint16_t port = (uint16_t)(CM_PORT_FIRST + (start + i) % n);

		/* an automatically chosen port is not shared */
		if (!in_use(p, b, port, NULL, true))
			return port;
	}
	return 0;
}

int
cm_port_bind(struct cm_ports *p, const struct cm_bind *b, uint32_t *owner, uint16_t *port)
{
	uint32_t at = p->free, *head;
	struct owner *o;

	if (at == NONE)
		return -ENOMEM;
	if (b->port != 0 && in_use(p, b, b->port, NULL, false))
		return -EADDRINUSE;
	*port = b->port != 0 ? b->port : choose(p, b);
	if (*port == 0)
		return -EADDRNOTAVAIL;
	o = &p->owner[at];
	p->free = o->next;
	head = bucket_of(p, b->space, *port);
	*o = (struct owner){.bind = *b, .used = true, .next = *head};
	o->bind.port = *port;
	*head = at;
	*owner = at + 1;
	return 0;
}

static struct owner *
owner_find(struct cm_ports *p, uint32_t owner)
{
	return owner == 0 || owner > p->max || !p->owner[owner - 1].used ? NULL
									 : &p->owner[owner - 1];
}

int
cm_port_listen(struct cm_ports *p, uint32_t owner)
{
	struct owner *o = owner_find(p, owner);

	if (o == NULL)
		return -ENOENT;
	if (in_use(p, &o->bind, o->bind.port, o, true))
		return -EADDRINUSE;
	o->listens = true;
	return 0;
}

void
cm_port_release(struct cm_ports *p, uint32_t owner)
{
	struct owner *o = owner_find(p, owner);
	uint32_t *link;

	if (o == NULL)
		return;
	link = bucket_of(p, o->bind.space, o->bind.port);
	while (*link != owner - 1)
		link = &p->owner[*link].next;
	*link = o->next;
	o->used = false;
	o->next = p->free;
	p->free = owner - 1;
}
