#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What librdmacm has since rdma-core 60: addresses resolved to an event, and a program's own events.

cm_addrinfo.py ADDRESS PORT. Prints 'addrinfo: good', or 'addrinfo: none' with an older librdmacm."""
import ctypes
import os
import socket
import sys

PS_TCP, RAI_SA = 0x106, 0x10
ADDR_RESOLVED, RESOLVED, USER = 0, 16, 18  # enum rdma_cm_event_type


class Addrinfo(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_int), ("family", ctypes.c_int), ("qp_type", ctypes.c_int), ("port_space", ctypes.c_int),
                ("src_len", ctypes.c_uint32), ("dst_len", ctypes.c_uint32), ("src_addr", ctypes.c_void_p),
                ("dst_addr", ctypes.c_void_p), ("rest", ctypes.c_uint64 * 7)]


class Event(ctypes.Structure):
    _fields_ = [("id", ctypes.c_void_p), ("listen_id", ctypes.c_void_p), ("event", ctypes.c_int), ("status", ctypes.c_int),
                ("arg", ctypes.c_uint64)]


CM = ctypes.CDLL("librdmacm.so.1", use_errno=True)
CM.rdma_create_event_channel.restype = ctypes.c_void_p


def good(rc, what):
    assert rc == 0, f"{what}: {os.strerror(ctypes.get_errno())}"


def next_event(channel):
    """The event's kind, status and argument."""
    event = ctypes.POINTER(Event)()
    good(CM.rdma_get_cm_event(channel, ctypes.byref(event)), "rdma_get_cm_event")
    found = event.contents.event, event.contents.status, event.contents.arg
    good(CM.rdma_ack_cm_event(event), "rdma_ack_cm_event")
    return found


def new_id(channel):
    cm_id = ctypes.c_void_p()
    good(CM.rdma_create_id(channel, ctypes.byref(cm_id), None, PS_TCP), "rdma_create_id")
    return cm_id


def resolved(cm_id, address, port):
    """What rdma_resolve_addrinfo found. The caller frees it."""
    info = ctypes.POINTER(Addrinfo)()
    good(CM.rdma_query_addrinfo(cm_id, ctypes.byref(info)), "rdma_query_addrinfo")
    found = ctypes.string_at(info.contents.dst_addr, 8)
    assert found[2:] == int(port).to_bytes(2, "big") + socket.inet_aton(address), found
    return info


def main(address, port):
    if not hasattr(CM, "rdma_resolve_addrinfo"):
        print("addrinfo: none")
        return
    channel = ctypes.c_void_p(CM.rdma_create_event_channel())
    cm_id = new_id(channel)
    good(CM.rdma_resolve_addrinfo(cm_id, address.encode(), port.encode(), None), "rdma_resolve_addrinfo")
    kind, status, _ = next_event(channel)
    assert (kind, status) == (RESOLVED, 0), (kind, status)
    info = resolved(cm_id, address, port)
    good(CM.rdma_write_cm_event(cm_id, USER, 7, ctypes.c_uint64(1 << 40)), "rdma_write_cm_event")
    assert next_event(channel) == (USER, 7, 1 << 40)
    good(CM.rdma_resolve_addr(cm_id, None, ctypes.c_void_p(info.contents.dst_addr), 2000), "rdma_resolve_addr")
    assert next_event(channel)[:2] == (ADDR_RESOLVED, 0)
    # RoCE has no subnet administrator. librdmacm 65 does not pass the errno of the command on.
    service, bound = Addrinfo(flags=RAI_SA), new_id(channel)
    good(CM.rdma_bind_addr(bound, ctypes.c_void_p(info.contents.dst_addr)), "rdma_bind_addr")
    assert CM.rdma_resolve_addrinfo(bound, None, b"name", ctypes.byref(service)) == -1
    CM.rdma_freeaddrinfo(info)
    waiting = new_id(None)
    good(CM.rdma_resolve_addrinfo(waiting, address.encode(), port.encode(), None), "rdma_resolve_addrinfo without a channel")
    CM.rdma_freeaddrinfo(resolved(waiting, address, port))
    for one in (cm_id, bound, waiting):
        good(CM.rdma_destroy_id(one), "rdma_destroy_id")
    CM.rdma_destroy_event_channel(channel)
    print("addrinfo: good")


main(*sys.argv[1:3])
