/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <rte_common.h>
#include "impair_core.h"

/* In the order in which the injector acts. */
static const struct {
	uint32_t bit;
	const char *text;
} words[] = {
	{IMPAIR_DROP, "dropped"},
	{IMPAIR_CE, "marked CE"},
	{IMPAIR_CORRUPT_FIXED, "corrupted with a right ICRC"},
	{IMPAIR_CORRUPT, "corrupted"},
	{IMPAIR_QUEUE_DROP, "dropped by the full queue of the link"},
	{IMPAIR_QUEUE_MARK, "marked CE by the queue of the link"},
	{IMPAIR_RATE, "waited for the link"},
	{IMPAIR_DELAY, "delayed"},
	{IMPAIR_DUP, "duplicated"},
	{IMPAIR_REORDER, "reordered"},
	{IMPAIR_OVERFLOW, "dropped because too many frames were delayed"},
};

void
impair_fate_text(const struct impair_fate *fate, char *text, size_t len)
{
	size_t at = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < RTE_DIM(words) && at < len; i++) {
		uint32_t bit = words[i].bit;
		const char *word = words[i].text;

		if ((fate->faults & 1u << bit) == 0)
			continue;
		if (bit == IMPAIR_DUP && fate->copy)
			word = "the copy of a duplicated frame";
		at += (size_t)snprintf(text + at, len - at, "%s%s", at != 0 ? ", " : "", word);
		if (at < len && bit < IMPAIR_NFAULTS && fate->rule[bit] != 0)
			at += (size_t)snprintf(text + at, len - at, " (rule %u)", fate->rule[bit]);
	}
}
