/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "map/mrmap_parts.h"
#include "map/sigbus.h"

static bool
range_ok(uint64_t start, uint64_t len)
{
	return len <= INT64_MAX && start <= (uint64_t)INT64_MAX - len;
}

static bool
piece_ok(const struct uroce_mr_piece *p, unsigned nfds)
{
	uint64_t in_page = page_bytes() - 1;

	if (p->len == 0 || ((p->va | p->len) & in_page) != 0 || !range_ok(p->va, p->len))
		return false;
	switch (p->kind) {
	case UROCE_PIECE_COPY:
		return true;
	case UROCE_PIECE_FD:
		return p->fd_index < nfds && (p->fd_off & in_page) == 0 &&
		       range_ok(p->fd_off, p->len);
	case UROCE_PIECE_KEPT:
		return p->fd_index < UROCE_MR_KEPT && (p->fd_off & in_page) == 0 &&
		       range_ok(p->fd_off, p->len);
	case UROCE_PIECE_MAP_FILE:
		return p->vm_start <= p->va && p->vm_end >= p->va + p->len;
	default:
		return false;
	}
}

/* Returns true if the pieces are adjacent and cover the range, with no piece outside of it. */
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
mrmap_client_is(const struct mrmap_client *c)
{
	char path[48];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)c->pid);
	if (fstatat(AT_FDCWD, path, &st, 0) != 0 ||
	    (c->uid != 0 && st.st_uid != (c->uid == UROCE_UID_CONFINED ? 0 : c->uid)))
		return false;
	/* EPERM: it is there, but the broker may not send signals to it. */
	return c->pidfd < 0 || syscall(SYS_pidfd_send_signal, c->pidfd, 0, NULL, 0) == 0 ||
	       errno == EPERM;
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
mrmap_file_add(struct mrmap_job *j, int fd, bool lent)
{
	if (j->found->nfds == MRMAP_MAX_FDS)
		return -EAGAIN;
	j->files->fd[j->found->nfds] = fd;
	j->files->lent[j->found->nfds] = lent;
	return (int)j->found->nfds++;
}

void
mrmap_files_close(const struct mrmap_found *found, const struct mrmap_files *files)
{
	for (uint32_t i = 0; i < found->nfds; i++)
		if (!files->lent[i])
			close(files->fd[i]);
}

static bool
wants_write(const struct uroce_reg_mr_req *req)
{
	return (req->access & (MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_ATOMIC)) != 0;
}

void
mrmap_find(struct mrmap_client *c, const struct uroce_reg_mr_req *req, const int *fds,
	   unsigned nfds, struct mrmap_found *found, struct mrmap_files *files)
{
	struct mrmap_job j = {.c = c,
			      .req = req,
			      .fds = fds,
			      .nfds = nfds,
			      .writable = wants_write(req),
			      .found = found,
			      .files = files};

	found->path = UROCE_MR_PATH_SHARED;
	found->mem_id = 0;
	found->nruns = found->nfds = found->keep_fd = 0;
	found->err = request_ok(req, nfds) ? 0 : -EINVAL;
	if (found->err != 0 || req->length == 0)
		return;
	found->err = c->copied || wants_copy(req) ? -EAGAIN : mrmap_find_shared(&j);
	if (found->err == -EAGAIN) {
		mrmap_files_close(found, files);
		found->nruns = found->nfds = 0;
		found->err = mrmap_find_copy(&j);
	}
	if (found->err == 0 && req->keep != 0)
		found->err = mrmap_find_keep(&j, nfds);
}

bool
mrmap_must_look(const struct uroce_reg_mr_req *req)
{
	if (req->keep != 0 || req->npieces > UROCE_MR_MAX_PIECES)
		return true;
	for (unsigned i = 0; i < req->npieces; i++) {
		if (req->piece[i].kind != UROCE_PIECE_KEPT)
			return true;
	}
	return false;
}

int
mrmap_make(const struct uroce_reg_mr_req *req, const struct mrmap_found *found, const int *fds,
	   struct mrkept *kept, struct mrmap_copiers *copiers, struct mrmap **out)
{
	struct mrmap *map;
	int err = found->err;

	if (err != 0)
		return err;
	map = calloc(1, sizeof(*map));
	if (map == NULL)
		return -ENOMEM;
	map->va = req->addr;
	map->len = req->length;
	map->writable = wants_write(req);
	map->path = found->path;
	map->owner = copiers->owner;
	if (req->length > 0)
		err = found->path == UROCE_MR_PATH_COPY ? mrmap_copy(map, found, fds, copiers)
							: mrmap_share(map, req, found, fds, kept);
	if (err != 0) {
		mrmap_destroy(map);
		return err;
	}
	*out = map;
	return 0;
}

bool
mrmap_destroy_slowly(struct mrmap *map, void *debt)
{
	bool later;

	if (map == NULL)
		return false;
	later = mrmap_unshare(map, debt);
	mrmap_uncopy(map);
	free(map);
	return later;
}

void
mrmap_destroy(struct mrmap *map)
{
	(void)mrmap_destroy_slowly(map, NULL);
}

uint8_t *
mrmap_host(const struct mrmap *map)
{
	return map->host;
}

uint32_t
mrmap_maps(const struct mrmap *map)
{
	return map->maps;
}

int
mrmap_path(const struct mrmap *map)
{
	return map->path;
}

bool
mrmap_failed(const struct mrmap *map)
{
	return map->win != NULL ? mrwin_failed(map->win) : sigbus_guard_failed((uintptr_t)map);
}
