/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles: the daemon resolves and keeps them; a UD WQE carries the daemon's handle. */
#include "provider.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void
prov_ah_attr_out(struct uroce_ah_attr *to, const struct ibv_ah_attr *from)
{
	memset(to, 0, sizeof(*to));
	memcpy(to->dgid, from->grh.dgid.raw, sizeof(to->dgid));
	to->flow_label = from->grh.flow_label;
	to->sgid_index = from->grh.sgid_index;
	to->hop_limit = from->grh.hop_limit;
	to->traffic_class = from->grh.traffic_class;
	to->sl = from->sl;
	to->is_global = from->is_global;
	to->port_num = from->port_num;
	to->static_rate = from->static_rate;
	to->src_path_bits = from->src_path_bits;
	to->dlid = from->dlid;
}

void
prov_ah_attr_in(struct ibv_ah_attr *to, const struct uroce_ah_attr *from)
{
	memset(to, 0, sizeof(*to));
	memcpy(to->grh.dgid.raw, from->dgid, sizeof(from->dgid));
	to->grh.flow_label = from->flow_label;
	to->grh.sgid_index = from->sgid_index;
	to->grh.hop_limit = from->hop_limit;
	to->grh.traffic_class = from->traffic_class;
	to->sl = from->sl;
	to->is_global = from->is_global;
	to->port_num = from->port_num;
	to->static_rate = from->static_rate;
	to->src_path_bits = from->src_path_bits;
	to->dlid = from->dlid;
}

struct ibv_ah *
prov_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct uroce_create_ah_req req = {.pd = pd->handle};
	struct uroce_handle rep;
	struct ibv_ah *ah = calloc(1, sizeof(*ah));

	if (!ah)
		return NULL;
	prov_ah_attr_out(&req.attr, attr);
	if (prov_call(pd->context, UROCE_CTRL_CREATE_AH, &req, sizeof(req), &rep, sizeof(rep))) {
		free(ah);
		return NULL;
	}
	ah->handle = rep.handle;
	return ah;
}

int
prov_destroy_ah(struct ibv_ah *ah)
{
	int rc;

	prov_ud_wait_sent(prov_context_of(ah->context), NULL);
	rc = prov_call_destroy(ah->context, UROCE_CTRL_DESTROY_AH, ah->handle);
	if (rc == 0)
		free(ah);
	return rc;
}
