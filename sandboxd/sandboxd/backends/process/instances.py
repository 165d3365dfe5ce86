"""Where a backend keeps its sandboxes' directories, and what dead daemons left there.

A directory is `instances/INSTANCE/BACKEND/SANDBOX` beneath the daemon's state directory. The instances themselves are
`sandboxd.instances`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path

from sandboxd.backends.base import BackendError, BackendKind
from sandboxd.backends.process import tree
from sandboxd.backends.process.files import Directories
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
        try:
            await asyncio.to_thread(directories.make)
        except FileExistsError as error:
            raise BackendError("ID_REUSED", f"{directories.root.name} exists already") from error
        except OSError as error:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(directories.remove)
            raise BackendError("DISK_LOW", f"the sandbox's directories could not be made: {error}") from error

    def reap(self) -> list[str]:
        """Remove what this backend of dead instances left; the sandboxes removed. Blocking. Raises BackendError."""
        removed = []
        for dead in self._instance.dead():
            left = self._instance.state / "instances" / dead / self._kind
            if left.is_dir():
                removed += _remove_all(left)
        return removed


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
