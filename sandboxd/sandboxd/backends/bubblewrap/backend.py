"""The bubblewrap backend: makes sandboxes of this host's own system, and finds out whether it can."""

from __future__ import annotations

import asyncio
import os
import platform
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sandboxd.backends.base import Availability, BackendError, BackendKind, Limits, SandboxRequest
from sandboxd.backends.bubblewrap import host, seccomp, stage, user
from sandboxd.backends.bubblewrap.arguments import EMPTY, OURS, TMPFS, Sandbox, arguments
from sandboxd.backends.bubblewrap.etc import GID, UID, Files
from sandboxd.backends.bubblewrap.program import INSTALL, NoProgramError, Program, explain, find
from sandboxd.backends.local import shell
from sandboxd.backends.process.files import Directories, finished
from sandboxd.backends.process.group import Group, Parents
from sandboxd.backends.process.instances import Place, discard
from sandboxd.backends.process.sandbox import Facts, ProcessSandbox
from sandboxd.backends.process.spawn import Spawner
from sandboxd.backends.process.supervisor import PACKAGE, Isolation, Supervisor, program
from sandboxd.environment import WORKSPACE, build

# Beside the sandboxes' directories; no sandbox's id begins with a dot.
FILES = ".files"
# An answer is good for so long: what a host allows changes seldom, what is not there may be installed any moment.
GOOD_SECONDS, BAD_SECONDS = 60.0, 5.0
PROBE_SECONDS = 9.0
# Tools and sockets of the host come and go.
VIEW_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Ready:
    """What is found out once: the program, the filter, and whether sandboxes run as users of their own."""

    program: Program
    seccomp: bytes
    as_other: bool


class BubblewrapBackend:
    """Sandboxes in namespaces of an ordinary user's. `state` and `instance_id` are the daemon's."""

    kind = BackendKind.BUBBLEWRAP
    enforced = True
    uses_image = False

    def __init__(
        self, *, state: Path, instance_id: str, path: str | None = None, groups: Parents | None = None
    ) -> None:
        self._place = Place(state, instance_id, self.kind)
        self._path = path if path is not None else os.environ.get("PATH", os.defpath)
        self._groups = Parents() if groups is None else groups
        self._spawner = Spawner("bubblewrap-spawner", self._stage)
        self._files = Files(self._place.directory / FILES)
        self._preparing = asyncio.Lock()
        self._ready: _Ready | None = None
        self._view: host.View | None = None
        self._viewed = 0.0
        self._answer = Availability(False)
        self._answered = -BAD_SECONDS

    # --- whether it can be used ---------------------------------------------------------------------------------

    async def probe(self) -> Availability:
        """Make a sandbox and see: nothing less tells whether the kernel and its settings let it be closed."""
        good_for = GOOD_SECONDS if self._answer.available else BAD_SECONDS
        if time.monotonic() - self._answered > good_for:
            self._answer = await self._probe()
            self._answered = time.monotonic()
        return self._answer

    async def _probe(self) -> Availability:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                ready = await self._prepared()
                await self._try()
        except TimeoutError:
            return Availability(False, f"a sandbox did not come up in {PROBE_SECONDS:g} s")
        except BackendError as error:
            if "remedy" in error.metadata:
                return Availability(False, error.message, error.metadata["remedy"])
            return explain(error.message, self._ready.program.path if self._ready else "bwrap")
        return Availability(True, version=ready.program.version)

    async def _try(self) -> None:
        sandbox_id = f"probe-{secrets.token_hex(8)}"
        sandbox = await self.create(SandboxRequest(sandbox_id, "", Limits(), build(path=self._path)))
        try:
            planted = await sandbox.plant()
            if planted is not None:
                for each in (planted.proxy, planted.dns_udp, planted.dns_tcp, *planted.transparent.values()):
                    each.close()
        finally:
            await asyncio.shield(sandbox.destroy())

    # --- making a sandbox ---------------------------------------------------------------------------------------

    async def create(self, request: SandboxRequest) -> ProcessSandbox:
        """Make a sandbox that runs nothing yet."""
        ready = await self._prepared()
        view = await self._current_view(ready)
        owner = _choose() if ready.as_other else None
        directories = Directories(self._place.directory_of(request.sandbox_id), owner)
        await self._place.make(directories)
        group: Group | None = None
        try:
            await finished(_link_home, directories, view)
            files = await asyncio.to_thread(self._files.for_sandbox, request.ca_bundle)
            command = [ready.program.path, *arguments(view, _sandbox(directories, files))]
            group = await finished(directories.make_group, self._groups, request.limits)
            supervisor = await Supervisor.launch(
                self._spawner, lambda descriptor: [*command, *program(OURS, descriptor)], uid=owner
            )
            if group is not None and not await asyncio.to_thread(group.take, supervisor.pid):
                group = None
        except BaseException:
            await asyncio.shield(discard(directories, group))
            raise
        facts = Facts({**request.environment, "PATH": view.path}, WORKSPACE, shell(view.path))
        isolation = Isolation(UID, GID, ready.seccomp, EMPTY, TMPFS)
        return ProcessSandbox(supervisor, directories, facts, request.limits, group, isolation)

    async def _prepared(self) -> _Ready:
        """Find out once what does not change. Raises BackendError."""
        async with self._preparing:
            if self._ready is None:
                self._ready = await asyncio.to_thread(self._prepare)
            return self._ready

    def _prepare(self) -> _Ready:
        try:
            found = find(self._path)
            filtered = seccomp.program(platform.machine())
            as_other = user.choose() is not None
            self._place.directory.mkdir(mode=0o711, parents=True, exist_ok=True)
            self._files.write()
        except NoProgramError as error:
            raise _unsupported(str(error), INSTALL) from error
        except KeyError as error:
            raise _unsupported(
                f"system calls can't be filtered on {error.args[0]}", "use the docker backend"
            ) from error
        except user.NoUserError as error:
            raise _unsupported(str(error), "run sandboxd as an ordinary user") from error
        except OSError as error:
            raise _unsupported(
                f"{self._place.directory} can't be used: {error}", "name another state directory"
            ) from error
        return _Ready(found, filtered, as_other)

    async def _current_view(self, ready: _Ready) -> host.View:
        if self._view is None or time.monotonic() - self._viewed > VIEW_SECONDS:
            self._view = await asyncio.to_thread(host.view, self._path, as_other=ready.as_other)
            self._viewed = time.monotonic()
        return self._view

    def _stage(self) -> None:
        ready, view = self._ready, self._view
        assert ready is not None
        assert view is not None
        if ready.as_other:
            ours = (str(self._place.directory), str(PACKAGE / "inside"), ready.program.path)
            stage.enter([*ours, *ready.program.needs, *view.directories])

    # --- the end ------------------------------------------------------------------------------------------------

    async def reap(self) -> Sequence[str]:
        """Remove what dead instances left: their sandboxes ended with them, so these are directories and groups."""
        return await asyncio.to_thread(self._place.reap)

    async def close(self) -> None:
        """Release the thread that starts sandboxes."""
        self._spawner.close()


def _choose() -> int | None:
    try:
        return user.choose()
    except user.NoUserError as error:
        raise _unsupported(str(error), "run sandboxd as an ordinary user") from error


def _sandbox(directories: Directories, files: dict[str, Path]) -> Sandbox:
    proc_files = [name for name in host.PROC_FILES if Path("/proc", name).exists()]
    return Sandbox(directories.workspace, directories.home, directories.tmp, PACKAGE / "inside", files, proc_files)


def _link_home(directories: Directories, view: host.View) -> None:
    for name, target in view.home_links.items():
        link = directories.home / name
        link.symlink_to(target)
        if directories.owner is not None:
            os.lchown(link, directories.owner, directories.owner)


def _unsupported(why: str, remedy: str) -> BackendError:
    return BackendError("BACKEND_UNSUPPORTED", why, why=why, remedy=remedy)
