"""One suite for every backend: a test asks for a sandbox of a kind and never for a backend's own class.

A backend joins by an entry in `BACKENDS`: how to make one that belongs to a daemon's instance. All tests share one
event loop, so that sandboxes which tests leave as they were can be shared; each is made when a test first wants it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
import pytest_asyncio
from quickstarted_api.v1 import sandbox_pb2 as pb
from sandboxd.backends.base import (
    Backend,
    BackendKind,
    BackendSandbox,
    ExecRequest,
    Exited,
    Limits,
    Running,
    SandboxRequest,
    Stream,
)
from sandboxd.backends.bubblewrap import BubblewrapBackend
from sandboxd.backends.docker import DockerBackend
from sandboxd.backends.local import LocalBackend
from sandboxd.egress.gateway import Gateway
from sandboxd.egress.policy import Policy
from sandboxd.environment import build
from sandboxd.instances import Instance, instance

from tests.support import engine as test_engine
from tests.support import images

LIMITS = Limits(cpus=2.0, memory_bytes=512 << 20, pids=200, disk_bytes=64 << 20)
POLICY = Policy(explicit=("files.test",), docs=("docs.test",), registry=("registry.test",))
IMAGE = images.PYTHON_IMAGE


@contextlib.asynccontextmanager
async def _docker(own: Instance) -> AsyncIterator[Backend]:
    with test_engine.running((IMAGE,)) as found:
        backend = DockerBackend(node_id=own.node_id, instance_id=own.instance_id, state=own.state, host=found.host)
        yield backend
        await backend.close()


@contextlib.asynccontextmanager
async def _bubblewrap(own: Instance) -> AsyncIterator[Backend]:
    backend = BubblewrapBackend(state=own.state, instance_id=own.instance_id)
    yield backend
    await backend.close()


@contextlib.asynccontextmanager
async def _local(own: Instance) -> AsyncIterator[Backend]:
    backend = LocalBackend(state=own.state, instance_id=own.instance_id)
    yield backend
    await backend.close()


MakeBackend = Callable[[Instance], contextlib.AbstractAsyncContextManager[Backend]]
BACKENDS: Mapping[BackendKind, MakeBackend] = {
    BackendKind.DOCKER: _docker,
    BackendKind.BUBBLEWRAP: _bubblewrap,
    BackendKind.LOCAL: _local,
}
# For a test of what the local backend does not promise.
enforced = pytest.mark.parametrize("kind", [BackendKind.DOCKER, BackendKind.BUBBLEWRAP], ids=str)


class Sink:
    """Keeps what a command printed, by stream and all together."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.more = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def write(self, stream: Stream, data: bytes | memoryview) -> None:
        self.data += data
        self._loop.call_soon_threadsafe(self.more.set)

    async def printed(self, word: bytes) -> None:
        """Wait until a word was printed."""
        async with asyncio.timeout(30):
            while word not in self.data:
                self.more.clear()
                await self.more.wait()


@dataclass
class Box:
    """A sandbox, and short ways to run things in it. `decisions` are its gateway's, when it has one."""

    backend: Backend
    sandbox: BackendSandbox
    request: SandboxRequest
    decisions: list[pb.EgressDecision] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def start(
        self,
        *argv: str,
        cwd: str = "",
        environment: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        sink: Sink | None = None,
    ) -> tuple[Running, Sink]:
        sink = sink or Sink()
        request = ExecRequest(f"exec-{next(self._numbers)}", argv, cwd, environment or {}, stdin)
        return await self.sandbox.start(request, sink), sink

    async def run(
        self, *argv: str, cwd: str = "", environment: Mapping[str, str] | None = None, stdin: bytes = b""
    ) -> tuple[Exited, str]:
        running, sink = await self.start(*argv, cwd=cwd, environment=environment, stdin=stdin)
        async with asyncio.timeout(60):
            exited = await running.wait()
        return exited, sink.data.decode(errors="replace")

    async def sh(self, text: str) -> tuple[Exited, str]:
        return await self.run("sh", "-c", text)

    async def python(self, text: str) -> tuple[Exited, str]:
        return await self.run("python3", "-c", text)

    async def count(self, marker: str) -> int:
        """How many processes in the sandbox have the marker as an argument."""
        text = f"""
import os
def arguments(pid):
    try:
        return open(f"/proc/{{pid}}/cmdline", "rb").read().split(bytes(1))
    except OSError:
        return []
print(sum({marker.encode()!r} in arguments(pid) for pid in os.listdir("/proc") if pid.isdigit()))
"""
        return int((await self.python(text))[1])


Make = Callable[..., Awaitable[Box]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def backends(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Callable[[BackendKind], Awaitable[Backend]]]:
    """The backend of a kind, made when it is first asked for."""
    made: dict[BackendKind, Backend] = {}
    async with contextlib.AsyncExitStack() as stack:
        own = stack.enter_context(instance(tmp_path_factory.mktemp("contract")))

        async def one(kind: BackendKind) -> Backend:
            if kind not in made:
                made[kind] = await stack.enter_async_context(BACKENDS[kind](own))
            return made[kind]

        yield one


@pytest.fixture(params=list(BACKENDS), ids=str)
def kind(request: pytest.FixtureRequest) -> BackendKind:
    """Every backend; a module that is for some only parametrizes `kind` itself."""
    return BackendKind(request.param)


@pytest_asyncio.fixture(loop_scope="session")
async def backend(kind: BackendKind, backends: Callable[[BackendKind], Awaitable[Backend]]) -> Backend:
    return await backends(kind)


def request_of(limits: Limits = LIMITS, **more: str) -> SandboxRequest:
    name = f"test-{os.urandom(6).hex()}"
    return SandboxRequest(name, IMAGE, limits, {**build(path=os.environ["PATH"], proxy=None), **more})


@pytest_asyncio.fixture(loop_scope="session")
async def make(backend: Backend) -> AsyncIterator[Make]:
    """Makes sandboxes that are gone at the test's end."""
    made: list[Box] = []

    async def one(limits: Limits = LIMITS, **more: str) -> Box:
        request = request_of(limits, **more)
        made.append(Box(backend, await backend.create(request), request))
        return made[-1]

    yield one
    for box in made:
        await box.sandbox.destroy()


@pytest_asyncio.fixture(loop_scope="session")
async def box(make: Make) -> Box:
    """A sandbox of the test's own, without a gateway."""
    return await make()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def all_shared(
    backends: Callable[[BackendKind], Awaitable[Backend]],
) -> AsyncIterator[Callable[[BackendKind], Awaitable[Box]]]:
    made: dict[BackendKind, Box] = {}
    async with contextlib.AsyncExitStack() as stack:

        async def one(kind: BackendKind) -> Box:
            if kind not in made:
                made[kind] = await stack.enter_async_context(served(await backends(kind)))
            return made[kind]

        yield one


@contextlib.asynccontextmanager
async def served(backend: Backend) -> AsyncIterator[Box]:
    """A sandbox as the daemon hands it over: planted, served by a gateway, tested."""
    request = request_of()
    if backend.enforced:
        request = SandboxRequest(request.sandbox_id, IMAGE, LIMITS, build(path=os.environ["PATH"]))
    box = Box(backend, await backend.create(request), request)
    gateway: Gateway | None = None
    try:
        planted = await box.sandbox.plant()
        if planted is not None:
            gateway = Gateway(POLICY, planted, emit=box.decisions.append, resolver=_resolve, dialler=_refuse)
            await gateway.start()
        await box.sandbox.self_test()
        yield box
    finally:
        if gateway is not None:
            await gateway.close()
        await box.sandbox.destroy()


async def _resolve(_: str) -> Sequence[str]:
    return ("203.0.113.7",)


async def _refuse(address: str, port: int) -> socket.socket:
    """Nothing leaves this machine."""
    raise ConnectionRefusedError(f"{address}:{port}")


@pytest_asyncio.fixture(loop_scope="session")
async def shared(kind: BackendKind, all_shared: Callable[[BackendKind], Awaitable[Box]]) -> Box:
    """A sandbox for tests that leave it as it was."""
    return await all_shared(kind)
