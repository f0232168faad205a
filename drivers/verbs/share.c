/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sharing a context: ibv_import_device opens it again from a copy of its command descriptor, which
 * may have come from another process, and finds the PDs and regions that were made there.
 *
 * The command descriptor that libibverbs opened is not used, so a sealed memfd replaces it, with
 * the name of the device and the daemon's token for this context. libibverbs expects a character
 * device and compares its number with those of the devices: our fstat returns the attributes of the
 * replaced descriptor. A process must list devices before it imports, because libibverbs checks the
 * descriptor before it loads providers.
 */
#include "provider.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#define SHARE_MAGIC 0x656d616e65636f72ull
#define SHARE_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* Content of the memfd. */
struct share {
	uint64_t magic;
	uint64_t rdev; /* number of the device node */
	char device[UROCE_DEV_NAME_MAX];
	uint8_t token[UROCE_TOKEN_BYTES];
};

/* If fd is such a memfd, reads its content into s and returns true. Preserves errno. */
static bool
share_read(int fd, struct share *s)
{
	int err = errno;
	bool is = fcntl(fd, F_GET_SEALS) == SHARE_SEALS &&
		  pread(fd, s, sizeof(*s), 0) == sizeof(*s) && s->magic == SHARE_MAGIC &&
		  memchr(s->device, 0, sizeof(s->device)) != NULL;

	errno = err;
	return is;
}

/* Creates the sealed memfd. Returns -1 on failure. */
static int
share_make(const struct share *s)
{
	int fd = memfd_create("uroce-context", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	if (write(fd, s, sizeof(*s)) != sizeof(*s) || fcntl(fd, F_ADD_SEALS, SHARE_SEALS) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

void
prov_share_offer(struct prov_context *ctx, const char *device)
{
	int cmd_fd = ctx->vctx.context.cmd_fd, fd;
	struct share s = {.magic = SHARE_MAGIC};
	struct uroce_export_rep rep;
	struct stat st;

	/* An imported context passes on the token that it was created from. */
	if (share_read(cmd_fd, &s) || strlen(device) >= sizeof(s.device) || fstat(cmd_fd, &st) < 0)
		return;
	if (prov_call(&ctx->vctx.context, UROCE_CTRL_EXPORT, NULL, 0, &rep, sizeof(rep)))
		return;
	s.rdev = st.st_rdev;
	strcpy(s.device, device);
	memcpy(s.token, rep.token, sizeof(s.token));
	fd = share_make(&s);
	if (fd < 0)
		return;
	dup3(fd, cmd_fd, O_CLOEXEC);
	close(fd);
}

struct verbs_context *
prov_import_context(struct ibv_device *device, int cmd_fd)
{
	struct share s;

	if (!share_read(cmd_fd, &s)) {
		errno = EINVAL;
		return NULL;
	}
	/* Devices can share a node if there are more devices than nodes. */
	if (strcmp(s.device, device->name) != 0) {
		errno = ENODEV;
		return NULL;
	}
	return prov_alloc_context(device, cmd_fd, NULL);
}

/* Gets the token with which ctx was imported. Returns 0 or EINVAL. */
static int
import_req(struct ibv_context *ibctx, uint32_t handle, struct uroce_import_req *req)
{
	struct share s;

	if (!share_read(ibctx->cmd_fd, &s)) {
		errno = EINVAL;
		return EINVAL;
	}
	memcpy(req->token, s.token, sizeof(req->token));
	req->handle = handle;
	return 0;
}

struct ibv_pd *
prov_import_pd(struct ibv_context *ibctx, uint32_t handle)
{
	struct prov_pd *pd = calloc(1, sizeof(*pd));
	struct uroce_import_req req = {0};
	struct uroce_handle rep;

	if (!pd)
		return NULL;
	if (import_req(ibctx, handle, &req) ||
	    prov_call(ibctx, UROCE_CTRL_IMPORT_PD, &req, sizeof(req), &rep, sizeof(rep))) {
		free(pd);
		return NULL;
	}
	pd->pd.context = ibctx;
	pd->pd.handle = rep.handle;
	return &pd->pd;
}

void
prov_unimport_pd(struct ibv_pd *pd)
{
	prov_dealloc_pd(pd);
}

struct ibv_mr *
prov_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct prov_mr *mr = calloc(1, sizeof(*mr));
	struct uroce_import_req req = {.pd = pd->handle};
	struct uroce_import_mr_rep rep;

	if (!mr)
		return NULL;
	if (import_req(pd->context, handle, &req) ||
	    prov_call(pd->context, UROCE_CTRL_IMPORT_MR, &req, sizeof(req), &rep, sizeof(rep))) {
		free(mr);
		return NULL;
	}
	mr->vmr.ibv_mr.context = pd->context;
	mr->vmr.ibv_mr.pd = pd;
	mr->vmr.ibv_mr.handle = handle;
	mr->vmr.ibv_mr.lkey = rep.lkey;
	mr->vmr.ibv_mr.rkey = rep.rkey;
	mr->vmr.ibv_mr.length = rep.length;
	mr->vmr.mr_type = RCA_MR_TYPE_IMPORTED;
	return &mr->vmr.ibv_mr;
}

void
prov_unimport_mr(struct ibv_mr *ibmr)
{
	free(prov_container(ibmr, struct prov_mr, vmr.ibv_mr));
}

int
prov_share_fstat(int fd, struct stat *st)
{
	struct share s;
	int rc = fstat(fd, st);

	if (rc == 0 && S_ISREG(st->st_mode) && share_read(fd, &s)) {
		st->st_mode = S_IFCHR | 0600;
		st->st_rdev = s.rdev;
	}
	return rc;
}

/* Returns true for libibverbs' only ioctl of an import: it asks for the async event descriptor. */
static bool
is_async_alloc(const struct ib_uverbs_ioctl_hdr *hdr)
{
	return hdr->object_id == UVERBS_OBJECT_ASYNC_EVENT &&
	       hdr->method_id == UVERBS_METHOD_ASYNC_EVENT_ALLOC && hdr->num_attrs == 1 &&
	       hdr->attrs[0].attr_id == UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE;
}

int
prov_share_ioctl(int fd, unsigned long request, void *arg)
{
	struct prov_context *ctx = request == RDMA_VERBS_IOCTL ? prov_context_by_cmd_fd(fd) : NULL;
	struct ib_uverbs_ioctl_hdr *hdr = arg;

	if (!ctx)
		return ioctl(fd, request, arg);
	if (!is_async_alloc(hdr)) {
		errno = ENOTTY; /* the error of the node that libibverbs opened */
		return -1;
	}
	/* The context has had it since HELLO. */
	hdr->attrs[0].data_s64 = ctx->vctx.context.async_fd;
	return 0;
}
