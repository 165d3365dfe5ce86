"""Files in and out of a container, beneath its workspace.

As root on the engine's host the workspace is opened through the container's first process, and no link is followed.
Elsewhere the engine packs and unpacks, confined by it to the container's own files; what it is given is made anew
before, and what it gives is filtered.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

import docker
import docker.errors

from sandboxd.archive import cleaned, filtered, in_thread, pack, spooled, unpack
from sandboxd.backends.base import BackendError
from sandboxd.backends.docker.client import EngineClient, reason_of
from sandboxd.beneath import directory, parts, printable
from sandboxd.environment import WORKSPACE

T = TypeVar("T")

TRANSFER_SECONDS = 600.0

# What `walk` answers; other codes are the shell's own.
DIRECTORY, FILE, LINK, MISSING, OTHER = 40, 41, 42, 43, 44
# Goes down from the workspace, $1 is "make" when directories are to be made; then the components of the path.
WALK = """
make=$1
shift
cd /workspace || exit 43
while [ "$#" -gt 0 ]; do
    if [ -L "./$1" ]; then exit 42; fi
    if ! [ -e "./$1" ]; then
        [ "$make" = make ] && mkdir -- "./$1" || exit 43
    elif [ -f "./$1" ] && [ "$#" = 1 ]; then
        exit 41
    fi
    cd -P -- "./$1" || exit 44
    shift
done
exit 40
"""


class HostFiles:
    """The workspace as a directory of this host: root on the engine's host, without a user namespace between."""

    def __init__(self, pid: int, confirm: Callable[[], bool]) -> None:
        self._pid = pid
        self._confirm = confirm

    @staticmethod
    def possible(pid: int) -> bool:
        """Whether the container's users are this host's: else files made from here would be nobody's in there."""
        try:
            return Path(f"/proc/{pid}/uid_map").read_text().split()[:2] == ["0", "0"] and os.geteuid() == 0
        except OSError:
            return False

    @contextlib.contextmanager
    def _workspace(self) -> Iterator[int]:
        try:
            root = os.open(f"/proc/{self._pid}/root", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise BackendError("SANDBOX_LOST", "the container has ended") from error
        try:
            if not self._confirm():
                raise BackendError("SANDBOX_LOST", "the container has ended")
            with directory(root, tuple(os.fsencode(WORKSPACE).strip(b"/").split(b"/"))) as workspace:
                yield workspace
        finally:
            os.close(root)

    async def upload(self, path: bytes, archive: AsyncIterator[bytes]) -> tuple[int, int]:
        """Unpack beneath the workspace, all or nothing; (bytes, entries)."""
        async with spooled(archive) as source:
            return await asyncio.to_thread(self._unpack, source, path)

    def _unpack(self, source: BinaryIO, path: bytes) -> tuple[int, int]:
        with self._workspace() as workspace:
            return unpack(source, workspace, path)

    def download(self, path: bytes, left_out: list[str]) -> AsyncIterator[bytes]:
        """Pack what is beneath a path of the workspace."""
        return in_thread(self._pack(path, left_out))

    def _pack(self, path: bytes, left_out: list[str]) -> Iterator[bytes]:
        with self._workspace() as workspace:
            yield from pack(workspace, path, left_out)


class EngineFiles:
    """The workspace through the engine's API. `inside` runs a command of ours in the container: its exit code."""

    def __init__(self, client: EngineClient, container: str, inside: Callable[[list[str]], Awaitable[int]]) -> None:
        self._client = client
        self._container = container
        self._inside = inside

    async def upload(self, path: bytes, archive: AsyncIterator[bytes]) -> tuple[int, int]:
        """Unpack beneath the workspace; nothing of an archive with a bad entry, (bytes, entries)."""
        where = parts(path)
        async with spooled(archive) as source:
            made, size, count = await asyncio.to_thread(cleaned, source)
            with made:
                found = await self._walk(where, make=True)
                if found != DIRECTORY:
                    raise _wrong(path, found)
                target = self._path(where)
                await self._call(lambda api: api.put_archive(self._container, target, made))
        return size, count

    async def download(self, path: bytes, left_out: list[str]) -> AsyncIterator[bytes]:
        """Pack what is beneath a path of the workspace."""
        where = parts(path)
        found = await self._walk(where, make=False)
        if found not in (DIRECTORY, FILE):
            raise _wrong(path, found)
        # With a dot at the end the engine's names begin beneath the directory.
        target = self._path(where) + ("/." if found == DIRECTORY else "")
        chunks, _ = await self._call(lambda api: api.get_archive(self._container, target, chunk_size=64 << 10))
        source = cast("BinaryIO", io.BufferedReader(_Chunks(chunks)))
        try:
            async for chunk in in_thread(filtered(source, left_out)):
                yield chunk
        finally:
            left_out[:] = [text.removeprefix("./") for text in left_out]

    @staticmethod
    def _path(where: tuple[bytes, ...]) -> str:
        return "/".join((WORKSPACE, *(part.decode(errors="surrogateescape") for part in where)))

    async def _walk(self, where: tuple[bytes, ...], *, make: bool) -> int:
        names = [part.decode(errors="surrogateescape") for part in where]
        return await self._inside(["/bin/sh", "-c", WALK, "walk", "make" if make else "look", *names])

    async def _call(self, work: Callable[[docker.APIClient], T]) -> T:
        try:
            return await self._client.call(work, deadline=TRANSFER_SECONDS)
        except docker.errors.NotFound as error:
            raise BackendError("PATH_NOT_FOUND", reason_of(error)) from error
        except docker.errors.APIError as error:
            raise BackendError("DISK_LOW", f"the engine refused the transfer: {reason_of(error)}") from error


class _Chunks(io.RawIOBase):
    """An iterator of chunks as a file to read."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._held = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # io hands over a memoryview
        while not self._held:
            try:
                self._held = next(self._chunks)
            except StopIteration:
                return 0
        piece, self._held = self._held[: len(buffer)], self._held[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)


def _wrong(path: bytes, found: int) -> BackendError:
    name = printable(path)
    if found == MISSING:
        return BackendError("PATH_NOT_FOUND", f"{name}: there is no such file or directory", path=name)
    if found in (LINK, OTHER, FILE):
        return BackendError("SPEC_INVALID", f"{name}: it is a link or no directory, and links are not followed")
    return BackendError("SANDBOX_LOST", "the container did not answer")
