/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What DPDK changed from 22.11 (Debian 12) to 25.11 and uroce uses, in the words of the newer
 * version. Code that needs no words for it (an IPv6 address is an array in one, a struct in the
 * other) is written for both.
 */
#ifndef UROCE_DPDK_COMPAT_H
#define UROCE_DPDK_COMPAT_H

#include <pthread.h>
#include <stdio.h>
#include <rte_lcore.h>
#include <rte_version.h>

#define DPDK_SINCE(year, month) (RTE_VERSION >= RTE_VERSION_NUM(year, month, 0, 0))

#if DPDK_SINCE(23, 3)
#include <rte_thread.h>
#else
#define rte_tel_data_add_array_uint rte_tel_data_add_array_u64
#define rte_tel_data_add_dict_uint  rte_tel_data_add_dict_u64
#define RTE_TEL_UINT_VAL            RTE_TEL_U64_VAL
#endif

/* A thread that runs on none of the lcores. Must stay where it is until pthread_join(id) has
 * returned. */
struct dpdk_thread {
	pthread_t id;
	char name[16];
	void (*run)(void *arg);
	void *arg;
};

/* EAL names threads by a file of /proc, which a sandbox may forbid. */
static inline void
dpdk_thread_begin(struct dpdk_thread *t)
{
	(void)pthread_setname_np(pthread_self(), t->name);
	t->run(t->arg);
}

#if DPDK_SINCE(23, 3)
static inline uint32_t
dpdk_thread_main(void *thread)
{
	struct dpdk_thread *t = thread;

	dpdk_thread_begin(t);
	return 0;
}
#else
static inline void *
dpdk_thread_main(void *thread)
{
	struct dpdk_thread *t = thread;

	dpdk_thread_begin(t);
	return NULL;
}
#endif

/* Starts *t, which calls run(arg). name: at most 15 characters, shown by ps. 0 or -errno. */
static inline int
dpdk_thread_start(struct dpdk_thread *t, const char *name, void (*run)(void *arg), void *arg)
{
	t->run = run;
	t->arg = arg;
	snprintf(t->name, sizeof(t->name), "%s", name);
#if DPDK_SINCE(23, 3)
	rte_thread_t id;
	int rc = rte_thread_create_control(&id, name, dpdk_thread_main, t);

	if (rc == 0)
		t->id = (pthread_t)id.opaque_id;
	return rc > 0 ? -rc : rc;
#else
	return rte_ctrl_thread_create(&t->id, name, NULL, dpdk_thread_main, t);
#endif
}

#endif
