/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hooks: calls that a library of this process makes, redirected to functions of the provider. A
 * hook changes the slots that the library's global offset table has for one symbol. Calls that
 * other objects make to the same symbol stay as they are.
 *
 * One file here for each library has a table of hooks and the functions that replace symbols:
 * libibverbs.c, librdmacm.c. A further library gets a further file, and a call of prov_hooks_apply
 * when the library is in the process. Nothing undoes a hook, so the provider must never be
 * unloaded.
 */
#ifndef UROCE_VERBS_HOOKS_GOT_H
#define UROCE_VERBS_HOOKS_GOT_H

#include <stdbool.h>
#include <stddef.h>

#define PROV_HOOK_OTHERS 3

struct prov_hook {
	const char *library; /* its SONAME: "libibverbs.so.1" */
	const char *symbol;  /* function that the library calls */
	/* aliases of symbol in a library built for large files or hardened; unused: NULL */
	const char *other[PROV_HOOK_OTHERS];
	void *replacement; /* of the same type as symbol */
	/* what a library built with glibc 2.32 or earlier calls instead, of another type; or NULL
	 */
	const char *old_symbol;
	void *old_replacement;
};

/* Returns true if a library of this SONAME is in the process. */
bool prov_hooks_library_loaded(const char *soname);

/* Returns the number of objects loaded into the process so far; each dlopen of a new one adds one.
 */
unsigned long long prov_hooks_loads(void);

/*
 * Applies n hooks, in order. A hook that was applied before is left unchanged. Returns how many
 * failed, each with a line on stderr: the library is not loaded, it does not call the symbol, or
 * its slots cannot be written. Must not be called from two threads at a time.
 */
unsigned int prov_hooks_apply(const struct prov_hook *hooks, size_t n);

/*
 * librdmacm.c: redirects librdmacm's calls to the provider if librdmacm has been loaded since the
 * last call, else does nothing. Cheap. Any thread, except in a callback of dl_iterate_phdr(3).
 */
void prov_hooks_librdmacm(void);

#endif
