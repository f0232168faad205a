/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef UROCE_VERBS_HOOKS_LIBRDMACM_H
#define UROCE_VERBS_HOOKS_LIBRDMACM_H

/*
 * Redirects librdmacm's calls to the provider if librdmacm has been loaded since the last call,
 * else does nothing. Cheap. Any thread, except in a callback of dl_iterate_phdr(3).
 */
void prov_hooks_librdmacm(void);

#endif
