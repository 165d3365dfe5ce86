"""Inspection: a request inside TLS is judged like a plain one, and the server has to be who it should be."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator

import pytest
from quickstarted_api.v1 import sandbox_pb2 as pb
from sandboxd.egress.authority import Authority
from sandboxd.egress.inspection import READ_ONLY, inspector
from sandboxd.egress.limits import GatewayLimits
from sandboxd.egress.unwrap import TlsError, unwrapped
from sandboxd.egress.wire import Wire

from tests.support.gateway import OK, Client, Rig, Upstream, connect_request, running

WORLD = Authority("the world's")  # what a real server's certificate comes from
OWN = Authority("the sandbox's")
WAYS = ("CONNECT", "captured 443")


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.pem.decode())


class TlsUpstream(Upstream):
    """An upstream behind TLS, as `name`."""

    def __init__(self, name: str = "registry.test", authority: Authority = WORLD, answer: bytes = OK) -> None:
        super().__init__()
        self._context = authority.context(name)
        self._answered = answer

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._requests, "127.0.0.1", 0, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received = bytearray()
        self.connections.append(received)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                received += await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answered)
        writer.close()


@contextlib.asynccontextmanager
async def rig(upstream: Upstream | None = None) -> AsyncIterator[Rig]:
    inspect = inspector(OWN, trusting(WORLD))
    limits = GatewayLimits(connect=2.0)
    upstream = upstream or TlsUpstream()
    async with running(upstream=upstream, limits=limits, inspect=inspect, inspected_methods=READ_ONLY) as made:
        yield made


@contextlib.asynccontextmanager
async def inside(made: Rig, way: str, name: str = "registry.test", trust: Authority = OWN) -> AsyncIterator[Client]:
    """The plain inside of a client's TLS connection through the gateway."""
    if way == "CONNECT":
        outer = await made.connect("proxy")
        await outer.send(connect_request(f"{name}:443"))
        await outer.until(b"\r\n\r\n")
    else:
        outer = await made.connect("443", name)
    plain: socket.socket
    async with unwrapped(Wire(outer.socket), trusting(trust), server=False, name=name, seconds=5) as plain:
        yield Client(plain)
        plain.close()


def request(method: str = "GET", path: str = "/a?b=c", host: str = "registry.test", body: bytes = b"") -> bytes:
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{length}\r\n".encode() + body


@pytest.mark.parametrize("way", WAYS)
async def test_a_read_goes_through_and_its_whole_url_is_on_record(way: str) -> None:
    async with rig() as made, inside(made, way) as client:
        await client.send(request())
        assert (await client.until(b"ok")).startswith(b"HTTP/1.1 200")
        [event] = made.decisions()
        layer = pb.CONNECT if way == "CONNECT" else pb.TRANSPARENT_TLS
        assert (event.layer, event.verdict, event.reason) == (layer, pb.ALLOWED, pb.REGISTRY_HOST)
        assert (event.host, event.port, event.method, event.path) == ("registry.test", 443, "GET", "/a?b=c")
        assert made.upstream.received.startswith(b"GET /a?b=c HTTP/1.1\r\nHost: registry.test\r\n")


@pytest.mark.parametrize("way", WAYS)
async def test_requests_on_one_connection_are_judged_one_by_one(way: str) -> None:
    async with rig() as made, inside(made, way) as client:
        for _ in range(3):
            await client.send(request())
            await client.until(b"ok")
        assert len(made.decisions()) == 3
        assert len(made.upstream.connections) == 1


REFUSED = {
    "T09 T10 another Host": (request(host="docs.test"), b"421", "AUTHORITY_MISMATCH"),
    "T09 a name below": (request(host="a.registry.test"), b"421", "AUTHORITY_MISMATCH"),
    "T11 an upload": (request("PUT", "/pkg", body=b"stolen"), b"405", "METHOD_NOT_ALLOWED"),
    "T11 a form": (request("POST", "/", body=b"x=1"), b"405", "METHOD_NOT_ALLOWED"),
    "a tunnel in the tunnel": (
        b"CONNECT docs.test:443 HTTP/1.1\r\nHost: docs.test\r\n\r\n",
        b"405",
        "METHOD_NOT_ALLOWED",
    ),
    "another URL": (b"GET http://docs.test/ HTTP/1.1\r\nHost: docs.test\r\n\r\n", b"421", "AUTHORITY_MISMATCH"),
    "two lengths": (
        b"GET / HTTP/1.1\r\nHost: registry.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"400",
        "MALFORMED_REQUEST",
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("data", "status", "reason"), REFUSED.values(), ids=REFUSED)
async def test_what_is_refused_inside(way: str, data: bytes, status: bytes, reason: str) -> None:
    async with rig() as made, inside(made, way) as client:
        await client.send(data)
        assert (await client.until(b"\r\n")).split()[1] == status
        assert made.reasons() == [reason]
        assert made.dialled == []


@pytest.mark.parametrize(
    "upstream",
    [TlsUpstream("evil.test"), TlsUpstream(authority=Authority("nobody's")), Upstream()],
    ids=["T08 a certificate of another host", "T08 a certificate of nobody", "no TLS at all"],
)
async def test_a_server_that_is_not_the_host_gets_no_request(upstream: Upstream) -> None:
    async with rig(upstream) as made, inside(made, "CONNECT") as client:
        await client.send(request())
        assert (await client.until(b"\r\n")).split()[1] == b"502"
        assert made.reasons() == ["REGISTRY_HOST", "CONNECT_FAILURE"]
        assert b"GET" not in upstream.received


async def test_a_client_that_does_not_trust_the_gateway_is_told_apart() -> None:
    async with rig() as made:
        with pytest.raises(TlsError):
            async with inside(made, "captured 443", trust=WORLD):
                pass
        events = await made.until(made.decisions, 1)
        assert events[0].verdict == pb.REFUSED
        assert "refused the inspecting gateway" in events[0].detail


@pytest.mark.parametrize("way", WAYS)
async def test_a_large_answer_arrives_whole(way: str) -> None:
    body = bytes(range(256)) * 20_000
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    async with rig(TlsUpstream(answer=answer)) as made, inside(made, way) as client:
        await client.send(request())
        data = bytearray()
        while len(data.partition(b"\r\n\r\n")[2]) < len(body):
            data += await client.receive()
        assert bytes(data.partition(b"\r\n\r\n")[2]) == body


def test_two_sandboxes_do_not_trust_each_others_authority() -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(Authority("one").context("registry.test"), trusting(Authority("other")))
    _handshake(OWN.context("registry.test"), trusting(OWN))


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(down, up, server_hostname="registry.test"),
        server.wrap_bio(up, down, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
