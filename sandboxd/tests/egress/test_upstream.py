"""The system's resolver and dialler, and what this machine's own addresses are."""

from __future__ import annotations

import asyncio
import socket
import threading
from ipaddress import ip_address
from pathlib import Path

import pytest
from quickstarted_api.addresses import parse_networks
from quickstarted_api.v1 import sandbox_pb2 as pb
from sandboxd.egress.limits import GatewayLimits
from sandboxd.egress.policy import Policy
from sandboxd.egress.refusal import Refusal
from sandboxd.egress.upstream import Dialler, Resolver, SystemResolver, Upstreams, dial, is_own

POLICY = Policy(registry=("registry.test",))


def upstreams(resolver: Resolver, dialler: Dialler = dial, **limits: float) -> Upstreams:
    return Upstreams(POLICY, GatewayLimits(**limits), resolver, dialler, parse_networks(["127.0.0.0/8"]))  # type: ignore[arg-type]  # times only


@pytest.mark.parametrize(
    ("address", "own"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("203.0.113.200", False), ("2606:4700::1111", False)],
)
def test_an_address_is_own_when_a_socket_can_be_bound_to_it(address: str, own: bool) -> None:
    assert is_own(ip_address(address)) is own


async def test_r05_the_absolute_name_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def getaddrinfo(host: str, *args: object, **kwargs: object) -> list[object]:
        asked.append(host)
        return [(0, 0, 0, "", ("203.0.113.7", 0)), (0, 0, 0, "", ("2606:4700::1", 0, 0, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    resolver = SystemResolver()
    assert list(await resolver("registry.test")) == ["203.0.113.7", "2606:4700::1"]
    assert asked == ["registry.test."]


async def test_many_who_ask_for_one_name_at_once_ask_once(monkeypatch: pytest.MonkeyPatch) -> None:
    go, asked = threading.Event(), []

    def getaddrinfo(host: str, *args: object, **kwargs: object) -> list[object]:
        asked.append(host)
        go.wait(10)
        return [(0, 0, 0, "", ("203.0.113.7", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    resolver = SystemResolver(threads=1)
    tasks = [asyncio.create_task(resolver("a.test")) for _ in range(50)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    go.set()
    assert [list(await task) for task in tasks[1:]] == [["203.0.113.7"]] * 49
    assert list(await resolver("a.test")) == ["203.0.113.7"], "and the answer is kept for a moment"
    assert asked == ["a.test."]
    assert list(await resolver("b.test")) == ["203.0.113.7"]
    assert asked == ["a.test.", "b.test."]


async def test_a_failure_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [socket.gaierror(-3, "Temporary failure"), [(0, 0, 0, "", ("203.0.113.7", 0))]]

    def getaddrinfo(host: str, *args: object, **kwargs: object) -> object:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    resolver = SystemResolver()
    with pytest.raises(socket.gaierror):
        await resolver("registry.test")
    assert list(await resolver("registry.test")) == ["203.0.113.7"]


async def test_a_look_up_that_hangs_holds_up_nobody_but_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    def getaddrinfo(host: str, *args: object, **kwargs: object) -> list[object]:
        if host == "slow.registry.test.":
            go.wait(10)
        return [(0, 0, 0, "", ("203.0.113.7", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    out = upstreams(SystemResolver(threads=2), resolve=0.7)
    with pytest.raises(Refusal) as refused:
        await out.resolve("slow.registry.test")
    assert refused.value.reason == pb.DNS_FAILURE
    assert (await out.resolve("registry.test")).addresses == ("203.0.113.7",)
    go.set()


async def test_r05_a_name_that_the_hosts_file_maps_to_loopback_is_still_judged() -> None:
    async def resolver(host: str) -> list[str]:
        return ["127.0.0.1"]

    out = Upstreams(POLICY, GatewayLimits(), resolver, dial, ())
    with pytest.raises(Refusal) as refused:
        await out.resolve("registry.test")
    assert refused.value.reason == pb.PRIVATE_ADDRESS


async def test_addresses_are_dialled_in_turn_until_one_answers() -> None:
    async def resolver(host: str) -> list[str]:
        return ["127.0.0.2", "127.0.0.2", "::ffff:127.0.0.1", "127.0.0.3"]

    with socket.create_server(("127.0.0.1", 0)) as server:
        out = upstreams(resolver)
        route = await out.resolve("registry.test")
        assert route.addresses == ("127.0.0.2", "127.0.0.1", "127.0.0.3")
        connection, address = await out.dial(route, server.getsockname()[1])
        with connection:
            assert address == "127.0.0.1"
            assert connection.getblocking() is False
            assert connection.getpeername() == server.getsockname()


async def test_no_answer_from_any_address_names_each() -> None:
    async def resolver(host: str) -> list[str]:
        return ["127.0.0.2", "127.0.0.3"]

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        out = upstreams(resolver)
        with pytest.raises(Refusal) as refused:
            await out.dial(await out.resolve("registry.test"), port)
    assert refused.value.reason == pb.CONNECT_FAILURE
    assert refused.value.detail.count("refused") == 2
    assert "127.0.0.3" in refused.value.detail


async def test_only_so_many_addresses_are_dialled_though_all_are_judged() -> None:
    dialled = []

    async def resolver(host: str) -> list[str]:
        return [f"203.0.113.{i}" for i in range(1, 30)]

    async def refuse(address: str, port: int) -> socket.socket:
        dialled.append(address)
        raise ConnectionRefusedError

    out = upstreams(resolver, refuse)
    with pytest.raises(Refusal):
        await out.dial(await out.resolve("registry.test"), 443)
    assert len(dialled) == 8


async def test_r07_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with socket.create_server(("127.0.0.1", 0)) as server, await dial(*server.getsockname()) as connection:
        assert connection.getpeername() == server.getsockname()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_dial_that_is_given_up_leaves_no_descriptor() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        full = socket.create_connection(server.getsockname())
        before = open_descriptors()
        for _ in range(5):
            try:
                async with asyncio.timeout(0.02):
                    (await dial("127.0.0.1", server.getsockname()[1])).close()
            except TimeoutError:
                pass
        assert open_descriptors() == before
        full.close()
