"""One sandbox as the attempt and the agents see it: embedded, unix, ssh and TLS differ in how the channel was made."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Protocol

from quickstarted_api.v1 import sandbox_pb2 as pb


class SandboxError(Exception):
    """The daemon refused, or the sandbox or its runner is gone. `reason` is a name of the wire's `Reason`."""

    def __init__(self, reason: str, message: str, metadata: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.metadata = metadata or {}


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A command that ended. `output` is both streams interleaved as text, cut to `max_chars` with head and tail kept.

    `cause` is a name of the wire's `ExitCause`. `seconds` is the wall time on the runner.
    """

    exec_id: str
    exit_code: int
    cause: str
    output: str
    output_chars: int
    truncated: bool
    seconds: float
    message: str = ""

    @property
    def ok(self) -> bool:
        return self.cause == "EXITED" and self.exit_code == 0


@dataclass(frozen=True, slots=True)
class SandboxFacts:
    """What is honoured, recorded with every result."""

    sandbox_id: str
    backend: str
    enforced: bool
    image: str
    image_digest: str
    workspace: str
    shell: str
    runner: str
    node_id: str
    instance_id: str
    allow_private: tuple[str, ...] = ()
    timings: dict[str, float] = field(default_factory=dict)


class Sandbox(Protocol):
    """A leased sandbox. The lease is renewed in the background until `close`."""

    @property
    def facts(self) -> SandboxFacts: ...

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
        """Run shell text. With `session`, the directory and the exported variables carry over to the next command,
        as in a reader's terminal. Cancelling ends the command in the sandbox. Raises SandboxError."""

    def events(self) -> AsyncGenerator[pb.Event, None]:
        """The sandbox's events from the first on, live, until it is closed."""

    async def settle_events(self) -> None:
        """Return once every event of the commands that ended has been delivered to `events()`'s consumer."""

    async def close(self) -> None:
        """Destroy the sandbox and wait until it is gone. Idempotent."""
