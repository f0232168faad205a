/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mutator works on steps. It knows what makes a frame pass the first checks, and runs the
 * engine over the steps before a new frame to learn the PSN it expects.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "craft.h"
#include "fuzz_rx.h"
#include "wire/psn.h"

#define SCRATCH (1u << 16)
#define MAX_MSG 6u /* packets of a message that is inserted */

/* An input being edited: steps whose bodies are in the input or in scratch. */
struct edit {
	struct step s[STEP_MAX];
	uint32_t n;
	uint32_t used;
	uint8_t scratch[SCRATCH];
	struct rng rng;
};

static void
edit_open(struct edit *e, const uint8_t *data, size_t size, unsigned int seed)
{
	e->n = e->used = 0;
	e->rng.state = seed;
	while (e->n < STEP_MAX && step_take(&data, &size, &e->s[e->n]))
		e->n++;
}

static size_t
edit_put(const struct edit *e, uint32_t n, uint8_t *out, size_t max)
{
	size_t used = 0;
	uint32_t i;

	for (i = 0; i < n; i++) {
		const struct step *s = &e->s[i];

		if (used + sizeof(struct step_head) + s->len > max)
			break;
		used += step_put(out + used, s->op, s->arg, s->body, s->len);
	}
	return used;
}

/* Space for n bytes that live as long as the edit; NULL if there is none. */
static uint8_t *
scratch(struct edit *e, uint32_t n)
{
	uint8_t *p = e->scratch + e->used;

	if (n > SCRATCH - e->used)
		return NULL;
	e->used += n;
	return p;
}

/* Inserts an empty step before number i; NULL if there is no space. */
static struct step *
insert(struct edit *e, uint32_t i)
{
	if (e->n == STEP_MAX)
		return NULL;
	memmove(&e->s[i + 1], &e->s[i], (e->n - i) * sizeof(e->s[0]));
	e->n++;
	e->s[i] = (struct step){0};
	return &e->s[i];
}

static void
set_frame(struct edit *e, struct step *s, const struct craft *c)
{
	uint8_t *p = scratch(e, STEP_MAX_FRAME);

	if (p == NULL)
		return;
	*s = (struct step){.op = STEP_FRAME,
			   .arg = rng_one_in(&e->rng, 3), /* together with the next */
			   .len = (uint16_t)craft_finish(c, p),
			   .body = p};
	if (rng_one_in(&e->rng, 24))
		craft_spoil(p, s->len, &e->rng);
	else if (rng_one_in(&e->rng, 24))
		s->len = (uint16_t)craft_cut(p, s->len, &e->rng);
	else if (rng_one_in(&e->rng, 16))
		craft_deform(p, s->len, &e->rng);
}

/*
 * The input that the mutator itself runs. It is saved in the file $FUZZ_PROBE, if set, because
 * libFuzzer saves only the inputs that it runs itself.
 */
struct probe {
	uint32_t len; /* 0: none is running */
	uint8_t bytes[SCRATCH + STEP_MAX * sizeof(struct step_head)];
};

static struct probe *
probe_open(void)
{
	const char *path = getenv("FUZZ_PROBE");
	static struct probe own, *p;
	int fd;

	if (p != NULL)
		return p;
	p = &own;
	if (path == NULL)
		return p;
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (fd < 0 || ftruncate(fd, sizeof(*p)) != 0 ||
	    (p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
		perror(path);
		exit(EXIT_FAILURE);
	}
	close(fd);
	return p;
}

/* The PSN that q expects after the first n steps. */
static struct world_psns
psns_before(const struct edit *e, uint32_t n, uint32_t q)
{
	struct probe *p = probe_open();

	p->len = (uint32_t)edit_put(e, n, p->bytes, sizeof(p->bytes));
	world_run(p->bytes, p->len);
	p->len = 0;
	return world_psns(q);
}

static uint32_t
draw_psn(struct edit *e, const struct world_psns *p, uint8_t opcode)
{
	uint32_t base = p->epsn, open = psn_add(p->high, 0u - p->una);

	if (wire_op_table[opcode].flags & WIRE_F_RESP)
		base = psn_add(p->una, open != 0 ? rng_below(&e->rng, open) : 0);
	if (rng_one_in(&e->rng, 5))
		base = psn_add(base, rng_below(&e->rng, 41) - 20);
	return base;
}

static void
insert_frame(struct edit *e, uint32_t i)
{
	uint32_t q = rng_below(&e->rng, WORLD_PEERS);
	struct world_psns p = psns_before(e, i, q);
	struct step *s = insert(e, i);
	static struct craft c;

	if (s == NULL)
		return;
	craft_new(&c, q, craft_opcode(q, &e->rng), rng_below(&e->rng, 1100), &e->rng);
	if (!(wire_op_table[c.opcode].flags & WIRE_F_PAYLOAD))
		c.rest_len = wire_op_table[c.opcode].hdr_len - WIRE_BTH_LEN;
	c.psn = draw_psn(e, &p, c.opcode);
	set_frame(e, s, &c);
}

/* A message in several packets of the path's MTU, or the responses to a READ. */
static void
insert_message(struct edit *e, uint32_t i)
{
	static const uint8_t first[] = {WIRE_OP_SEND_FIRST, WIRE_OP_WRITE_FIRST,
					WIRE_OP_READ_RESP_FIRST};
	static const uint32_t mtus[] = {256, 1024, 4096};
	uint32_t q = rng_below(&e->rng, WORLD_UD), n = 2 + rng_below(&e->rng, MAX_MSG - 1), k;
	uint32_t mtu = mtus[rng_below(&e->rng, 3)];
	struct world_psns p = psns_before(e, i, q);
	uint8_t op = first[rng_below(&e->rng, 3)];
	uint32_t psn = op == WIRE_OP_READ_RESP_FIRST ? p.una : p.epsn;
	static struct craft c;

	for (k = 0; k < n; k++) {
		bool last = k + 1 == n;
		struct step *s = insert(e, i + k);

		if (s == NULL)
			return;
		craft_new(&c, q, world_peer(q)->svc | (op + (k > 0) + last),
			  last ? rng_below(&e->rng, mtu) + 1 : mtu, &e->rng);
		if (wire_op_table[c.opcode].flags & WIRE_F_RETH)
			((struct wire_reth *)c.rest)->dmalen =
				rte_cpu_to_be_32((n - 1) * mtu + rng_below(&e->rng, mtu));
		c.psn = psn_add(psn, k);
		set_frame(e, s, &c);
		s->arg = !last;
	}
}

static void
insert_other(struct edit *e, uint32_t i)
{
	uint32_t k, len = 8;
	uint8_t *body = scratch(e, len);
	struct step *s = body != NULL ? insert(e, i) : NULL;

	if (s == NULL)
		return;
	for (k = 0; k < len; k++)
		body[k] = (uint8_t)rng_below(&e->rng, 256);
	s->body = body;
	s->len = (uint16_t)len;
	s->arg = (uint8_t)rng_below(&e->rng, 256);
	if (world_hostile && rng_below(&e->rng, 3) != 0) {
		s->op = STEP_SCRIBBLE;
		body[1] = rng_one_in(&e->rng, 2) ? 0 : body[1] % 8; /* not too late */
		body[3] &= rng_one_in(&e->rng, 2) ? 0xc0 : 0xcf;    /* often the header */
	} else if (rng_one_in(&e->rng, 6)) /* these remove objects of the world: not too often */
		s->op = rng_one_in(&e->rng, 2) ? STEP_MODIFY : STEP_DEREG;
	else
		s->op = (uint8_t)(STEP_TIME + rng_below(&e->rng, 3));
}

/* Settings are on only here and there, because some of them keep frames out. */
static void
insert_setting(struct edit *e, uint32_t i)
{
	uint8_t *value = scratch(e, 1);
	struct step *s = value != NULL ? insert(e, i) : NULL;

	if (s == NULL)
		return;
	*value = (uint8_t)rng_below(&e->rng, 256);
	*s = (struct step){.op = STEP_TUNE,
			   .arg = (uint8_t)rng_below(&e->rng, TUNE_NUM),
			   .len = 1,
			   .body = value};
}

/* Change a frame's meaning, not its form. */
static void
change_frame(struct edit *e, uint32_t i)
{
	static struct craft c;
	struct world_psns p;

	craft_take(&c, e->s[i].body, e->s[i].len, &e->rng);
	switch (rng_below(&e->rng, 6)) {
	case 0:
		c.opcode = rng_one_in(&e->rng, 20) ? (uint8_t)rng_below(&e->rng, 256)
						   : craft_opcode(c.q, &e->rng);
		break;
	case 1:
		c.q = rng_below(&e->rng, WORLD_PEERS);
		c.opcode = world_peer(c.q)->svc | (c.opcode & WIRE_OP_MASK);
		break;
	case 2:
		p = psns_before(e, i, c.q);
		c.psn = draw_psn(e, &p, c.opcode);
		break;
	case 3:
		c.rest_len = rng_below(&e->rng, 1200);
		break;
	case 4:
		c.ackreq = !c.ackreq;
		c.migreq = rng_one_in(&e->rng, 2);
		c.marked = rng_one_in(&e->rng, 3);
		c.solicited = rng_one_in(&e->rng, 2);
		break;
	default:
		craft_redraw(&c, &e->rng);
		break;
	}
	set_frame(e, &e->s[i], &c);
}

/* Applies libFuzzer's mutations to the body; a frame is then usually repaired. */
static void
change_bytes(struct edit *e, uint32_t i)
{
	struct step *s = &e->s[i];
	uint32_t room = s->len + 64 < STEP_MAX_FRAME ? s->len + 64u : STEP_MAX_FRAME;
	uint8_t *p = scratch(e, room);
	static struct craft c;

	if (p == NULL || s->len > room)
		return;
	memcpy(p, s->body, s->len);
	s->len = (uint16_t)LLVMFuzzerMutate(p, s->len, room);
	s->body = p;
	if (s->op != STEP_FRAME || rng_one_in(&e->rng, 16))
		return;
	craft_take(&c, s->body, s->len, &e->rng);
	if (rng_one_in(&e->rng, 2))
		craft_aim(&c, &e->rng);
	set_frame(e, s, &c);
}

/* Remove, repeat or move a step. */
static void
shuffle(struct edit *e, uint32_t i)
{
	uint32_t k = rng_below(&e->rng, e->n);
	struct step s = e->s[i], *to;

	if (rng_one_in(&e->rng, 3)) {
		to = insert(e, k);
		if (to != NULL)
			*to = s;
		return;
	}
	memmove(&e->s[i], &e->s[i + 1], (e->n - i - 1) * sizeof(s));
	e->n--;
	if (rng_one_in(&e->rng, 2) && k <= e->n) {
		to = insert(e, k);
		if (to != NULL)
			*to = s;
	}
}

static void
mutate(struct edit *e)
{
	/* Mostly at the end, where the engine is in a new state. */
	uint32_t i = rng_one_in(&e->rng, 2) ? e->n : rng_below(&e->rng, e->n + 1);
	uint32_t choice = rng_below(&e->rng, 12);
	struct step *s;

	if (rng_one_in(&e->rng, 24) && (s = insert(e, rng_below(&e->rng, i + 1))) != NULL)
		*s = (struct step){.op = STEP_SELECTIVE, .arg = (uint8_t)rng_below(&e->rng, 4)};
	else if (rng_one_in(&e->rng, 16))
		insert_setting(e, rng_below(&e->rng, i + 1));
	else if (world_hostile && rng_one_in(&e->rng, 3))
		insert_other(e, i);
	else if (choice < 4 || e->n == 0)
		insert_frame(e, i);
	else if (choice < 5)
		insert_message(e, i);
	else if (choice < 6)
		insert_other(e, i);
	else if (choice < 7)
		shuffle(e, rng_below(&e->rng, e->n));
	else {
		i = rng_below(&e->rng, e->n);
		if (choice < 10 && e->s[i].op == STEP_FRAME)
			change_frame(e, i);
		else
			change_bytes(e, i);
	}
}

size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	static uint8_t out[SCRATCH * 2];
	static struct edit e;
	size_t n;

	if (max_size > sizeof(out))
		max_size = sizeof(out);
	edit_open(&e, data, size, seed);
	do
		mutate(&e);
	while (rng_one_in(&e.rng, 3));
	n = edit_put(&e, e.n, out, max_size);
	memcpy(data, out, n);
	return n;
}

size_t
LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
			  uint8_t *out, size_t max_out, unsigned int seed)
{
	static struct edit ea, eb;
	size_t n;
	uint32_t skip;

	edit_open(&ea, a, a_size, seed);
	edit_open(&eb, b, b_size, seed);
	n = edit_put(&ea, rng_below(&ea.rng, ea.n + 1), out, max_out);
	skip = rng_below(&ea.rng, eb.n + 1);
	memmove(eb.s, eb.s + skip, (eb.n - skip) * sizeof(eb.s[0]));
	return n + edit_put(&eb, eb.n - skip, out + n, max_out - n);
}
