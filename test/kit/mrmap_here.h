/* SPDX-License-Identifier: BSD-3-Clause */
/* A region of a client without broker and control thread. */
#ifndef KIT_MRMAP_HERE_H
#define KIT_MRMAP_HERE_H

#include "map/mrmap.h"

/*
 * mrmap_find and mrmap_make for this client (struct mrmap_client). It may block. COPY regions are
 * served by threads of this process. Returns 0, with *out for mrmap_destroy, or -errno of these.
 */
int mrmap_create(pid_t pid, int pidfd, uid_t uid, const struct uroce_reg_mr_req *req,
		 const int *fds, unsigned nfds, struct mrmap **out);

#endif
