"""HTTP connections of a sandbox: to the proxy, and captured on port 80. Each request is judged anew.

A request is understood in a fixed order: request line, target, the other fields, the policy, Host against target. Only
then is a name resolved, and only then something said upstream.
"""

from __future__ import annotations

import asyncio
import time

from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd.egress import answers, http1
from sandboxd.egress.context import Context
from sandboxd.egress.exchange import Exchange, Server
from sandboxd.egress.http1 import Request, RequestLine
from sandboxd.egress.policy import PORTS, Target, parse_authority
from sandboxd.egress.record import Record
from sandboxd.egress.refusal import Layer, Refusal, printable
from sandboxd.egress.tunnel import serve_connect
from sandboxd.egress.wire import ClientGoneError, Wire


async def serve_http(client: Wire, context: Context, captured: str | None = None, inside: Layer | None = None) -> None:
    """Serve a connection until it ends. `captured` is the name that it leads to, when it was not made to the proxy.

    `inside` is the path of the TLS connection that this one is the inside of, when it is inspected.
    """
    session = _Session(client, context, captured, inside)
    try:
        while await session.serve_one():
            pass
    except (ClientGoneError, OSError):
        client.abort()
    finally:
        session.end()


class _Session:
    def __init__(self, client: Wire, context: Context, captured: str | None, inside: Layer | None) -> None:
        self._client = client
        self._context = context
        self._captured = captured
        self._inside = inside
        self._layer = inside or (pb.HTTP if captured is None else pb.TRANSPARENT_HTTP)
        self._kept: Server | None = None
        self._first = True

    def end(self) -> None:
        if self._kept is not None:
            self._kept.wire.close()

    async def serve_one(self) -> bool:
        """Serve one request; whether another may follow."""
        port = 0 if self._captured is None else PORTS[self._layer]
        record = Record(self._context.emit, self._layer, host=self._captured or "", port=port)
        try:
            head = await self._read_head()
            if head is None:
                return False
            if (wait := self._context.requests.reserve(time.monotonic())) > 0:
                await asyncio.sleep(wait)
            record.began = time.monotonic()
            record.target = printable(head.partition(b"\r\n")[0])
            return await self._serve(head, record)
        except Refusal as refusal:
            record.target = record.target or printable(self._client.pending.partition(b"\r\n")[0])
            record.refuse(refusal)
            record.close()
            with_body = record.method != "HEAD"
            await self._client.write(answers.refusal(refusal.reason, refusal.detail, record.host, with_body=with_body))
            await self._client.finish()
            return False
        finally:
            record.close()

    async def _read_head(self) -> bytes | None:
        """The next request's head; None when the client has no more to say."""
        client, limits = self._client, self._context.limits
        try:
            if not self._first:
                async with asyncio.timeout(limits.keep_alive):
                    await client.readable()
            self._first = False
            async with asyncio.timeout(limits.head):
                while (end := http1.head_end(client.pending, http1.MAX_REQUEST_HEAD)) < 0:
                    if not await client.fill():
                        if not client.pending:
                            return None
                        raise Refusal(pb.MALFORMED_REQUEST, "the connection ended in the head (RFC 9112, section 8)")
        except TimeoutError:
            if not client.pending:
                return None
            raise Refusal(pb.CLIENT_TIMEOUT, f"no whole request head within {limits.head:g} s") from None
        return client.take(end)

    async def _serve(self, head: bytes, record: Record) -> bool:
        line = http1.parse_request_line(head)
        record.method = line.method
        record.target = printable(line.target)
        if line.method == "CONNECT":
            record.layer = pb.CONNECT if self._captured is None else record.layer
        if self._inside is not None and line.method not in self._context.inspected_methods:
            raise Refusal(pb.METHOD_NOT_ALLOWED, f"{line.method} is not passed on where the operator inspects")
        leads_to = None if self._captured is None else Target(self._captured, PORTS[self._layer])
        found = _target(line, leads_to)
        if found is None:
            return await self._serve_itself(http1.parse_request(line, head), record)
        target, record.path = found
        record.host, record.port = target.host, target.port
        request = http1.parse_request(line, head)
        reason = self._context.policy.judge_target(record.layer, target)
        _check_host(request, target, PORTS[record.layer])
        if line.method == "CONNECT":
            await serve_connect(self._client, self._context, record, reason)
            return False
        _check_upgrade(request)
        exchange = Exchange(self._client, self._context, record, request, record.path)
        kept, self._kept = self._kept, None
        try:
            await exchange.run(reason, kept)
        finally:
            if kept is not None and kept is not exchange.server:
                kept.wire.close()
        self._kept = exchange.server
        record.close()
        if not exchange.keep_client:
            await self._client.finish()
        return exchange.keep_client

    async def _serve_itself(self, request: Request, record: Record) -> bool:
        """A request in origin-form, as to a web server. Nothing is asked for but the gateway: no decision, no event."""
        host = request.host or "localhost"
        try:
            record.host = parse_authority(host, 80).host
        except Refusal as refusal:
            if refusal.reason == pb.SELF_CONNECTION and request.line.target == b"/":
                await self._client.write(answers.banner())
                await self._client.finish()
                return False
            raise
        self._context.policy.judge(record.host)
        raise Refusal(pb.MALFORMED_TARGET, "a path alone; a proxy takes a whole URL (RFC 9112, section 3.2.2)")


def _target(line: RequestLine, captured: Target | None) -> tuple[Target, str] | None:
    """Where a request should go, and the path there; None for a path alone on a connection to the proxy itself."""
    if line.method == "TRACE" or (line.method == "CONNECT" and captured is not None):
        raise Refusal(pb.METHOD_NOT_ALLOWED, f"{line.method} is not passed on (RFC 9110, section 9.3)")
    if captured is not None and line.minor == 0:
        raise Refusal(pb.MALFORMED_REQUEST, "HTTP/1.0, which need not name a host; use HTTP/1.1")
    text = http1.target_text(line)
    if line.method == "CONNECT":
        return parse_authority(text), ""
    if text.startswith("/"):
        return None if captured is None else (captured, text)
    authority, path = http1.split_absolute(text)
    target = parse_authority(authority, 80)
    if captured is not None and target != captured:
        found = f"a URL of {target.host}:{target.port} on a connection to {captured.host}:{captured.port}"
        raise Refusal(pb.AUTHORITY_MISMATCH, found)
    return target, path


def _check_host(request: Request, target: Target, default_port: int) -> None:
    """Host has to name the target (RFC 9110, section 7.2; section 15.5.20 for the status)."""
    if request.host is None:
        return
    try:
        named = parse_authority(request.host, default_port)
    except Refusal as refusal:
        if refusal.reason == pb.MALFORMED_TARGET:
            raise Refusal(pb.MALFORMED_REQUEST, f"Host: {refusal.detail}") from None
        named = None
    if named != target:
        found = printable(request.host, 80)
        raise Refusal(pb.AUTHORITY_MISMATCH, f"Host is '{found}', the target {target.host}:{target.port}")


def _check_upgrade(request: Request) -> None:
    """An offer of h2c is dropped, and HTTP/1.1 goes on; a client that offers something else can't go on without it."""
    offered = http1.upgrades(request) - {b"h2c", b"http/1.1"}
    if offered:
        raise Refusal(pb.UPGRADE_NOT_ALLOWED, f"an upgrade to {printable(b', '.join(sorted(offered)), 60)}")
