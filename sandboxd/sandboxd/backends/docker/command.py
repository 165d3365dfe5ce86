"""A command in a container: from the engine's exec to how it ended.

The engine starts `start.sh`, which announces its process on stderr and waits. The daemon then places that process in a
control group of its own, where it may, and only then lets it become the command. On the engine's own host the output
comes through a pipe of ours: the engine closes its own two seconds after a command's end, and a server that the command
left running would fail at its next line of output.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import docker
import docker.errors

from sandboxd.backends.base import BackendError, Exited, OutputSink, Stream
from sandboxd.backends.docker.cgroup import CgroupError, CommandGroup
from sandboxd.backends.docker.client import EngineClient, Hijacked, reason_of, status_of
from sandboxd.backends.docker.frames import STDOUT, Demultiplexer
from sandboxd.backends.docker.pump import Pipe, Pump
from sandboxd.backends.docker.spec import SHARED

ANNOUNCE_SECONDS = 30.0
# How long output may still come after the main process ended: children may hold the pipe for ever.
DRAIN_SECONDS = 1.0
SETTLE_SECONDS = 5.0
PIPE_BYTES = 1 << 20
F_SETPIPE_SZ = 1031
ANNOUNCEMENT_BYTES = 4096

# How a shell answers for what `start.sh` refuses (POSIX.1-2017, XCU 2.8.2).
REFUSALS = {
    "missing": (127, "no such program: {program}"),
    "denied": (126, "not a program: {program}"),
    "directory": (126, "no such directory: {cwd}"),
}


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command as the engine gets it."""

    argv: Sequence[str]
    cwd: str
    environment: Sequence[str]
    stdin: bytes


class OutputPipe:
    """A named pipe in the directory that the container sees read-only; the name is gone once the command has it."""

    def __init__(self, directory: Path) -> None:
        name = secrets.token_hex(8)
        self.inside = f"{SHARED}/{name}"
        self._path = directory / name
        os.mkfifo(self._path)
        self._path.chmod(0o622)  # the container's root may be another user of this host
        fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.source = Pipe(fd)
        with contextlib.suppress(OSError):
            # Larger is faster; an ordinary user's pipes have a limit together.
            fcntl.fcntl(fd, F_SETPIPE_SZ, PIPE_BYTES)

    def unlink(self) -> None:
        """Take the name away. Idempotent."""
        self._path.unlink(missing_ok=True)


class Command:
    """A command that the engine has been asked to start. Drive it with `begin`; then it is as `Running` has it."""

    def __init__(
        self,
        client: EngineClient,
        container: str,
        pump: Pump,
        spec: CommandSpec,
        sink: OutputSink,
        pipe: OutputPipe | None,
    ) -> None:
        self._client = client
        self._container = container
        self._pump = pump
        self._spec = spec
        self._sink: OutputSink | None = sink
        self._pipe = pipe
        self._loop = asyncio.get_running_loop()
        self._frames = Demultiplexer()
        self._said = bytearray()
        self._announced: asyncio.Future[str] = self._loop.create_future()
        self._closed = asyncio.Event()
        self._drained = asyncio.Event()
        self._exec = ""
        self._stream: Hijacked | None = None
        self._abandoned = False
        # The first process as the container numbers it, and when it began, in ticks since the host's start.
        self.inner_pid = 0
        self.began = 0
        self.group: CommandGroup | None = None

    async def begin(self, place: Callable[[int], CommandGroup | None]) -> Exited | None:
        """Start it; `place` is called with its process before it runs. An `Exited` when there was nothing to run."""
        try:
            async with asyncio.timeout(ANNOUNCE_SECONDS):
                self._stream = await self._open()
                word, _, value = (await self._announced).partition("=")
                if word == "pid":
                    self._read_stat(value)
                    self.group = place(self.inner_pid)
                    if self._pipe is not None:
                        self._pump.add(self._pipe.source, self._output, self._on_drained)
                    await self._go()
                    return None
                await self._closed.wait()
                self._discard()
                return await self._refused(word, value)
        except (TimeoutError, CgroupError, OSError, ValueError) as error:
            self.abandon()
            raise BackendError("SANDBOX_LOST", f"a command could not be started: {error or 'no answer'}") from error
        except BaseException:
            self.abandon()
            raise
        finally:
            if self._pipe is not None:
                self._pipe.unlink()

    def _read_stat(self, line: str) -> None:
        # proc(5): the number, the name in brackets, and 18 fields on from the state the time of its start.
        number, _, rest = line.partition(" ")
        self.began = int(rest.rpartition(")")[2].split()[19])
        self.inner_pid = int(number)

    async def _open(self) -> Hijacked:
        inside = self._pipe.inside if self._pipe else ""
        mode = "input" if self._spec.stdin else ""
        command = ["/bin/sh", "-c", _start_script(), "sh", inside, self._spec.cwd, mode, *self._spec.argv]

        def work(api: docker.APIClient) -> Hijacked:
            made = api.exec_create(
                self._container, command, stdin=True, environment=list(self._spec.environment), user="0:0", workdir="/"
            )
            self._exec = made["Id"]
            stream = Hijacked(api.exec_start(made["Id"], socket=True))
            if self._abandoned:
                stream.close()  # the end of its input makes start.sh give up
            return stream

        try:
            stream = await self._client.call(work, deadline=ANNOUNCE_SECONDS)
        except docker.errors.APIError as error:
            if status_of(error) in (404, 409):
                raise BackendError("SANDBOX_LOST", f"the container is gone: {reason_of(error)}") from error
            raise BackendError("BUG", f"the engine refused a command: {reason_of(error)}") from error
        self._pump.add(stream, self._received, self._on_closed)
        return stream

    async def _go(self) -> None:
        stream = self._stream
        assert stream is not None

        def send(_: docker.APIClient) -> None:
            stream.send(b"\n" + self._spec.stdin)
            if self._spec.stdin:
                stream.end_input()

        if self._spec.stdin:
            await self._client.call(send)
        else:
            stream.send(b"\n")

    # In the pump's thread.

    def _received(self, data: bytes) -> None:
        for stream, payload in self._frames.feed(data):
            if self.inner_pid and stream == STDOUT:
                self._output(bytes(payload))
            elif len(self._said) < ANNOUNCEMENT_BYTES:
                self._said += payload
                if b"\n" in self._said and not self._announced.done():
                    self._tell(self._announce)

    def _on_closed(self) -> None:
        self._tell(self._end_of_stream)

    def _on_drained(self) -> None:
        self._tell(self._drained.set)

    def _output(self, data: bytes) -> None:
        sink = self._sink
        if sink is not None:
            sink.write(Stream.STDOUT, data)

    def _tell(self, work: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
            self._loop.call_soon_threadsafe(work)

    # In the loop again.

    def _announce(self) -> None:
        if not self._announced.done():
            self._announced.set_result(self._said.split(b"\n", 1)[0].decode(errors="replace"))

    def _end_of_stream(self) -> None:
        if not self._announced.done():
            self._announced.set_result("engine=")
        self._closed.set()
        if self._pipe is None:
            self._drained.set()

    async def _refused(self, word: str, value: str) -> Exited:
        if word == "refused" and value in REFUSALS:
            code, text = REFUSALS[value]
            return Exited(code, start_error=text.format(program=self._spec.argv[0], cwd=self._spec.cwd))
        # The engine itself could not start the shell; what it says comes in place of output.
        await self._inspect()
        said = self._said.decode(errors="replace").strip()
        return Exited(126, start_error=said or "the engine started nothing and gave no reason")

    async def finish(self) -> Exited:
        """Wait for the main process's end and its output; `Exited` without the cause that only the sandbox knows."""
        await self._closed.wait()
        code = await self._inspect()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._drained.wait()
        self._sink = None  # what comes later is read and thrown away
        number = code - 128 if 128 < code <= 128 + signal.NSIG else 0
        return Exited(code, signal=number)

    async def _inspect(self) -> int:
        """The exit code. A container that is gone took the command with it, by SIGKILL."""
        gone = 128 + signal.SIGKILL
        deadline = self._loop.time() + SETTLE_SECONDS
        while True:
            try:
                found = await self._client.call(lambda api: api.exec_inspect(self._exec))
            except docker.errors.APIError as error:
                if status_of(error) in (404, 409):
                    return gone
                raise BackendError("BACKEND_DOWN", reason_of(error)) from error
            if not found["Running"]:
                code = found["ExitCode"]
                return gone if code is None else int(code)
            if self._loop.time() > deadline:
                raise BackendError("SANDBOX_LOST", "the engine lost a command that it calls running")
            # The stream has ended and the engine is about to write the code down.
            await asyncio.sleep(0.01)

    def abandon(self) -> None:
        """Let go of connections and pipes, because the sandbox is going away."""
        self._abandoned = True
        self._sink = None
        if self._stream is not None:
            self._pump.drop(self._stream)
        self._discard()

    def _discard(self) -> None:
        if self._pipe is not None:
            self._pump.drop(self._pipe.source)
            self._pipe.source.close()


def _start_script() -> str:
    return resources.files("sandboxd.backends.docker").joinpath("start.sh").read_text(encoding="utf-8")
