"""The embedded runner: a sandboxd of our own, as a child process on a private unix socket.

It lives as long as we do. A pipe is its stdin, and we hold the other end: when we close it, or die of whatever, SIGKILL
included, it reads the end of the file, destroys everything and exits. It gets an environment made from an allowlist:
API keys exist in this process only.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from quickstarted.sandbox.base import SandboxError
from quickstarted.sandbox.calls import finish
from quickstarted.sandbox.connect import MAX_SOCKET_PATH, Address, from_path, open_channel
from quickstarted.sandbox.text import printable

START_SECONDS = 30.0
# It destroys all sandboxes before it exits.
STOP_SECONDS = 60.0
# Between two questions whether it serves; the first waits for the connection itself.
_HEALTH_PAUSE = 0.05
_TAIL_LINES = 15
_TAIL_BYTES = 16 * 1024
_PREFIX = "quickstarted-"
_LOCK = "lock"

# Names, and prefixes that end with an underscore.
_ENVIRONMENT = (
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_",
    "TZ",
    "TMPDIR",
    "XDG_",
    "DOCKER_",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "SANDBOXD_",
)


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """What of our environment the daemon gets."""
    return {
        name: value
        for name, value in environment.items()
        if any(name.startswith(allowed) if allowed.endswith("_") else name == allowed for allowed in _ENVIRONMENT)
    }


@dataclass(frozen=True, slots=True)
class Embedded:
    """A daemon that serves. `died` ends, with the error that tells how, if it dies before it is told to."""

    address: Address
    died: asyncio.Task[SandboxError]


@contextlib.asynccontextmanager
async def embedded(log: Path, command: Sequence[str] | None = None) -> AsyncIterator[Embedded]:
    """A daemon for as long as the context lasts; it and all that it made are gone at its end. Raises SandboxError.

    `log` takes what it writes on stderr; `command` is what to start instead of the installed sandboxd.
    """
    _sweep(Path(tempfile.gettempdir()))
    with _private_directory() as directory:
        address = from_path(directory / "sandboxd.sock")
        argv = [*(command or _command()), "serve", "--unix", address.socket, "--exit-with-stdin"]
        async with _child(argv, log) as process:
            died = asyncio.create_task(_death(process, log), name="sandboxd")
            try:
                await _until_serving(address, died, log)
                yield Embedded(address, died)
            finally:
                died.cancel()
                await asyncio.wait([died])


def _command() -> list[str]:
    if importlib.util.find_spec("sandboxd") is None:
        raise SandboxError(
            "BACKEND_DOWN",
            "the sandbox daemon is not installed here",
            {"remedy": "install sandboxd beside quickstarted, or name a runner with --sandboxd unix:/path"},
        )
    # -P: a sandboxd.py in the directory where somebody happens to be is not ours.
    return [sys.executable, "-P", "-m", "sandboxd"]


@contextlib.asynccontextmanager
async def _child(argv: Sequence[str], log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    theirs, ours = os.pipe()
    try:
        with log.open("ab") as stderr:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=theirs,
                stdout=stderr,
                stderr=stderr,
                env=scrubbed(os.environ),
                # Ctrl-C reaches us alone: what the daemon does about it is ours to say.
                start_new_session=True,
            )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    try:
        yield process
    finally:
        os.close(ours)
        await finish(_stop(process))


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Wait until the daemon, whose stdin was closed, has cleaned up and left; insist when it does not."""
    for insist in (process.terminate, process.kill):
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                insist()
        else:
            return
    await process.wait()


async def _death(process: asyncio.subprocess.Process, log: Path) -> SandboxError:
    code = await process.wait()
    how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
    return SandboxError("SANDBOX_LOST", f"sandboxd {how}{_tail(log)}", {"cause": "sandboxd died"})


async def _until_serving(address: Address, died: asyncio.Task[SandboxError], log: Path) -> None:
    serving = asyncio.create_task(_serving(address), name="sandboxd's health")
    try:
        await asyncio.wait([serving, died], timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        elif died.done():
            raise SandboxError("BACKEND_DOWN", died.result().message)
        else:
            raise SandboxError("BACKEND_DOWN", f"sandboxd did not start within {START_SECONDS:.0f} s{_tail(log)}")
    finally:
        serving.cancel()
        await asyncio.wait([serving])


async def _serving(address: Address) -> None:
    """Return once the daemon says that it serves."""
    channel = open_channel(address)
    from grpc import aio
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    try:
        while True:
            with contextlib.suppress(aio.AioRpcError):  # it broke: ask again
                answer = await health_pb2_grpc.HealthStub(channel).Check(  # type: ignore[attr-defined]  # not in its stubs
                    health_pb2.HealthCheckRequest(), wait_for_ready=True
                )
                if answer.status == health_pb2.HealthCheckResponse.SERVING:
                    return
            await asyncio.sleep(_HEALTH_PAUSE)
    finally:
        await channel.close()


def _tail(log: Path) -> str:
    """The last lines of the daemon's log, for a message; empty when it wrote nothing."""
    with log.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - _TAIL_BYTES, 0))
        lines = printable(file.read().decode("utf-8", "replace")).splitlines()[-_TAIL_LINES:]
    return "".join(["; the end of its log:", *(f"\n    {line}" for line in lines)]) if lines else ""


@contextlib.contextmanager
def _private_directory() -> Iterator[Path]:
    """A directory that only we can enter; locked while we live, so that a later run can tell it from litter."""
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_socket_directory()))
    try:
        with (directory / "lock.new").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (directory / "lock.new").rename(directory / _LOCK)
            yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _socket_directory() -> str:
    """Where sockets go: the usual temporary directory, unless its path is too long for a socket's."""
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(usual)) + 40 <= MAX_SOCKET_PATH else "/tmp"  # noqa: S108 - mkdtemp makes it private


def _sweep(parent: Path) -> None:
    """Remove the private directories of controllers that were killed."""
    for directory in parent.glob(f"{_PREFIX}*"):
        try:
            if directory.lstat().st_uid != os.getuid() or directory.is_symlink():
                continue
            with (directory / _LOCK).open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
        except OSError:
            continue  # in use, being made, or not ours
