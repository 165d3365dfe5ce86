"""One sandbox on a runner: commands, events and its end, over the contract.

Output and events are logs with offsets on the runner's side. Whatever breaks here is read again from where it broke
off; only the runner saying that the sandbox is gone, or its lease running out, ends an attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from google.protobuf.duration_pb2 import Duration
from grpc import aio
from quickstarted_api.v1 import sandbox_pb2 as pb
from quickstarted_api.v1.sandbox_pb2_grpc import (
    EventServiceStub,
    ExecServiceStub,
    RunnerServiceStub,
    SandboxServiceStub,
)

from quickstarted.sandbox import errors
from quickstarted.sandbox.base import CommandResult, SandboxError, SandboxFacts
from quickstarted.sandbox.calls import Backoff, Link, duration, finish
from quickstarted.sandbox.errors import CallError
from quickstarted.sandbox.names import lower_name, name_of
from quickstarted.sandbox.shell import CommandError, clean_argv, session_argv
from quickstarted.sandbox.text import Collector

if TYPE_CHECKING:
    from quickstarted_api.v1.sandbox_pb2_grpc import (
        EventServiceAsyncStub,
        ExecServiceAsyncStub,
        RunnerServiceAsyncStub,
        SandboxServiceAsyncStub,
    )

# A stream of output sends a heartbeat every 10 s; after three that did not come it is opened anew.
SILENCE_SECONDS = 35.0
# How long after its timeout a command's exit record may take: ending everything that it started takes time.
EXIT_SECONDS = 60.0
DESTROY_SECONDS = 60.0
SETTLE_SECONDS = 15.0
# From SIGTERM to SIGKILL, within the two seconds that a command which passed its limit has to be gone.
KILL_GRACE_SECONDS = 0.5
# Kept by the runner: enough for any `max_chars` of four-byte characters, and never less than this.
MIN_OUTPUT_BYTES = 64 * 1024

# As a shell's `timeout` has it.
TIMED_OUT_CODE = 124
# As a shell has it for what can't be executed.
NOT_EXECUTABLE_CODE = 126

_GONE = {
    "EXEC_LEASE_EXPIRED": "LEASE_EXPIRED",
    "SANDBOX_DESTROYED": "SANDBOX_LOST",
    "EXEC_SANDBOX_LOST": "SANDBOX_LOST",
}
# What a destroy may answer when there is nothing left to destroy.
_ALREADY_GONE = frozenset({"SANDBOX_UNKNOWN", "LEASE_EXPIRED", "SANDBOX_LOST", "STALE_OWNER", "TOMBSTONED"})


@dataclass(frozen=True, slots=True)
class Stubs:
    """The services of one runner, over its one channel."""

    runner: RunnerServiceAsyncStub
    sandboxes: SandboxServiceAsyncStub
    exec: ExecServiceAsyncStub
    events: EventServiceAsyncStub

    @classmethod
    def over(cls, channel: aio.Channel) -> Stubs:
        return cls(
            RunnerServiceStub(channel), SandboxServiceStub(channel), ExecServiceStub(channel), EventServiceStub(channel)
        )


@dataclass
class RemoteSandbox:
    """Implements `sandbox.base.Sandbox`. Made by `Runner.create`, which sets its facts when it is ready."""

    sandbox_id: str
    link: Link
    renewed: float  # when the lease was last renewed, on the monotonic clock
    stubs: Stubs
    token: bytes = field(repr=False)
    on_close: Callable[[str], object]
    _facts: SandboxFacts | None = None
    _commands: int = 0
    _closed: bool = False
    _delivered: int = 0
    _events_ended: bool = False
    _progress: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def facts(self) -> SandboxFacts:
        assert self._facts is not None, "Runner.create answers when the facts are known"
        return self._facts

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
        """See the protocol. Text that no shell can be given is a result with code 126, no error."""
        self._commands += 1
        exec_id = f"exec-{self._commands}"
        try:
            argv = session_argv(self.facts.shell, command, env) if session else clean_argv(self.facts.shell, command)
        except CommandError as error:
            text = f"{error}\n"
            return CommandResult(
                exec_id, NOT_EXECUTABLE_CODE, "START_FAILED", text, len(text), False, 0.0, message=str(error)
            )
        spec = pb.ExecSpec(
            argv=argv,
            env={} if session else env or {},
            timeout=duration(max(seconds, 0.001)),
            kill_grace=duration(KILL_GRACE_SECONDS),
            output_limit=max(4 * max_chars, MIN_OUTPUT_BYTES),
        )
        collector = Collector(max_chars)
        try:
            await self.link.call(self.stubs.exec.Start, self._start_request(exec_id, spec))
            ended = await self._follow(exec_id, collector, on_output, time.monotonic() + seconds + EXIT_SECONDS)
        except asyncio.CancelledError:
            await finish(self._kill(exec_id))
            raise
        return _result(exec_id, ended, collector)

    def _start_request(self, exec_id: str, spec: pb.ExecSpec) -> pb.StartRequest:
        return pb.StartRequest(sandbox_id=self.sandbox_id, owner_token=self.token, exec_id=exec_id, spec=spec)

    async def _follow(
        self, exec_id: str, collector: Collector, on_output: Callable[[str], None] | None, deadline: float
    ) -> pb.Exit:
        """Read a command's log to its exit record, whatever breaks on the way."""
        log = _Log(collector, on_output)
        backoff = Backoff()
        while True:
            before = log.offset
            request = pb.ReadLogRequest(sandbox_id=self.sandbox_id, exec_id=exec_id, offset=log.offset, follow=True)
            with contextlib.suppress(TimeoutError):  # a silent stream is opened anew
                async with contextlib.aclosing(self._records(self.stubs.exec.ReadLog(request))) as records:
                    async for record in records:
                        ended = log.take(record)
                        if ended is not None:
                            return ended
            if log.offset > before:
                backoff.reset()
            if time.monotonic() > deadline:
                message = f"the runner {self.link.runner} does not tell how a command ended"
                raise SandboxError("SANDBOX_LOST", message, {"cause": "no exit record"})
            await self.link.pause(backoff.seconds())

    async def _records(
        self, call: aio.UnaryStreamCall[pb.ReadLogRequest, pb.LogRecord]
    ) -> AsyncGenerator[pb.LogRecord, None]:
        """The records of one stream until it ends or breaks. Raises CallError when asking again can't help."""
        try:
            while True:
                async with asyncio.timeout(SILENCE_SECONDS):
                    record = await call.read()
                if not isinstance(record, pb.LogRecord):
                    return
                yield record
        except aio.AioRpcError as error:
            failure = errors.read(error, self.link.runner)
            if not failure.transient:
                raise failure from None
        finally:
            call.cancel()

    async def _kill(self, exec_id: str) -> None:
        request = pb.SignalRequest(
            sandbox_id=self.sandbox_id,
            owner_token=self.token,
            exec_id=exec_id,
            signal=signal.SIGKILL,
            everything=True,
        )
        # Best effort: the sandbox is destroyed next, and its lease ends it if that fails too.
        with contextlib.suppress(SandboxError):
            await self.link.call(self.stubs.exec.Signal, request, seconds=10.0)

    async def events(self) -> AsyncGenerator[pb.Event, None]:
        """See the protocol. One consumer: an event counts as delivered when the next one is asked for."""
        backoff = Backoff()
        try:
            while True:
                before = self._delivered
                request = pb.StreamRequest(sandbox_id=self.sandbox_id, after_seq=self._delivered)
                call = self.stubs.events.Stream(request)
                try:
                    while isinstance(event := await call.read(), pb.Event):
                        if event.seq > self._delivered:
                            yield event
                            await self._deliver(event.seq)
                    return
                except aio.AioRpcError as error:
                    failure = errors.read(error, self.link.runner)
                    if not failure.transient:
                        raise failure from None
                finally:
                    call.cancel()
                if self._delivered > before:
                    backoff.reset()
                await self.link.pause(backoff.seconds())
        finally:
            self._events_ended = True
            await self._deliver(self._delivered)

    async def _deliver(self, seq: int) -> None:
        async with self._progress:
            self._delivered = seq
            self._progress.notify_all()

    async def settle_events(self) -> None:
        """See the protocol. Raises SandboxError when the events do not come."""
        sandbox = await self.link.call(self.stubs.sandboxes.Get, pb.GetRequest(sandbox_id=self.sandbox_id))
        try:
            async with asyncio.timeout(SETTLE_SECONDS), self._progress:
                await self._progress.wait_for(lambda: self._events_ended or self._delivered >= sandbox.last_event_seq)
        except TimeoutError:
            message = f"the runner {self.link.runner} does not send the sandbox's events"
            raise SandboxError("SANDBOX_LOST", message, {"cause": "no events"}) from None

    async def close(self) -> None:
        """See the protocol. Raises SandboxError when the runner can't be told: the lease ends the sandbox then."""
        if self._closed:
            return
        self._closed = True
        self.on_close(self.sandbox_id)
        await finish(self.destroy())

    async def destroy(self) -> None:
        """Have the runner remove it, and wait for that."""
        request = pb.DestroyRequest(sandbox_id=self.sandbox_id, owner_token=self.token, wait=True)
        try:
            await self.link.call(self.stubs.sandboxes.Destroy, request, seconds=DESTROY_SECONDS)
        except CallError as error:
            if error.reason not in _ALREADY_GONE or error.transient:
                raise

    def ready(self, sandbox: pb.Sandbox, info: pb.GetInfoResponse) -> None:
        """Take what the runner says is honoured as the facts."""
        self._facts = SandboxFacts(
            sandbox_id=self.sandbox_id,
            backend=lower_name(pb.BackendKind.DESCRIPTOR, sandbox.backend),
            enforced=sandbox.enforced,
            image=sandbox.image,
            image_digest=sandbox.image_digest,
            workspace=sandbox.workspace,
            shell=sandbox.shell,
            runner=self.link.runner,
            node_id=sandbox.node_id,
            instance_id=sandbox.instance_id,
            allow_private=tuple(info.allow_private),
            timings=_seconds(sandbox.timings),
        )


def _seconds(timings: Mapping[str, Duration]) -> dict[str, float]:
    return {step: took.ToTimedelta().total_seconds() for step, took in timings.items()}


@dataclass
class _Log:
    """Where reading a command's output is. Bytes that come twice are dropped, bytes that never come are a gap."""

    collector: Collector
    on_output: Callable[[str], None] | None
    offset: int = 0

    def take(self, record: pb.LogRecord) -> pb.Exit | None:
        """Add a record. Returns the exit record."""
        match record.WhichOneof("record"):
            case "data":
                self._data(record.data)
            case "gap":
                self._skip_to(record.gap.to)
            case "exit":
                return record.exit
        return None

    def _data(self, data: pb.Data) -> None:
        self._skip_to(data.offset)
        fresh = data.data[self.offset - data.offset :]
        self.offset += len(fresh)
        text = self.collector.feed(data.stream, fresh)
        if text and self.on_output is not None:
            self.on_output(text)

    def _skip_to(self, offset: int) -> None:
        if offset > self.offset:
            self.collector.gap(offset - self.offset)
            self.offset = offset


def _result(exec_id: str, ended: pb.Exit, collector: Collector) -> CommandResult:
    cause = name_of(pb.ExitCause.DESCRIPTOR, ended.cause)
    if cause in _GONE:
        raise SandboxError(_GONE[cause], ended.message or "the sandbox went away under a command", {"cause": cause})
    text = collector.finish()
    return CommandResult(
        exec_id=exec_id,
        exit_code=TIMED_OUT_CODE if cause == "TIMED_OUT" else ended.code,
        cause=cause,
        output=text.text,
        output_chars=text.chars,
        truncated=text.truncated,
        seconds=ended.wall.ToTimedelta().total_seconds(),
        message=ended.message,
    )
