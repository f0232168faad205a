/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of the functions of an old glibc. The provider and the preloaded library run with glibc
 * 2.31 and later, whatever glibc they are built with: containers of other distributions get copies
 * of them. The linker takes the newest version of each symbol, which may be later than 2.31; its
 * first version remains in every later glibc. test/lint/symbols.py checks the result.
 *
 * glibc 2.31 has some of these functions in libpthread and libdl. The provider finds them through
 * libibverbs, which needs both; the preloaded library is linked with libdl.
 */
#ifndef UROCE_VERBS_OLD_GLIBC_H
#define UROCE_VERBS_OLD_GLIBC_H

/* Versions in which the architecture's glibc brought a function. */
#if defined(__x86_64__)
#define OLD_FIRST      "GLIBC_2.2.5"
#define OLD_SINCE_2_3  "GLIBC_2.3.3"
#define OLD_SINCE_2_12 "GLIBC_2.12"
#elif defined(__aarch64__)
#define OLD_FIRST      "GLIBC_2.17"
#define OLD_SINCE_2_3  OLD_FIRST
#define OLD_SINCE_2_12 OLD_FIRST
#else
#error "which is this architecture's first glibc?"
#endif

/* Declares a function with the prefix old_: this version of libc's function name. */
#define OLD_DECLARE(version, type, name, params)                                                   \
	extern type old_##name params;                                                             \
	__asm__(".symver old_" #name ", " #name "@" version)

#endif
