/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The extended poll of ibv_create_cq_ex: start_poll takes the CQ's lock, the read functions read
 * the current entry in place, end_poll returns the slots and releases the lock.
 */
#include "provider.h"
#include "idle.h"

#include <errno.h>

static struct prov_cq *
cq_of_ex(struct ibv_cq_ex *ex)
{
	return prov_container(ex, struct prov_cq, vcq.cq_ex);
}

/* Makes the oldest entry the current one. 0 or ENOENT. */
static int
cq_ex_advance(struct prov_cq *cq)
{
	cq->cur = prov_cq_head(cq);
	if (!cq->cur)
		return ENOENT;
	cq->vcq.cq_ex.wr_id = cq->cur->wr_id;
	cq->vcq.cq_ex.status = cq->cur->status;
	return 0;
}

/* Takes the lock and keeps it if there is an entry: 0, else ENOENT. */
static int
cq_ex_begin(struct prov_cq *cq, uint32_t *empty)
{
	prov_lock(&cq->lock);
	if (cq_ex_advance(cq) == 0) {
		prov_cq_traffic(cq);
		prov_idle_found();
		return 0;
	}
	*empty = ++cq->empty_polls;
	prov_unlock(&cq->lock);
	return ENOENT;
}

static int
cq_ex_start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct prov_cq *cq = cq_of_ex(ex);
	uint32_t empty;
	int rc;

	if (attr && attr->comp_mask)
		return prov_fail(EINVAL);
	if (prov_unlikely(prov_context_lost(prov_context_of(ex->context)))) {
		rc = prov_daemon_lost_poll(cq);
		if (rc <= 0)
			return rc ? EIO : ENOENT;
	}
	if (cq_ex_begin(cq, &empty) == 0)
		return 0;
	rc = prov_cq_idle(cq, empty);
	if (rc == 1) /* other threads had the core meanwhile */
		return cq_ex_begin(cq, &empty);
	return rc < 0 ? EIO : ENOENT;
}

static int
cq_ex_next_poll(struct ibv_cq_ex *ex)
{
	struct prov_cq *cq = cq_of_ex(ex);

	prov_cq_take(cq);
	return cq_ex_advance(cq);
}

static void
cq_ex_end_poll(struct ibv_cq_ex *ex)
{
	struct prov_cq *cq = cq_of_ex(ex);

	if (cq->cur)
		prov_cq_take(cq);
	cq->cur = NULL;
	prov_cq_publish(cq);
	prov_unlock(&cq->lock);
}

static enum ibv_wc_opcode
cq_ex_opcode(struct ibv_cq_ex *ex)
{
	return (enum ibv_wc_opcode)cq_of_ex(ex)->cur->opcode;
}

static uint32_t
cq_ex_vendor_err(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->cur->vendor_err;
}

static uint32_t
cq_ex_byte_len(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->cur->byte_len;
}

static __be32
cq_ex_imm_data(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->cur->imm;
}

static uint32_t
cq_ex_qp_num(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->cur->qp_num;
}

static uint32_t
cq_ex_src_qp(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->cur->src_qp;
}

static unsigned int
cq_ex_wc_flags(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->cur->flags & (unsigned int)~UROCE_CQE_SOLICITED;
}

static uint8_t
cq_ex_sl(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->cur->sl;
}

/* Ethernet has no LIDs. */
static uint32_t
cq_ex_slid(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0;
}

static uint8_t
cq_ex_dlid_path_bits(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0;
}

static uint64_t
cq_ex_timestamp(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->cur->timestamp_ns;
}

void
prov_cq_ex_init(struct prov_cq *cq, uint64_t wc_flags)
{
	struct ibv_cq_ex *ex = &cq->vcq.cq_ex;

	ex->start_poll = cq_ex_start_poll;
	ex->next_poll = cq_ex_next_poll;
	ex->end_poll = cq_ex_end_poll;
	ex->read_opcode = cq_ex_opcode;
	ex->read_vendor_err = cq_ex_vendor_err;
	ex->read_wc_flags = cq_ex_wc_flags;
	/* The others are set only if the program requested them. */
	if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		ex->read_byte_len = cq_ex_byte_len;
	if (wc_flags & IBV_WC_EX_WITH_IMM)
		ex->read_imm_data = cq_ex_imm_data;
	if (wc_flags & IBV_WC_EX_WITH_QP_NUM)
		ex->read_qp_num = cq_ex_qp_num;
	if (wc_flags & IBV_WC_EX_WITH_SRC_QP)
		ex->read_src_qp = cq_ex_src_qp;
	if (wc_flags & IBV_WC_EX_WITH_SLID)
		ex->read_slid = cq_ex_slid;
	if (wc_flags & IBV_WC_EX_WITH_SL)
		ex->read_sl = cq_ex_sl;
	if (wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		ex->read_dlid_path_bits = cq_ex_dlid_path_bits;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		ex->read_completion_ts = cq_ex_timestamp;
}
