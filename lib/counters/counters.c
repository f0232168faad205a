/* SPDX-License-Identifier: BSD-3-Clause */
#include "counters/counters.h"

#define COUNTER_NAME(id, name) name,
const char *const counter_name[COUNTER_NUM] = {COUNTER_LIST(COUNTER_NAME)};
const char *const drop_reason_name[DROP_NUM] = {DROP_LIST(COUNTER_NAME)};
