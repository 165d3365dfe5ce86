"""A gateway on loopback, with everything around it in the test's hands.

The sandbox's side are real sockets on 127.0.0.1. Upstreams are real servers on loopback too: the resolver answers with
the addresses under test, and the dialler writes down what it was asked to dial and connects to the server.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from quickstarted_api.addresses import Network
from quickstarted_api.v1 import sandbox_pb2 as pb
from sandboxd.backends.base import Planted
from sandboxd.egress.context import Inspect
from sandboxd.egress.gateway import Gateway
from sandboxd.egress.limits import DescriptorBudget, GatewayLimits
from sandboxd.egress.policy import Policy

PUBLIC = "203.0.113.7"
POLICY = Policy(explicit=("files.test",), docs=("docs.test",), registry=("registry.test",))
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Upstream:
    """A server on loopback that keeps what it received; `handler` is what it does, else it answers 200 to each head."""

    def __init__(self, handler: Handler | None = None) -> None:
        self.handler = handler
        self.connections: list[bytearray] = []
        self.port = 0
        self._server: asyncio.Server | None = None

    @property
    def received(self) -> bytes:
        return b"".join(map(bytes, self.connections))

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received = bytearray()
        self.connections.append(received)
        try:
            if self.handler is not None:
                await self.handler(_Tee(reader, received), writer)
            else:
                await self._answer(reader, writer, received)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, received: bytearray) -> None:
        while data := await reader.read(65536):
            received += data
            if received.endswith(b"\r\n\r\n"):
                writer.write(OK)


class _Tee(asyncio.StreamReader):
    """A reader that keeps what is read through it."""

    def __init__(self, reader: asyncio.StreamReader, kept: bytearray) -> None:
        super().__init__()
        self._reader = reader
        self._kept = kept

    async def read(self, n: int = -1) -> bytes:
        data = await self._reader.read(n)
        self._kept += data
        return data

    async def readuntil(self, separator: bytes = b"\n") -> bytes:  # type: ignore[override]  # one separator will do
        data = await self._reader.readuntil(separator)
        self._kept += data
        return data

    async def readexactly(self, n: int) -> bytes:
        data = await self._reader.readexactly(n)
        self._kept += data
        return data


@dataclass
class Rig:
    """A running gateway and what happened around it."""

    gateway: Gateway
    planted: Planted
    upstream: Upstream
    events: list[pb.EgressDecision]
    resolved: list[str]
    dialled: list[tuple[str, int]]
    destinations: dict[int, str]
    answers: dict[str, Sequence[str] | Exception]
    arrived: asyncio.Event
    clients: list[socket.socket] = field(default_factory=list)

    async def connect(self, kind: str, name: str = "registry.test", address: str | None = None) -> Client:
        """A connection of the sandbox: to the "proxy" or "dns", or captured at "80" or "443" for a name."""
        listener = {
            "proxy": self.planted.proxy,
            "dns": self.planted.dns_tcp,
            "80": self.planted.transparent[80],
            "443": self.planted.transparent[443],
        }[kind]
        client = socket.socket()
        client.bind(("127.0.0.1", 0))
        if kind in ("80", "443"):
            found = address or self.gateway._context.names.address_of(name)
            assert found is not None
            self.destinations[client.getsockname()[1]] = found
        client.connect(listener.getsockname())  # at once: the kernel completes it
        client.setblocking(False)
        self.clients.append(client)
        return Client(client)

    async def ask(self, kind: str, data: bytes, name: str = "registry.test") -> bytes:
        """All that comes back for some bytes, until the gateway hangs up."""
        client = await self.connect(kind, name)
        await client.send(data)
        return await client.rest()

    def decisions(self) -> list[pb.EgressDecision]:
        """The events that are decisions."""
        return [event for event in self.events if not event.closed]

    def reasons(self) -> list[str]:
        return [pb.EgressReason.Name(event.reason) for event in self.decisions()]

    async def closed(self, count: int = 1) -> list[pb.EgressDecision]:
        """The closing records, once there are so many."""
        return await self.until(lambda: [event for event in self.events if event.closed], count)

    async def until(self, found: Callable[[], list[pb.EgressDecision]], count: int) -> list[pb.EgressDecision]:
        async with asyncio.timeout(10):
            while len(found()) < count:
                self.arrived.clear()
                await self.arrived.wait()
        return found()


@dataclass
class Client:
    """The sandbox's end of a connection."""

    socket: socket.socket

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.socket, data)

    async def receive(self, size: int = 65536) -> bytes:
        async with asyncio.timeout(10):
            return await asyncio.get_running_loop().sock_recv(self.socket, size)

    async def until(self, end: bytes) -> bytes:
        """What comes up to some bytes, and with them."""
        data = bytearray()
        while end not in data:
            more = await self.receive()
            assert more, f"the connection ended after {bytes(data)!r}"
            data += more
        return bytes(data)

    async def rest(self) -> bytes:
        """All that comes until the end; a reset ends it too."""
        data = bytearray()
        try:
            while more := await self.receive():
                data += more
        except ConnectionResetError:
            data += b"<reset>"
        return bytes(data)

    def end_writing(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)


def client_hello(name: str | None) -> bytes:
    """A ClientHello as OpenSSL makes it; without a server name when that is None."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    sent = ssl.MemoryBIO()
    connection = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=name)
    try:
        connection.do_handshake()
    except ssl.SSLWantReadError:
        return sent.read()
    raise AssertionError("a handshake without a server")


def connect_request(target: bytes | str = b"registry.test:443") -> bytes:
    raw = target.encode() if isinstance(target, str) else target
    return b"CONNECT " + raw + b" HTTP/1.1\r\nHost: " + raw + b"\r\n\r\n"


@asynccontextmanager
async def running(
    *,
    policy: Policy = POLICY,
    limits: GatewayLimits | None = None,
    upstream: Upstream | None = None,
    allow_private: Sequence[Network] = (),
    descriptors: DescriptorBudget | None = None,
    inspect: Inspect | None = None,
    inspected_methods: frozenset[str] = frozenset(),
) -> AsyncIterator[Rig]:
    """A gateway that serves until the block ends."""
    upstream = upstream or Upstream()
    await upstream.start()
    events: list[pb.EgressDecision] = []
    resolved: list[str] = []
    dialled: list[tuple[str, int]] = []
    destinations: dict[int, str] = {}
    answers: dict[str, Sequence[str] | Exception] = {}

    async def resolve(host: str) -> Sequence[str]:
        resolved.append(host)
        answer = answers.get(host, (PUBLIC,))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def dial(address: str, port: int) -> socket.socket:
        dialled.append((address, port))
        connection = socket.socket()
        connection.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", upstream.port))
        except BaseException:
            connection.close()
            raise
        return connection

    def destination(connection: socket.socket) -> str:
        address = destinations.get(connection.getpeername()[1])
        if address is None:
            raise OSError(errno.ENOENT, "not redirected")
        return address

    arrived = asyncio.Event()

    def emit(event: pb.EgressDecision) -> None:
        events.append(event)
        arrived.set()

    planted = plant()
    gateway = Gateway(
        policy,
        planted,
        emit=emit,
        resolver=resolve,
        dialler=dial,
        limits=limits,
        allow_private=allow_private,
        destination=destination,
        descriptors=descriptors or DescriptorBudget(),
        inspect=inspect,
        inspected_methods=inspected_methods,
    )
    rig = Rig(gateway, planted, upstream, events, resolved, dialled, destinations, answers, arrived)
    await gateway.start()
    try:
        yield rig
    finally:
        for client in rig.clients:
            client.close()
        await gateway.close()
        await upstream.close()


def plant() -> Planted:
    """Listening sockets on loopback, as a backend hands them over."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    return Planted(
        proxy=_listener(),
        dns_udp=udp,
        dns_tcp=_listener(),
        transparent={80: _listener(), 443: _listener()},
        redirected=True,
        pool="198.18.0.0/15",
    )


def _listener() -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1024)
    return listener
