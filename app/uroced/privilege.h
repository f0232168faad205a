/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Capabilities of uroced and its broker: a table of what ports and options need, and the drop of
 * everything else. Nothing here fails: a process that may not drop keeps what it has.
 */
#ifndef UROCED_PRIVILEGE_H
#define UROCED_PRIVILEGE_H

#include <stdint.h>
#include <sys/types.h>
#include "options.h"

/* Capabilities that the ports and options of o need, a bit each, without those of the broker. */
uint64_t privilege_of_options(const struct options *o);
/* Socket families that the ports and options of o open at run time, a bit each. */
uint64_t privilege_families(const struct options *o);
/*
 * Limits this process and its later children to the capabilities of o and, if it starts them
 * itself, of its brokers: bounding, inheritable, permitted and effective set. Sets no_new_privs, so
 * that no program restores them. Call before threads start.
 * Unless o has core_dumps, other processes of the same user and core files do not get its memory.
 */
void privilege_limit(const struct options *o);
/*
 * Makes the broker's capabilities ineffective in the calling thread and its later threads. They
 * stay permitted, for a second start of EAL by exec.
 */
void privilege_lower(const struct options *o);
/*
 * Drops the broker's capabilities in all threads for good, and in those that started before
 * privilege_limit everything else. Call after the starter of brokers runs and EAL has started.
 */
void privilege_drop(const struct options *o);
/*
 * Limits the calling process to what the broker needs to look into clients of every user. Without
 * CAP_SYS_PTRACE, as root of a container, it keeps everything, because it can look only into
 * processes that have no other capabilities. Call before threads start. The bounding set stays the
 * daemon's, without effect: no_new_privs is set.
 */
void privilege_limit_broker(void);
/* Returns the effective capabilities of a process; 0 if they are unknown. */
uint64_t privilege_of_process(pid_t pid);
/* Reads the calling thread's effective and permitted sets; 0 if unknown. */
void privilege_get(uint64_t *effective, uint64_t *permitted);
/* Returns the name of a capability in lower case without cap_, or NULL if it is unknown. */
const char *privilege_name(unsigned cap);

#endif
