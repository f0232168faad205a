/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/waiting.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* First version of the kernel's struct sched_attr, which glibc 2.36 does not declare. */
struct slice_attr {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns; /* SCHED_OTHER: the slice; 0: not supported by the kernel */
	uint64_t deadline_ns;
	uint64_t period_ns;
};
_Static_assert(sizeof(struct slice_attr) == 48, "SCHED_ATTR_SIZE_VER0");

uint64_t
sched_slice_set(uint64_t slice_ns)
{
	struct slice_attr attr = {.size = sizeof(attr)};
	uint64_t was;

	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) < 0 ||
	    attr.policy != SCHED_OTHER || attr.runtime_ns == 0 || attr.runtime_ns == slice_ns)
		return 0;
	was = attr.runtime_ns;
	attr.size = sizeof(attr);
	attr.runtime_ns = slice_ns;
	return syscall(SYS_sched_setattr, 0, &attr, 0) == 0 ? was : 0;
}

bool
sched_urgent(void)
{
	struct sched_param param = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};

	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &param) == 0)
		return true;
	sched_slice_set(SCHED_SLICE_SHORT_NS);
	return false;
}
