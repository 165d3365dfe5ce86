"""The commands of one sandbox: started once per id, timed by this daemon's clock, their output in logs.

A command outlives every call about it. It ends by itself, by its timeout, by a signal, or with its sandbox. What can't
be started or ended for the backend's reasons takes the sandbox with it: nobody knows then what runs in there.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from google.protobuf.duration_pb2 import Duration
from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd.backends.base import BackendError, BackendSandbox, ExecRequest, Exited, Running
from sandboxd.events import EventLog
from sandboxd.execlog import ExecLog
from sandboxd.refused import RefusedError

DEFAULT_OUTPUT_LIMIT = 10 << 20
MIN_OUTPUT_LIMIT = 4096
START_SECONDS = 60.0
KILL_SECONDS = 20.0
# Of one sandbox: commands, and bytes of output on disk. Past the bytes, the oldest complete logs are dropped.
MAX_COMMANDS = 10_000
MAX_KEPT_BYTES = 2 << 30

KILLED = Exited(code=128 + signal.SIGKILL, signal=signal.SIGKILL)
NOT_STARTED = 126
# A command that gets one of these is taken to have ended by it, whatever it made of it.
_ENDING = (signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)

_log = structlog.get_logger()


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
    signalled: bool = False
    out_of_memory: bool = False
    attending: asyncio.Task[None] | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    def blame(self, cause: pb.ExitCause.ValueType, message: str = "") -> None:
        """Say why it is ended, unless something was said before."""
        if self.cause == pb.EXIT_CAUSE_UNSPECIFIED:
            self.cause, self.message = cause, message

    def to_pb(self, sandbox_id: str) -> pb.Exec:
        """The command as the contract has it."""
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
    """The commands of a sandbox. `on_stuck` is called when one can't be ended or started: the sandbox must be ended."""

    def __init__(
        self, backend: BackendSandbox, events: EventLog, directory: Path, on_stuck: Callable[[str], None]
    ) -> None:
        self._backend = backend
        self._events = events
        self._directory = directory
        self._on_stuck = on_stuck
        self._commands: dict[str, Command] = {}
        self._running: dict[str, Command] = {}
        self._complete: list[tuple[ExecLog[pb.Exit], int]] = []
        self._kept = 0
        self._closed = False
        self._ending: set[asyncio.Task[None]] = set()

    def ids(self) -> list[str]:
        """All commands, in the order of their start."""
        return list(self._commands)

    def __contains__(self, exec_id: str) -> bool:
        return exec_id in self._commands

    def get(self, exec_id: str) -> Command:
        """Raises RefusedError (EXEC_UNKNOWN)."""
        command = self._commands.get(exec_id)
        if command is None:
            raise RefusedError("EXEC_UNKNOWN", f"there is no command {exec_id!r} in this sandbox", exec_id=exec_id)
        return command

    def running(self) -> list[str]:
        """The ids of those that run."""
        return list(self._running)

    async def start(self, exec_id: str, spec: pb.ExecSpec) -> Command:
        """Start a command, or find the one with this id; returns when it was started, or could not be.

        Raises RefusedError.
        """
        known = self._commands.get(exec_id)
        if known is not None:
            if known.spec != spec:
                raise RefusedError("ID_REUSED", f"command {exec_id!r} exists with another spec", exec_id=exec_id)
            await known.ready.wait()
            return known
        if self._closed:
            raise RefusedError("NOT_READY", "the sandbox is being ended")
        if len(self._commands) >= MAX_COMMANDS:
            raise RefusedError("LIMIT_PER_OWNER", f"this sandbox has had {MAX_COMMANDS} commands: make another")
        command = Command(exec_id, spec, self._new_log(exec_id, spec), time.monotonic())
        self._commands[exec_id] = self._running[exec_id] = command
        command.attending = asyncio.create_task(self._attend(command), name=f"exec {exec_id}")
        await command.ready.wait()
        return command

    def _new_log(self, exec_id: str, spec: pb.ExecSpec) -> ExecLog[pb.Exit]:
        limit = max(MIN_OUTPUT_LIMIT, spec.output_limit or DEFAULT_OUTPUT_LIMIT)
        loop = asyncio.get_running_loop()

        def on_cut() -> None:
            loop.call_soon_threadsafe(self._output_cut, exec_id, limit)

        try:
            return ExecLog(self._directory / f"{exec_id}.log", limit, on_cut)
        except OSError as error:
            raise RefusedError("DISK_LOW", f"there is no room for the command's log: {error.strerror}") from error

    def _output_cut(self, exec_id: str, limit: int) -> None:
        spoilt = self._commands[exec_id].log.spoilt
        if spoilt:
            _log.error("output_lost", exec_id=exec_id, error=spoilt)
        else:
            self._events.limit(pb.LimitReached.OUTPUT, limit, exec_id)

    async def signal(self, exec_id: str, number: int, *, everything: bool) -> Command:
        """Signal a command. One that has ended is left as it is."""
        command = self.get(exec_id)
        if command.running is None or command.log.exit is not None:
            return command
        command.signalled = command.signalled or number in _ENDING
        if everything and number == signal.SIGKILL:
            await self._kill(command)
        else:
            await command.running.signal(number, everything=everything)
        return command

    def limit_hit(self, kind: pb.LimitReached.Kind.ValueType, value: int) -> None:
        """A limit of the sandbox was reached."""
        self._events.limit(kind, value)
        if kind == pb.LimitReached.MEMORY:
            for command in self._running.values():
                command.out_of_memory = True
        elif kind == pb.LimitReached.DISK:
            for command in self._running.values():
                command.blame(pb.DISK_LIMIT, f"the sandbox's limit of {value} bytes on disk was reached")
            self._own(self._end_writers())

    async def _end_writers(self) -> None:
        """Whatever writes past the disk's limit is ended, what earlier commands left running too."""
        for command in sorted(self._commands.values(), key=lambda each: each.log.exit is not None):
            if command.running is not None:
                await self._kill(command)

    async def end_all(self, cause: pb.ExitCause.ValueType) -> None:
        """The sandbox has ended: so have its commands. Each gets its exit record."""
        self._closed = True
        tasks = [*self._ending]
        for command in list(self._running.values()):
            command.blame(cause)
            if command.attending is not None:
                tasks.append(command.attending)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=KILL_SECONDS)

    def close(self) -> None:
        """Give the logs' disk space back."""
        for command in self._commands.values():
            command.log.drop()

    # --- one command ----------------------------------------------------------------------------------------------

    async def _attend(self, command: Command) -> None:
        exited = KILLED
        try:
            exited = await self._run(command)
        except asyncio.CancelledError:
            command.blame(pb.SANDBOX_DESTROYED)
        except Exception as error:  # noqa: BLE001 - its exit record must come whatever a backend does
            _log.exception("command_failed", exec_id=command.exec_id)
            command.blame(pb.EXEC_SANDBOX_LOST, f"an unexpected error of the daemon: {type(error).__name__}")
            self._on_stuck(f"the daemon failed with command {command.exec_id}")
        finally:
            self._finish(command, exited)

    async def _run(self, command: Command) -> Exited:
        try:
            async with asyncio.timeout(START_SECONDS):
                command.running = await self._start(command)
        except (BackendError, TimeoutError) as error:
            why = str(error) or f"it took more than {START_SECONDS:g} s"
            command.blame(pb.EXEC_SANDBOX_LOST, f"the command could not be started: {why}")
            self._on_stuck(f"command {command.exec_id} could not be started: {why}")
            return Exited(code=NOT_STARTED)
        command.ready.set()
        return await self._wait(command, command.running)

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
        except (TimeoutError, BackendError) as error:
            self._on_stuck(f"command {command.exec_id} could not be ended: {error or 'it took too long'}")
            return KILLED
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
        _judge(command, exited)
        wall = to_duration(time.monotonic() - command.started)
        # Who has seen the exit record has a right to all events of the time before it.
        self._events.flush()
        self._running.pop(command.exec_id, None)
        message = command.message
        if command.log.spoilt:
            message = f"{message}{'; ' if message else ''}its output could not be kept: {command.log.spoilt}"

        def exit_of(written: int, cut: int) -> pb.Exit:
            return pb.Exit(
                cause=command.cause,
                code=exited.code,
                signal=exited.signal,
                wall=wall,
                output_bytes=written,
                cut_bytes=cut,
                message=message,
            )

        command.log.finish(exit_of)
        command.ready.set()
        self._retain(command.log)

    def _retain(self, log: ExecLog[pb.Exit]) -> None:
        self._complete.append((log, log.end - log.cut))
        self._kept += self._complete[-1][1]
        while self._kept > MAX_KEPT_BYTES and len(self._complete) > 1:
            oldest, size = self._complete.pop(0)
            oldest.drop()
            self._kept -= size

    def _own(self, work: Coroutine[object, object, None]) -> None:
        """Keep a task alive until it is done."""
        task = asyncio.create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def _judge(command: Command, exited: Exited) -> None:
    """Say why it ended, unless it was ended from outside for a reason that is known."""
    if exited.start_error:
        command.blame(pb.START_FAILED, exited.start_error)
    elif exited.oom or (command.out_of_memory and exited.code == KILLED.code):
        command.blame(pb.OOM_KILLED)
    elif command.signalled:
        command.blame(pb.SIGNALED_BY_CLIENT)
    command.blame(pb.EXITED)


def seconds(duration: Duration) -> float:
    """A duration in seconds."""
    return float(duration.seconds) + duration.nanos / 1e9


def to_duration(value: float) -> Duration:
    """Seconds as a duration; never negative."""
    duration = Duration()
    duration.FromNanoseconds(max(0, int(1e9 * value)))
    return duration
