"""Whether a network namespace is closed, asked from inside it: only the standard library, and no words of other rooms.

The same text runs in a thread of the daemon and, where that can't enter the namespace, in a helper container. It sends
nothing to anybody: the addresses that it dials are for documentation (RFC 5737, RFC 3849), and in a closed namespace
there is no route to them.
"""

import errno
import fcntl
import socket
import struct

PROXY = ("127.0.0.1", 3128)
DNS = ("127.0.0.1", 53)
SECONDS = 5.0

# Some kernels put these, switched off and without an address, into every namespace (fb_tunnels_only_for_init_net).
FALLBACK_DEVICES = frozenset(
    ("erspan0", "gre0", "gretap0", "ip6_vti0", "ip6gre0", "ip6tnl0", "ip_vti0", "sit0", "teql0", "tunl0")
)
SIOCGIFFLAGS = 0x8913
IFF_UP = 0x1

UNREACHABLE = frozenset((errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT))
ABROAD = (
    (socket.AF_INET, ("192.0.2.1", 443)),
    (socket.AF_INET, ("198.51.100.1", 53)),
    (socket.AF_INET6, ("2001:db8::1", 443)),
)


def findings(net: str = "/proc/thread-self/net") -> list[str]:
    """What is open or missing, a sentence each; empty when the namespace is closed and its gateway answers."""
    return _devices(net) + _routes(net) + _abroad() + _gateway()


def _devices(net: str) -> list[str]:
    with open(net + "/dev") as file:  # noqa: PTH123 it has to run in old interpreters too
        names = [line.split(":", 1)[0].strip() for line in file.readlines()[2:]]
    found = []
    for name in names:
        if name != "lo" and not (name in FALLBACK_DEVICES and not _is_up(name)):
            found.append("it has the network device %s" % name)  # noqa: PERF401, UP031
    return found


def _is_up(name: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(probe, SIOCGIFFLAGS, struct.pack("16sH22x", name.encode(), 0))
    return bool(struct.unpack_from("H", answer, 16)[0] & IFF_UP)


def _routes(net: str) -> list[str]:
    with open(net + "/route") as file:  # noqa: PTH123
        devices = [line.split()[0] for line in file.readlines()[1:]]
    try:
        with open(net + "/ipv6_route") as file:  # noqa: PTH123
            devices += [line.split()[-1] for line in file]
    except FileNotFoundError:
        pass  # the kernel has no IPv6
    return ["it has a route through %s" % device for device in devices if device != "lo"]  # noqa: UP031


def _abroad() -> list[str]:
    found = []
    for family, address in ABROAD:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            try:
                with socket.socket(family, kind) as probe:
                    probe.setblocking(False)
                    number = probe.connect_ex(address)
            except OSError as error:
                number = error.errno or 0
            if number not in UNREACHABLE:
                found.append("a connection to %s was not refused by the kernel" % address[0])  # noqa: UP031
    return found


def _gateway() -> list[str]:
    found = []
    try:
        with socket.create_connection(PROXY, SECONDS) as probe:
            probe.settimeout(SECONDS)
            # A server closes a connection on which nothing was asked; without one this waits in a queue.
            probe.shutdown(socket.SHUT_WR)
            probe.recv(1)
    except OSError as error:
        found.append("its proxy does not answer: %s" % error)  # noqa: UP031
    # A query for the name that never leaves a resolver (RFC 6761, 6.3).
    query = struct.pack(">6H", 0x5EED, 0x0100, 1, 0, 0, 0) + b"\x09localhost\x00" + struct.pack(">2H", 1, 1)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.settimeout(SECONDS)
            probe.connect(DNS)
            probe.send(query)
            if probe.recv(512)[:2] != query[:2]:
                found.append("its name server answers something else than it was asked")
    except OSError as error:
        found.append("its name server does not answer: %s" % error)  # noqa: UP031
    return found
