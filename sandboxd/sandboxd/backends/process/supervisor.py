"""A supervisor as the daemon holds it: started, asked, and ended, with the commands that it runs.

It is trusted no further than the sandbox that it lives in: every answer is checked, and one that does not fit ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sandboxd
from sandboxd.backends.base import BackendError, Exited, Limits, OutputSink, Planted
from sandboxd.backends.process.channel import Channel, ChannelError
from sandboxd.backends.process.output import Output
from sandboxd.backends.process.spawn import Launch, Spawner, drain
from sandboxd.inside import frames, processes
from sandboxd.inside.frames import Frame, FrameError
from sandboxd.inside.sockets import CAPTURED_PORTS

READY_SECONDS = 20.0
ANSWER_SECONDS = 20.0
# A supervisor that is process 1 of its namespace ends at once; another first ends what it has.
PATIENCE_SECONDS = 6.0
END_SECONDS = 15.0
POLL_SECONDS = 0.005
# More than any kernel takes for arguments and environment together (execve(2), a quarter of the stack's limit).
MAX_COMMAND = 3 << 20

# How the supervisor's code is started. Its package is a bare one, because the daemon's own has more to import; the
# first argument is the directory in which `inside` is.
CODE = (
    "import sys, types; "
    "package = sys.modules['sandboxd'] = types.ModuleType('sandboxd'); "
    "package.__path__ = [sys.argv.pop(1)]; "
    "from sandboxd.inside.supervisor import main; main()"
)
PACKAGE = Path(sandboxd.__file__).parent


def interpreter() -> str:
    """The real interpreter behind a virtual environment's."""
    return str(Path(getattr(sys, "_base_executable", sys.executable) or sys.executable).resolve())


def program(package: str, descriptor: int) -> list[str]:
    """The supervisor's command line. `package` is where it sees the directory that holds `inside`."""
    return [interpreter(), "-I", "-S", "-c", CODE, package, str(descriptor)]


@dataclass(frozen=True, slots=True)
class Isolation:
    """What an isolated supervisor gives up before the first command: see `sandboxd.inside.system.seal`.

    `tmpfs` are memory file systems and their sizes in bytes; `empty` is an empty directory in the sandbox.
    """

    uid: int
    gid: int
    seccomp: bytes
    empty: str
    tmpfs: Mapping[str, int]


class Command:
    """A command as the supervisor knows it. Without `output` it was refused before it could start."""

    def __init__(self, number: int, output: Output | None) -> None:
        self.number = number
        self.output = output
        self.exited: asyncio.Future[Exited] = asyncio.get_running_loop().create_future()
        self.out_of_memory = False
        self.killed: asyncio.Future[None] | None = None

    def end(self, code: int, number: int = 0, text: str = "") -> None:
        """Its main process ended with a code, or by a signal of this number. The first end stands."""
        if not self.exited.done():
            self.exited.set_result(Exited(code, number, oom=self.out_of_memory, start_error=text))


class Supervisor:
    """A running supervisor. Make one with `launch`."""

    def __init__(self, process: subprocess.Popen[bytes], own: socket.socket, errors: int) -> None:
        loop = asyncio.get_running_loop()
        self._process = process
        self._errors = errors
        self._ready: asyncio.Future[None] = loop.create_future()
        self._answers: dict[int, asyncio.Future[tuple[Frame, list[int]]]] = {}
        self._number = 0
        self._commands: dict[int, Command] = {}
        # Done with the cause when the supervisor has ended, asked to or not.
        self.over: asyncio.Future[str] = loop.create_future()
        self.on_limit: Callable[[str], None] = lambda kind: None
        self._channel = Channel(own, self._on_frame, self._on_end)

    @classmethod
    async def launch(
        cls,
        spawner: Spawner,
        argv: Callable[[int], Sequence[str]],
        descriptors: Sequence[int] = (),
        uid: int | None = None,
    ) -> Supervisor:
        """Start one and wait until it runs. `argv` gets the number of its socket's descriptor.

        Raises BackendError (BACKEND_DOWN) with what it said on stderr; leaves nothing behind then.
        """
        own, its = socket.socketpair()
        errors, its_errors = os.pipe()
        try:
            with its:
                launch = Launch(argv(its.fileno()), its_errors, (*descriptors, its.fileno()), uid)
                process = await spawner.spawn(launch)
        except BaseException as error:
            own.close()
            os.close(errors)
            if isinstance(error, OSError):
                raise BackendError("BACKEND_DOWN", f"{launch.argv[0]} could not be started: {error}") from error
            raise
        finally:
            os.close(its_errors)
        supervisor = cls(process, own, errors)
        try:
            await supervisor._until_ready()
        except BaseException:
            await asyncio.shield(supervisor.end())
            raise
        return supervisor

    async def _until_ready(self) -> None:
        try:
            async with asyncio.timeout(READY_SECONDS):
                await self._ready
        except TimeoutError:
            raise BackendError(
                "BACKEND_DOWN", f"the sandbox did not come up in {READY_SECONDS:g} s: {self.said()}"
            ) from None

    @property
    def pid(self) -> int:
        """The supervisor as this host numbers it; 0 where the kernel doesn't say."""
        return self._channel.peer

    def pids(self) -> set[int]:
        """All processes below it, as this host numbers them. Blocking."""
        return processes.descendants(processes.read_table(), [self.pid]) if self.pid else set()

    def said(self) -> str:
        """What it, or what was to start it, wrote on stderr, for people."""
        return drain(self._errors) or "it said nothing"

    # --- asking -------------------------------------------------------------------------------------------------

    def configure(
        self, limits: Limits, isolation: Isolation | None, *, memory: int, pids: int, wrapper: Sequence[str] = ()
    ) -> None:
        """Tell it what it is for. `memory` and `pids` are what it has to watch itself, 0 where the kernel does.

        `wrapper` is a program with its arguments that runs each command.
        """
        fields: dict[str, str | bytes] = {
            "isolated": "no" if isolation is None else "yes",
            "uid": str(isolation.uid if isolation else 0),
            "gid": str(isolation.gid if isolation else 0),
            "seccomp": isolation.seccomp if isolation else b"",
            "empty": isolation.empty if isolation else "",
            "tmpfs": "\0".join(f"{path}={size}" for path, size in (isolation.tmpfs if isolation else {}).items()),
            "wrapper": "\0".join(wrapper),
            "memory": str(memory),
            "pids": str(pids),
            "nofile": str(limits.nofile),
            "fsize": str(limits.disk_bytes),
        }
        self._send(Frame(frames.CONFIGURE, 0, [_bytes(part) for item in fields.items() for part in item]))

    async def plant(self, *, may_redirect: bool) -> Planted:
        """Make the listening sockets in its network namespace. Raises BackendError."""
        frame, descriptors = await self._ask(frames.PLANT, [b"yes" if may_redirect else b"no"])
        sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        problem, redirected, pool = (*frame.fields, b"", b"")[:3]
        if problem or len(sockets) != 3 + len(CAPTURED_PORTS):
            for each in sockets:
                each.close()
            why = problem.decode(errors="replace") or "it handed over something else than its sockets"
            raise BackendError("ISOLATION_UNAVAILABLE", f"the sandbox's gateway could not be planted: {why}", why=why)
        for each in sockets:
            each.setblocking(False)
        proxy, dns_udp, dns_tcp, *captured = sockets
        transparent = dict(zip(CAPTURED_PORTS, captured, strict=True))
        return Planted(proxy, dns_udp, dns_tcp, transparent, redirected == b"yes", pool.decode())

    async def seal(self) -> str:
        """Have it give up every privilege; what went wrong, or nothing. Raises BackendError."""
        return (await self._ask(frames.SEAL))[0].fields[0].decode(errors="replace")

    async def test(self) -> str:
        """Have it look for a way out; what it found, or nothing. Raises BackendError."""
        return (await self._ask(frames.TEST))[0].fields[0].decode(errors="replace")

    async def _ask(self, kind: bytes, fields: Sequence[bytes] = ()) -> tuple[Frame, list[int]]:
        self._number += 1
        number = self._number
        answer: asyncio.Future[tuple[Frame, list[int]]] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            self._send(Frame(kind, number, fields))
            async with asyncio.timeout(ANSWER_SECONDS):
                return await answer
        except TimeoutError:
            raise BackendError("SANDBOX_LOST", "the sandbox's supervisor did not answer") from None
        finally:
            del self._answers[number]

    # --- commands -----------------------------------------------------------------------------------------------

    def start(
        self,
        argv: Sequence[str],
        cwd: str,
        environment: Mapping[str, str],
        stdin: bytes,
        sink: OutputSink,
        owner: int | None,
    ) -> Command:
        """Start a command. `owner` is the user who may open its streams by name. Raises BackendError."""
        try:
            fields = _fields(argv, cwd, environment)
        except ValueError as error:
            refused = Command(0, None)
            refused.end(126, text=str(error))
            return refused
        if self.over.done():
            raise BackendError("SANDBOX_LOST", self.over.result())
        output = Output(sink, owner)
        passed = [output.writing, *([_stdin(stdin, owner)] if stdin else [])]
        self._number += 1
        command = self._commands[self._number] = Command(self._number, output)
        output.start()
        try:
            self._send(Frame(frames.START, command.number, fields, len(passed)), passed)
        except BackendError:
            del self._commands[command.number]
            raise
        return command

    def signal(self, command: Command, number: int, *, everything: bool) -> None:
        """Signal a command, if there is anything left of it."""
        if command.number in self._commands and not self.over.done():
            fields = [b"%d" % number, b"all" if everything else b"main"]
            self._send(Frame(frames.SIGNAL, command.number, fields))

    async def kill(self, command: Command) -> None:
        """End all that a command started; return when it is gone. Raises BackendError."""
        if command.number not in self._commands or self.over.done():
            return
        if command.killed is None or command.killed.done():
            command.killed = asyncio.get_running_loop().create_future()
            self._send(Frame(frames.KILL, command.number))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await asyncio.shield(command.killed)
        except TimeoutError:
            raise BackendError("SANDBOX_LOST", "the sandbox's supervisor did not answer") from None

    async def kill_all(self) -> None:
        """End all that runs, what earlier commands left included. Raises BackendError."""
        await asyncio.gather(*(self.kill(command) for command in list(self._commands.values())))

    @property
    def busy(self) -> bool:
        """Whether anything of any command is left."""
        return bool(self._commands)

    # --- what it says -------------------------------------------------------------------------------------------

    def _send(self, frame: Frame, descriptors: Sequence[int] = ()) -> None:
        try:
            self._channel.send(frame, descriptors)
        except (ChannelError, FrameError) as error:
            raise BackendError("SANDBOX_LOST", f"the sandbox can't be reached: {error}") from error

    def _on_frame(self, frame: Frame, descriptors: list[int]) -> None:
        answer = self._answers.get(frame.number) if frame.kind == frames.ANSWER else None
        if answer is not None and not answer.done():
            answer.set_result((frame, descriptors))
            return
        for descriptor in descriptors:
            os.close(descriptor)
        try:
            self._take(frame)
        except (ValueError, IndexError) as error:
            raise FrameError(f"a frame of kind {frame.kind!r} that makes no sense") from error

    def _take(self, frame: Frame) -> None:
        command = self._commands.get(frame.number)
        if frame.kind == frames.READY and not self._ready.done():
            self._ready.set_result(None)
        elif frame.kind == frames.LIMIT:
            kind = frame.fields[0].decode()
            if kind not in ("memory", "pids"):
                raise ValueError(kind)
            if command is not None:
                command.out_of_memory = True
            self.on_limit(kind)
        elif command is None:
            return  # of a command that is gone already
        elif frame.kind == frames.EXITED:
            code, number, text = frame.fields
            command.end(int(code) & 0xFF, int(number) & 0x7F, text.decode(errors="replace"))
        elif frame.kind == frames.GONE:
            del self._commands[frame.number]
            _settle(command, None)
        elif frame.kind == frames.DONE and frame.fields[0]:
            _settle(command, BackendError("SANDBOX_LOST", frame.fields[0].decode(errors="replace")))

    def _on_end(self, cause: str) -> None:
        self._channel.close()
        if self.over.done():
            return
        said = drain(self._errors)
        cause = f"{cause}: {said}" if said else cause
        self.over.set_result(cause)
        waiting: list[asyncio.Future[Any]] = [self._ready, *self._answers.values()]
        for future in waiting:
            if not future.done():
                future.set_exception(BackendError("BACKEND_DOWN", f"the sandbox ended: {cause}"))
                future.exception()  # it may be that nobody waits
        for command in self._commands.values():
            command.end(128 + signal.SIGKILL, signal.SIGKILL)
            _settle(command, None)

    # --- the end ------------------------------------------------------------------------------------------------

    async def end(self) -> None:
        """End it and everything in its sandbox; return when nothing of it is left. Idempotent.

        Raises BackendError when a process does not go away.
        """
        self._on_end("it was ended")
        clock = asyncio.get_running_loop().time
        began = clock()
        while self._process.poll() is None:
            if clock() > began + END_SECONDS:
                raise BackendError("BACKEND_DOWN", f"the sandbox's processes did not end in {END_SECONDS:g} s")
            if clock() > began + PATIENCE_SECONDS:
                self._kill()
            await asyncio.sleep(POLL_SECONDS)
        if self._errors >= 0:
            errors, self._errors = self._errors, -1
            os.close(errors)

    def _kill(self) -> None:
        # The number can't be another's: its parent, which would have to reap it, is there.
        if self.pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)
        self._process.kill()


def _settle(command: Command, error: BackendError | None) -> None:
    if command.killed is None or command.killed.done():
        return
    if error is None:
        command.killed.set_result(None)
    else:
        command.killed.set_exception(error)


def _fields(argv: Sequence[str], cwd: str, environment: Mapping[str, str]) -> list[bytes]:
    """A command as a frame has it. Raises ValueError when no kernel would take it."""
    if not argv:
        raise ValueError("a command without a program")
    if any("=" in name or not name for name in environment):
        raise ValueError("a variable whose name is empty or has '=' in it")
    variables = [f"{name}={value}" for name, value in environment.items()]
    try:
        fields = [os.fsencode(part) for part in (cwd, str(len(argv)), *argv, *variables)]
    except UnicodeEncodeError as error:
        raise ValueError(f"text that can't be encoded: {error.reason}") from error
    if any(b"\0" in field for field in fields):
        raise ValueError("a NUL in a command")
    if sum(len(field) for field in fields) > MAX_COMMAND:
        raise ValueError(f"a command and its environment of more than {MAX_COMMAND} bytes")
    return fields


def _bytes(text: str | bytes) -> bytes:
    return os.fsencode(text) if isinstance(text, str) else text


def _stdin(data: bytes, owner: int | None) -> int:
    """A file without a name that holds a command's input, at its start."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("stdin", os.MFD_CLOEXEC)
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    with contextlib.suppress(OSError):
        if owner is not None:
            os.fchown(descriptor, owner, owner)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
