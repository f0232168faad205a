/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libibverbs does a few things without asking its provider: a completion channel is made by
 * writing a command to the uverbs device, its events and the asynchronous ones are read from
 * descriptors, GIDs and P_Keys are read from sysfs (sysfs.c). The provider answers these calls
 * itself by putting its own functions into libibverbs' global offset table; nothing else in the
 * process is touched, and descriptors that are not ours go to libc as before.
 */
#include "provider.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <rdma/ib_user_verbs.h>

#if defined(__x86_64__)
#define RELOC_JUMP R_X86_64_JUMP_SLOT
#define RELOC_DATA R_X86_64_GLOB_DAT
#elif defined(__aarch64__)
#define RELOC_JUMP R_AARCH64_JUMP_SLOT
#define RELOC_DATA R_AARCH64_GLOB_DAT
#else
#error "which relocations fill this architecture's GOT?"
#endif

/* What of an object's dynamic section is needed to find its GOT slots by name. */
struct got {
	uintptr_t base;
	const char *strtab;
	const ElfW(Sym) * symtab;
	struct {
		const ElfW(Rela) * rela;
		size_t n;
	} table[2]; /* PLT and data relocations */
};

static void
got_read(struct got *g, const struct link_map *map)
{
	memset(g, 0, sizeof(*g));
	g->base = map->l_addr;
	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_STRTAB:
			g->strtab = (const char *)d->d_un.d_ptr;
			break;
		case DT_SYMTAB:
			g->symtab = (const ElfW(Sym) *)d->d_un.d_ptr;
			break;
		case DT_JMPREL:
			g->table[0].rela = (const ElfW(Rela) *)d->d_un.d_ptr;
			break;
		case DT_PLTRELSZ:
			g->table[0].n = d->d_un.d_val / sizeof(ElfW(Rela));
			break;
		case DT_RELA:
			g->table[1].rela = (const ElfW(Rela) *)d->d_un.d_ptr;
			break;
		case DT_RELASZ:
			g->table[1].n = d->d_un.d_val / sizeof(ElfW(Rela));
			break;
		}
	}
}

/* The loader made the slot's page read-only (RELRO): open it for one store. */
static int
slot_set(void **slot, void *to)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *start = (void *)((uintptr_t)slot & ~(page - 1));

	if (mprotect(start, page, PROT_READ | PROT_WRITE) < 0)
		return -errno;
	__atomic_store_n(slot, to, __ATOMIC_RELEASE);
	/* A lazily bound object's page must stay writable; libibverbs is linked with -z now. */
	mprotect(start, page, PROT_READ);
	return 0;
}

/* Redirects every call that the object makes to name. Number of slots set, or -errno. */
static int
got_redirect(const struct got *g, const char *name, void *to)
{
	int found = 0;

	for (unsigned int t = 0; t < 2; t++) {
		for (size_t i = 0; i < g->table[t].n; i++) {
			const ElfW(Rela) *r = &g->table[t].rela[i];
			uint32_t type = ELF64_R_TYPE(r->r_info);
			uint32_t sym = ELF64_R_SYM(r->r_info);
			int rc;

			if (type != RELOC_JUMP && type != RELOC_DATA)
				continue;
			if (strcmp(g->strtab + g->symtab[sym].st_name, name) != 0)
				continue;
			rc = slot_set((void **)(g->base + r->r_offset), to);
			if (rc)
				return rc;
			found++;
		}
	}
	return found;
}

/* The command by which libibverbs makes a completion channel. */
struct channel_cmd {
	struct ib_uverbs_cmd_hdr hdr;
	struct ib_uverbs_create_comp_channel core;
};

static ssize_t
hook_write(int fd, const void *buf, size_t len)
{
	const struct channel_cmd *cmd = buf;
	struct ib_uverbs_create_comp_channel_resp resp;
	struct prov_context *ctx = prov_context_by_cmd_fd(fd);
	int channel;

	if (!ctx)
		return write(fd, buf, len);
	if (len != sizeof(*cmd) || cmd->hdr.command != IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL) {
		errno = EOPNOTSUPP;
		return -1;
	}
	channel = prov_event_create_channel(ctx);
	if (channel < 0)
		return -1;
	resp.fd = (uint32_t)channel;
	memcpy((void *)(uintptr_t)cmd->core.response, &resp, sizeof(resp));
	return (ssize_t)len;
}

static int
hook_open(const char *path, int flags, ...)
{
	int fd = prov_sysfs_open(AT_FDCWD, path);
	mode_t mode = 0;
	va_list ap;

	if (fd >= 0)
		return fd;
	va_start(ap, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(ap, mode_t);
	va_end(ap);
	return open(path, flags, mode);
}

static int
hook_openat(int dir, const char *path, int flags, ...)
{
	int fd = prov_sysfs_open(dir, path);
	mode_t mode = 0;
	va_list ap;

	if (fd >= 0)
		return fd;
	va_start(ap, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(ap, mode_t);
	va_end(ap);
	return openat(dir, path, flags, mode);
}

void
prov_hooks_install(void)
{
	static const struct {
		const char *name;
		const char *other; /* name, in a libibverbs built for large files; or NULL */
		void *to;
	} hook[] = {
		{"write", NULL, (void *)hook_write},
		{"read", NULL, (void *)prov_event_read},
		{"close", NULL, (void *)prov_event_close},
		/* for sysfs.c */
		{"open", "open64", (void *)hook_open},
		{"openat", "openat64", (void *)hook_openat},
		{"fstat", "fstat64", (void *)prov_share_fstat},
		{"ioctl", NULL, (void *)prov_share_ioctl},
	};
	struct link_map *map = NULL;
	Dl_info info;
	struct got got;

	if (!dladdr1((void *)verbs_register_driver_34, &info, (void **)&map, RTLD_DL_LINKMAP)) {
		fprintf(stderr, "uroce: libibverbs not found in this process\n");
		return;
	}
	got_read(&got, map);
	for (size_t i = 0; i < sizeof(hook) / sizeof(hook[0]); i++) {
		int rc = got_redirect(&got, hook[i].name, hook[i].to);

		if (rc == 0 && hook[i].other)
			rc = got_redirect(&got, hook[i].other, hook[i].to);
		if (rc <= 0)
			fprintf(stderr, "uroce: cannot hook %s in %s: %s\n", hook[i].name,
				info.dli_fname, rc ? strerror(-rc) : "no such slot");
	}
}
