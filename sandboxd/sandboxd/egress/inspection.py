"""TLS looked into, where the operator asks for it: each request inside is judged like a plain one, by its full URL.

It closes what an opaque tunnel leaves open: a Host that is not the server name, and uploads to an allowed registry. The
sandbox trusts this daemon's authority for it; the daemon itself verifies the server for the host that was judged, and
speaks HTTP/1.1 on both sides, so that no connection carries requests to two hosts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import ssl

from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd.egress.authority import Authority
from sandboxd.egress.context import Context, Inspect
from sandboxd.egress.record import Record
from sandboxd.egress.refusal import Refusal
from sandboxd.egress.session import serve_http
from sandboxd.egress.unwrap import TlsError, unwrapped
from sandboxd.egress.upstream import Route, Upstreams
from sandboxd.egress.wire import Wire

READ_ONLY = frozenset({"GET", "HEAD"})


def client_context(ca_bundle: str | None) -> ssl.SSLContext:
    """How servers are verified: by the operator's bundle, or by the system's certificates."""
    context = ssl.create_default_context(cafile=ca_bundle)
    context.set_alpn_protocols(["http/1.1"])
    return context


def inspector(authority: Authority, trust: ssl.SSLContext) -> Inspect:
    """What serves the inside of one sandbox's TLS connections."""

    async def inspect(client: Wire, context: Context, record: Record) -> None:
        seconds = context.limits.head
        async with contextlib.AsyncExitStack() as stack:
            try:
                inside = await stack.enter_async_context(
                    unwrapped(client, authority.context(record.host), server=True, seconds=seconds)
                )
            except TlsError as error:
                # It does not trust the bundle that it was given, most likely: certificates of its own.
                raise Refusal(pb.NON_TLS_ON_443, f"the client refused the inspecting gateway: {error}") from None
            upstreams = _VerifiedUpstreams(context.upstreams, trust, stack, context.limits.connect)
            seen = dataclasses.replace(context, upstreams=upstreams)
            plain = Wire(inside)
            await serve_http(plain, seen, record.host, record.layer)
            plain.close()
        client.close()

    return inspect


class _VerifiedUpstreams(Upstreams):
    """Connections over TLS, to servers that prove to be the host that was judged."""

    def __init__(
        self, plain: Upstreams, trust: ssl.SSLContext, stack: contextlib.AsyncExitStack, seconds: float
    ) -> None:
        self._plain = plain
        self._trust = trust
        self._stack = stack
        self._seconds = seconds

    async def resolve(self, host: str) -> Route:
        return await self._plain.resolve(host)

    async def dial(self, route: Route, port: int) -> tuple[socket.socket, str]:
        connection, address = await self._plain.dial(route, port)
        wire = Wire(connection)
        self._stack.callback(wire.close)
        try:
            inside = await self._stack.enter_async_context(
                unwrapped(wire, self._trust, server=False, name=route.host, seconds=self._seconds)
            )
        except TlsError as error:
            wire.close()
            raise Refusal(pb.CONNECT_FAILURE, f"{address}: TLS: {error}") from None
        return inside, address
