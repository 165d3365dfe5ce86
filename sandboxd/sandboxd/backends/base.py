"""What every backend must be able to do, and the values that pass between a backend and the rest of the daemon.

A backend makes sandboxes, starts commands in them, and leaves nothing behind. It knows nothing of leases, owners,
gRPC or policy: leases wrap it, and the egress gateway serves the listening sockets that it hands over.
`tests/contract` is the list of behaviours that each backend must show; a backend is done when it passes.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class BackendKind(StrEnum):
    """The backends by the names that people type; the wire's `BackendKind` has the same members."""

    DOCKER = "docker"
    BUBBLEWRAP = "bubblewrap"
    SEATBELT = "seatbelt"
    LOCAL = "local"


class BackendError(Exception):
    """A backend could not do what was asked. `reason` is a name of the wire's `Reason`; the text is for people."""

    def __init__(self, reason: str, message: str, **metadata: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.metadata = metadata


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a backend can be used on this host now; `why` and `remedy` are sentences for people."""

    available: bool
    why: str = ""
    remedy: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one sandbox. Bytes, processes and cores."""

    cpus: float = 2.0
    memory_bytes: int = 4 << 30
    pids: int = 1024
    disk_bytes: int = 8 << 30
    nofile: int = 65536


@dataclass(frozen=True, slots=True)
class SandboxRequest:
    """What a sandbox should be. `environment` is the whole environment: nothing of the daemon's is added.

    `ca_bundle` is a host path that the sandbox sees read-only at `environment.CA_BUNDLE_PATH`.
    `max_lifetime` is in seconds; a backend may use it as a second guard behind the lease.
    """

    sandbox_id: str
    image: str
    limits: Limits
    environment: Mapping[str, str]
    ca_bundle: str | None = None
    max_lifetime: float = 24 * 3600.0


class Stream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"


class OutputSink(Protocol):
    """Takes a command's output. Called from any thread, in order per stream; must not block for long."""

    def write(self, stream: Stream, data: bytes | memoryview) -> None: ...


@dataclass(frozen=True, slots=True)
class ExecRequest:
    """One command. `cwd` is absolute or relative to the workspace; `environment` is added to the sandbox's."""

    exec_id: str
    argv: Sequence[str]
    cwd: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""


@dataclass(frozen=True, slots=True)
class Exited:
    """How the main process ended: a `code` as a shell has it (128 + signal), and the signal or 0.

    `oom` when the kernel ended it for memory. `start_error` is set when there was nothing to run (code 126 or 127).
    """

    code: int
    signal: int = 0
    oom: bool = False
    start_error: str = ""


class Running(Protocol):
    """A command that was started."""

    async def wait(self) -> Exited:
        """Return once the main process has ended and its pipes are drained (or 1 s passed: children may hold them)."""

    async def signal(self, number: int, *, everything: bool) -> None:
        """Signal the main process, or all that this command started. No error when it has ended."""

    async def kill(self) -> None:
        """End everything that this command started, setsid and double-forked children too; return when it is gone.

        What earlier commands of the sandbox left running goes on. Raises BackendError when it can't be achieved;
        the caller then ends the sandbox.
        """


@dataclass(frozen=True, slots=True)
class Planted:
    """Listening sockets in a sandbox's network namespace, made before its first command.

    They are owned by the caller from here on. `transparent` maps the port that clients dialled (80, 443) to the
    socket that takes it; `redirected` says that the kernel redirects there, so that `SO_ORIGINAL_DST` has the
    destination and the sandbox may bind 80 and 443 itself; otherwise `getsockname()` has it.

    With `announced` the sockets are unix sockets at the end of a relay, and the peer's name, after its last `-`, is the
    IPv4 address that was dialled.
    """

    proxy: socket.socket
    dns_udp: socket.socket
    dns_tcp: socket.socket
    transparent: Mapping[int, socket.socket]
    redirected: bool
    pool: str  # the network that synthetic addresses come from, as CIDR
    announced: bool = False


@dataclass(frozen=True, slots=True)
class LimitHit:
    """A limit that was reached: 'memory', 'pids' or 'disk', and its value (bytes or processes)."""

    kind: str
    value: int


class BackendSandbox(Protocol):
    """One sandbox of a backend."""

    image: str
    image_digest: str
    workspace: str  # as commands see it
    shell: str

    async def plant(self) -> Planted | None:
        """Make the listening sockets inside, once, before the first command. None on backends without a namespace."""

    async def self_test(self) -> None:
        """Check from inside that there is no way out but the gateway (which is serving by now); else BackendError."""

    async def start(self, request: ExecRequest, sink: OutputSink) -> Running:
        """Start a command. A program or directory that does not exist is an `Exited` with `start_error`, no error."""

    def limits_hit(self) -> AsyncIterator[LimitHit]:
        """Limits as they are reached, until the sandbox ends."""

    async def ended(self) -> str:
        """Return when the sandbox went away without `destroy` (engine stopped, PID 1 died), with the cause."""

    async def upload(self, path: bytes, archive: AsyncIterator[bytes]) -> tuple[int, int]:
        """Unpack a tar stream beneath the workspace, all or nothing; (bytes, entries). See `sandboxd.archive`."""

    def download(self, path: bytes, left_out: list[str]) -> AsyncIterator[bytes]:
        """Pack what is beneath a path of the workspace; names what was left out, and why, in `left_out`."""

    async def destroy(self) -> None:
        """Remove everything: processes, namespaces, mounts, directories. Idempotent; returns when it is gone."""


class Backend(Protocol):
    """A way of making sandboxes."""

    kind: BackendKind
    enforced: bool
    uses_image: bool

    async def probe(self) -> Availability:
        """Whether it can be used here, now. Never raises; answers within 10 s."""

    async def create(self, request: SandboxRequest) -> BackendSandbox:
        """Make a sandbox that runs nothing yet. Raises BackendError; leaves nothing behind when it does."""

    async def reap(self) -> Sequence[str]:
        """Remove what dead instances of this daemon left (never anybody else's); the sandbox ids removed."""

    async def close(self) -> None:
        """Release what the backend itself holds (clients, threads)."""
