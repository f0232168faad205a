/* SPDX-License-Identifier: BSD-3-Clause */
/* A DPDK for one thread without ports: no huge pages, no devices, no other process. */
#ifndef SIM_EAL_H
#define SIM_EAL_H

/* program: in messages and file names; megabytes: of memory. Exits with 2 when it does not start.
 */
void sim_eal_open(const char *program, const char *megabytes);

#endif
