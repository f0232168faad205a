/* SPDX-License-Identifier: BSD-3-Clause */
/* DPDK for one thread, without ports, huge pages, devices or other processes. */
#ifndef SIM_EAL_H
#define SIM_EAL_H

/* program: for messages and file names; megabytes of memory. Exits with 2 if DPDK fails. */
void sim_eal_open(const char *program, const char *megabytes);

#endif
