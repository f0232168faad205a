/* SPDX-License-Identifier: BSD-3-Clause */
#include "scenario.h"

#define BUFFER  (12u << 20) /* of the switch, per 25 Gb/s */
#define XOFF    (200u << 10)
#define XON     (150u << 10)
#define GBPS_25 25

struct fabric *
scenario_open(const struct runs_options *o, uint32_t hosts)
{
	uint64_t scale = o->gbps < GBPS_25 ? 1 : o->gbps / GBPS_25;
	struct fabric_params p = {
		.hosts = hosts,
		.bps = o->gbps * 1000000000ull,
		.delay_ns = SCENARIO_DELAY_NS,
		.policy = o->policy,
		.sr = o->sr,
		.cnp_ns = o->cnp_us * 1000ull,
		.seed = o->seed,
		.sw = {.ports = hosts,
		       .shared_bytes = BUFFER * scale,
		       .port_bytes = BUFFER * scale / 4,
		       .kmin_bytes = SCENARIO_KMIN * scale,
		       .kmax_bytes = SCENARIO_KMAX * scale,
		       .pmax_ppm = SCENARIO_PMAX_PPM},
	};

	if (o->pfc) {
		p.sw.port_bytes = p.sw.shared_bytes;
		p.sw.xoff_bytes = XOFF * scale;
		p.sw.xon_bytes = XON * scale;
	}
	return fabric_open(&p);
}
