"""The gateway of one sandbox: serves the sockets that were planted in its network namespace.

It accepts, counts, and hands each connection to the path that it came in by. What a path does is in `session` (HTTP),
`tunnel` (TLS) and `nameserver` (DNS).
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from ipaddress import IPv4Address
from typing import Any

import structlog
from quickstarted_api.addresses import Network
from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd.backends.base import Planted
from sandboxd.egress import answers
from sandboxd.egress.context import Context, Inspect
from sandboxd.egress.limits import DESCRIPTORS, DescriptorBudget, GatewayLimits, TokenBucket
from sandboxd.egress.nameserver import Nameserver
from sandboxd.egress.policy import Policy
from sandboxd.egress.record import Emit, Record
from sandboxd.egress.refusal import Layer, Refusal
from sandboxd.egress.session import serve_http
from sandboxd.egress.synthetic import SyntheticNames
from sandboxd.egress.tunnel import serve_captured
from sandboxd.egress.upstream import Dialler, Resolver, SystemResolver, Upstreams, dial
from sandboxd.egress.wire import ClientGoneError, Wire

_log = structlog.get_logger(__name__)

Destination = Callable[[socket.socket], str]
"""The address that a captured connection was made to."""

_SO_ORIGINAL_DST = 80  # linux/netfilter_ipv4.h
_BATCH = 16  # connections that are accepted before other sandboxes get their turn
_PAUSE = 0.1  # seconds without accepting, once descriptors or the sandbox's rate are used up
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Gateway:
    """One sandbox's way out, started once. It owns the planted sockets; closing it again does nothing."""

    def __init__(
        self,
        policy: Policy,
        planted: Planted,
        *,
        emit: Emit,
        resolver: Resolver | None = None,
        dialler: Dialler = dial,
        limits: GatewayLimits | None = None,
        allow_private: Sequence[Network] = (),
        destination: Destination | None = None,
        descriptors: DescriptorBudget = DESCRIPTORS,
        inspect: Inspect | None = None,
        inspected_methods: frozenset[str] = frozenset(),
    ) -> None:
        """`emit` takes each event on the event loop and must not raise. `allow_private` is what an operator opened."""
        self._planted = planted
        self._limits = limits or GatewayLimits()
        self._emit = emit
        self._destination = destination or _destination_of(planted)
        self._descriptors = descriptors
        upstreams = Upstreams(policy, self._limits, resolver or SystemResolver(), dialler, allow_private)
        names = SyntheticNames(planted.pool)
        requests = TokenBucket(self._limits.requests, self._limits.request_burst)
        self._context = Context(policy, names, upstreams, self._limits, emit, requests, inspect, inspected_methods)
        self._accepts = TokenBucket(self._limits.accepts, self._limits.accept_burst)
        self._nameserver = Nameserver(self._context, planted.dns_udp)
        self._acceptors: list[_Acceptor] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections = 0
        self._dns_connections = 0

    async def start(self) -> None:
        """Begin to serve."""
        self._nameserver.start()
        self._listen(self._planted.proxy, self._admit_proxy)
        self._listen(self._planted.dns_tcp, self._admit_dns)
        for port, listener in self._planted.transparent.items():
            self._listen(listener, self._admit_http if port == 80 else self._admit_tls)

    async def close(self) -> None:
        """End every connection and close every socket; return when that is done."""
        while self._acceptors:
            self._acceptors.pop().close()
        self._nameserver.close()
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
        planted = self._planted
        for listener in (planted.proxy, planted.dns_tcp, planted.dns_udp, *planted.transparent.values()):
            listener.close()

    def _listen(self, listener: socket.socket, admit: Callable[[socket.socket], None]) -> None:
        acceptor = _Acceptor(listener, admit, self._may_accept)
        self._acceptors.append(acceptor)
        acceptor.start()

    def _may_accept(self) -> bool:
        if self._accepts.take(asyncio.get_running_loop().time()):
            return True
        rate = f"more than {self._limits.accepts:g} new connections a second"
        Record(self._emit, pb.EGRESS_LAYER_UNSPECIFIED).refuse(Refusal(pb.RATE_LIMITED, rate))
        return False

    def _admit_proxy(self, connection: socket.socket) -> None:
        if not self._take_slot():
            _answer_at_once(connection, self._too_many(pb.HTTP, ""))
            return
        client = Wire(connection)
        self._serve(client, serve_http(client, self._context), self._give_slot)

    def _admit_http(self, connection: socket.socket) -> None:
        name = self._captured_name(connection, pb.TRANSPARENT_HTTP, 80)
        if name is None:
            Wire(connection).abort()
        elif not self._take_slot():
            _answer_at_once(connection, self._too_many(pb.TRANSPARENT_HTTP, name))
        else:
            client = Wire(connection)
            self._serve(client, serve_http(client, self._context, name), self._give_slot)

    def _admit_tls(self, connection: socket.socket) -> None:
        name = self._captured_name(connection, pb.TRANSPARENT_TLS, 443)
        if name is None:
            Wire(connection).abort()
        elif not self._take_slot():
            self._too_many(pb.TRANSPARENT_TLS, name)
            Wire(connection).abort()
        else:
            client = Wire(connection)
            self._serve(client, serve_captured(client, self._context, name), self._give_slot)

    def _admit_dns(self, connection: socket.socket) -> None:
        if self._dns_connections >= self._limits.dns_connections or not self._descriptors.take(self._held):
            self._too_many(pb.DNS, "")
            Wire(connection).abort()
            return
        self._dns_connections += 1
        client = Wire(connection)
        self._serve(client, self._nameserver.serve_tcp(client), self._give_dns_slot)

    @property
    def _held(self) -> int:
        return self._connections + self._dns_connections

    def _take_slot(self) -> bool:
        if self._connections >= self._limits.connections or not self._descriptors.take(self._held):
            return False
        self._connections += 1
        return True

    def _give_slot(self) -> None:
        self._connections -= 1
        self._descriptors.give()

    def _give_dns_slot(self) -> None:
        self._dns_connections -= 1
        self._descriptors.give()

    def _too_many(self, layer: Layer, host: str) -> Refusal:
        refusal = Refusal(pb.TOO_MANY_CONNECTIONS, "this sandbox, or all together, have too many connections open")
        Record(self._emit, layer, host=host).refuse(refusal)
        return refusal

    def _captured_name(self, connection: socket.socket, layer: Layer, port: int) -> str | None:
        """The name that a captured connection leads to. None, and an event, when its address stands for none."""
        try:
            address = self._destination(connection)
        except OSError:  # it came to the listener itself, not by a redirect
            address = "none"
        name = self._context.names.name_of(address)
        if name is None:
            record = Record(self._emit, layer, port=port, target=f"{address}:{port}")
            record.refuse(Refusal(pb.UNMAPPED_ADDRESS, f"{address} stands for no name in this sandbox"))
        return name

    def _serve(self, client: Wire, path: Coroutine[Any, Any, None], done: Callable[[], None]) -> None:
        def end(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            done()
            path.close()  # a task that is cancelled before it began has run nothing
            client.close()

        task = asyncio.create_task(self._end_well(client, path))
        self._tasks.add(task)
        task.add_done_callback(end)

    async def _end_well(self, client: Wire, path: Coroutine[Any, Any, None]) -> None:
        """Run a connection's path; whatever becomes of it, the connection is closed and other connections go on."""
        try:
            with suppress(OSError):
                client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await path
        except (ClientGoneError, OSError):
            client.abort()
        except asyncio.CancelledError:  # the gateway closes: what the client got is not the whole
            client.abort()
            raise
        except Exception:  # noqa: BLE001 - a bug here must end this connection only, and be seen
            _log.exception("a connection's path failed")
            client.abort()


class _Acceptor:
    """Accepts on one listener, as long as it may. It outlives a lack of descriptors, which is the process's."""

    def __init__(
        self, listener: socket.socket, admit: Callable[[socket.socket], None], may_accept: Callable[[], bool]
    ) -> None:
        self._listener = listener
        self._admit = admit
        self._may_accept = may_accept
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        self._loop.remove_reader(self._listener)
        if self._pause is not None:
            self._pause.cancel()

    def _accept(self) -> None:
        for _ in range(_BATCH):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._hold()
                    return
                continue  # that connection broke before it was accepted (accept(2))
            connection.setblocking(False)
            self._admit(connection)
            if not self._may_accept():
                self._hold()
                return

    def _hold(self) -> None:
        """Let connections wait in the kernel's queue: a listener with one would wake the loop all the time."""
        self._loop.remove_reader(self._listener)
        self._pause = self._loop.call_later(_PAUSE, self.start)


def _destination_of(planted: Planted) -> Destination:
    if planted.announced:
        return announced_destination
    return original_destination if planted.redirected else own_end


def announced_destination(connection: socket.socket) -> str:
    """The address that a relay says was dialled, in the name that it gave to its own end. Raises OSError."""
    return str(connection.getpeername()).rpartition("-")[2]


def own_end(connection: socket.socket) -> str:
    """The address that a connection was made to, where its own end has it."""
    return str(connection.getsockname()[0])


def original_destination(connection: socket.socket) -> str:
    """The address that a connection was made to before the kernel redirected it. Raises OSError when it did not."""
    found = connection.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, 16)
    _family, _port, address = struct.unpack_from("!2H4s", found)
    return str(IPv4Address(address))


def _answer_at_once(connection: socket.socket, refusal: Refusal) -> None:
    """Turn a client away without waiting for it: what it sent is read, so that closing does not reset the answer."""
    with suppress(OSError):
        connection.recv(64 * 1024)
    with suppress(OSError):
        connection.send(answers.refusal(refusal.reason, refusal.detail))
    connection.close()
