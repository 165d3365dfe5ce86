"""One sandbox in a docker container: its commands, limits, files and end.

What the daemon can do depends on its `Reach`: as root on the engine's host it works through control groups, pipes and
the container's namespaces; as an ordinary user there, through pipes and helpers inside; with a remote engine, through
the engine's API alone. The promises are the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from enum import StrEnum
from importlib import resources
from pathlib import Path

import docker
import docker.errors

from sandboxd.backends.base import (
    BackendError,
    ExecRequest,
    Exited,
    LimitHit,
    OutputSink,
    Planted,
)
from sandboxd.backends.docker import spec
from sandboxd.backends.docker.cgroup import (
    CgroupError,
    CommandGroup,
    CommandGroups,
    Counters,
    container_groups,
    counters,
)
from sandboxd.backends.docker.client import EngineClient, EngineDownError, Lane
from sandboxd.backends.docker.command import Command, CommandSpec, OutputPipe
from sandboxd.backends.docker.distant import DistantCounters
from sandboxd.backends.docker.files import EngineFiles, HostFiles
from sandboxd.backends.docker.making import Made
from sandboxd.backends.docker.watch import COUNTER_SECONDS, Watch
from sandboxd.backends.process import tree
from sandboxd.egress.plant.planter import Place, Planter, PlantError
from sandboxd.environment import WORKSPACE

# An engine that has not run the sweep by then can start no process in the container any more.
SWEEP_SECONDS = 3.0
VSOCK_SECONDS = 10.0
EPERM = "1"
KILLED = 128 + signal.SIGKILL
# Between two questions to an engine elsewhere about a container's limits.
DISTANT_SECONDS = 5.0


class Reach(StrEnum):
    """What this daemon can do about the engine's containers; the names are those of the ways to plant."""

    HOST = "direct"
    USER = "helper"
    REMOTE = "relay"


class DockerSandbox:
    """A container that runs nothing yet, until `start`."""

    def __init__(
        self,
        client: EngineClient,
        made: Made,
        reach: Reach,
        planter: Planter,
        remove: Callable[[Made], Awaitable[None]],
    ) -> None:
        self.image = made.request.image
        self.image_digest = made.image.digest
        self.workspace = WORKSPACE
        self.shell = made.facts.values["shell"]
        self.timings = made.timings
        self._client = client
        self._box = made
        self.request = made.request
        self.container_id = made.id
        self.pid = made.pid
        self._reach = reach
        self._planter = planter
        self._remove_made = remove
        self.groups = container_groups(made.pid, made.id) if reach is not Reach.REMOTE else {}
        self._commands = CommandGroups.of(self.groups, made.pid) if reach is Reach.HOST else None
        self._files = (
            HostFiles(made.pid, self._is_ours)
            if reach is Reach.HOST and HostFiles.possible(made.pid)
            else EngineFiles(client, made.id, self.inside)
        )
        self._place: Place | None = None
        self._running: dict[str, DockerRunning] = {}
        self._left: list[CommandGroup] = []
        self._number = 0
        self._destroyed: asyncio.Task[None] | None = None
        self._distant = None if self.groups else DistantCounters(made.id)
        pause = COUNTER_SECONDS if self.groups else DISTANT_SECONDS
        self._watch = Watch(made.request.limits, self._count, self._disk, pause)
        self._watch.start()

    # The network.

    async def plant(self) -> Planted | None:
        """Make the listening sockets in the container's network namespace."""
        try:
            self._place = await self._planter.plant(self._box.id, self._box.pid, self._is_ours)
        except PlantError as error:
            raise BackendError(
                "ISOLATION_UNAVAILABLE",
                f"the sandbox's gateway could not be planted ({self._reach}): {error}",
                why=str(error),
                remedy="run sandboxd as root on the engine's own host, or name another way to plant",
            ) from error
        return self._place.planted

    async def unplant(self) -> None:
        """Release what serves the planting; with a relay, that closes the only way out."""
        if self._place is not None:
            await self._place.close()

    async def self_test(self) -> None:
        """Refuse a sandbox that is not closed: its network from inside, and the filter on its system calls."""
        if self._place is None:
            raise BackendError("ISOLATION_UNAVAILABLE", "the sandbox has no gateway: plant() comes first")
        found = await self._place.findings()
        try:
            async with asyncio.timeout(VSOCK_SECONDS):
                await self._box.facts.tested.wait()
        except TimeoutError:
            found.append("its first process did not say whether it can open an AF_VSOCK socket")
        vsock = self._box.facts.values.get("vsock", "untested")
        if vsock not in (EPERM, "untested"):
            found.append(f"an AF_VSOCK socket is not refused by a filter (it got {vsock})")
        found += self._filter_findings()
        if found:
            raise BackendError(
                "ISOLATION_UNAVAILABLE",
                "the sandbox is not closed: " + "; ".join(found),
                why="; ".join(found),
                remedy="use an engine with the runc runtime and seccomp, or another backend",
            )

    def _filter_findings(self) -> list[str]:
        if self._reach is Reach.REMOTE:
            return []
        try:
            lines = Path(f"/proc/{self._box.pid}/status").read_text().splitlines()
        except OSError:
            return ["its first process has ended"]
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        found = []
        if status.get("Seccomp") != "2":
            found.append("its processes run without a seccomp filter")
        if status.get("NoNewPrivs") != "1":
            found.append("its processes may gain privileges")
        return found

    def _is_ours(self) -> bool:
        return bool(container_groups(self._box.pid, self._box.id))

    # Commands.

    async def start(self, request: ExecRequest, sink: OutputSink) -> DockerRunning:
        """Start a command."""
        if self._box.facts.over.is_set() or self._destroyed is not None:
            raise BackendError("SANDBOX_LOST", "the sandbox has ended")
        self._number += 1
        name = f"command-{self._number}"
        environment = spec.command_environment(self._box.request.environment, self._box.image.env)
        environment.update(request.environment)
        command = Command(
            self._client,
            self._box.id,
            self._box.pump,
            CommandSpec(
                list(request.argv),
                _inside(request.cwd),
                [f"{key}={value}" for key, value in environment.items()],
                request.stdin,
            ),
            sink,
            OutputPipe(self._box.shared) if self._box.shared is not None else None,
        )
        before = await self._watch.check() if self.groups else self._watch.memory
        refused = await command.begin(lambda pid: self._commands.place(name, pid) if self._commands else None)
        running = DockerRunning(self, request.exec_id, command, refused, before)
        if refused is None:
            self._running[request.exec_id] = running
        return running

    def use_groups(self, commands: CommandGroups) -> None:
        """Place commands in these groups from now on; for hosts that have both hierarchies."""
        self._commands = commands

    async def ended_command(self, exec_id: str, command: Command, code: int) -> int:
        """Take a command off the list; how often memory ran out so far."""
        self._running.pop(exec_id, None)
        if command.group is not None:
            self._left.append(command.group)
        self._left = [group for group in self._left if not group.remove()]
        # Asking an engine costs as much as a command.
        return await self._watch.check() if self.groups or code == KILLED else self._watch.memory

    async def sweep(self, command: Command, number: int) -> None:
        """Signal everything that a command started, from inside: where control groups are out of reach."""
        others = [str(other.inner_pid) for other in self._running.values() if other.inner_pid != command.inner_pid]
        script = resources.files("sandboxd.backends.docker").joinpath("sweep.sh").read_text(encoding="utf-8")
        argv = ["/bin/sh", "-c", script, "sweep", str(number), str(command.inner_pid), str(command.began), *others]
        code = await self.inside(argv)
        if code != 0:
            await self._lose(f"what a command started could not be ended from inside (exit code {code})")

    async def inside(self, argv: list[str]) -> int:
        """Run one of our own scripts in the container; its exit code."""

        def work(api: docker.APIClient) -> int:
            made = api.exec_create(self._box.id, argv, user="0:0", workdir="/")
            api.exec_start(made["Id"])
            return int(api.exec_inspect(made["Id"])["ExitCode"])

        try:
            return await self._client.call(work, deadline=SWEEP_SECONDS)
        except (docker.errors.APIError, EngineDownError):
            return -1

    async def _lose(self, why: str) -> None:
        with contextlib.suppress(docker.errors.APIError, EngineDownError):
            await self._client.call(lambda api: api.kill(self._box.id), lane=Lane.REMOVE)
        raise BackendError("SANDBOX_LOST", why, cause=why)

    # Limits.

    async def limits_hit(self) -> AsyncIterator[LimitHit]:
        """Limits as they are reached."""
        while (hit := await self._watch.next()) is not None:
            yield hit

    async def _count(self) -> Counters:
        if self._distant is None:
            return counters(self.groups)
        try:
            return await self._client.call(self._distant.read)
        except (docker.errors.APIError, EngineDownError):
            return Counters(self._watch.memory, 0)  # it is ending, and that is told elsewhere

    async def _disk(self, enough: int) -> int:
        upper = self._box.upper
        if upper is not None:
            return await asyncio.to_thread(self._measure, upper, enough)
        try:
            found = await self._client.call(lambda api: api.containers(size=True, filters={"id": self._box.id}))
        except (docker.errors.APIError, EngineDownError):
            return 0
        return int(found[0].get("SizeRw") or 0) if found else 0

    def _measure(self, upper: Path, enough: int) -> int:
        with contextlib.suppress(OSError):  # a layer that is being removed has no size that matters
            used = tree.usage([str(upper)])
            if used > enough:
                return used
            # The layer's files have the device of the container's root, not that of the layer.
            return used + tree.held_bytes(self._pids(), Path(f"/proc/{self._box.pid}/root").stat().st_dev)
        return 0

    def _pids(self) -> list[int]:
        groups = [running.group for running in self._running.values()]
        return [pid for group in (*groups, *self._left) if group is not None for pid in group.pids()]

    # Files.

    async def upload(self, path: bytes, archive: AsyncIterator[bytes]) -> tuple[int, int]:
        """Unpack a tar stream beneath the workspace; (bytes, entries)."""
        return await self._files.upload(path, archive)

    def download(self, path: bytes, left_out: list[str]) -> AsyncIterator[bytes]:
        """Pack what is beneath a path of the workspace."""
        return self._files.download(path, left_out)

    # The end.

    async def ended(self) -> str:
        """Return when the container went away by itself, with the cause."""
        await self._box.facts.over.wait()
        if self._destroyed is not None:
            await asyncio.Event().wait()  # it was destroyed, and that is no news
        try:
            found = await self._client.call(lambda api: api.inspect_container(self._box.id))
        except EngineDownError as error:
            return f"the engine went away: {error.message}"
        except docker.errors.APIError:
            return "the container was removed"
        return f"the container's first process ended with exit code {found['State']['ExitCode']}"

    async def destroy(self) -> None:
        """Remove the container and all that belongs to it."""
        if self._destroyed is None or (self._destroyed.done() and self._destroyed.exception() is not None):
            self._destroyed = asyncio.create_task(self._remove())
        await asyncio.shield(self._destroyed)

    async def _remove(self) -> None:
        await self._watch.stop()
        with contextlib.suppress(BackendError):  # what is left of it is kept in mind, and removed later
            await self.unplant()
        await self._remove_made(self._box)
        groups = [running.group for running in self._running.values()]
        for running in list(self._running.values()):
            running.abandon()
        for group in (*groups, *self._left):
            if group is not None:
                group.remove()  # an engine that crashed leaves the container's groups behind
        self._box.pump.close()
        await asyncio.to_thread(self._box.pump.join, 5.0)


class DockerRunning:
    """A command that was started."""

    def __init__(
        self, sandbox: DockerSandbox, exec_id: str, command: Command, refused: Exited | None, memory: int
    ) -> None:
        self._sandbox = sandbox
        self._id = exec_id
        self._command = command
        self._memory = memory
        self.inner_pid = command.inner_pid
        self._exit = asyncio.create_task(self._finish(refused))

    async def _finish(self, refused: Exited | None) -> Exited:
        if refused is not None:
            return refused
        exited = await self._command.finish()
        memory = await self._sandbox.ended_command(self._id, self._command, exited.code)
        if exited.code == KILLED and memory > self._memory:
            return Exited(exited.code, exited.signal, oom=True)
        return exited

    async def wait(self) -> Exited:
        """How the main process ended."""
        return await asyncio.shield(self._exit)

    async def signal(self, number: int, *, everything: bool) -> None:
        """Signal the main process, or all that it started."""
        if self._command.inner_pid == 0:
            return
        group = self._command.group
        if group is not None:
            if everything:
                await group.signal_all(number)
            else:
                group.signal_main(number)
        elif everything:
            await self._sandbox.sweep(self._command, number)
        elif not self._exit.done():
            await self._sandbox.inside(["/bin/sh", "-c", 'kill -"$1" "$2"', "kill", str(number), str(self.inner_pid)])

    async def kill(self) -> None:
        """End everything that it started."""
        if self._command.inner_pid == 0:
            return
        group = self._command.group
        if group is None:
            await self._sandbox.sweep(self._command, signal.SIGKILL)
            return
        try:
            await group.kill()
        except CgroupError as error:
            raise BackendError("SANDBOX_LOST", str(error), cause=str(error)) from error

    @property
    def group(self) -> CommandGroup | None:
        """The control group that holds all that it started; None where this daemon can't make one."""
        return self._command.group

    def abandon(self) -> None:
        """The container is gone."""
        self._command.abandon()


def _inside(cwd: str) -> str:
    return cwd if cwd.startswith("/") else f"{WORKSPACE}/{cwd}".rstrip("/")
