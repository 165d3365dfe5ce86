"""The ways into a gateway, as one table: what a client of each would send to reach a host.

A test that judges verdicts runs over `PATHS`, so a path that is added here is judged by all of them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from quickstarted_api.v1 import sandbox_pb2 as pb

from tests.support.dns_message import question
from tests.support.gateway import Rig, client_hello, connect_request

Layer: TypeAlias = pb.EgressLayer.ValueType


@dataclass(frozen=True)
class Outcome:
    """What a client saw: whether it got through, the HTTP status (0 where there is none), and the bytes."""

    through: bool
    status: int
    answer: bytes


@dataclass(frozen=True)
class Path:
    """One way in. `ask` tries to reach a host by it; `status` says that refusals come as HTTP statuses."""

    name: str
    layer: Layer
    ask: Callable[[Rig, str], Awaitable[Outcome]]
    status: bool = True
    dials: bool = True


async def _connect(rig: Rig, host: str) -> Outcome:
    client = await rig.connect("proxy")
    await client.send(connect_request(f"{host}:443"))
    answer = await client.until(b"\r\n\r\n")
    if status_of(answer) != 200:
        return _http(answer + await client.rest())
    await client.send(client_hello(_canonical(host)) + b"\r\n\r\n")
    client.end_writing()
    rest = await client.rest()
    return Outcome(rest.endswith(b"ok"), 200, rest)


async def _absolute(rig: Rig, host: str) -> Outcome:
    request = f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    return _http(await rig.ask("proxy", request.encode()))


async def _captured_http(rig: Rig, host: str) -> Outcome:
    request = f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    return _http(await rig.ask("80", request.encode(), _canonical(host)))


async def _captured_tls(rig: Rig, host: str) -> Outcome:
    client = await rig.connect("443", _canonical(host))
    await client.send(client_hello(host.removesuffix(".")) + b"\r\n\r\n")
    client.end_writing()
    rest = await client.rest()
    return Outcome(rest.endswith(b"ok"), 0, rest)


async def _dns(rig: Rig, host: str) -> Outcome:
    query = question(host.removesuffix(".").encode().split(b"."))
    answer = await ask_udp(rig, query)
    return Outcome(answer[3] & 0xF == 0 and answer[6:8] == b"\0\1", 0, answer)


PATHS = (
    Path("CONNECT", pb.CONNECT, _connect),
    Path("absolute-URI", pb.HTTP, _absolute),
    Path("captured 80", pb.TRANSPARENT_HTTP, _captured_http),
    Path("captured 443", pb.TRANSPARENT_TLS, _captured_tls, status=False),
    Path("DNS", pb.DNS, _dns, status=False, dials=False),
)


async def ask_udp(rig: Rig, query: bytes) -> bytes:
    """The answer to a datagram."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setblocking(False)
        client.connect(rig.planted.dns_udp.getsockname())
        await loop.sock_sendall(client, query)
        async with asyncio.timeout(10):
            return await loop.sock_recv(client, 65536)


def status_of(answer: bytes) -> int:
    """The status of an HTTP response."""
    assert answer.startswith(b"HTTP/1.1 "), answer
    return int(answer[9:12])


def _http(answer: bytes) -> Outcome:
    status = status_of(answer)
    return Outcome(status == 200, status, answer)


def _canonical(host: str) -> str:
    return host.lower().removesuffix(".")
