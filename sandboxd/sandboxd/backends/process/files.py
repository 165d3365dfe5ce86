"""The directories of one sandbox on this host, and files in and out of its workspace.

They belong to the user that the sandbox runs as. Whatever the daemon does in them on a client's behalf it does with
that user's rights, even when it runs as root: what a hostile command put there can't borrow more.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from sandboxd import archive
from sandboxd.backends.base import BackendError, Limits
from sandboxd.backends.process import tree
from sandboxd.backends.process.group import Group, Parents

T = TypeVar("T")

WORKSPACE, HOME, TMP = "workspace", "home", "tmp"
# Beside them, and not for the sandbox: where its control group is, for who comes after this daemon.
GROUP = "group"


class Directories:
    """The workspace, HOME and /tmp of a sandbox, beneath `root`: INSTANCE/BACKEND/SANDBOX, which also names its group.

    `owner` is the user and group that it runs as, None for our own.
    """

    def __init__(self, root: Path, owner: int | None) -> None:
        self.root = root
        self.owner = owner
        self.workspace = root / WORKSPACE
        self.home = root / HOME
        self.tmp = root / TMP

    def fill(self) -> None:
        """Make them in `root`, which exists. Blocking. Raises OSError."""
        for path, mode in ((self.workspace, 0o755), (self.home, 0o755), (self.tmp, 0o1777)):
            path.mkdir()
            if self.owner is not None:
                os.chown(path, self.owner, self.owner)
            path.chmod(mode)  # whatever the daemon's umask is

    def make_group(self, parents: Parents, limits: Limits) -> Group | None:
        """A control group for the sandbox, written down before it is made; None where there can't be one. Blocking."""
        group = parents.group(f"sandboxd-{self.root.parents[1].name}-{self.root.name}")
        if group is None:
            return None
        lines = "".join(f"{controller}={directory}\n" for controller, directory in group.directories.items())
        (self.root / GROUP).write_text(lines)
        return group if group.make(limits) else None

    def recorded_group(self) -> Group | None:
        """The control group that was written down. Blocking."""
        try:
            lines = (self.root / GROUP).read_text().splitlines()
        except OSError:
            return None
        return Group({controller: Path(path) for controller, _, path in (line.partition("=") for line in lines)})

    def usage(self, pids: Iterable[int] = ()) -> int:
        """Bytes on disk in all three, and in files without a name that these processes hold open. Blocking."""
        used = tree.usage([str(path) for path in (self.workspace, self.home, self.tmp)])
        return used + tree.held_bytes(pids, self.root.stat().st_dev)

    def remove(self) -> None:
        """Remove them with all that is in them. Blocking. Raises OSError."""
        tree.remove(str(self.root))

    async def upload(self, path: bytes, stream: AsyncIterator[bytes]) -> tuple[int, int]:
        """As `BackendSandbox.upload`."""
        async with archive.spooled(stream) as source:
            return await asyncio.to_thread(self._unpack, source, path)

    def _unpack(self, source: BinaryIO, path: bytes) -> tuple[int, int]:
        with self._opened() as root, acting_as(self.owner):
            return archive.unpack(source, root, path)

    async def download(self, path: bytes, left_out: list[str]) -> AsyncIterator[bytes]:
        """As `BackendSandbox.download`."""
        async for chunk in archive.in_thread(self._pack(path, left_out)):
            yield chunk

    def _pack(self, path: bytes, left_out: list[str]) -> Iterator[bytes]:
        with self._opened() as root:
            chunks = archive.pack(root, path, left_out)
            while True:
                # For each step alone: between two of them the thread does other work.
                with acting_as(self.owner):
                    chunk = next(chunks, None)
                if chunk is None:
                    return
                yield chunk

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        try:
            opened = os.open(self.workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise BackendError("SANDBOX_LOST", f"the workspace is gone: {error.strerror}") from error
        try:
            yield opened
        finally:
            os.close(opened)


async def finished(work: Callable[..., T], *arguments: object) -> T:
    """Run `work` in a thread. When the caller is cancelled meanwhile, it hears of it once the work is done: a thread
    can't be stopped, and what it makes must be there to be removed."""
    running = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise


@contextlib.contextmanager
def acting_as(user: int | None) -> Iterator[None]:
    """Use files in this thread as `user` and its group would (setfsuid(2)); None changes nothing.

    Capabilities that pass over permissions are not in force meanwhile. Linux only.
    """
    if user is None:
        yield
        return
    if sys.platform != "linux":
        raise BackendError("BUG", "acting as another user is for Linux")
    libc = ctypes.CDLL(None)
    own_group, own_user = os.getegid(), os.geteuid()
    libc.setfsgid(user)
    libc.setfsuid(user)
    try:
        # It answers with the previous one, whether or not it changed: an impossible number changes nothing.
        if libc.setfsuid(-1) != user or libc.setfsgid(-1) != user:
            raise BackendError("BUG", f"could not use files as user {user}")
        yield
    finally:
        libc.setfsuid(own_user)
        libc.setfsgid(own_group)
