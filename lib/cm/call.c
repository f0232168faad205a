/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of the owner of an id. */
#include <errno.h>
#include <string.h>
#include "cm/parts.h"

int
cm_create(struct cm *cm, void *user, uint32_t *id)
{
	struct cm_id *made = cm_new(cm);

	if (made == NULL)
		return -ENOMEM;
	made->user = user;
	*id = made->comm_id;
	return 0;
}

int
cm_set_user(struct cm *cm, uint32_t id, void *user)
{
	struct cm_id *i = cm_find(cm, id);

	if (i == NULL || i->orphan)
		return -ENOENT;
	i->user = user;
	return 0;
}

static int
call(struct cm *cm, uint32_t id, enum cm_input in, struct cm_args a)
{
	struct cm_id *i = cm_find(cm, id);

	if (i == NULL || i->orphan)
		return -ENOENT;
	return cm_step(cm, i, in, &a);
}

int
cm_destroy(struct cm *cm, uint32_t id, uint64_t now_ns)
{
	return call(cm, id, CM_IN_DESTROY, (struct cm_args){.now_ns = now_ns});
}

int
cm_listen(struct cm *cm, uint32_t id, const struct cm_listen *l)
{
	return call(cm, id, CM_IN_LISTEN, (struct cm_args){.call = l});
}

int
cm_connect(struct cm *cm, uint32_t id, const struct cm_connect *c, uint64_t now_ns)
{
	return call(cm, id, CM_IN_CONNECT, (struct cm_args){.now_ns = now_ns, .call = c});
}

int
cm_accept(struct cm *cm, uint32_t id, const struct cm_accept *c, uint64_t now_ns)
{
	return call(cm, id, CM_IN_ACCEPT, (struct cm_args){.now_ns = now_ns, .call = c});
}

int
cm_ready(struct cm *cm, uint32_t id, const void *data, uint32_t len, uint64_t now_ns)
{
	return call(cm, id, CM_IN_READY,
		    (struct cm_args){.now_ns = now_ns, .data = data, .len = len});
}

int
cm_established(struct cm *cm, uint32_t id, uint64_t now_ns)
{
	return call(cm, id, CM_IN_ESTABLISHED, (struct cm_args){.now_ns = now_ns});
}

int
cm_reject(struct cm *cm, uint32_t id, const struct cm_reject *r, uint64_t now_ns)
{
	return call(cm, id, CM_IN_REJECT, (struct cm_args){.now_ns = now_ns, .call = r});
}

int
cm_delay(struct cm *cm, uint32_t id, uint8_t timeout, const void *data, uint32_t len,
	 uint64_t now_ns)
{
	return call(cm, id, CM_IN_DELAY,
		    (struct cm_args){.now_ns = now_ns, .data = data, .len = len, .code = timeout});
}

int
cm_disconnect(struct cm *cm, uint32_t id, const void *data, uint32_t len, uint64_t now_ns)
{
	return call(cm, id, CM_IN_DISCONNECT,
		    (struct cm_args){.now_ns = now_ns, .data = data, .len = len});
}

int
cm_load_path(struct cm *cm, uint32_t id, const struct wire_cm_path *path, const void *data,
	     uint32_t len, uint64_t now_ns)
{
	return call(cm, id, CM_IN_LOAD_PATH,
		    (struct cm_args){.now_ns = now_ns, .call = path, .data = data, .len = len});
}

int
cm_answer_path(struct cm *cm, uint32_t id, uint8_t status, const void *data, uint32_t len,
	       uint64_t now_ns)
{
	return call(cm, id, CM_IN_ANSWER_PATH,
		    (struct cm_args){.now_ns = now_ns, .data = data, .len = len, .code = status});
}

int
cm_sidr_ask(struct cm *cm, uint32_t id, const struct cm_sidr_ask *q, uint64_t now_ns)
{
	return call(cm, id, CM_IN_ASK, (struct cm_args){.now_ns = now_ns, .call = q});
}

int
cm_sidr_answer(struct cm *cm, uint32_t id, const struct cm_sidr_answer *s, uint64_t now_ns)
{
	return call(cm, id, CM_IN_ANSWER, (struct cm_args){.now_ns = now_ns, .call = s});
}

bool
cm_qpn_held(const struct cm *cm, uint16_t dev, uint32_t qpn)
{
	return cm_key_find(cm, CM_KEY_LOCAL_QPN, dev, NULL, qpn) != NULL;
}

int
cm_qp_attr_get(const struct cm *cm, uint32_t id, struct cm_qp_attr *attr)
{
	const struct cm_id *i = cm_find(cm, id);

	if (i == NULL || i->orphan)
		return -ENOENT;
	if (i->qp.dest_qpn == 0)
		return -EINVAL;
	*attr = i->qp;
	return 0;
}

int
cm_info_of_qpn(const struct cm *cm, uint16_t dev, uint32_t qpn, struct cm_info *info)
{
	const struct cm_id *i = cm_key_find(cm, CM_KEY_LOCAL_QPN, dev, NULL, qpn);

	return i != NULL ? cm_info_get(cm, i->comm_id, info) : -ENOENT;
}

int
cm_info_get(const struct cm *cm, uint32_t id, struct cm_info *info)
{
	const struct cm_id *i = cm_find(cm, id);

	if (i == NULL)
		return -ENOENT;
	*info = (struct cm_info){
		.id = i->comm_id,
		.remote_id = i->remote_comm_id,
		.state = i->state,
		.lap = i->lap,
		.passive = i->passive,
		.orphan = i->orphan,
		.user = i->user,
		.addr = i->addr,
		.service_id = i->service_id,
		.local_qpn = i->local_qpn,
		.remote_qpn = i->qp.dest_qpn,
		.retries_left = i->retries_left,
		.deadline_ns = i->timer.deadline_ns,
		.made_ns = i->made_ns,
		.backlog = i->listen.backlog,
		.pending = i->npending,
		.ece = i->peer_ece,
	};
	return 0;
}

uint32_t
cm_next_id(const struct cm *cm, uint32_t *pos)
{
	while (*pos < cm->nids) {
		const struct cm_id *id = &cm->ids[(*pos)++];

		if (id->comm_id != 0)
			return id->comm_id;
	}
	return 0;
}

uint32_t
cm_nids(const struct cm *cm)
{
	return cm->nused;
}

const struct cm_counters *
cm_counters(const struct cm *cm)
{
	return &cm->counters;
}

const uint8_t *
cm_cells_seen(const struct cm *cm)
{
	return cm->seen[0];
}

const uint8_t *
cm_lap_cells_seen(const struct cm *cm)
{
	return cm->lap_seen[0];
}
