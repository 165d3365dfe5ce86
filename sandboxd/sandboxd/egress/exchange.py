"""One plain HTTP request and its answer, between a client and a server, with heads and bodies written anew.

A server's connection is kept for the next request of the same client to the same target, and for nothing else: two
hosts never share one, nor do two clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd.egress import http1
from sandboxd.egress.context import Context
from sandboxd.egress.framing import LAST_CHUNK, Body, chunk, reader
from sandboxd.egress.http1 import Framing, Request, Response
from sandboxd.egress.policy import Target
from sandboxd.egress.record import Record
from sandboxd.egress.refusal import Reason, Refusal
from sandboxd.egress.relay import drain
from sandboxd.egress.wire import ClientGoneError, Pulse, Wire, why

_MAX_INTERIM = 16  # 1xx responses before the final one; servers send one or two
# RFC 9110, section 9.2.2: these may be sent again when a kept connection turns out to be closed.
_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS"})
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

Write = Callable[[bytes | memoryview], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Server:
    """A connection to a server."""

    target: Target
    address: str
    wire: Wire


class _StaleError(Exception):
    """A kept connection that the server had closed by the time the request came."""


class Exchange:
    """One request on its way. After `run`, `keep_client` and `server` say what is good for another."""

    def __init__(self, client: Wire, context: Context, record: Record, request: Request, path: str) -> None:
        self.keep_client = False
        self.server: Server | None = None
        self._client = client
        self._context = context
        self._record = record
        self._request = request
        self._path = path
        self._answered = False  # a part of the final response has been sent to the client

    async def run(self, reason: Reason, kept: Server | None) -> None:
        """Carry the request and its answer; `reason` allows it, `kept` may serve it.

        Raises Refusal while the client can still be told, and ClientGoneError. When the answer has begun, a failure
        resets the client's connection: what it got is not the whole.
        """
        limits = self._context.limits
        target = Target(self._record.host, self._record.port)
        try:
            if kept is None or kept.target != target or not kept.wire.is_quiet():
                await self._connect(target, reason)
                kept = None
            else:
                self._use(kept)
                self._record.allow(reason)
            async with Pulse(limits.idle, limits.absolute) as pulse:
                try:
                    await self._carry(pulse, may_repeat=kept is not None)
                except _StaleError:
                    await self._connect(target, None)
                    await self._carry(pulse, may_repeat=False)
        except TimeoutError:
            self._fail(Refusal(pb.UPSTREAM_TIMEOUT, f"nothing for {limits.idle:g} s, or {limits.absolute:g} s in all"))
        except Refusal as refusal:
            self._fail(refusal)
        finally:
            if self.server is not None and not self.keep_client:
                self.server.wire.close()
                self.server = None

    def _fail(self, refusal: Refusal) -> None:
        self.keep_client = False
        if not self._answered:
            raise refusal
        self._record.fail(refusal.reason, refusal.detail)
        self._client.abort()

    async def _connect(self, target: Target, reason: Reason | None) -> None:
        """Make a connection. `reason` is told before anything goes upstream."""
        if self.server is not None:
            self.server.wire.close()
        route = await self._context.upstreams.resolve(target.host)
        if reason is not None:
            self._record.allow(reason)
        connection, address = await self._context.upstreams.dial(route, target.port)
        self._use(Server(target, address, Wire(connection)))

    def _use(self, server: Server) -> None:
        self.server = server
        self._record.address = server.address

    @property
    def _wire(self) -> Wire:
        assert self.server is not None
        return self.server.wire

    async def _carry(self, pulse: Pulse, *, may_repeat: bool) -> None:
        request = self._request
        has_body = request.framing is Framing.CHUNKED or request.length > 0
        may_repeat = may_repeat and not has_body and request.line.method in _REPEATABLE
        head = http1.request_head(request, self._path, self._record.host)
        upload: asyncio.Task[None] | None = None
        try:
            await self._to_server(head)
            if has_body:
                if request.expects_continue:
                    await self._to_client(_CONTINUE)
                upload = asyncio.create_task(self._upload(pulse))
            response = await self._response(upload, pulse)
            await self._download(response, pulse, upload)
        except Refusal as refusal:
            heard = self._record.bytes_down or self._wire.pending
            if may_repeat and refusal.reason == pb.UPSTREAM_CLOSED and not heard:
                raise _StaleError from None
            raise
        finally:
            if upload is not None:
                await _end(upload)

    async def _upload(self, pulse: Pulse) -> None:
        """Carry the request's body. Raises ClientGoneError, or Refusal."""
        framing = self._request.framing
        body = reader(framing, self._request.length)
        consume = _consumer(body, framing, self._client, self._to_server)
        try:
            whole = await drain(self._client, pulse, consume, lambda: body.wants)
        except OSError:
            raise ClientGoneError from None
        if not whole:
            raise ClientGoneError
        if framing is Framing.CHUNKED:
            await self._to_server(LAST_CHUNK)

    async def _response(self, upload: asyncio.Task[None] | None, pulse: Pulse) -> Response:
        """The final response's head, which may come before the body has been sent."""
        if upload is None:
            return await self._response_in_time(self._read_response(pulse))
        reading = asyncio.create_task(self._read_response(pulse))
        try:
            await asyncio.wait({reading, upload}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done() and (error := upload.exception()) is not None and not _is_hang_up(error):
                raise error
            return await self._response_in_time(reading)
        finally:
            await _end(reading)

    async def _response_in_time(self, reading: Awaitable[Response]) -> Response:
        try:
            async with asyncio.timeout(self._context.limits.answer):
                return await reading
        except TimeoutError:
            raise Refusal(pb.UPSTREAM_TIMEOUT, f"no answer within {self._context.limits.answer:g} s") from None

    async def _read_response(self, pulse: Pulse) -> Response:
        wire = self._wire
        for _ in range(_MAX_INTERIM):
            while (end := _upstream_head_end(wire.pending)) < 0:
                try:
                    more = await wire.fill()
                except OSError as error:
                    raise Refusal(pb.UPSTREAM_CLOSED, why(error)) from None
                if not more:
                    raise Refusal(pb.UPSTREAM_CLOSED, "the server hung up without an answer")
                pulse.beat()
            self._record.bytes_down += end
            response = http1.parse_response(wire.take(end), self._request.line.method)
            if response.status >= 200:
                return response
        raise Refusal(pb.UPSTREAM_MALFORMED, f"more than {_MAX_INTERIM} interim responses")

    async def _download(self, response: Response, pulse: Pulse, upload: asyncio.Task[None] | None) -> None:
        """Carry the response, and say what of the two connections can be used again."""
        record, wire = self._record, self._wire
        record.status = response.status
        if response.status >= 500:
            record.fail(pb.UPSTREAM_SERVER_ERROR, f"status {response.status}", response.status)
        framing = _towards_client(response.framing, self._request.line.minor)
        uploaded = upload is None or (upload.done() and not upload.cancelled() and upload.exception() is None)
        keep = self._request.keep_alive and framing is not Framing.UNTIL_CLOSE and uploaded
        self._answered = True
        await self._to_client(http1.response_head(response, framing, keep_alive=keep))
        body = reader(response.framing, response.length)
        if not body.complete:
            await self._download_body(body, framing, pulse)
        if framing is Framing.CHUNKED:
            await self._to_client(LAST_CHUNK)
        self.keep_client = keep
        if not (response.keep_alive and uploaded and not wire.pending):
            wire.close()
            self.server = None

    async def _download_body(self, body: Body, framing: Framing, pulse: Pulse) -> None:
        consume = _consumer(body, framing, self._wire, self._to_client)

        async def count(data: memoryview) -> bool:
            self._record.bytes_down += len(data)
            try:
                return await consume(data)
            except Refusal as refusal:
                raise Refusal(pb.UPSTREAM_MALFORMED, refusal.detail) from None

        try:
            whole = await drain(self._wire, pulse, count, lambda: body.wants)
        except TimeoutError:
            raise
        except OSError as error:
            raise Refusal(pb.UPSTREAM_CLOSED, why(error)) from None
        if not whole and not body.end():
            raise Refusal(pb.UPSTREAM_CLOSED, "the server hung up inside the body (RFC 9112, section 8)")

    async def _to_client(self, data: bytes | memoryview) -> None:
        try:
            await self._client.write(data)
        except OSError:
            raise ClientGoneError from None

    async def _to_server(self, data: bytes | memoryview) -> None:
        try:
            await self._wire.write(data)
        except OSError as error:
            raise Refusal(pb.UPSTREAM_CLOSED, why(error)) from None
        self._record.bytes_up += len(data)


def _consumer(
    body: Body, framing: Framing, source: Wire, write: Write
) -> Callable[[memoryview], Coroutine[Any, Any, bool]]:
    """Passes on a body's payload in a framing of its own; what is not of the body goes back to where it came from."""

    async def consume(data: memoryview) -> bool:
        payload, rest = body.feed(data)
        if framing is Framing.CHUNKED and payload:
            await write(b"".join((chunk(sum(map(len, payload))), *payload, b"\r\n")))
        else:
            for part in payload:
                await write(part)
        if rest:
            source.pending[:0] = rest
        return body.complete

    return consume


def _upstream_head_end(buffer: bytearray) -> int:
    try:
        return http1.head_end(buffer, http1.MAX_RESPONSE_HEAD)
    except Refusal as refusal:
        raise Refusal(pb.UPSTREAM_MALFORMED, refusal.detail) from None


def _towards_client(framing: Framing, minor: int) -> Framing:
    """How a response's body is framed for a client of HTTP/1.minor (RFC 9112, section 6.3)."""
    if framing in (Framing.CHUNKED, Framing.UNTIL_CLOSE):
        return Framing.CHUNKED if minor == 1 else Framing.UNTIL_CLOSE
    return framing


async def _end(task: asyncio.Task[Any]) -> None:
    """Cancel a task that may still run, and wait until it has let go of its socket. What it raised matters no more."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()


def _is_hang_up(error: BaseException) -> bool:
    """A server that stops reading a body may have answered already, so its answer is read all the same."""
    return isinstance(error, Refusal) and error.reason == pb.UPSTREAM_CLOSED
