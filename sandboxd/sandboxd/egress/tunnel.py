"""TLS on port 443: opaque, once its ClientHello has named the target, unless the operator has it inspected.

Both ways in end in `_pass_tls`: a CONNECT request whose target was judged, and a captured connection whose address
stands for a name. Nothing goes upstream, not even a connection, before the ClientHello was read and names that host.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd.egress import answers
from sandboxd.egress.client_hello import ClientHelloReader
from sandboxd.egress.context import Context
from sandboxd.egress.policy import PORTS, parse_name
from sandboxd.egress.record import Record
from sandboxd.egress.refusal import Reason, Refusal, printable
from sandboxd.egress.relay import drain
from sandboxd.egress.upstream import Route
from sandboxd.egress.wire import Pulse, Wire


async def serve_connect(client: Wire, context: Context, record: Record, reason: Reason) -> None:
    """Answer a CONNECT request to a host that is allowed, and carry what follows. Raises Refusal before it answered."""
    route = await context.upstreams.resolve(record.host)
    record.status = 200
    await _pass_tls(client, context, record, reason, route)


async def serve_captured(client: Wire, context: Context, name: str) -> None:
    """Carry a captured connection to port 443 of the host that its address stands for."""
    record = Record(context.emit, pb.TRANSPARENT_TLS, host=name, port=443, target=f"{name}:443")
    try:
        reason = context.policy.judge(name)
    except Refusal as refusal:
        await _turn_away(client, record, refusal)
        return
    await _pass_tls(client, context, record, reason, None)


async def _pass_tls(client: Wire, context: Context, record: Record, reason: Reason, route: Route | None) -> None:
    """`route` is that of a CONNECT request, which waits for its answer; a captured connection has none yet."""
    try:
        first = await _read_hello(client, context, record.host, answers.established() if route else b"")
        if context.inspect is not None:
            client.pending[:0] = first
            await context.inspect(client, context, record)
            return
        if route is None:
            route = await context.upstreams.resolve(record.host)
        record.allow(reason)
        connection, record.address = await context.upstreams.dial(route, PORTS[record.layer])
    except Refusal as refusal:
        await _turn_away(client, record, refusal)
        return
    server = Wire(connection)
    try:
        await _carry(client, server, context, record, first)
    finally:
        server.close()


async def _read_hello(client: Wire, context: Context, host: str, answer: bytes) -> bytearray:
    """All that came up to the end of the ClientHello and with it. Raises Refusal unless it names the host."""
    reader = ClientHelloReader()
    try:
        async with asyncio.timeout(context.limits.head):
            await client.write(answer)
            while (hello := reader.feed(client.take(len(client.pending)))) is None:
                if not await client.fill():
                    raise Refusal(pb.NON_TLS_ON_443, f"the client hung up after {len(reader.received)} bytes")
    except TimeoutError:
        raise Refusal(pb.CLIENT_TIMEOUT, f"no ClientHello within {context.limits.head:g} s") from None
    except OSError:
        raise Refusal(pb.NON_TLS_ON_443, f"the client broke off after {len(reader.received)} bytes") from None
    try:
        name = parse_name(hello.server_name)
    except Refusal:
        name = ""
    if name != host:
        raise Refusal(pb.TLS_NAME_MISMATCH, f"server name '{printable(hello.server_name, 80)}', not {host}")
    return reader.received


async def _turn_away(client: Wire, record: Record, refusal: Refusal) -> None:
    """Tell why; the client is told by an alert, if it speaks TLS at all."""
    record.refuse(refusal)
    record.close()
    with suppress(OSError):
        if refusal.reason != pb.NON_TLS_ON_443:
            await client.write(answers.tls_alert(refusal.reason))
    await client.finish()


async def _carry(client: Wire, server: Wire, context: Context, record: Record, first: bytearray) -> None:
    """Carry bytes both ways until both sides have ended, or one broke, or a deadline passed."""
    limits = context.limits
    try:
        async with Pulse(limits.idle, limits.absolute) as pulse, asyncio.TaskGroup() as group:
            await server.write(first)
            record.bytes_up = len(first)
            group.create_task(_upwards(client, server, pulse, record))
            await _downwards(server, client, pulse, record)
    except* TimeoutError:  # before OSError, which it is one of
        _tell_silence(record, pb.UPSTREAM_TIMEOUT, f"nothing for {limits.idle:g} s, or {limits.absolute:g} s in all")
        client.abort()
        server.abort()
    except* OSError:
        # Whichever side broke: the other must not take what it got for the whole.
        _tell_silence(record, pb.UPSTREAM_CLOSED, "the connection broke")
        client.abort()
        server.abort()
    else:
        _tell_silence(record, pb.UPSTREAM_CLOSED, "closed without a byte")
    finally:
        record.close()


async def _upwards(client: Wire, server: Wire, pulse: Pulse, record: Record) -> None:
    async def consume(data: memoryview) -> bool:
        await server.write(data)
        record.bytes_up += len(data)
        return False

    await drain(client, pulse, consume)
    server.end_writing()


async def _downwards(server: Wire, client: Wire, pulse: Pulse, record: Record) -> None:
    async def consume(data: memoryview) -> bool:
        await client.write(data)
        record.bytes_down += len(data)
        return False

    await drain(server, pulse, consume)
    client.end_writing()


def _tell_silence(record: Record, reason: Reason, detail: str) -> None:
    """A tunnel that ends before the server said anything failed, whatever ended it."""
    if record.bytes_down == 0:
        record.fail(reason, detail)
