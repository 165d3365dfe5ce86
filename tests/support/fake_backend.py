"""A backend in memory, for tests of what stands on top of backends: commands do what their first word says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from sandboxd.backends.base import (
    Availability,
    BackendError,
    BackendKind,
    ExecRequest,
    Exited,
    LimitHit,
    OutputSink,
    Planted,
    SandboxRequest,
    Stream,
)


@dataclass
class FakeRunning:
    """`exit N`, `say TEXT`, `flood BYTES`, `wait` until it is ended, `stuck` that can't be, `deaf` to signals but
    SIGKILL, or `missing`.
    """

    request: ExecRequest
    sink: OutputSink
    stuck: bool = False
    deaf: bool = False
    kills: int = 0
    ended: asyncio.Future[Exited] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    signals: list[tuple[int, bool]] = field(default_factory=list)

    def begin(self) -> None:
        match self.request.argv:
            case ["exit", code]:
                self.end(Exited(int(code)))
            case ["say", *words]:
                self.sink.write(Stream.STDOUT, " ".join(words).encode())
                self.end(Exited(0))
            case ["both"]:
                self.sink.write(Stream.STDOUT, b"out")
                self.sink.write(Stream.STDERR, b"err")
                self.end(Exited(3))
            case ["flood", size]:
                for start in range(0, int(size), 65536):
                    self.sink.write(Stream.STDOUT, bytes(min(65536, int(size) - start)))
                self.end(Exited(0))
            case ["missing"]:
                self.end(Exited(127, start_error="no such program: missing"))
            case ["stuck"]:
                self.stuck = True
            case ["deaf"]:
                self.deaf = True

    def end(self, exited: Exited) -> None:
        if not self.ended.done():
            self.ended.set_result(exited)

    async def wait(self) -> Exited:
        return await asyncio.shield(self.ended)

    async def signal(self, number: int, *, everything: bool) -> None:
        self.signals.append((number, everything))
        if not self.stuck and not self.deaf:
            self.end(Exited(128 + number, number))

    async def kill(self) -> None:
        self.kills += 1
        if self.stuck:
            raise BackendError("SANDBOX_LOST", "it does not end")
        self.end(Exited(137, 9))


@dataclass
class FakeSandbox:
    request: SandboxRequest
    image: str = ""
    image_digest: str = ""
    workspace: str = "/workspace"
    shell: str = "/bin/sh"
    destroyed: int = 0
    commands: list[FakeRunning] = field(default_factory=list)
    hits: asyncio.Queue[LimitHit] = field(default_factory=asyncio.Queue)
    gone: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    async def plant(self) -> Planted | None:
        return None

    async def self_test(self) -> None:
        if self.request.image == "leaky":
            raise BackendError("ISOLATION_UNAVAILABLE", "a route leads out")

    async def start(self, request: ExecRequest, sink: OutputSink) -> FakeRunning:
        running = FakeRunning(request, sink)
        self.commands.append(running)
        running.begin()
        return running

    async def limits_hit(self) -> AsyncIterator[LimitHit]:
        while True:
            yield await self.hits.get()

    async def ended(self) -> str:
        return await asyncio.shield(self.gone)

    async def upload(self, path: bytes, archive: AsyncIterator[bytes]) -> tuple[int, int]:
        data = b"".join([chunk async for chunk in archive])
        return len(data), 1

    async def download(self, path: bytes, left_out: list[str]) -> AsyncIterator[bytes]:
        left_out.append("link: a symbolic link")
        yield b"x" * 100_000
        yield b"end"

    async def destroy(self) -> None:
        self.destroyed += 1
        for command in self.commands:
            command.end(Exited(137, 9))


class FakeBackend:
    """Makes sandboxes at once; with image `slow` when `go` is set, with image `none` never."""

    uses_image = False

    def __init__(self, kind: BackendKind = BackendKind.BUBBLEWRAP, *, enforced: bool = True) -> None:
        self.kind = kind
        self.enforced = enforced
        self.available = Availability(True)
        self.go = asyncio.Event()
        self.made: list[FakeSandbox] = []
        self.cancelled = 0

    async def probe(self) -> Availability:
        return self.available

    async def create(self, request: SandboxRequest) -> FakeSandbox:
        if request.image == "none":
            raise BackendError("IMAGE_UNAVAILABLE", "no such image", image="none", why="it is not there")
        try:
            if request.image == "slow":
                await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        self.made.append(FakeSandbox(request))
        return self.made[-1]

    async def reap(self) -> Sequence[str]:
        return []

    async def close(self) -> None: ...
