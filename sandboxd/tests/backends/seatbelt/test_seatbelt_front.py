"""The front of a seatbelt sandbox's gateway: who has the secret is passed on, and nobody else."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quickstarted_api.v1 import sandbox_pb2 as pb
from sandboxd.backends.base import Planted
from sandboxd.backends.seatbelt.front import Front, unreachable_sockets
from sandboxd.egress.gateway import Gateway
from sandboxd.egress.policy import Policy

HEAD = b"GET http://docs.test/ HTTP/1.1\r\nHost: docs.test\r\n"


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    made = Front()
    yield made
    await made.close()


def credentials(front: Front) -> bytes:
    secret = front.url.removeprefix("http://").partition("@")[0]
    return b"Proxy-Authorization: Basic " + base64.b64encode(secret.encode()) + b"\r\n"


async def answered(front: Front, request: bytes) -> bytes:
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        writer.write(request)
        answer = await reader.read()
        writer.close()
        return answer


async def test_who_has_the_secret_reaches_the_gateway_and_its_policy(front: Front) -> None:
    decisions: list[pb.EgressDecision] = []
    dns_udp, dns_tcp = unreachable_sockets()
    planted = Planted(front.gateway, dns_udp, dns_tcp, {}, redirected=False, pool="127.1.0.0/16")
    gateway = Gateway(Policy(docs=("docs.test",)), planted, emit=decisions.append)
    await gateway.start()
    await front.start()
    answer = await answered(front, HEAD + credentials(front) + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert [decision.reason for decision in decisions if not decision.closed] == [pb.DOCS_HOST_REQUIRES_READ_DOCS]
    await gateway.close()


@pytest.mark.parametrize(
    "fields",
    [
        b"",
        b"Proxy-Authorization: Basic c2FuZGJveDo=\r\n",
        b"Proxy-Authorization: Bearer x\r\n",
        b"Proxy-Authorization:\r\n",
        b"Authorization: Basic c2FuZGJveDo=\r\n",
    ],
)
async def test_who_has_not_is_refused_before_anything_is_passed_on(front: Front, fields: bytes) -> None:
    await front.start()
    assert (await answered(front, HEAD + fields + b"\r\n")).startswith(b"HTTP/1.1 407 ")
    front.gateway.setblocking(False)
    with pytest.raises(BlockingIOError):
        front.gateway.accept()


async def test_two_credentials_are_none(front: Front) -> None:
    await front.start()
    twice = credentials(front) + b"Proxy-Authorization: Basic eA==\r\n"
    assert (await answered(front, HEAD + twice + b"\r\n")).startswith(b"HTTP/1.1 407 ")


async def test_a_head_that_is_too_long_is_cut_off(front: Front) -> None:
    await front.start()
    assert await answered(front, b"GET / HTTP/1.1\r\nX: " + b"x" * (64 << 10)) == b""


async def test_what_is_passed_on_has_no_credentials_and_every_byte_after_the_head(front: Front) -> None:
    await front.start()
    loop = asyncio.get_running_loop()
    asking = asyncio.ensure_future(
        answered(front, b"CONNECT a.test:443 HTTP/1.1\r\n" + credentials(front) + b"\r\nmore")
    )
    connection, _ = await loop.sock_accept(front.gateway)
    connection.setblocking(False)
    received = b""
    async with asyncio.timeout(20):
        while b"more" not in received:
            received += await loop.sock_recv(connection, 4096)
    assert received == b"CONNECT a.test:443 HTTP/1.1\r\n\r\nmore"
    await loop.sock_sendall(connection, b"answer")
    connection.close()
    assert await asking == b"answer"


@given(field=st.binary(max_size=80).filter(lambda data: b"\n" not in data and b"\r" not in data))
def test_no_other_credentials_are_taken(field: bytes) -> None:
    front = Front()
    try:
        assert front.admitted(HEAD + b"Proxy-Authorization: " + field + b"\r\n\r\n") is None
        assert front.admitted(HEAD + credentials(front) + b"\r\n") == HEAD + b"\r\n"
    finally:
        asyncio.run(front.close())
        front.gateway.close()


async def test_nothing_is_left_of_it(front: Front) -> None:
    path = Path(front.gateway.getsockname())
    assert path.exists()
    await front.start()
    await front.close()
    await front.close()
    assert not path.parent.exists()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", front.port)
