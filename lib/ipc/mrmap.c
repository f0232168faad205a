/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "ipc/mrmap_priv.h"
#include "ipc/sigbus.h"

static bool
range_ok(uint64_t start, uint64_t len)
{
	return len <= INT64_MAX && start <= (uint64_t)INT64_MAX - len;
}

static bool
piece_ok(const struct uroce_mr_piece *p, unsigned nfds)
{
	if (p->len == 0 || ((p->va | p->len) & (MRMAP_BASE_PAGE - 1)) != 0 ||
	    !range_ok(p->va, p->len))
		return false;
	switch (p->kind) {
	case UROCE_PIECE_COPY:
		return true;
	case UROCE_PIECE_FD:
		return p->fd_index < nfds && (p->fd_off & (MRMAP_BASE_PAGE - 1)) == 0 &&
		       range_ok(p->fd_off, p->len);
	case UROCE_PIECE_MAP_FILE:
		return p->vm_start <= p->va && p->vm_end >= p->va + p->len;
	default:
		return false;
	}
}

/* The pieces follow each other without a gap, cover the range, and none lies outside it. */
static bool
request_ok(const struct uroce_reg_mr_req *req, unsigned nfds)
{
	const struct uroce_mr_piece *p = req->piece;
	uint64_t pos;

	if (req->npieces > UROCE_MR_MAX_PIECES || !range_ok(req->addr, req->length))
		return false;
	if (req->length == 0)
		return req->npieces == 0;
	if (req->npieces == 0 || p[0].va > req->addr)
		return false;
	pos = p[0].va;
	for (unsigned i = 0; i < req->npieces; i++) {
		if (!piece_ok(&p[i], nfds) || p[i].va != pos ||
		    p[i].va >= req->addr + req->length || p[i].va + p[i].len <= req->addr)
			return false;
		pos += p[i].len;
	}
	return pos >= req->addr + req->length;
}

bool
mrmap_peer_is_client(const struct mrmap_job *j)
{
	char path[48];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)j->pid);
	if (stat(path, &st) != 0 || (j->uid != 0 && st.st_uid != j->uid))
		return false;
	return j->pidfd < 0 || syscall(SYS_pidfd_send_signal, j->pidfd, 0, NULL, 0) == 0;
}

static bool
wants_copy(const struct uroce_reg_mr_req *req)
{
	for (unsigned i = 0; i < req->npieces; i++)
		if (req->piece[i].kind == UROCE_PIECE_COPY)
			return true;
	return false;
}

int
mrmap_create(pid_t pid, int pidfd, uid_t uid, const struct uroce_reg_mr_req *req, const int *fds,
	     unsigned nfds, struct mrmap **out)
{
	const uint32_t writes = MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_ATOMIC;
	struct mrmap_job j = {.pid = pid, .pidfd = pidfd, .uid = uid, .req = req, .fds = fds};
	int err;

	if (!request_ok(req, nfds))
		return -EINVAL;
	j.map = calloc(1, sizeof(*j.map));
	if (j.map == NULL)
		return -ENOMEM;
	j.map->va = req->addr;
	j.map->len = req->length;
	j.map->writable = (req->access & writes) != 0;
	j.map->path = UROCE_MR_PATH_SHARED;
	err = 0;
	if (req->length > 0)
		err = wants_copy(req) ? -EAGAIN : mrmap_share(&j);
	if (err == -EAGAIN)
		err = mrmap_copy(&j);
	if (err != 0) {
		mrmap_destroy(j.map);
		return err;
	}
	*out = j.map;
	return 0;
}

void
mrmap_destroy(struct mrmap *map)
{
	if (map == NULL)
		return;
	mrmap_unshare(map);
	mrmap_uncopy(map);
	free(map);
}

uint8_t *
mrmap_host(const struct mrmap *map)
{
	return map->host;
}

int
mrmap_path(const struct mrmap *map)
{
	return map->path;
}

bool
mrmap_failed(const struct mrmap *map)
{
	return sigbus_guard_failed((uintptr_t)map);
}
