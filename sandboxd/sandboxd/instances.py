"""Who this daemon is, and which daemons before it are dead.

The state directory holds a node id, stable over restarts, and a directory an instance. While a daemon lives it holds
a lock on its instance's `lock` file; the kernel lets go of it however the daemon ends. Whoever gets another instance's
lock knows that it is dead and may remove what it left.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

LOCK = "lock"
# Held while an instance is being born, and while the dead are looked for: one without its lock yet is not dead.
BIRTH = "births"


class StateError(Exception):
    """The state directory can't be used; the message says why and what to do."""


def default_state_dir(environ: Mapping[str, str]) -> Path:
    """`$SANDBOXD_STATE_DIR`, systemd's `$STATE_DIRECTORY`, or the user's state directory (XDG base directories)."""
    for name in ("SANDBOXD_STATE_DIR", "STATE_DIRECTORY"):
        if environ.get(name):
            return Path(environ[name])
    base = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME", "/"), ".local", "state")  # noqa: PTH118
    return Path(base) / "sandboxd"


@dataclass(frozen=True, slots=True)
class Instance:
    """A running daemon. `directory` is its own, private, and removed at its end."""

    node_id: str
    instance_id: str
    state: Path

    @property
    def directory(self) -> Path:
        return self.state / "instances" / self.instance_id

    def is_alive(self, instance_id: str) -> bool:
        """Whether the daemon of that instance still runs."""
        if instance_id == self.instance_id:
            return True
        with _lock_of(self.state / "instances" / instance_id) as locked:
            return not locked

    def dead(self) -> list[str]:
        """The instances that left a directory behind and no longer run."""
        with _births(self.state):
            names = sorted(entry.name for entry in (self.state / "instances").iterdir() if entry.is_dir())
            return [name for name in names if not self.is_alive(name)]

    def forget(self, instance_id: str) -> None:
        """Remove a dead instance's directory, once nothing of it is left elsewhere."""
        directory = self.state / "instances" / instance_id
        with _births(self.state), _lock_of(directory) as locked:
            if locked:
                shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def instance(state: Path) -> Iterator[Instance]:
    """Become an instance for as long as the context lasts. Raises StateError."""
    own = Instance(_node_id(state), uuid.uuid4().hex[:12], state)
    try:
        with _births(state):
            own.directory.mkdir(mode=0o700, parents=True)
            lock = (own.directory / LOCK).open("w", encoding="ascii")
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise StateError(f"{own.directory} can't be made: {error.strerror}; name another with --state-dir") from None
    with lock:
        try:
            yield own
        finally:
            shutil.rmtree(own.directory, ignore_errors=True)


@contextlib.contextmanager
def _births(state: Path) -> Iterator[None]:
    with (state / BIRTH).open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _node_id(state: Path) -> str:
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = state.stat()
        if status.st_uid not in (os.geteuid(), 0) or status.st_mode & 0o022:
            raise StateError(f"{state} is another user's, or others may write there; name another with --state-dir")
        path = state / "node"
        with contextlib.suppress(FileExistsError), path.open("x", encoding="ascii") as file:
            file.write(uuid.uuid4().hex[:12])
        return path.read_text(encoding="ascii") or "unknown"
    except OSError as error:
        raise StateError(f"{state} can't be used: {error.strerror}; name another with --state-dir") from None


@contextlib.contextmanager
def _lock_of(directory: Path) -> Iterator[bool]:
    """Whether the lock of an instance could be had; it is held meanwhile."""
    try:
        lock = (directory / LOCK).open("r+", encoding="ascii")
    except OSError:
        # No lock file: it died before it made one, or while it was being removed.
        yield True
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
