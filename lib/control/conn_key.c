/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/conn_key.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct conn_key) == 40, "no holes: keys are compared and hashed as bytes");

int
conn_keys_init(struct conn_key_table *t, uint32_t max, uint64_t seed)
{
	uint32_t n = 64;

	while (n < max)
		n *= 2;
	t->bucket = calloc(n, sizeof(*t->bucket));
	t->mask = n - 1;
	t->seed = seed;
	return t->bucket != NULL ? 0 : -ENOMEM;
}

void
conn_keys_free(struct conn_key_table *t)
{
	free(t->bucket);
	t->bucket = NULL;
}

/* Multiplies and folds, word by word, from a secret start. */
static uint32_t
hash(const struct conn_key_table *t, const struct conn_key *key)
{
	uint64_t word[sizeof(*key) / sizeof(uint64_t)], h = t->seed;

	memcpy(word, key, sizeof(word));
	for (unsigned i = 0; i < sizeof(word) / sizeof(word[0]); i++) {
		h = (h ^ word[i]) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 32;
	}
	return (uint32_t)h & t->mask;
}

int
conn_key_ref(struct conn_key_table *t, const struct conn_key *key, uid_t uid, struct used_key **out)
{
	struct conn_key_bucket *b = &t->bucket[hash(t, key)];
	struct used_key *o;

	LIST_FOREACH (o, b, link) {
		if (!conn_key_is(o, key))
			continue;
		*out = o;
		if (o->uid != uid)
			return -EADDRINUSE;
		o->users++;
		return 0;
	}
	o = calloc(1, sizeof(*o));
	*out = o;
	if (o == NULL)
		return -ENOMEM;
	o->key = *key;
	o->uid = uid;
	o->users = 1;
	LIST_INSERT_HEAD(b, o, link);
	return 0;
}

void
conn_key_unref(struct used_key *o)
{
	if (o == NULL || --o->users > 0)
		return;
	LIST_REMOVE(o, link);
	free(o);
}

bool
conn_key_is(const struct used_key *o, const struct conn_key *key)
{
	return memcmp(&o->key, key, sizeof(*key)) == 0;
}
