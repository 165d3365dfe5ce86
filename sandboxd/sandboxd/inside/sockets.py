"""The sandbox's listening sockets, made in the network namespace of the calling thread, before its first command.

A socket stays in the namespace where it was made, whoever holds it: the daemon serves these from outside. Nothing here
changes the process, only the namespace, so that a thread of the daemon that entered one can call it.
"""

from __future__ import annotations

import contextlib
import socket

from sandboxd.inside import netlink

LOOPBACK = "127.0.0.1"
PROXY_PORT = 3128
DNS_PORT = 53
CAPTURED_PORTS = (80, 443)
# Where the kernel sends what was dialled at 80 and 443 of the pool, so that the sandbox can have these ports itself.
REDIRECTED_PORTS = {80: 3180, 443: 3443}

# Set aside for measurements between networks (RFC 2544), so no name has such an address.
REDIRECTED_POOL = ("198.18.0.0", 15)
# Loopback addresses that nothing else uses: local already, without any privilege.
PLAIN_POOL = ("127.1.0.0", 16)

# Connections that wait until the daemon takes them. The kernel caps it at net.core.somaxconn, 4,096 by default.
BACKLOG = 1024


class PlantedHere:
    """The sockets, not blocking, owned by the caller from here on; the fields of `sandboxd.backends.base.Planted`.

    A plain class: importing `dataclasses` takes as long as starting the interpreter.
    """

    def __init__(
        self,
        proxy: socket.socket,
        dns_udp: socket.socket,
        dns_tcp: socket.socket,
        transparent: dict[int, socket.socket],
        redirected: bool,
        pool: str,
    ) -> None:
        self.proxy = proxy
        self.dns_udp = dns_udp
        self.dns_tcp = dns_tcp
        self.transparent = transparent
        self.redirected = redirected
        self.pool = pool


def plant_here(*, may_redirect: bool) -> PlantedHere:
    """Bind the explicit proxy, DNS and the transparent listeners in the calling thread's network namespace.

    With `may_redirect`, the pool is 198.18.0.0/15 and the kernel redirects its ports 80 and 443 to high ports; where
    that is asked for and can't be done (no nf_tables, no CAP_NET_ADMIN over the namespace), or isn't asked for, the
    pool is 127.1.0.0/16 with listeners at ports 80 and 443 of every address. Binding ports below 1024 needs
    CAP_NET_BIND_SERVICE over the namespace. Raises OSError, with nothing left behind, when a port is taken.
    """
    with contextlib.ExitStack() as undo:
        proxy = undo.enter_context(_listener(LOOPBACK, PROXY_PORT))
        dns_tcp = undo.enter_context(_listener(LOOPBACK, DNS_PORT))
        dns_udp = undo.enter_context(_datagrams(LOOPBACK, DNS_PORT))
        redirected = may_redirect and _redirect()
        address, ports = (LOOPBACK, REDIRECTED_PORTS) if redirected else ("0.0.0.0", {p: p for p in CAPTURED_PORTS})  # noqa: S104
        network, prefix_length = REDIRECTED_POOL if redirected else PLAIN_POOL
        transparent = {port: undo.enter_context(_listener(address, instead)) for port, instead in ports.items()}
        undo.pop_all()
    return PlantedHere(proxy, dns_udp, dns_tcp, transparent, redirected, f"{network}/{prefix_length}")


def _redirect() -> bool:
    """Whether the kernel now redirects; when it doesn't, the namespace is as it was."""
    network, prefix_length = REDIRECTED_POOL
    address = socket.inet_aton(network)
    try:
        netlink.redirect(address, prefix_length, REDIRECTED_PORTS)
    except OSError:
        return False
    try:
        netlink.add_local_route(address, prefix_length)
    except OSError:
        with contextlib.suppress(OSError):
            netlink.remove_redirect()
        return False
    return True


def _listener(address: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind((address, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _datagrams(address: str, port: int) -> socket.socket:
    """A UDP socket that nobody can bind over: with SO_REUSEADDR or SO_REUSEPORT a command could take its queries."""
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        receiver.bind((address, port))
        receiver.setblocking(False)
    except BaseException:
        receiver.close()
        raise
    return receiver
