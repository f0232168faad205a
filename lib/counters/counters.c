/* SPDX-License-Identifier: BSD-3-Clause */
#include "counters/counters.h"

#define NAME(id, name, doc) name,
#define DOC(id, name, doc)  doc,
const char *const counter_name[COUNTER_NUM] = {COUNTER_LIST(NAME)};
const char *const counter_doc[COUNTER_NUM] = {COUNTER_LIST(DOC)};
const char *const drop_reason_name[DROP_NUM] = {DROP_LIST(NAME)};
