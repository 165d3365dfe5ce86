"""The DNS server of a sandbox, over UDP and TCP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest
from quickstarted_api.v1 import sandbox_pb2 as pb
from sandboxd.egress.limits import GatewayLimits
from sandboxd.egress.nameserver import Nameserver
from sandboxd.egress.synthetic import SyntheticNames

from tests.support.dns_message import AAAA, PTR, TXT, A, opt, option, question, read
from tests.support.gateway import Rig, running
from tests.support.paths import ask_udp

REGISTRY = (b"registry", b"test")


async def ask_tcp(rig: Rig, message: bytes) -> bytes:
    client = await rig.connect("dns")
    await client.send(len(message).to_bytes(2) + message)
    answer = await client.receive()
    assert len(answer) == 2 + int.from_bytes(answer[:2])
    return answer[2:]


Ask = Callable[[Rig, bytes], Awaitable[bytes]]
OVER = [pytest.param(ask_udp, id="UDP"), pytest.param(ask_tcp, id="TCP")]


@pytest.mark.parametrize("ask", OVER)
async def test_d01_an_allowed_name_has_one_address_for_the_whole_session_and_nothing_is_asked_upstream(
    ask: Ask,
) -> None:
    async with running() as rig:
        first = read(await ask(rig, question(REGISTRY)))
        again = read(await ask(rig, question((b"REGISTRY", b"Test"))))
        other = read(await ask(rig, question((b"files", b"test"))))
        [(kind, ttl, address)] = first.answers
        assert kind == A
        assert ttl <= 1
        assert socket.inet_ntoa(address).startswith("198.18.")
        assert again.answers == first.answers
        assert other.answers != first.answers
        assert (rig.resolved, rig.dialled) == ([], [])
        assert rig.reasons() == ["REGISTRY_HOST", "REGISTRY_HOST", "EXPLICIT_HOST"]
        assert [event.method for event in rig.events] == ["A"] * 3


@pytest.mark.parametrize("ask", OVER)
@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        pytest.param((b"docs", b"test"), "DOCS_HOST_REQUIRES_READ_DOCS", id="D03 a docs host"),
        pytest.param((b"evil", b"test"), "NOT_ALLOWLISTED", id="D03 a host that nobody named"),
        pytest.param((b"1", b"0", b"1", b"127", b"in-addr", b"arpa"), "NOT_ALLOWLISTED", id="D06 a reverse name"),
        pytest.param((b"_dns", b"resolver", b"arpa"), "NOT_ALLOWLISTED", id="D06 a discovery of resolvers"),
        pytest.param((b"wpad",), "NOT_ALLOWLISTED", id="D06 a discovery of proxies"),
        pytest.param((b"registry",), "NOT_ALLOWLISTED", id="D13 a single label"),
        pytest.param((b"127", b"0", b"0", b"1"), "SELF_CONNECTION", id="H03 an address"),
        pytest.param((b"1", b"2", b"3"), "IP_LITERAL", id="H03 a number at the end"),
        pytest.param((b"registry", b"0x7f"), "IP_LITERAL", id="H03 a hexadecimal number at the end"),
        pytest.param((b"evil.test\0", b"registry", b"test"), "MALFORMED_TARGET", id="H11 NUL inside a label"),
        pytest.param((b"docs.test", b"registry", b"test"), "MALFORMED_TARGET", id="a dot inside a label"),
        pytest.param((b"x", b"evil_", b"registry", b"test"), "MALFORMED_TARGET", id="an underscore in the middle"),
        pytest.param((b"-a", b"registry", b"test"), "MALFORMED_TARGET", id="a hyphen in front"),
        pytest.param((), "MALFORMED_TARGET", id="the root"),
    ],
)
async def test_every_other_name_does_not_exist(ask: Ask, labels: tuple[bytes, ...], reason: str) -> None:
    async with running() as rig:
        response = read(await ask(rig, question(labels)))
        assert (response.code, response.answers) == (3, [])
        assert rig.reasons() == [reason]
        [event] = rig.events
        assert (event.layer, event.verdict) == (pb.DNS, pb.REFUSED)
        assert event.target.isprintable()
        assert rig.resolved == []


@pytest.mark.parametrize(
    ("labels", "qtype"),
    [
        pytest.param(REGISTRY, AAAA, id="D04 AAAA"),
        pytest.param(REGISTRY, 65, id="D04 HTTPS"),
        pytest.param(REGISTRY, 64, id="D04 SVCB"),
        pytest.param(REGISTRY, 15, id="D04 MX"),
        pytest.param(REGISTRY, TXT, id="D04 TXT"),
        pytest.param(REGISTRY, 33, id="D04 SRV"),
        pytest.param(REGISTRY, 257, id="D04 CAA"),
        pytest.param(REGISTRY, 255, id="D04 ANY"),
        pytest.param(REGISTRY, 5, id="D12 CNAME"),
        pytest.param((b"_http", b"_tcp", *REGISTRY), 33, id="D04 SRV of a service, as apt asks"),
        pytest.param((b"_http", b"_tcp", *REGISTRY), A, id="a service has no address"),
        pytest.param((b"localhost",), AAAA, id="D06 localhost has no address of IPv6"),
    ],
)
async def test_an_allowed_name_has_nothing_but_an_address(labels: tuple[bytes, ...], qtype: int) -> None:
    async with running() as rig:
        response = read(await ask_udp(rig, question(labels, qtype)))
        assert (response.code, response.answers) == (0, [])
        assert [kind for kind, _, _ in response.authorities] == [6]
        assert set(rig.reasons()) <= {"REGISTRY_HOST"}


@pytest.mark.parametrize("labels", [(b"localhost",), (b"LocalHost",), (b"app", b"localhost")])
async def test_d06_localhost_is_this_sandbox_and_no_event(labels: tuple[bytes, ...]) -> None:
    async with running() as rig:
        response = read(await ask_udp(rig, question(labels)))
        assert [address for _, _, address in response.answers] == [b"\x7f\0\0\1"]
        assert rig.events == []


async def test_d03_a_service_of_a_docs_host_is_told_as_the_docs_host() -> None:
    async with running() as rig:
        response = read(await ask_udp(rig, question((b"_https", b"docs", b"test"), 65)))
        assert response.code == 3
        assert (rig.events[0].host, rig.reasons()) == ("docs.test", ["DOCS_HOST_REQUIRES_READ_DOCS"])
        assert rig.events[0].method == "HTTPS"


async def test_d06_a_reverse_name_is_told_with_its_type() -> None:
    async with running() as rig:
        await ask_udp(rig, question((b"1", b"0", b"18", b"198", b"in-addr", b"arpa"), PTR))
        assert rig.events[0].method == "PTR"


async def test_d02_only_so_many_names_get_an_address() -> None:
    async with running() as rig:
        rig.gateway._context.names._limit = 3
        codes = [read(await ask_udp(rig, question((b"a%d" % i, *REGISTRY)))).code for i in range(5)]
        assert codes == [0, 0, 0, 3, 3]
        assert rig.reasons()[3:] == ["TOO_MANY_NAMES"] * 2
        assert read(await ask_udp(rig, question((b"a0", *REGISTRY)))).code == 0


async def test_a_message_without_an_answer_is_on_record() -> None:
    async with running() as rig:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(rig.planted.dns_udp.getsockname())
            client.send(question(REGISTRY, flags=0x8180))
            client.send(b"\0")
        events = await rig.until(rig.decisions, 2)
        assert [event.reason for event in events] == [pb.MALFORMED_DNS] * 2


async def test_d10_no_answer_is_much_longer_than_its_question() -> None:
    async with running() as rig:
        for labels in (REGISTRY, (b"evil", b"test"), (b"a",)):
            for more in (b"", opt(size=65535, flags=0x8000), opt(version=1), opt(options=option(10, b"12345678"))):
                message = question(labels, counts=(1, 0, 0, int(bool(more))), more=more)
                assert len(await ask_udp(rig, message)) <= len(message) + 60


async def test_d07_pipelined_queries_are_answered_in_order() -> None:
    async with running() as rig:
        client = await rig.connect("dns")
        messages = [question(REGISTRY, ident=i) for i in range(5)]
        await client.send(b"".join(len(message).to_bytes(2) + message for message in messages))
        answer = b""
        while len(answer) < 5 * (2 + len(messages[0]) + 16):
            answer += await client.receive()
        idents = [answer[i + 2 : i + 4] for i in range(0, len(answer), 2 + len(messages[0]) + 16)]
        assert idents == [i.to_bytes(2) for i in range(5)]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\0\0", id="D07 a length of 0"),
        pytest.param(b"\xff\xffabc", id="D07 a length of 65535"),
        pytest.param(b"\x10\x01", id="D07 a length over 4 KiB"),
        pytest.param(b"\0\1\0", id="D07 a message that is no query"),
    ],
)
async def test_what_ends_a_tcp_connection(data: bytes) -> None:
    async with running() as rig:
        assert (await rig.ask("dns", data)).removesuffix(b"<reset>") == b""
        assert rig.reasons() == ["MALFORMED_DNS"]


async def test_d07_a_query_a_byte_at_a_time_is_answered() -> None:
    async with running() as rig:
        client = await rig.connect("dns")
        message = question(REGISTRY)
        for byte in len(message).to_bytes(2) + message:
            await client.send(bytes([byte]))
            await asyncio.sleep(0)
        assert read((await client.receive())[2:]).code == 0


async def test_d07_a_tcp_connection_without_a_whole_query_ends() -> None:
    async with running(limits=GatewayLimits(dns_idle=0.05)) as rig:
        idle, slow = await rig.connect("dns"), await rig.connect("dns")
        await slow.send(b"\0")
        assert await idle.rest() == b""
        assert await slow.rest() == b""


async def test_d07_only_so_many_tcp_connections_are_open() -> None:
    async with running(limits=GatewayLimits(dns_connections=16)) as rig:
        clients = [await rig.connect("dns") for _ in range(20)]
        message = question(REGISTRY)
        for client in clients[:16]:
            await client.send(len(message).to_bytes(2) + message)
            assert read((await client.receive())[2:]).code == 0
        for client in clients[16:]:
            assert (await client.rest()).removesuffix(b"<reset>") == b""
        assert rig.reasons().count("TOO_MANY_CONNECTIONS") == 4
        for client in clients:
            client.socket.close()
        async with asyncio.timeout(10):
            while rig.reasons()[-1] == "TOO_MANY_CONNECTIONS":  # until the gateway has seen that they are gone
                await rig.ask("dns", b"\0\0")


async def test_d11_queries_beyond_the_rate_are_dropped_and_the_server_recovers() -> None:
    async with running(limits=GatewayLimits(queries=50, query_burst=10)) as rig:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(rig.planted.dns_udp.getsockname())
            client.setblocking(False)
            for _ in range(200):
                client.send(question(REGISTRY))
            await rig.until(lambda: [event for event in rig.events if event.reason == pb.RATE_LIMITED], 1)
            answered = rig.reasons().count("REGISTRY_HOST")
            assert 0 < answered < 20
        async with asyncio.timeout(20):
            while True:  # the queue of the kernel is worked off at the rate
                try:
                    async with asyncio.timeout(0.2):
                        await ask_udp(rig, question(REGISTRY, ident=7))
                    break
                except TimeoutError:
                    continue


async def test_d14_a_query_from_port_0_gets_no_answer() -> None:
    class Datagrams:
        """A socket on which one query from port 0 waits: a real one can't send it."""

        def __init__(self) -> None:
            self.waiting = [(question(REGISTRY), ("127.0.0.1", 0))]
            self.sent: list[object] = []

        def recvfrom(self, size: int) -> tuple[bytes, tuple[str, int]]:
            if not self.waiting:
                raise BlockingIOError
            return self.waiting.pop()

        def sendto(self, data: bytes, address: object) -> None:
            self.sent.append(address)

    async with running() as rig:
        datagrams = Datagrams()
        Nameserver(rig.gateway._context, datagrams)._read()  # type: ignore[arg-type]  # all that is used of a socket
        assert (datagrams.sent, rig.events) == ([], [])


def test_names_and_addresses_are_one_to_one() -> None:
    names = SyntheticNames("127.1.0.0/16")
    hosts = [f"{i}.test" for i in range(600)]
    addresses = [names.address_of(host) for host in hosts]
    assert len(set(addresses)) == 600
    assert addresses[:2] == ["127.1.0.1", "127.1.0.2"]
    assert [names.name_of(address or "") for address in addresses] == hosts
    assert names.name_of("127.1.200.200") is None


def test_a_small_pool_is_used_up_without_its_first_and_last_address() -> None:
    names = SyntheticNames("198.18.0.0/28")
    addresses = [names.address_of(str(i)) for i in range(20)]
    assert addresses[13:15] == ["198.18.0.14", None]
    assert names.address_of("0") == "198.18.0.1"
