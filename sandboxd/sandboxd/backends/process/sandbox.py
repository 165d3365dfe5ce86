"""One sandbox whose processes are this host's: what the backends that start a supervisor have in common."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from sandboxd.backends.base import BackendError, ExecRequest, Exited, LimitHit, Limits, OutputSink, Planted
from sandboxd.backends.process.files import Directories
from sandboxd.backends.process.group import Group
from sandboxd.backends.process.instances import discard
from sandboxd.backends.process.supervisor import Command, Isolation, Supervisor
from sandboxd.backends.process.watch import Watch

# How long output may still come after the main process ended: children may hold the pipe for ever.
DRAIN_SECONDS = 1.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Facts:
    """What commands see: the whole environment, the workspace's path, the shell's."""

    environment: Mapping[str, str]
    workspace: str
    shell: str


class ProcessSandbox:
    """A sandbox as `sandboxd.backends.base.BackendSandbox` has it. It owns what it is given.

    Without `isolation` it enforces nothing itself; a `wrapper` that runs each command may.
    """

    image = ""
    image_digest = ""

    def __init__(
        self,
        supervisor: Supervisor,
        directories: Directories,
        facts: Facts,
        limits: Limits,
        group: Group | None,
        isolation: Isolation | None,
        wrapper: Sequence[str] = (),
    ) -> None:
        self.workspace = facts.workspace
        self.shell = facts.shell
        self._supervisor = supervisor
        self._directories = directories
        self._facts = facts
        self._group = group
        self._isolation = isolation
        self._sealed = isolation is None
        self._destroying: asyncio.Task[None] | None = None
        self._watch = Watch(limits, group, self._measure, lambda: supervisor.busy, supervisor.kill_all)
        supervisor.on_limit = self._watch.noticed
        watched = isolation is not None and group is None
        supervisor.configure(
            limits,
            isolation,
            memory=limits.memory_bytes if watched else 0,
            pids=limits.pids if watched else 0,
            wrapper=wrapper,
        )

    # --- the network --------------------------------------------------------------------------------------------

    async def plant(self) -> Planted | None:
        """Make the listening sockets, then give up every privilege inside."""
        if self._isolation is None:
            return None
        planted = await self._supervisor.plant(may_redirect=True)
        try:
            await self._seal()
        except BaseException:
            for each in (planted.proxy, planted.dns_udp, planted.dns_tcp, *planted.transparent.values()):
                each.close()
            raise
        return planted

    async def _seal(self) -> None:
        if self._sealed:
            return
        problem = await self._supervisor.seal()
        if problem:
            raise not_isolated(f"it could not give up its privileges: {problem}")
        self._sealed = True

    async def self_test(self) -> None:
        """Refuse a sandbox that is not closed."""
        if self._isolation is None:
            return
        if not self._sealed:
            raise not_isolated("it has no gateway: plant() comes first")
        problem = await self._supervisor.test()
        if problem:
            raise not_isolated(problem)

    # --- commands -----------------------------------------------------------------------------------------------

    async def start(self, request: ExecRequest, sink: OutputSink) -> ProcessRunning:
        """Start a command."""
        if self._destroying is not None:
            raise BackendError("SANDBOX_LOST", "the sandbox has ended")
        await self._seal()
        cwd = request.cwd if request.cwd.startswith("/") else f"{self.workspace}/{request.cwd}".rstrip("/")
        kills = self._watch.memory_kills()
        command = self._supervisor.start(
            request.argv,
            cwd,
            {**self._facts.environment, **request.environment},
            request.stdin,
            sink,
            self._directories.owner,
        )
        return ProcessRunning(self._supervisor, command, self._watch, kills)

    # --- limits -------------------------------------------------------------------------------------------------

    def _measure(self) -> int:
        return self._directories.usage(self._group.pids() if self._group is not None else self._supervisor.pids())

    async def limits_hit(self) -> AsyncIterator[LimitHit]:
        """Limits as they are reached."""
        while (hit := await self._watch.next()) is not None:
            yield hit

    # --- files --------------------------------------------------------------------------------------------------

    async def upload(self, path: bytes, archive: AsyncIterator[bytes]) -> tuple[int, int]:
        """Unpack a tar stream beneath the workspace."""
        return await self._directories.upload(path, archive)

    def download(self, path: bytes, left_out: list[str]) -> AsyncIterator[bytes]:
        """Pack what is beneath a path of the workspace."""
        return self._directories.download(path, left_out)

    # --- the end ------------------------------------------------------------------------------------------------

    async def ended(self) -> str:
        """Return when the sandbox went away by itself, with the cause."""
        cause = await asyncio.shield(self._supervisor.over)
        if self._destroying is not None:
            await asyncio.Event().wait()  # it was destroyed, and that is no news
        return cause

    async def destroy(self) -> None:
        """End everything in it and remove what it had on this host."""
        if self._destroying is None or (self._destroying.done() and self._destroying.exception() is not None):
            self._destroying = asyncio.create_task(self._destroy())
        await asyncio.shield(self._destroying)

    async def _destroy(self) -> None:
        await self._watch.stop()
        await self._supervisor.end()
        await discard(self._directories, self._group)


class ProcessRunning:
    """A command that was started."""

    def __init__(self, supervisor: Supervisor, command: Command, watch: Watch, kills: int) -> None:
        self._supervisor = supervisor
        self._command = command
        self._watch = watch
        self._kills = kills

    async def wait(self) -> Exited:
        """How the main process ended."""
        exited = await asyncio.shield(self._command.exited)
        if self._command.output is not None:
            await self._command.output.drained(DRAIN_SECONDS)
        if exited.code == 128 + signal.SIGKILL and self._watch.memory_kills() > self._kills:
            return replace(exited, oom=True)
        return exited

    async def signal(self, number: int, *, everything: bool) -> None:
        """Signal the main process, or all that it started."""
        self._supervisor.signal(self._command, number, everything=everything)

    async def kill(self) -> None:
        """End everything that it started."""
        await self._supervisor.kill(self._command)


def not_isolated(why: str) -> BackendError:
    """The error for a sandbox that is not handed over, because it is open or could be."""
    return BackendError(
        "ISOLATION_UNAVAILABLE",
        f"the sandbox is not closed: {why}",
        why=why,
        remedy="use the docker backend, or a kernel that lets ordinary users make user namespaces",
    )
