/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WIRE_CHECK_EMIT_H
#define WIRE_CHECK_EMIT_H

/*
 * Write a capture of lib/wire's own frames: every opcode x IPv4/IPv6 x VLAN or not x payloads of 0
 * to 5 and 64 bytes where the opcode carries any. Prints one line of JSON a frame to stdout: what
 * went into it, for others to compare with what they dissect. Returns 0, or -1 with a message on
 * stderr.
 */
int emit_capture(const char *path);

#endif
