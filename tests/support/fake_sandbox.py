"""A sandbox and a placer that run nothing: commands answer from a script, events come when a command says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field

from quickstarted.sandbox.base import CommandResult, SandboxError, SandboxFacts
from quickstarted.sandbox.client import Wanted
from quickstarted_api.v1 import sandbox_pb2 as pb

FACTS = SandboxFacts(
    sandbox_id="s",
    backend="docker",
    enforced=True,
    image="python:3.12-slim",
    image_digest="sha256:0123",
    workspace="/workspace",
    shell="/bin/bash",
    runner="embedded",
    node_id="n",
    instance_id="i",
)


@dataclass
class Act:
    """What a command does: wait, have events happen, fail, and end."""

    code: int = 0
    output: str = ""
    cause: str = "EXITED"
    message: str = ""
    events: tuple[pb.Event, ...] = ()
    error: Exception | None = None
    hangs: bool = False
    then: Callable[[], Awaitable[None]] | None = None


@dataclass
class FakeSandbox:
    """Implements `sandbox.base.Sandbox`. `script` maps commands to acts; what is not in it succeeds."""

    script: dict[str, Act] = field(default_factory=dict)
    facts: SandboxFacts = FACTS
    commands: list[tuple[str, bool]] = field(default_factory=list)  # the text, and whether it used the session
    limits: list[float] = field(default_factory=list)
    closed: int = 0
    killed: list[str] = field(default_factory=list)
    close_error: SandboxError | None = None
    settle_error: SandboxError | None = None
    started: asyncio.Event = field(default_factory=asyncio.Event)  # a command that hangs has begun
    _events: list[pb.Event] = field(default_factory=list)
    _delivered: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def run(
        self,
        command: str,
        *,
        seconds: float,
        max_chars: int,
        session: bool = True,
        env: dict[str, str] | None = None,
        on_output: Callable[[str], None] | None = None,
    ) -> CommandResult:
        self.commands.append((command, session))
        self.limits.append(seconds)
        exec_id = f"exec-{len(self.commands)}"
        act = self.script.get(command, Act())
        for event in act.events:
            event.exec_id = exec_id
            await self._emit(event)
        if act.then is not None:
            await act.then()
        if act.hangs:
            self.started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.killed.append(command)
                raise
        if act.error is not None:
            raise act.error
        return CommandResult(exec_id, act.code, act.cause, act.output, len(act.output), False, 0.25, act.message)

    async def _emit(self, event: pb.Event) -> None:
        async with self._changed:
            event.seq = len(self._events) + 1
            self._events.append(event)
            self._changed.notify_all()

    async def events(self) -> AsyncGenerator[pb.Event, None]:
        while True:
            async with self._changed:
                while self._delivered == len(self._events) and not self.closed:
                    await self._changed.wait()
                if self._delivered == len(self._events):
                    return
                event = self._events[self._delivered]
            yield event
            async with self._changed:
                self._delivered += 1
                self._changed.notify_all()

    async def settle_events(self) -> None:
        if self.settle_error is not None:
            raise self.settle_error
        async with self._changed:
            while self._delivered < len(self._events):
                await self._changed.wait()

    async def close(self) -> None:
        if self.close_error is not None:
            raise self.close_error
        async with self._changed:
            self.closed += 1
            self._changed.notify_all()


@dataclass
class FakePlacer:
    """Implements `sandbox.placement.Placer`: hands out sandboxes from `make`, which may raise."""

    make: Callable[[Wanted], FakeSandbox]
    wanted: list[Wanted] = field(default_factory=list)
    made: list[FakeSandbox] = field(default_factory=list)
    waits: tuple[str, ...] = ()

    async def create(self, wanted: Wanted, on_wait: Callable[[str], None] = lambda _: None) -> FakeSandbox:
        self.wanted.append(wanted)
        for why in self.waits:
            on_wait(why)
        sandbox = self.make(wanted)
        self.made.append(sandbox)
        return sandbox
