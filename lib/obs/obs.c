/* SPDX-License-Identifier: BSD-3-Clause */
#include "obs/obs.h"

#define OBS_NAME(id, name) name,
const char *const obs_counter_name[OBS_NCOUNTERS] = {OBS_COUNTERS(OBS_NAME)};
const char *const obs_drop_name[OBS_NDROPS] = {OBS_DROPS(OBS_NAME)};
