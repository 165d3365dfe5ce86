"""A real engine, a daemon instance of its own for each test, and sandboxes that are gone at its end."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import docker
import pytest
from sandboxd.backends.base import ExecRequest, Exited, Limits, Planted, Running, SandboxRequest, Stream
from sandboxd.backends.docker import DockerBackend
from sandboxd.backends.docker.sandbox import DockerSandbox
from sandboxd.egress.gateway import announced_destination
from sandboxd.environment import build
from sandboxd.instances import Instance, instance

from tests.support import engine as test_engine
from tests.support import images

LIMITS = Limits(cpus=2.0, memory_bytes=512 << 20, pids=200, disk_bytes=64 << 20)


@pytest.fixture(scope="session")
def engine() -> Iterator[test_engine.Engine]:
    with test_engine.running() as found:
        yield found


@pytest.fixture
def api(engine: test_engine.Engine) -> Iterator[docker.APIClient]:
    client = test_engine.connect(engine.host)
    yield client
    client.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Instance]:
    with instance(tmp_path / "state") as made:
        yield made


class Sink:
    """Keeps what a command printed."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, stream: Stream, data: bytes | memoryview) -> None:
        self.data += data


@dataclass
class Box:
    """A sandbox, and short ways to run things in it."""

    sandbox: DockerSandbox
    count: Iterator[int]

    async def start(self, *argv: str, stdin: bytes = b"") -> tuple[Running, Sink]:
        sink = Sink()
        request = ExecRequest(f"exec-{next(self.count)}", argv, stdin=stdin)
        return await self.sandbox.start(request, sink), sink

    async def run(self, *argv: str, stdin: bytes = b"") -> tuple[Exited, str]:
        running, sink = await self.start(*argv, stdin=stdin)
        return await running.wait(), sink.data.decode()

    async def python(self, text: str) -> tuple[Exited, str]:
        return await self.run("python3", "-c", text)

    async def sh(self, text: str) -> tuple[Exited, str]:
        return await self.run("sh", "-c", text)


Make = Callable[..., Awaitable[Box]]


def backend_of(own: Instance, host: str, plant: str = "auto", helper_image: str = "") -> DockerBackend:
    """A backend of this instance."""
    return DockerBackend(
        node_id=own.node_id,
        instance_id=own.instance_id,
        state=own.state,
        host=host,
        plant=plant,
        helper_image=helper_image,
    )


@pytest.fixture
async def backend(engine: test_engine.Engine, own: Instance) -> AsyncIterator[DockerBackend]:
    made = backend_of(own, engine.host)
    yield made
    await made.close()


@pytest.fixture
async def make(backend: DockerBackend) -> AsyncIterator[Make]:
    """Makes sandboxes, of the test's backend unless another is given; closes those others in the end."""
    made: list[Box] = []
    others: list[DockerBackend] = []

    async def one(
        image: str = images.PYTHON_IMAGE,
        *,
        of: DockerBackend | None = None,
        limits: Limits = LIMITS,
        ca_bundle: str | None = None,
    ) -> Box:
        if of is not None and of not in others:
            others.append(of)
        environment = build(path=os.defpath)
        name = f"test-{len(made)}-{os.urandom(4).hex()}"
        sandbox = await (of or backend).create(SandboxRequest(name, image, limits, environment, ca_bundle))
        made.append(Box(sandbox, itertools.count(1)))
        return made[-1]

    yield one
    for box in made:
        await box.sandbox.destroy()
    for other in others:
        await other.close()


@pytest.fixture
async def box(make: Make) -> Box:
    return await make()


class Answering:
    """What a gateway shows to a self-test: a proxy that closes what asks for nothing, and a name server."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []
        self._transports: list[asyncio.BaseTransport] = []
        self.announced: list[str] = []

    async def serve(self, planted: Planted) -> None:
        for listener in (planted.proxy, planted.dns_tcp):
            self._servers.append(await asyncio.start_server(self._echo, sock=listener))
        for listener in planted.transparent.values():
            self._servers.append(
                await asyncio.start_server(self._dialled if planted.announced else self._echo, sock=listener)
            )
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(_Mirror, sock=planted.dns_udp)
        self._transports.append(transport)

    async def _dialled(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.announced.append(announced_destination(writer.get_extra_info("socket")))
        await self._echo(reader, writer)

    async def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        writer.close()

    def close(self) -> None:
        for server in self._servers:
            server.close()
        for transport in self._transports:
            transport.close()


class _Mirror(asyncio.DatagramProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._transport.sendto(data, addr)  # type: ignore[arg-type]  # a unix socket's address is its path


@pytest.fixture
async def gateway() -> AsyncIterator[Answering]:
    made = Answering()
    yield made
    made.close()
