# SPDX-License-Identifier: BSD-3-Clause
"""rdma_cm channels for tests (include/uroce_abi/cm.h): what hooks under librdmacm do, and what only a hostile
client does. Structs of rdma/rdma_user_cm.h."""
import errno
import os
import select
import socket
import struct

import control

CMDS = ("CREATE_ID DESTROY_ID BIND_IP RESOLVE_IP RESOLVE_ROUTE QUERY_ROUTE CONNECT LISTEN ACCEPT REJECT DISCONNECT "
        "INIT_QP_ATTR GET_EVENT GET_OPTION SET_OPTION NOTIFY JOIN_IP_MCAST LEAVE_MCAST MIGRATE_ID QUERY BIND "
        "RESOLVE_ADDR JOIN_MCAST RESOLVE_IB_SERVICE WRITE_CM_EVENT").split()
EVENTS = ("ADDR_RESOLVED ADDR_ERROR ROUTE_RESOLVED ROUTE_ERROR CONNECT_REQUEST CONNECT_RESPONSE CONNECT_ERROR "
          "UNREACHABLE REJECTED ESTABLISHED DISCONNECTED DEVICE_REMOVAL MULTICAST_JOIN MULTICAST_ERROR ADDR_CHANGE "
          "TIMEWAIT_EXIT ADDRINFO_RESOLVED ADDRINFO_ERROR USER INTERNAL").split()
PS_TCP, PS_UDP, PS_IB = 0x106, 0x111, 0x13f
QP_RC, QP_UD = 2, 4
TAKE_TOKEN = 1
TIMEOUT_MS = 2000
EVENT_BYTES = 336


class Refused(OSError):
    """A command's errno."""


def sockaddr(address, port=0, scope=0):
    """A sockaddr_in or sockaddr_in6. scope: of a link-local address, the number of its interface."""
    if ":" in address:
        return (struct.pack("<H", socket.AF_INET6) + struct.pack(">HI", port, 0) +
                socket.inet_pton(socket.AF_INET6, address) + struct.pack("<I", scope))
    return struct.pack("<H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(address) + bytes(8)


def storage(addr):
    return addr.ljust(128, b"\0")


def conn_param(qpn, data=b"", depth=1, valid=1):
    return struct.pack("<II256sBBBBBBBB", qpn, 0, data, len(data), 0, depth, depth, 0, 7, 7, valid)


class Event:
    """A struct rdma_ucm_event_resp."""

    def __init__(self, raw):
        assert len(raw) == EVENT_BYTES, len(raw)
        self.uid, self.id, number, self.status = struct.unpack_from("<QIIi", raw)
        self.name = EVENTS[number]
        self.qpn, self.qkey = struct.unpack_from("<II", raw, 20)
        self.arg, = struct.unpack_from("<Q", raw, 20)
        self.data = raw[28:28 + raw[284]]
        self.ud_data = raw[60:60 + raw[316]]
        self.ece = struct.unpack_from("<II", raw, 328)


class Channel:
    """An open channel. Commands raise Refused."""

    def __init__(self, path):
        link = control.Connection(path)
        assert link.hello("")[0] == 0
        status, body, fds = link.call("CM_OPEN", bytes(16))
        link.close()
        if status:
            raise Refused(status, "CM_OPEN")
        self.secret = body[:16]
        self.fd, self.commands = fds[0], socket.socket(fileno=fds[1])
        self.commands.settimeout(60)
        self.cookie = 0

    def close(self):
        os.close(self.fd)
        self.commands.close()

    def readable(self, seconds=0.0):
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def send(self, cmd, body=b"", out=1024, source=bytes(16)):
        self.cookie += 1
        number = CMDS.index(cmd) if isinstance(cmd, str) else cmd
        head = struct.pack("<IIII16s16x", self.cookie, number, len(body), out, source)
        self.commands.send(head + body)

    def call(self, cmd, body=b"", out=1024, source=bytes(16)):
        """Response of a command; takes the token if it must."""
        self.send(cmd, body, out, source)
        raw = self.commands.recv(4096)
        if not raw:
            raise Refused(errno.EPIPE, "the channel has ended")
        cookie, status, flags, length = struct.unpack_from("<IIII", raw)
        assert cookie == self.cookie and length == len(raw) - 32 <= out
        if flags & TAKE_TOKEN:
            assert self.readable(), "no token to take"
            os.read(self.fd, 1)
        if status:
            raise Refused(status, f"{cmd}: {os.strerror(status)}")
        return raw[32:]

    def event(self, name=None, seconds=60.0):
        assert self.readable(seconds), f"no event, expected {name}"
        event = Event(self.call("GET_EVENT", bytes(8)))
        assert name is None or event.name == name, f"{event.name} ({event.status}), expected {name}"
        return event

    def create(self, uid, space=PS_TCP, qp_type=QP_RC):
        return struct.unpack("<I", self.call("CREATE_ID", struct.pack("<QQHB5x", uid, 0, space, qp_type)))[0]

    def destroy(self, number):
        return struct.unpack("<I", self.call("DESTROY_ID", struct.pack("<QII", 0, number, 0)))[0]

    def bind(self, number, addr):
        self.call("BIND", struct.pack("<IHH", number, len(addr), 0) + storage(addr))

    def listen(self, number, backlog=0):
        self.call("LISTEN", struct.pack("<II", number, backlog))

    def resolve_addr(self, number, dst, src=b"", timeout_ms=TIMEOUT_MS):
        self.call("RESOLVE_ADDR", struct.pack("<IIHHI", number, timeout_ms, len(src), len(dst), 0) +
                  storage(src) + storage(dst))

    def resolve_route(self, number, timeout_ms=TIMEOUT_MS):
        self.call("RESOLVE_ROUTE", struct.pack("<II", number, timeout_ms))

    def resolve(self, number, dst, src=b""):
        self.resolve_addr(number, dst, src)
        self.event("ADDR_RESOLVED")
        self.resolve_route(number)
        self.event("ROUTE_RESOLVED")

    def connect(self, number, qpn, data=b"", ece=(0, 0)):
        self.call("CONNECT", conn_param(qpn, data) + struct.pack("<IIII", number, 0, *ece))

    def accept(self, number, uid, qpn, data=b"", ece=(0, 0)):
        self.call("ACCEPT", struct.pack("<Q", uid) + conn_param(qpn, data) + struct.pack("<IIII", number, 0, *ece))

    def ready(self, number):
        """Sends the RTU."""
        self.call("ACCEPT", bytes(8) + conn_param(0, valid=0) + struct.pack("<IIII", number, 0, 0, 0))

    def reject(self, number, data=b"", reason=0):
        self.call("REJECT", struct.pack("<IBB2x256s", number, len(data), reason, data))

    def disconnect(self, number):
        self.call("DISCONNECT", struct.pack("<I", number))

    def migrate(self, number, source):
        return struct.unpack("<I", self.call("MIGRATE_ID", struct.pack("<QII", 0, number, 0), source=source.secret))[0]

    def option(self, number, level, name, value):
        self.call("SET_OPTION", struct.pack("<QIIII", 0, number, level, name, len(value)) + value)

    def query(self, number, option, out=1024):
        return self.call("QUERY", struct.pack("<QII", 0, number, option), out)

    def qp_attr(self, number, state):
        return self.call("INIT_QP_ATTR", struct.pack("<QII", 0, number, state))

    def join(self, number, uid, group):
        return struct.unpack("<I", self.call("JOIN_MCAST", struct.pack("<QQIHH", 0, uid, number, len(group), 0) +
                                             storage(group)))[0]

    def leave(self, group):
        return struct.unpack("<I", self.call("LEAVE_MCAST", struct.pack("<QII", 0, group, 0)))[0]
