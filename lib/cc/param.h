/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parameters of congestion policies as text: "POLICY" or "POLICY:name=value:name=value", for
 * example "swift:rate=25000:target=30". Any thread. Includes no project headers but cc/cc.h.
 */
#ifndef CC_PARAM_H
#define CC_PARAM_H

#include "cc/cc.h"

#define CC_RATE_KBPS      10000000u /* rate of a link that does not report one */
#define CC_RATE_MOST_KBPS 800000000u

/* The policies that a text may name, NULL last. */
extern const char *const cc_param_policies[];

/*
 * Parses text, which names each parameter at most once. Parameters that depend on the rate of the
 * link and are not in text stay 0 until cc_param_fill. Returns true if text is legal; otherwise
 * false, and err (room bytes) is one line that names the policy or parameter and the legal values.
 */
bool cc_param_parse(struct cc_param *p, const char *text, char *err, size_t room);

/*
 * Fills in what depends on the rate of the link: link_kbps, 0 if unknown, unless the text named a
 * rate. Returns true, or false with a message as above if the rates contradict each other.
 */
bool cc_param_fill(struct cc_param *p, uint32_t link_kbps, char *err, size_t room);

#endif
