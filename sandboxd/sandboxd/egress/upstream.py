"""From an allowed name to a connection: resolve once, judge every address, dial exactly what was judged.

Resolver and dialler come as arguments. No proxy of the daemon's environment is used: behind one the address could not
be judged here.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from quickstarted_api.addresses import Address, Network, deny_reason, unwrapped
from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd.egress.limits import GatewayLimits, NameBudget
from sandboxd.egress.policy import Policy
from sandboxd.egress.refusal import Refusal
from sandboxd.egress.wire import why

Resolver = Callable[[str], Awaitable[Sequence[str]]]
"""The addresses of a canonical name. Raises OSError (socket.gaierror) when there are none."""

Dialler = Callable[[str, int], Awaitable[socket.socket]]
"""A non-blocking socket that is connected to an address and port. Raises OSError."""

_MAX_DIALLED = 8  # addresses that are tried; all that a name has are judged


@dataclass(frozen=True, slots=True)
class Route:
    """A name's addresses, judged, in the order in which they are tried."""

    host: str
    addresses: tuple[str, ...]


class Upstreams:
    """The way out for one sandbox."""

    def __init__(
        self,
        policy: Policy,
        limits: GatewayLimits,
        resolver: Resolver,
        dialler: Dialler,
        allow_private: Sequence[Network],
    ) -> None:
        self._policy = policy
        self._limits = limits
        self._resolver = resolver
        self._dialler = dialler
        self._allow_private = tuple(allow_private)
        self._budget = NameBudget(limits.names_a_minute)
        self._lookups = asyncio.Semaphore(limits.lookups)

    async def resolve(self, host: str) -> Route:
        """The route to an allowed host. Raises Refusal: TOO_MANY_NAMES, DNS_FAILURE or PRIVATE_ADDRESS."""
        now = asyncio.get_running_loop().time()
        if not self._policy.is_entry(host) and not self._budget.take(host, now):
            raise Refusal(pb.TOO_MANY_NAMES, f"more than {self._limits.names_a_minute} new names in a minute")
        try:
            async with asyncio.timeout(self._limits.resolve), self._lookups:
                found = await self._resolver(host)
        except TimeoutError:
            raise Refusal(pb.DNS_FAILURE, f"no answer within {self._limits.resolve:g} s") from None
        except OSError as error:
            raise Refusal(pb.DNS_FAILURE, why(error)) from None
        addresses = tuple(dict.fromkeys(str(unwrapped(ip_address(address))) for address in found))
        if not addresses:
            raise Refusal(pb.DNS_FAILURE, "the name has no address")
        self._judge(host, addresses)
        return Route(host, addresses)

    def _judge(self, host: str, addresses: Sequence[str]) -> None:
        """Refuse a name with one bad address: that it is public and private at once is a trap or a mistake."""
        for address in addresses:
            try:
                reason = deny_reason(address, self._allow_private, own=is_own)
            except OSError as error:
                raise Refusal(pb.CONNECT_FAILURE, f"{address} can't be judged: {why(error)}") from None
            if reason is not None:
                raise Refusal(pb.PRIVATE_ADDRESS, f"{host} is {address}: {reason}")

    async def dial(self, route: Route, port: int) -> tuple[socket.socket, str]:
        """A connection, and the address that it is to. Raises Refusal: CONNECT_FAILURE or UPSTREAM_TIMEOUT."""
        failures: list[str] = []
        timed_out = True
        try:
            async with asyncio.timeout(self._limits.connect):
                for address in route.addresses[:_MAX_DIALLED]:
                    try:
                        async with asyncio.timeout(self._limits.attempt):
                            return await self._dialler(address, port), address
                    except TimeoutError:
                        failures.append(f"{address}: no answer")
                    except OSError as error:
                        timed_out = False
                        failures.append(f"{address}: {why(error)}")
        except TimeoutError:
            failures.append(f"no connection within {self._limits.connect:g} s")
        raise Refusal(pb.UPSTREAM_TIMEOUT if timed_out else pb.CONNECT_FAILURE, "; ".join(failures))


def is_own(address: Address) -> bool:
    """Whether an address belongs to this machine, as the kernel sees it: a socket can be bound to it.

    Needs no list of interfaces that could be out of date, and holds for addresses that only a route makes local. Raises
    OSError when the kernel can't say.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError as error:
        if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            return False
        raise
    return True


async def dial(address: str, port: int) -> socket.socket:
    """The dialler of real use: TCP, straight to the address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(connection, (address, port))
    except BaseException:  # cancelled too: the socket is nobody else's
        connection.close()
        raise
    return connection


class SystemResolver:
    """The resolver of real use: the C library's, asked for the absolute name, so that no search domain is tried.

    Each look-up is a thread that nobody waits for longer than its caller's deadline; `threads` bounds them. An answer
    is kept for `keep` seconds, so that a sandbox that opens a hundred connections asks once.
    """

    def __init__(self, threads: int = 64, keep: float = 5.0) -> None:
        self._slots = asyncio.Semaphore(threads)
        self._keep = keep
        self._kept: dict[str, tuple[float, Sequence[str]]] = {}
        self._asked: dict[str, asyncio.Future[Sequence[str]]] = {}

    async def __call__(self, host: str) -> Sequence[str]:
        now = asyncio.get_running_loop().time()
        until, addresses = self._kept.get(host, (0.0, ()))
        if now < until:
            return addresses
        if host not in self._asked:
            await self._slots.acquire()
            if host in self._asked:
                self._slots.release()
            else:
                self._ask(host)
        return await asyncio.shield(self._asked[host])

    def _ask(self, host: str) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Sequence[str]] = loop.create_future()
        self._asked[host] = future

        def finish(addresses: Sequence[str] | OSError) -> None:
            self._slots.release()
            del self._asked[host]
            if isinstance(addresses, OSError):
                future.set_exception(addresses)
                future.exception()  # seen, also when every caller has gone away
            else:
                future.set_result(addresses)
                self._remember(host, addresses, loop.time())

        def look_up() -> None:
            try:
                rows = socket.getaddrinfo(host + ".", None, type=socket.SOCK_STREAM)
                result: Sequence[str] | OSError = [str(row[4][0]) for row in rows]
            except (OSError, UnicodeError) as error:
                result = error if isinstance(error, OSError) else OSError(str(error))
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                loop.call_soon_threadsafe(finish, result)

        threading.Thread(target=look_up, name=f"resolve {host}", daemon=True).start()

    def _remember(self, host: str, addresses: Sequence[str], now: float) -> None:
        if len(self._kept) >= 1024:
            self._kept = {name: kept for name, kept in self._kept.items() if kept[0] > now}
        if len(self._kept) < 1024:
            self._kept[host] = (now + self._keep, addresses)
