/* SPDX-License-Identifier: BSD-3-Clause */
#include "got.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#define RELOC_JUMP R_X86_64_JUMP_SLOT
#define RELOC_DATA R_X86_64_GLOB_DAT
#elif defined(__aarch64__)
#define RELOC_JUMP R_AARCH64_JUMP_SLOT
#define RELOC_DATA R_AARCH64_GLOB_DAT
#else
#error "which relocations fill this architecture's GOT?"
#endif

/* The parts of a loaded object that are needed to find its GOT slots by name. */
struct object {
	uintptr_t base;
	const char *soname;
	const char *strtab;
	const ElfW(Sym) * symtab;
	struct {
		const ElfW(Rela) * rela;
		size_t n;
	} table[2];                 /* PLT and data relocations */
	uintptr_t relro, relro_end; /* range that the loader made read-only; both 0: none */
};

/* The loader has relocated the addresses in most dynamic sections, but not in that of the vDSO. */
static const void *
dynamic_address(const struct object *o, const ElfW(Dyn) * d)
{
	uintptr_t at = d->d_un.d_ptr;

	return (const void *)(at < o->base ? o->base + at : at);
}

static void
object_read_dynamic(struct object *o, const ElfW(Dyn) * dynamic)
{
	ElfW(Xword) soname = 0;

	for (const ElfW(Dyn) *d = dynamic; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SONAME:
			soname = d->d_un.d_val;
			break;
		case DT_STRTAB:
			o->strtab = dynamic_address(o, d);
			break;
		case DT_SYMTAB:
			o->symtab = dynamic_address(o, d);
			break;
		case DT_JMPREL:
			o->table[0].rela = dynamic_address(o, d);
			break;
		case DT_PLTRELSZ:
			o->table[0].n = d->d_un.d_val / sizeof(ElfW(Rela));
			break;
		case DT_RELA:
			o->table[1].rela = dynamic_address(o, d);
			break;
		case DT_RELASZ:
			o->table[1].n = d->d_un.d_val / sizeof(ElfW(Rela));
			break;
		}
	}
	o->soname = soname && o->strtab ? o->strtab + soname : "";
}

static void
object_read(struct object *o, const struct dl_phdr_info *info)
{
	memset(o, 0, sizeof(*o));
	o->base = info->dlpi_addr;
	o->soname = "";
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_DYNAMIC)
			object_read_dynamic(o, (const ElfW(Dyn) *)(o->base + p->p_vaddr));
		if (p->p_type == PT_GNU_RELRO) {
			o->relro = o->base + p->p_vaddr;
			o->relro_end = o->relro + p->p_memsz;
		}
	}
}

/* A search for a library: the SONAME in, the object out. */
struct search {
	const char *soname;
	struct object object;
};

static int
search_visit(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *s = arg;

	(void)size;
	object_read(&s->object, info);
	return strcmp(s->object.soname, s->soname) == 0;
}

static bool
search_object(struct search *s, const char *soname)
{
	s->soname = soname;
	return dl_iterate_phdr(search_visit, s) != 0;
}

/* Stores into a slot, whose page is read-only if the loader relocated it early (RELRO). */
static int
slot_set(const struct object *o, void **slot, void *to)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)slot;
	void *start = (void *)(at & ~(page - 1));
	bool relro = at >= o->relro && at < (o->relro_end & ~(page - 1));

	if (*slot == to)
		return 0;
	if (relro && mprotect(start, page, PROT_READ | PROT_WRITE) < 0)
		return -errno;
	__atomic_store_n(slot, to, __ATOMIC_RELEASE);
	if (relro)
		mprotect(start, page, PROT_READ);
	return 0;
}

/* Redirects every call of name in the object. Returns the number of slots set, or -errno. */
static int
object_redirect(const struct object *o, const char *name, void *to)
{
	int found = 0;

	for (unsigned int t = 0; t < 2; t++) {
		for (size_t i = 0; i < o->table[t].n; i++) {
			const ElfW(Rela) *r = &o->table[t].rela[i];
			uint32_t type = ELF64_R_TYPE(r->r_info);
			uint32_t sym = ELF64_R_SYM(r->r_info);
			int rc;

			if (type != RELOC_JUMP && type != RELOC_DATA)
				continue;
			if (strcmp(o->strtab + o->symtab[sym].st_name, name) != 0)
				continue;
			rc = slot_set(o, (void **)(o->base + r->r_offset), to);
			if (rc)
				return rc;
			found++;
		}
	}
	return found;
}

/* Applies a hook. Returns NULL, or why it cannot be applied. */
static const char *
hook_apply(const struct prov_hook *h)
{
	struct search s;
	int rc;

	if (!search_object(&s, h->library))
		return "the library is not in this process";
	rc = object_redirect(&s.object, h->symbol, h->replacement);
	for (unsigned int i = 0; i < PROV_HOOK_OTHERS && rc >= 0 && h->other[i]; i++) {
		int n = object_redirect(&s.object, h->other[i], h->replacement);

		rc = n < 0 ? n : rc + n;
	}
	if (rc == 0 && h->old_symbol)
		rc = object_redirect(&s.object, h->old_symbol, h->old_replacement);
	if (rc == 0)
		return "the library does not call it";
	return rc < 0 ? strerror(-rc) : NULL;
}

bool
prov_hooks_library_loaded(const char *soname)
{
	struct search s;

	return search_object(&s, soname);
}

static int
loads_visit(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(unsigned long long *)arg = info->dlpi_adds;
	return 1;
}

unsigned long long
prov_hooks_loads(void)
{
	unsigned long long adds = 0;

	dl_iterate_phdr(loads_visit, &adds);
	return adds;
}

unsigned int
prov_hooks_apply(const struct prov_hook *hooks, size_t n)
{
	unsigned int failed = 0;

	for (size_t i = 0; i < n; i++) {
		const char *why = hook_apply(&hooks[i]);

		if (!why)
			continue;
		failed++;
		fprintf(stderr, "uroce: cannot redirect calls of %s to %s: %s\n", hooks[i].library,
			hooks[i].symbol, why);
	}
	return failed;
}
