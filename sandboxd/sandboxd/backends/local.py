"""The local backend: commands as processes of the daemon's own user, with nothing enforced.

It runs anywhere and isolates nothing: commands can read and change what the daemon's user can, and reach any network.
So it is refused unless somebody accepted that. What it does keep is order: an environment built from empty, directories
of its own, ends of commands and sandboxes that leave no process behind.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from sandboxd.backends.base import Availability, BackendError, BackendKind, SandboxRequest
from sandboxd.backends.process.files import Directories
from sandboxd.backends.process.instances import Place, discard
from sandboxd.backends.process.sandbox import Facts, ProcessSandbox
from sandboxd.backends.process.spawn import Spawner
from sandboxd.backends.process.supervisor import PACKAGE, Supervisor, program
from sandboxd.backends.process.tree import is_directory


class LocalBackend:
    """Sandboxes that only keep order. `state` and `instance_id` are the daemon's."""

    kind = BackendKind.LOCAL
    enforced = False
    uses_image = False

    def __init__(self, *, state: Path, instance_id: str) -> None:
        self._place = Place(state, instance_id, self.kind)
        self._spawner = Spawner("local-spawner")

    async def probe(self) -> Availability:
        """It can be used wherever the daemon runs."""
        return Availability(True, why="it enforces nothing: commands can do what the daemon's user can")

    async def create(self, request: SandboxRequest) -> ProcessSandbox:
        """Make its directories and start its supervisor."""
        directories = Directories(self._place.directory_of(request.sandbox_id), None)
        await self._place.make(directories)
        try:
            supervisor = await Supervisor.launch(self._spawner, lambda descriptor: program(str(PACKAGE), descriptor))
        except BaseException:
            await asyncio.shield(discard(directories, None))
            raise
        environment = _environment(request.environment, directories)
        facts = Facts(environment, str(directories.workspace), shell(environment["PATH"]))
        return ProcessSandbox(supervisor, directories, facts, request.limits, None, None)

    async def reap(self) -> Sequence[str]:
        """Remove what dead instances left: their supervisors have ended with them, so these are directories."""
        return await asyncio.to_thread(self._place.reap)

    async def close(self) -> None:
        """Release the thread that starts supervisors."""
        self._spawner.close()


def _environment(given: Mapping[str, str], directories: Directories) -> dict[str, str]:
    """What was given, with this sandbox's own places, and only directories of PATH that exist."""
    path = os.pathsep.join(each for each in given.get("PATH", os.defpath).split(os.pathsep) if is_directory(each))
    return {**given, "PATH": path, "HOME": str(directories.home), "TMPDIR": str(directories.tmp)}


def shell(path: str) -> str:
    """The best shell on a PATH. Raises BackendError when there is none."""
    found = shutil.which("bash", path=path) or shutil.which("sh", path=path)
    if found is None:
        raise BackendError("BACKEND_UNSUPPORTED", "there is neither bash nor sh in PATH", why="no shell", remedy="")
    return found
