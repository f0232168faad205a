/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks the daemon for JSON, and for the rows of a topic. */
#include "urocectl.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

json_t *
call_for_json(struct ipc_client *c, struct ipc_call *call, const uint64_t *bytes)
{
	json_t *all = NULL;
	char *text;
	int fd, rc;

	call->rep_fds = &fd;
	call->rep_fds_max = 1;
	rc = ipc_client_call(c, call);
	if (rc == 0 && call->rep_nfds != 1)
		rc = -EPROTO;
	errno = -rc;
	if (rc < 0)
		return NULL;
	text = mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text != MAP_FAILED) {
		all = json_loadb(text, *bytes, 0, NULL);
		munmap(text, *bytes);
		errno = all == NULL ? EPROTO : 0;
	}
	close(fd);
	return all;
}

json_t *
query(struct ipc_client *c, const char *what, const uint32_t *qpn)
{
	struct uroce_show_req req = {.has_arg = qpn != NULL, .arg = qpn != NULL ? *qpn : 0};
	json_t *all = NULL, *more;
	struct uroce_show_rep rep;

	strcpy(req.what, what);
	do {
		struct ipc_call call = {
			.op = UROCE_CTRL_SHOW,
			.req = &req,
			.req_len = sizeof(req),
			.rep = &rep,
			.rep_len = sizeof(rep),
		};

		memset(&rep, 0, sizeof(rep));
		more = call_for_json(c, &call, &rep.bytes);
		if (more == NULL) {
			json_decref(all);
			return NULL;
		}
		if (all == NULL) {
			all = more;
		} else {
			json_array_extend(json_object_get(all, what), json_object_get(more, what));
			json_decref(more);
		}
		req.from_client = rep.next_client;
		req.from_pos = rep.next_pos;
	} while (rep.next_client != 0);
	return all;
}

json_t *
query_rows(struct ipc_client *c, const char *what)
{
	json_t *all = query(c, what, NULL), *rows;

	if (all == NULL)
		return NULL;
	rows = json_incref(json_object_get(all, what));
	json_decref(all);
	return rows;
}
