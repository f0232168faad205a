/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake.h"

#include <endian.h>
#include <string.h>

void
fake_device(struct uroce_device_rep *d)
{
	strcpy(d->name, "uroce0");
	strcpy(d->fw_ver, "0.1.0");
	d->node_guid = htobe64(0x0200c0fffe000001ull);
	d->max_mr_size = UINT64_MAX;
	d->page_size_cap = 4096;
	d->vendor_id = 0x1234;
	d->max_qp = 100;
	d->max_qp_wr = FAKE_MAX_WR;
	d->max_sge = d->max_sge_rd = FAKE_MAX_SGE;
	d->max_inline = FAKE_MAX_INLINE;
	d->max_cq = 100;
	d->max_cqe = 4096;
	d->max_mr = d->max_pd = 100;
	d->max_qp_rd_atom = d->max_qp_init_rd_atom = d->max_res_rd_atom = 16;
	d->max_pkeys = 2;
	d->local_ca_ack_delay = 15;
	d->nports = 1;
}

void
fake_list(struct uroce_list_devices_rep *l)
{
	l->ndevices = 1;
	strcpy(l->dev[0].name, "uroce0");
	l->dev[0].gid_tbl_len = 4;
	l->dev[0].pkey_tbl_len = 2;
	strcpy(l->dev[0].netdev, "lo");
}
