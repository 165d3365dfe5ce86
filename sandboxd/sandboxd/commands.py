"""The commands of one sandbox: started once per id, timed by this daemon's clock, their output in logs.

A command outlives every call about it. It ends by itself, by its timeout, by a signal, or with its sandbox.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.duration_pb2 import Duration
from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd.backends.base import BackendError, BackendSandbox, ExecRequest, Exited, Running
from sandboxd.events import EventLog
from sandboxd.execlog import ExecLog
from sandboxd.refused import RefusedError

DEFAULT_OUTPUT_LIMIT = 10 << 20
KILL_SECONDS = 20.0


@dataclass
class Command:
    """One command and its log."""

    exec_id: str
    spec: pb.ExecSpec
    log: ExecLog[pb.Exit]
    started: float
    running: Running | None = None
    # Why it is being ended from outside, when it is; the first cause stands.
    cause: pb.ExitCause.ValueType = pb.EXIT_CAUSE_UNSPECIFIED
    message: str = ""
    attending: asyncio.Task[None] | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    def blame(self, cause: pb.ExitCause.ValueType, message: str = "") -> None:
        """Say why it is ended, unless something was said before."""
        if self.cause == pb.EXIT_CAUSE_UNSPECIFIED:
            self.cause, self.message = cause, message

    def to_pb(self, sandbox_id: str) -> pb.Exec:
        ended = self.log.exit
        return pb.Exec(
            sandbox_id=sandbox_id,
            exec_id=self.exec_id,
            spec=self.spec,
            running=ended is None,
            exit=ended,
            end_offset=self.log.end,
        )


class Commands:
    """The commands of a sandbox. `on_stuck` is called when one can't be ended: the sandbox must be."""

    def __init__(
        self, backend: BackendSandbox, events: EventLog, directory: Path, on_stuck: Callable[[str], None]
    ) -> None:
        self._backend = backend
        self._events = events
        self._directory = directory
        self._on_stuck = on_stuck
        self._commands: dict[str, Command] = {}
        self._running: dict[str, Command] = {}
        self._closed = False

    def ids(self) -> list[str]:
        """All commands, in the order of their start."""
        return list(self._commands)

    def get(self, exec_id: str) -> Command:
        """Raises RefusedError (EXEC_UNKNOWN)."""
        command = self._commands.get(exec_id)
        if command is None:
            raise RefusedError("EXEC_UNKNOWN", f"there is no command {exec_id!r} in this sandbox", exec_id=exec_id)
        return command

    async def start(self, exec_id: str, spec: pb.ExecSpec) -> Command:
        """Start a command, or find the one with this id. Raises RefusedError."""
        known = self._commands.get(exec_id)
        if known is not None:
            if known.spec != spec:
                raise RefusedError("ID_REUSED", f"command {exec_id!r} exists with another spec", exec_id=exec_id)
            await known.ready.wait()
            return known
        if self._closed:
            raise RefusedError("NOT_READY", "the sandbox is being ended")
        limit = spec.output_limit or DEFAULT_OUTPUT_LIMIT
        loop = asyncio.get_running_loop()

        def on_cut() -> None:
            loop.call_soon_threadsafe(self._events.limit, pb.LimitReached.OUTPUT, limit, exec_id)

        log: ExecLog[pb.Exit] = ExecLog(self._directory / f"{exec_id}.log", max(4096, limit), on_cut)
        command = Command(exec_id, spec, log, time.monotonic())
        self._commands[exec_id] = self._running[exec_id] = command
        command.attending = asyncio.create_task(self._attend(command), name=f"exec {exec_id}")
        await command.ready.wait()
        return command

    def running(self) -> list[str]:
        """The ids of those that run."""
        return list(self._running)

    async def signal(self, exec_id: str, number: int, everything: bool) -> Command:
        """Signal a command. One that has ended is left as it is."""
        command = self.get(exec_id)
        if command.running is not None and command.log.exit is None:
            if number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP):
                command.blame(pb.SIGNALED_BY_CLIENT)
            if everything and number == signal.SIGKILL:
                await self._kill(command)
            else:
                await command.running.signal(number, everything=everything)
        return command

    def limit_hit(self, kind: pb.LimitReached.Kind.ValueType, value: int) -> None:
        """The backend ended something because a limit of the sandbox was reached."""
        causes = {pb.LimitReached.MEMORY: pb.OOM_KILLED, pb.LimitReached.DISK: pb.DISK_LIMIT}
        if kind in causes:
            for command in self._running.values():
                command.blame(causes[kind], f"the sandbox's limit of {value} bytes was reached")
        self._events.limit(kind, value)

    async def end_all(self, cause: pb.ExitCause.ValueType) -> None:
        """The sandbox has ended: so have its commands. Each gets its exit record."""
        self._closed = True
        for command in list(self._running.values()):
            command.blame(cause)
            if command.attending is not None:
                command.attending.cancel()
        tasks = [command.attending for command in self._running.values() if command.attending is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=KILL_SECONDS)

    def close(self) -> None:
        """Give the logs' disk space back."""
        for command in self._commands.values():
            command.log.close()

    async def _attend(self, command: Command) -> None:
        exited = Exited(code=137, signal=signal.SIGKILL)
        try:
            command.running = await self._start(command)
            command.ready.set()
            exited = await self._wait(command, command.running)
        except BackendError as error:
            command.blame(pb.START_FAILED, error.message)
            exited = Exited(code=126, start_error=error.message)
        except asyncio.CancelledError:
            command.blame(pb.SANDBOX_DESTROYED)
        finally:
            self._finish(command, exited)

    async def _start(self, command: Command) -> Running:
        spec = command.spec
        request = ExecRequest(command.exec_id, tuple(spec.argv), spec.cwd, dict(spec.env), spec.stdin)
        return await self._backend.start(request, command.log)

    async def _wait(self, command: Command, running: Running) -> Exited:
        waiting = asyncio.ensure_future(running.wait())
        try:
            done, _ = await asyncio.wait({waiting}, timeout=seconds(command.spec.timeout))
            if done:
                return waiting.result()
            command.blame(pb.TIMED_OUT)
            self._events.limit(pb.LimitReached.TIME, int(1000 * seconds(command.spec.timeout)), command.exec_id)
            grace = seconds(command.spec.kill_grace)
            if grace > 0:
                await running.signal(signal.SIGTERM, everything=True)
                await asyncio.wait({waiting}, timeout=grace)
            # Also after it went in peace: what it started must be gone too.
            await self._kill(command)
            async with asyncio.timeout(KILL_SECONDS):
                return await waiting
        except TimeoutError:
            self._on_stuck(f"command {command.exec_id} could not be ended")
            return Exited(code=137, signal=signal.SIGKILL)
        finally:
            waiting.cancel()

    async def _kill(self, command: Command) -> None:
        assert command.running is not None
        try:
            async with asyncio.timeout(KILL_SECONDS):
                await command.running.kill()
        except (TimeoutError, BackendError) as error:
            self._on_stuck(f"command {command.exec_id} could not be ended: {error or 'it took too long'}")

    def _finish(self, command: Command, exited: Exited) -> None:
        if exited.start_error:
            command.blame(pb.START_FAILED, exited.start_error)
        elif exited.oom:
            command.blame(pb.OOM_KILLED)
        command.blame(pb.EXITED)
        wall = Duration()
        wall.FromNanoseconds(int(1e9 * (time.monotonic() - command.started)))
        self._events.flush()
        self._running.pop(command.exec_id, None)
        command.log.finish(
            pb.Exit(
                cause=command.cause,
                code=exited.code,
                signal=exited.signal,
                wall=wall,
                output_bytes=command.log.end,
                cut_bytes=command.log.cut,
                message=command.message,
            )
        )
        command.ready.set()


def seconds(duration: Duration) -> float:
    """A duration in seconds."""
    return float(duration.seconds) + duration.nanos / 1e9


def to_duration(value: float) -> Duration:
    """Seconds as a duration; never negative."""
    duration = Duration()
    duration.FromNanoseconds(max(0, int(1e9 * value)))
    return duration
