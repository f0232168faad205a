/* SPDX-License-Identifier: BSD-3-Clause */
#include "map/copier_credit.h"

#define FREE_NS     3000    /* not charged per wait and FREE_BYTES: about the time of a copy */
#define FREE_BYTES  4096u   /* whatever the size of a page */
#define WAIT_MIN_NS 5000    /* shortest wait limit, with hardly any credit */
#define WAIT_MAX_NS 2000000 /* longest wait limit: a core may be busy for this long */
#define REFILL_NS   100000u /* interval of credit refills .. */
#define REFILL_PART 10u     /* .. each by this part of the elapsed time */

int64_t
credit_left(struct copier_credit *c, uint64_t now)
{
	uint64_t at = __atomic_load_n(&c->at_ns, __ATOMIC_RELAXED);
	int64_t left = __atomic_load_n(&c->left_ns, __ATOMIC_RELAXED), more;

	if (now - at < REFILL_NS ||
	    !__atomic_compare_exchange_n(&c->at_ns, &at, now, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return left;
	more = (int64_t)((now - at) / REFILL_PART);
	if (more > COPIER_BURST_NS - left)
		more = COPIER_BURST_NS - left;
	return __atomic_add_fetch(&c->left_ns, more, __ATOMIC_RELAXED);
}

/* The part of the wait for a job that is not charged. */
static int64_t
free_ns(uint32_t len)
{
	return len <= FREE_BYTES ? FREE_NS
				 : FREE_NS * (int64_t)((len + FREE_BYTES - 1) / FREE_BYTES);
}

static int64_t
wait_limit(int64_t credit_ns)
{
	if (credit_ns < WAIT_MIN_NS)
		return WAIT_MIN_NS;
	return credit_ns < WAIT_MAX_NS ? credit_ns : WAIT_MAX_NS;
}

int64_t
credit_wait_ns(int64_t left, uint32_t len)
{
	return wait_limit(left) + free_ns(len) - FREE_NS;
}

void
credit_charge(struct copier_credit *c, int64_t waited_ns, uint32_t len)
{
	int64_t cost_ns = waited_ns - free_ns(len);

	if (cost_ns > 0)
		__atomic_sub_fetch(&c->left_ns, cost_ns, __ATOMIC_RELAXED);
}
