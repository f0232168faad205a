/* SPDX-License-Identifier: BSD-3-Clause */
/* What app/uroced adds to the control plane: SHOW, IMPAIR and CAPTURE, on fake workers. */
#include "control_parts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <jansson.h>
#include "../../app/uroced/options.h"
#include "../../app/uroced/parts.h"
#include "../../app/uroced/show.h"
#include "drivers/impair/impair.h"
#include "worker/capture.h"
#include "worker/steps.h"
#include "worker/worker.h"

#define TEXT_MAX (1u << 20)

static const struct control_program program = {
	.show = show_request,
	.impair = impair_request,
	.capture = capture_request,
};

static struct options options;

void
program_init(void)
{
	options_init(&options);
	show_config_of(&options);
}

void
program_open(struct daemon *d)
{
	d->program = &program;
	d->dev[0]->port.kind = PORT_PACKET; /* whose hooks need no ethdev */
	d->dev[0]->port.nrxq = 1;
}

void
program_close(struct daemon *d)
{
	capture_stop(d->dev[0]);
	impair_detach(d->dev[0]->port.id);
	impair_reap();
}

void
program_reply(uint16_t op, const uint8_t *body, const int *fds, uint32_t nfds)
{
	const struct uroce_impair_rep *rep = (const void *)body;
	static char text[TEXT_MAX];
	struct stat st;
	uint64_t bytes;
	json_t *all;

	memcpy(&bytes, body, sizeof(bytes)); /* of both replies */
	if (op == UROCE_CTRL_IMPAIR && bytes == 0) {
		require(nfds == 0 && memchr(rep->error, '\0', sizeof(rep->error)) != NULL &&
				rep->error[0] != '\0',
			"an error without text");
		return;
	}
	require(nfds == 1 && fstat(fds[0], &st) == 0 && (uint64_t)st.st_size == bytes,
		"a file of another length");
	require(bytes <= sizeof(text) && pread(fds[0], text, bytes, 0) == (ssize_t)bytes,
		"an unreadable file");
	all = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
	require(json_object_size(all) == 1, "the file is not JSON");
	json_decref(all);
}

static void
fill_show(struct uroce_show_req *q, uint8_t how, uint32_t qpn)
{
	static const char *const what[] = {"device", "port",   "gid",    "neigh", "stats",
					   "drops",  "client", "cq",     "mr",    "qp",
					   "pd",     "srq",    "mw",     "ah",    "quota",
					   "worker", "daemon", "config", "cm",    "cm_stats",
					   "trace"};
	uint32_t n = sizeof(what) / sizeof(what[0]);

	strcpy(q->what, what[how % n]);
	q->has_arg = how / n & 1;
	q->arg = qpn;
}

static void
fill_impair(struct uroce_impair_req *q, uint8_t how)
{
	static const char *const spec[] = {"drop=1%,dup=0.5%,seed=7",
					   "rate=1Mbit,queue=9kB,kmax=5kB;delay=2ms,jitter=1ms",
					   "rule:qpn=17,psn=1-9,nth=3,count=1,action=drop",
					   "corrupt=101%",
					   "rule:dst=10.0.0.2,action=delay,delay=1s rule:action=ce",
					   ""};

	strcpy(q->device, "t0");
	q->flags = how % 3;
	strcpy(q->spec, spec[how / 3 % (sizeof(spec) / sizeof(spec[0]))]);
}

static void
fill_capture(struct uroce_capture_req *q, uint8_t how, uint32_t qpn)
{
	static const uint32_t flags[] = {UROCE_CAPTURE_START, UROCE_CAPTURE_SHOW,
					 UROCE_CAPTURE_STOP};

	strcpy(q->device, "t0");
	q->flags = flags[how % 3];
	q->qpn = q->flags == UROCE_CAPTURE_START && how >= 128 ? qpn : 0;
	if (how / 3 % 8 == 7) {
		q->flags |= UROCE_CAPTURE_STEPS;
		q->qpn = qpn;
	}
}

void
program_fill(uint16_t op, uint8_t how, uint8_t *body, uint32_t qpn)
{
	if (op == UROCE_CTRL_SHOW)
		fill_show((void *)body, how, qpn);
	else if (op == UROCE_CTRL_IMPAIR)
		fill_impair((void *)body, how);
	else if (op == UROCE_CTRL_CAPTURE)
		fill_capture((void *)body, how, qpn);
}

/* ---- workers */

/* The steps of a QP: none. */
struct steps {
	uint32_t qpn;
};

struct steps *
steps_create(uint32_t qpn, uint32_t max)
{
	struct steps *s = malloc(sizeof(*s));

	if (s != NULL)
		s->qpn = qpn;
	return s;
}

void
worker_steps_start(struct worker_set *ws, const struct qp *qp, struct steps *s)
{
}

void
worker_steps_stop(struct worker_set *ws, struct steps *s)
{
}

const struct stamp *
steps_get(const struct steps *s, uint32_t *n, uint64_t *lost)
{
	*n = 0;
	*lost = 0;
	return NULL;
}

uint32_t
steps_qpn(const struct steps *s)
{
	return s->qpn;
}

/* A ring with a few frames. */
struct capture {
	uint32_t taken;
};

struct capture *
capture_create(uint32_t bytes)
{
	return calloc(1, sizeof(struct capture));
}

void
capture_free(struct capture *c)
{
	free(c);
}

void
worker_capture(struct worker_set *ws, uint16_t dev, struct capture *const *cap)
{
}

void
worker_capture_fault(struct worker_set *ws, uint16_t dev, uint16_t queue, const struct rte_mbuf *m,
		     const struct capture_fault *fault, bool lost)
{
}

bool
capture_peek(struct capture *c, struct capture_frame *f)
{
	static const uint8_t frame[90] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45};

	if (c->taken == 8)
		return false;
	*f = (struct capture_frame){.epoch_ns = 1,
				    .note = {.qpn = c->taken, .flags = (uint16_t)(c->taken * 9)},
				    .data = frame,
				    .len = sizeof(frame) - c->taken,
				    .frame_len = sizeof(frame),
				    .sent = c->taken & 1};
	f->note.drop = (uint16_t)(c->taken * 11);
	memset(f->note.fault.bytes, c->taken & 1, sizeof(f->note.fault.bytes));
	return true;
}

void
capture_done(struct capture *c)
{
	c->taken++;
}

uint64_t
capture_lost(const struct capture *c)
{
	return 0;
}
