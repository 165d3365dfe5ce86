"""The DNS server of one sandbox: an allowed name has a synthetic address, every other name does not exist.

Nothing is ever asked upstream on a query's behalf, so a name that carries data carries it nowhere.
"""

from __future__ import annotations

import asyncio
import socket

from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd.egress.context import Context
from sandboxd.egress.dns import MAX_QUERY, Code, Faulty, Query, QueryType, parse_query, respond
from sandboxd.egress.limits import TokenBucket
from sandboxd.egress.policy import parse_name
from sandboxd.egress.record import Record
from sandboxd.egress.refusal import Refusal, printable
from sandboxd.egress.wire import Wire

_LOOPBACK = "127.0.0.1"
_BATCH = 32  # datagrams that are taken before other sandboxes get their turn
_PAUSE = 0.1  # seconds without reading, once a sandbox has used up its queries


class Nameserver:
    """Answers the queries that come to one sandbox's port 53."""

    def __init__(self, context: Context, udp: socket.socket) -> None:
        self._context = context
        self._udp = udp
        self._bucket = TokenBucket(context.limits.queries, context.limits.query_burst)
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to read the UDP socket."""
        self._udp.setblocking(False)
        self._loop.add_reader(self._udp, self._read)

    def close(self) -> None:
        """Stop reading; the socket is its owner's to close."""
        if self._pause is not None:
            self._pause.cancel()
        if self._udp.fileno() >= 0:
            self._loop.remove_reader(self._udp)

    def answer(self, message: bytes) -> bytes | None:
        """The response to a message; None when it gets none."""
        record = Record(self._context.emit, pb.DNS, port=53)
        try:
            query = parse_query(message)
        except Refusal as refusal:
            record.target = printable(message[:64])
            record.refuse(refusal)
            return refusal.response if isinstance(refusal, Faulty) else None
        record.target, record.method = str(query), query.type_name
        try:
            return respond(query, Code.NOERROR, self._addresses(query, record))
        except Refusal as refusal:
            record.refuse(refusal)
            # Not REFUSED: the C library would try other servers, and not fail at once.
            return respond(query, Code.NXDOMAIN)

    def _addresses(self, query: Query, record: Record) -> tuple[bytes, ...]:
        """The addresses of a name that may be asked for; none when it has none of the type. Raises Refusal."""
        name = query.name
        if name is None:
            raise Refusal(pb.MALFORMED_TARGET, "a label with other bytes than letters, digits, - and _")
        if name == "localhost" or name.endswith(".localhost"):  # RFC 6761, section 6.3; it leads nowhere
            return (socket.inet_aton(_LOOPBACK),) if query.qtype == QueryType.A else ()
        record.host = parse_name(_without_service(name))
        reason = self._context.policy.judge(record.host)
        addresses: tuple[bytes, ...] = ()
        if query.qtype == QueryType.A and record.host == name:
            record.address = self._context.names.address_of(name) or ""
            if not record.address:
                raise Refusal(pb.TOO_MANY_NAMES, "this sandbox has asked for too many names")
            addresses = (socket.inet_aton(record.address),)
        record.allow(reason)
        return addresses

    def _read(self) -> None:
        for _ in range(_BATCH):
            try:
                message, sender = self._udp.recvfrom(MAX_QUERY + 1)
            except BlockingIOError:
                return
            except OSError:  # an ICMP error of an earlier answer
                continue
            if not self._bucket.take(self._loop.time()):
                self._hold()
                return
            response = self.answer(message) if sender[1] else None  # nobody can listen on port 0
            if response is not None:
                self._send(response, sender)

    def _send(self, response: bytes, sender: tuple[str, int]) -> None:
        try:
            self._udp.sendto(response, sender)
        except OSError:
            return  # the asker is gone or does not read; DNS over UDP loses datagrams

    def _hold(self) -> None:
        """Leave the socket alone for a moment: the kernel drops what does not fit, at no cost for other sandboxes."""
        rate = f"more than {self._context.limits.queries:g} queries a second"
        Record(self._context.emit, pb.DNS, port=53).refuse(Refusal(pb.RATE_LIMITED, rate))
        self._loop.remove_reader(self._udp)
        self._pause = self._loop.call_later(_PAUSE, self._loop.add_reader, self._udp, self._read)

    async def serve_tcp(self, client: Wire) -> None:
        """Answer the queries of one TCP connection, in order (RFC 7766; RFC 1035, section 4.2.2)."""
        try:
            while (message := await self._read_message(client)) is not None:
                if not self._bucket.take(self._loop.time()):
                    return
                response = self.answer(message)
                if response is None:
                    return
                await client.write(len(response).to_bytes(2) + response)
        except TimeoutError:
            return

    async def _read_message(self, client: Wire) -> bytes | None:
        async with asyncio.timeout(self._context.limits.dns_idle):
            if not await _fill(client, 2):
                return None
            size = int.from_bytes(client.pending[:2])
            if not 0 < size <= MAX_QUERY:
                record = Record(self._context.emit, pb.DNS, port=53)
                record.refuse(Refusal(pb.MALFORMED_DNS, f"a message of {size} bytes; 1 to {MAX_QUERY} are allowed"))
                return None
            if not await _fill(client, 2 + size):
                return None
            return client.take(2 + size)[2:]


async def _fill(client: Wire, size: int) -> bool:
    """Read until so many bytes are pending; False when the connection ends first."""
    while len(client.pending) < size:
        if not await client.fill():
            return False
    return True


def _without_service(name: str) -> str:
    """The host in a name such as `_http._tcp.host` (RFC 2782), which package managers ask for before the host's own."""
    while name.startswith("_") and "." in name:
        name = name.partition(".")[2]
    return name
