"""What one sandbox may take: connections, time, descriptors; and what the others notice of it."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from quickstarted_api.v1 import sandbox_pb2 as pb
from sandboxd.egress.limits import DescriptorBudget, GatewayLimits, NameBudget, TokenBucket

from tests.support.gateway import OK, Client, Rig, Upstream, client_hello, connect_request, running
from tests.support.paths import PATHS, status_of

GET = b"GET http://registry.test/ HTTP/1.1\r\nHost: registry.test\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("kind", ["proxy", "80"])
async def test_s11_a_head_has_to_come_in_time_however_it_trickles(kind: str) -> None:
    async with running(limits=GatewayLimits(head=0.5)) as rig:
        client = await rig.connect(kind)
        trickle = asyncio.create_task(_trickle(client))
        answer = await client.rest()
        trickle.cancel()
        assert status_of(answer) == 408
        assert rig.reasons() == ["CLIENT_TIMEOUT"]


async def _trickle(client: Client) -> None:
    for byte in b"GET http://registry.test/" + b"a" * 10000:
        await client.send(bytes([byte]))
        await asyncio.sleep(0.01)


async def test_s11_a_connection_without_a_byte_is_closed_without_an_event() -> None:
    async with running(limits=GatewayLimits(head=0.05)) as rig:
        client = await rig.connect("proxy")
        assert await client.rest() == b""
        assert rig.events == []


async def test_a_connection_between_two_requests_is_closed_without_an_event() -> None:
    async with running(limits=GatewayLimits(keep_alive=0.05)) as rig:
        client = await rig.connect("proxy")
        await client.send(GET.replace(b"Connection: close\r\n", b""))
        assert (await client.rest()).endswith(b"ok")
        assert rig.reasons() == ["REGISTRY_HOST"]


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(65536):
        pass


async def _one_byte_at_a_time(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for byte in OK:
        writer.write(bytes([byte]))
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("handler", [_silent, _one_byte_at_a_time], ids=["says nothing", "says a byte now and then"])
@pytest.mark.parametrize("body", [b"", b"hello"], ids=["GET", "POST"])
async def test_s17_a_server_that_does_not_answer_in_time_gives_504(handler: object, body: bytes) -> None:
    request = GET
    if body:
        request = GET.replace(b"GET", b"POST").replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\nhello")
    async with running(upstream=Upstream(handler), limits=GatewayLimits(answer=0.2)) as rig:  # type: ignore[arg-type]  # both are handlers
        answer = await rig.ask("proxy", request)
        assert status_of(answer) == 504
        assert rig.reasons() == ["REGISTRY_HOST", "UPSTREAM_TIMEOUT"]


async def test_s17_a_server_that_stalls_inside_a_body_resets_the_client() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await reader.read()

    async with running(upstream=Upstream(handler), limits=GatewayLimits(idle=0.7)) as rig:
        assert (await rig.ask("proxy", GET)).endswith(b"half<reset>")
        assert rig.reasons() == ["REGISTRY_HOST", "UPSTREAM_TIMEOUT"]


async def test_s17_no_connection_in_time_gives_504() -> None:
    async with running(limits=GatewayLimits(connect=2.0, attempt=0.3)) as rig:

        async def never(address: str, port: int) -> socket.socket:
            rig.dialled.append((address, port))
            await asyncio.Event().wait()
            raise AssertionError

        rig.gateway._context.upstreams._dialler = never
        rig.answers["registry.test"] = ("203.0.113.7", "203.0.113.8", "203.0.113.9")
        assert status_of(await rig.ask("proxy", GET)) == 504
        assert len(rig.dialled) >= 2
        assert rig.reasons() == ["REGISTRY_HOST", "UPSTREAM_TIMEOUT"]


async def test_s17_a_resolver_that_does_not_answer_in_time_gives_502() -> None:
    async with running(limits=GatewayLimits(resolve=0.05)) as rig:

        async def never(host: str) -> list[str]:
            await asyncio.Event().wait()
            raise AssertionError

        rig.gateway._context.upstreams._resolver = never
        assert status_of(await rig.ask("proxy", GET)) == 502
        assert rig.reasons() == ["DNS_FAILURE"]


async def test_s14_connections_beyond_the_cap_are_turned_away_and_no_other_sandbox_notices() -> None:
    async with running(limits=GatewayLimits(connections=128)) as flooder, running() as other:
        held = [await flooder.connect("proxy") for _ in range(128)]
        excess = [await flooder.connect("proxy") for _ in range(300)]
        answers = [await client.rest() for client in excess]
        assert {status_of(answer) for answer in answers} == {503}
        assert flooder.reasons() == ["TOO_MANY_CONNECTIONS"] * 300
        assert await (await flooder.connect("443")).rest() == b"<reset>"
        assert status_of(await flooder.ask("80", b"")) == 503
        for path in PATHS:
            assert (await path.ask(other, "registry.test")).through, path.name
        assert (await PATHS[-1].ask(flooder, "registry.test")).through, "DNS has a count of its own"
        await held[0].send(GET)
        assert (await held[0].rest()).endswith(b"ok"), "a connection that is open is served"
        held[0].socket.close()
        async with asyncio.timeout(10):
            while status_of(await flooder.ask("proxy", GET)) == 503:
                pass


@pytest.fixture
def few_descriptors() -> Iterator[int]:
    """A limit of 120 descriptors more than are open now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = len(list(Path("/proc/self/fd").iterdir())) + 120
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_s15_the_accept_loop_survives_a_lack_of_descriptors(few_descriptors: int) -> None:
    budget = DescriptorBudget()
    budget.take = lambda held: True  # type: ignore[method-assign]  # the worst case: nobody kept any back
    async with running(descriptors=budget, limits=GatewayLimits(connections=1000)) as rig:
        clients: list[Client] = []
        with pytest.raises(OSError, match="Too many open files"):
            await _connect_without_end(rig, clients)
        async with asyncio.timeout(10):
            await _until_it_waits(rig)
        for client in clients:
            client.socket.close()
        assert status_of(await rig.ask("proxy", GET)) == 200


async def _until_it_waits(rig: Rig) -> None:
    """An accept loop that finds no descriptor has to wait, not to spin."""
    while not any(acceptor._pause for acceptor in rig.gateway._acceptors):  # noqa: ASYNC110 - nothing is set
        await asyncio.sleep(0)


async def _connect_without_end(rig: Rig, clients: list[Client]) -> None:
    while True:
        clients.append(await rig.connect("proxy"))


async def test_s15_descriptors_are_kept_back_for_the_rest_of_the_daemon(few_descriptors: int) -> None:
    budget, limits = DescriptorBudget(), GatewayLimits(connections=1000)
    async with running(descriptors=budget, limits=limits) as rig, running(descriptors=budget) as other:
        half = (few_descriptors // 2 // DescriptorBudget.PER_CONNECTION + 1) // 2
        for _ in range(half):
            await (await rig.connect("proxy")).send(b"G")
        for _ in range(5):
            last = await rig.connect("proxy")
            assert status_of(await last.rest()) == 503
        assert set(rig.reasons()) == {"TOO_MANY_CONNECTIONS"}
        assert status_of(await other.ask("proxy", GET)) == 200, "one sandbox can't take what another needs"


async def test_new_connections_beyond_the_rate_wait_and_are_served() -> None:
    async with running(limits=GatewayLimits(accepts=50, accept_burst=5)) as rig:
        answers = [await rig.ask("proxy", GET) for _ in range(12)]
        assert [status_of(answer) for answer in answers] == [200] * 12
        assert "RATE_LIMITED" in rig.reasons()


async def test_requests_beyond_the_rate_are_served_later() -> None:
    async with running(limits=GatewayLimits(requests=100, request_burst=5)) as rig:
        client = await rig.connect("proxy")
        began = asyncio.get_running_loop().time()
        await client.send(GET.replace(b"Connection: close\r\n", b"") * 14 + GET)
        assert (await client.rest()).count(b"HTTP/1.1 200 OK") == 15
        assert asyncio.get_running_loop().time() - began > 0.09, "ten of fifteen had to wait for a token each"


async def test_s19_a_gateway_that_goes_away_fails_closed_and_leaves_nothing() -> None:
    async with AsyncExitStack() as stack:
        rig = await stack.enter_async_context(running(upstream=Upstream(_silent)))
        tunnel = await rig.connect("proxy")
        await tunnel.send(connect_request() + client_hello("registry.test"))
        await tunnel.until(b"\r\n\r\n")
        request, waiting, dns = await rig.connect("proxy"), await rig.connect("443"), await rig.connect("dns")
        await request.send(GET)
        await rig.until(rig.decisions, 2)
        proxy = rig.planted.proxy.getsockname()
        await rig.gateway.close()
        for client in (tunnel, request, waiting, dns):
            assert await client.rest() == b"<reset>"
        assert len(await rig.closed(2)) == 2
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(proxy)
        assert rig.gateway._tasks == set()


async def test_a_client_that_goes_away_while_a_server_is_waited_for_leaves_nothing() -> None:
    async with running(upstream=Upstream(_endless)) as rig:
        client = await rig.connect("proxy")
        await client.send(GET)
        await client.receive()
        client.socket.close()
        [end] = await rig.closed()
        assert end.bytes_down > 0
        assert rig.reasons() == ["REGISTRY_HOST"], "a client that hangs up is no failure of the server"


async def _endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(bytes(65536))
        await writer.drain()


async def test_a_thousand_open_tunnels_are_served_and_small() -> None:
    """An idle tunnel holds no buffer: 1,000 of them, over eight gateways, stay under 40 MB of this process."""
    hello = client_hello("registry.test")
    async with AsyncExitStack() as stack:
        rigs = [await stack.enter_async_context(running(limits=GatewayLimits(connections=128))) for _ in range(8)]
        before = _resident()
        clients = [await rig.connect("proxy") for rig in rigs for _ in range(125)]
        for client in clients:
            await client.send(connect_request() + hello + b"\r\n\r\n")
        for client in clients:
            await client.until(b"ok")
        assert sum(len(rig.upstream.connections) for rig in rigs) == 1000
        assert _resident() - before < 40 << 20
        for client in clients:
            await client.send(b"again\r\n\r\n")
        for client in clients:
            assert await client.receive() == OK


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_a_bucket_fills_at_its_rate_and_never_over_its_burst() -> None:
    bucket = TokenBucket(rate=10, burst=3)
    assert [bucket.take(0.0) for _ in range(4)] == [True, True, True, False]
    assert [bucket.take(0.1), bucket.take(0.1)] == [True, False]
    assert [bucket.take(100.0) for _ in range(4)] == [True, True, True, False]


def test_a_reserved_token_tells_how_long_it_takes_to_come() -> None:
    bucket = TokenBucket(rate=10, burst=2)
    waits = [bucket.reserve(0.0) for _ in range(4)]
    assert waits == pytest.approx([0, 0, 0.1, 0.2])
    assert bucket.reserve(10.0) == 0


def test_d02_a_name_is_paid_for_once_while_it_is_remembered() -> None:
    budget = NameBudget(2)
    assert [budget.take(name, 0.0) for name in "abacb"] == [True, True, True, False, True]
    assert budget.take("c", 30.0)
    assert not budget.take("d", 30.0)
    for i in range(3000):
        budget.take(str(i), 60.0 * i)
    assert len(budget._paid) <= 1024


def test_the_reasons_of_a_limit_are_refusals() -> None:
    assert {pb.TOO_MANY_CONNECTIONS, pb.TOO_MANY_NAMES, pb.CLIENT_TIMEOUT, pb.RATE_LIMITED} == {60, 61, 62, 63}
