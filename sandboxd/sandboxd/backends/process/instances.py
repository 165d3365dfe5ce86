"""Where a backend keeps its sandboxes' directories, and what dead daemons left there.

A directory is `instances/INSTANCE/BACKEND/SANDBOX` beneath the daemon's state directory. The instances themselves are
`sandboxd.instances`.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from sandboxd.backends.base import BackendError, BackendKind
from sandboxd.backends.process import tree
from sandboxd.backends.process.files import Directories, finished
from sandboxd.backends.process.group import Group
from sandboxd.instances import Instance

_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


class Place:
    """The directory of one backend of one instance."""

    def __init__(self, state: Path, instance_id: str, kind: BackendKind) -> None:
        self._instance = Instance("", instance_id, state.resolve())
        self._kind = kind.value
        self.directory = self._instance.directory / self._kind

    def directory_of(self, sandbox_id: str) -> Path:
        """Where a sandbox's directories go. Raises BackendError (SPEC_INVALID) when the id is no name."""
        if _ID.fullmatch(sandbox_id) is None:
            raise BackendError(
                "SPEC_INVALID", f"sandbox_id: found {sandbox_id!r}; allowed are names of letters and digits"
            )
        return self.directory / sandbox_id

    async def make(self, directories: Directories) -> None:
        """Make a sandbox's directories, all or none. Raises BackendError."""
        ours = False

        def make() -> None:
            nonlocal ours
            directories.root.mkdir(mode=0o711, parents=True)
            ours = True
            directories.fill()

        try:
            await finished(make)
        except BaseException as error:
            if ours:
                await asyncio.shield(discard(directories, None))
            elif isinstance(error, FileExistsError):
                raise BackendError("ID_REUSED", f"{directories.root.name} exists already") from error
            if isinstance(error, OSError):
                raise BackendError("DISK_LOW", f"the sandbox's directories could not be made: {error}") from error
            raise

    def reap(self) -> list[str]:
        """Remove what this backend of dead instances left; the sandboxes removed. Blocking. Raises BackendError."""
        removed = []
        for dead in self._instance.dead():
            left = self._instance.state / "instances" / dead / self._kind
            if left.is_dir():
                removed += _remove_all(left)
        return removed


async def discard(directories: Directories, group: Group | None) -> None:
    """Remove what a sandbox had on this host. Raises BackendError when something stays."""
    group = group or await asyncio.to_thread(directories.recorded_group)
    if group is not None and not await asyncio.to_thread(group.remove):
        raise BackendError("BACKEND_DOWN", "the sandbox's control group would not become empty")
    try:
        await asyncio.to_thread(directories.remove)
    except OSError as error:
        raise BackendError("BACKEND_DOWN", f"the sandbox's directory could not be removed: {error}") from error


def _remove_all(left: Path) -> list[str]:
    """All sandboxes of a dead instance. Their processes have ended with it, or are about to."""
    removed = sorted(entry.name for entry in left.iterdir() if _ID.fullmatch(entry.name) is not None)
    for name in removed:
        group = Directories(left / name, None).recorded_group()
        if group is not None and not group.remove():
            raise BackendError("BACKEND_DOWN", f"processes of {name}, of a daemon that is dead, did not end")
    try:
        tree.remove(str(left))
    except OSError as error:
        raise BackendError("BACKEND_DOWN", f"{left} could not be removed: {error}") from error
    return removed
