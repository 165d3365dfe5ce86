"""Whether the network namespace of the calling thread has no way out but the gateway, seen from within.

Run it when the gateway serves and nothing else runs there. It changes nothing, and sends nothing that could leave.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct

from sandboxd.inside import netlink, sockets

SECONDS = 5.0
# Addresses for documentation (RFC 5737, RFC 3849): where there is a route, they are dialled like any other, and nobody
# is at them.
ABROAD = (
    (socket.AF_INET, socket.SOCK_STREAM, "192.0.2.1"),
    (socket.AF_INET, socket.SOCK_DGRAM, "198.51.100.1"),
    (socket.AF_INET6, socket.SOCK_STREAM, "2001:db8::1"),
)
# No IPv6 at all is as good as no route.
UNREACHABLE = (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
# Some kernels put these, switched off, into every namespace (net.core.fb_tunnels_only_for_init_net).
FALLBACK_DEVICES = frozenset(
    ("erspan0", "gre0", "gretap0", "ip6_vti0", "ip6gre0", "ip6tnl0", "ip_vti0", "sit0", "teql0", "tunl0")
)
SIOCGIFFLAGS, IFF_UP = 0x8913, 0x1  # linux/sockios.h, linux/if.h
AF_VSOCK = 40
# One question, for the address of `localhost`, which a resolver answers by itself (RFC 6761, section 6.3).
QUESTION_ID = 0x5DBD
QUESTION = struct.pack("!HHHHHH", QUESTION_ID, 0x0100, 1, 0, 0, 0) + b"\x09localhost\0" + struct.pack("!HH", 1, 1)
# A request for the gateway itself, which is no decision of its policy.
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def check_here(*, filtered: bool) -> list[str]:
    """What is not as it should be, as sentences; nothing when the namespace is closed.

    With `filtered`, the caller's system calls are filtered as a command's are, and sockets that reach a hypervisor from
    any namespace must be refused.
    """
    problems = [*_interfaces(), *_routes(), *_dials()]
    for name, check in (("proxy", _proxy), ("DNS", _dns)):
        try:
            problems += check()
        except OSError as error:
            problems.append(f"the gateway's {name} does not answer: {error}")
    if filtered:
        problems += _hypervisor()
    return problems


def _interfaces() -> list[str]:
    names = [name for _, name in socket.if_nameindex()]
    strange = [name for name in names if name != "lo" and not (name in FALLBACK_DEVICES and not _is_up(name))]
    return [f"there is the network interface {name}" for name in strange]


def _is_up(name: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, SIOCGIFFLAGS, struct.pack("16sH22x", name.encode(), 0))
    return bool(struct.unpack_from("H", answer, 16)[0] & IFF_UP)


def _routes() -> list[str]:
    loopback = socket.if_nametoindex("lo")
    strange = [interface for interface in netlink.route_interfaces() if interface != loopback]
    return [f"there are {len(strange)} routes that do not end at loopback"] if strange else []


def _dials() -> list[str]:
    problems = []
    for family, kind, address in ABROAD:
        number = _dial(family, kind, address)
        if number not in UNREACHABLE:
            problems.append(f"a dial to {address} should find no network, and got: {os.strerror(number)}")
    return problems


def _dial(family: int, kind: int, address: str) -> int:
    try:
        with socket.socket(family, kind) as dialled:
            dialled.setblocking(False)
            return dialled.connect_ex((address, 53))
    except OSError as error:
        return error.errno or 0


def _proxy() -> list[str]:
    with socket.create_connection((sockets.LOOPBACK, sockets.PROXY_PORT), SECONDS) as connection:
        connection.sendall(REQUEST)
        answer = b""
        while b"\r\n\r\n" not in answer and (part := connection.recv(4096)):
            answer += part
    ours = any(line.lower() == b"server: sandboxd" for line in answer.split(b"\r\n"))
    return [] if ours else [f"something else than the gateway answers as its proxy: {answer[:60]!r}"]


def _dns() -> list[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.settimeout(SECONDS)
        asked.connect((sockets.LOOPBACK, sockets.DNS_PORT))
        asked.send(QUESTION)
        answer = asked.recv(1 << 16)
    ours = answer[:2] == QUESTION[:2] and answer[-4:] == socket.inet_aton(sockets.LOOPBACK)
    return [] if ours else ["something else than the gateway answers as its DNS"]


def _hypervisor() -> list[str]:
    try:
        socket.socket(AF_VSOCK, socket.SOCK_STREAM).close()
    except PermissionError:
        return []
    except OSError as error:
        return [f"a socket to the hypervisor is refused for another reason than the filter: {error}"]
    return ["a socket to the hypervisor can be made"]
