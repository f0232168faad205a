/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control plane with hostile clients and neighbours, in one process: fake.c of the unit tests
 * replaces workers and ports; the broker is a thread.
 *
 *   fuzz_control.c     sessions and their messages; the steps of an input; what must hold
 *   control_cm.c       commands on rdma_cm channels, MADs, frames of neighbours
 *   control_program.c  what app/uroced adds: SHOW, IMPAIR, CAPTURE
 *   control_host.c     the broker, descriptors, the process that clients pretend to be, timers
 */
#ifndef FUZZ_CONTROL_PARTS_H
#define FUZZ_CONTROL_PARTS_H

#include "../unit/control/fake.h"
#include "step.h"

extern struct daemon fuzz_daemon;

/* Ends the process if good is false. */
void require(bool good, const char *what);

/* control_host.c */
#define HOST_MEM_VA   0x200000000ull /* in the client's process: a shared mapping, .. */
#define HOST_ANON_VA  0x300000000ull /* .. private pages, .. */
#define HOST_BYTES    0x10000ull     /* .. of so many bytes each */
#define HOST_FD_KINDS 8u             /* of host_fd; kind 0: a sealed memfd */
extern pid_t host_client;
void host_init(void); /* forks: before threads start */
int host_fd(uint32_t kind);
void host_open(void); /* after fake_open */
void host_close(void);
/* Lets ns go by: timers of the daemon expire. */
void host_time(uint64_t ns);
/* The number of open descriptors. The broker's threads close some late. */
uint32_t host_fds(void);
void host_fds_print(void);

/* control_cm.c */
void cm_open_channel(int events, int commands, const uint8_t *secret); /* takes both */
void cm_command(uint8_t which, uint8_t cmd, const uint8_t *body, uint32_t len);
void cm_raw(uint8_t which, const uint8_t *body, uint32_t len);
void cm_close(uint32_t which);
void cm_close_all(void);
void cm_replies(void); /* receives what has come */
void neighbour_frame(uint8_t kind, uint8_t how, const uint8_t *body, uint32_t len);
void neighbour_mad(uint8_t attr, uint8_t how, const uint8_t *body, uint32_t len);

/* control_program.c: the requests of urocectl */
void program_init(void);
void program_open(struct daemon *d); /* after fake_open */
void program_close(struct daemon *d);
/* Fills in the fields of such a request. qpn: of a QP. */
void program_fill(uint16_t op, uint8_t how, uint8_t *body, uint32_t qpn);
/* Checks the text that SHOW or IMPAIR sent. */
void program_reply(uint16_t op, const uint8_t *body, const int *fds, uint32_t nfds);

#endif
