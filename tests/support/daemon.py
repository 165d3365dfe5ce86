"""A daemon's services over a real unix socket, on a backend in memory and a clock that a test moves."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import grpc
from quickstarted_api.v1 import sandbox_pb2 as pb
from quickstarted_api.v1 import sandbox_pb2_grpc as rpc
from sandboxd.backends.base import BackendKind, Planted
from sandboxd.backends.registry import Backends
from sandboxd.instances import instance
from sandboxd.registry import Registry, RegistryConfig
from sandboxd.sandbox import Way
from sandboxd.services.events import EventService
from sandboxd.services.execs import ExecService
from sandboxd.services.runner import RunnerService
from sandboxd.services.sandbox import SandboxService

from sandboxd import transport
from tests.support.fake_backend import FakeBackend, FakeSandbox

TOKEN = secrets.token_bytes(32)


class Clock:
    """A monotonic clock that only a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Daemon:
    """A daemon, and stubs of a client that is connected to it."""

    registry: Registry
    backend: FakeBackend
    local: FakeBackend
    clock: Clock
    channel: grpc.aio.Channel

    def __post_init__(self) -> None:
        self.runner = rpc.RunnerServiceStub(self.channel)
        self.sandboxes = rpc.SandboxServiceStub(self.channel)
        self.execs = rpc.ExecServiceStub(self.channel)
        self.events = rpc.EventServiceStub(self.channel)

    async def create(self, name: str = "s1", *, ready: bool = True, **spec: object) -> pb.Sandbox:
        asked = pb.CreateRequest(
            sandbox_id=name,
            run_id="run",
            owner_token=TOKEN,
            spec=pb.SandboxSpec(**spec),  # type: ignore[arg-type] # as each test says
        )
        sandbox = await self.sandboxes.Create(asked)
        return await self.until(name, pb.READY) if ready else sandbox

    async def until(self, name: str, state: pb.SandboxState.ValueType) -> pb.Sandbox:
        """Wait until a sandbox is in a state, or in another from which it can't get there."""
        told = pb.Sandbox()
        async for told in self.sandboxes.Watch(pb.WatchRequest(sandbox_id=name)):
            if told.state == state:
                break
        return told

    async def start(self, *argv: str, name: str = "s1", exec_id: str = "e1", seconds: float = 60.0) -> pb.Exec:
        spec = pb.ExecSpec(argv=argv)
        spec.timeout.FromNanoseconds(int(seconds * 1e9))
        return await self.execs.Start(pb.StartRequest(sandbox_id=name, owner_token=TOKEN, exec_id=exec_id, spec=spec))

    async def log(self, offset: int = 0, *, exec_id: str = "e1", follow: bool = True) -> list[pb.LogRecord]:
        asked = pb.ReadLogRequest(sandbox_id="s1", exec_id=exec_id, offset=offset, follow=follow)
        return [record async for record in self.execs.ReadLog(asked)]

    def made(self) -> FakeSandbox:
        return self.backend.made[-1]


def _no_way(_: pb.NetworkPolicy, __: Planted, ___: Callable[[pb.EgressDecision], None], ____: object) -> Way:
    raise AssertionError("the backend in memory plants nothing")


@contextlib.asynccontextmanager
async def serving(config: RegistryConfig) -> AsyncIterator[Daemon]:
    clock, backend = Clock(), FakeBackend()
    local = FakeBackend(BackendKind.LOCAL, enforced=False)
    with tempfile.TemporaryDirectory(prefix="d") as name, instance(Path(name) / "state") as own:
        backends = Backends({each.kind: each for each in (backend, local)}, "linux")
        registry = Registry(own, backends, _no_way, config, clock)
        server = grpc.aio.server(options=transport.OPTIONS)
        rpc.add_RunnerServiceServicer_to_server(RunnerService(registry, ["10.0.0.0/8"]), server)
        rpc.add_SandboxServiceServicer_to_server(SandboxService(registry), server)
        ExecService(registry).add_to(server)
        rpc.add_EventServiceServicer_to_server(EventService(registry), server)
        await registry.start()
        with transport.listening(server, Path(name) / "s.sock"):
            await server.start()
            async with grpc.aio.insecure_channel(f"unix:{name}/s.sock") as channel:
                yield Daemon(registry, backend, local, clock, channel)
            await server.stop(0)
        await registry.close()
