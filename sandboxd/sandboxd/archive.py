"""Files in and out of a sandbox, as tar streams that hold regular files and directories and nothing else.

The one side of every archive is hostile: names, sizes, types and the tree itself may lie. What is written is always
made anew, never copied. Everything here blocks and is meant for a thread; `spooled` and `in_thread` are the bridges to
coroutines.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import stat
import tarfile
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import IO, BinaryIO, cast

from sandboxd.backends.base import BackendError
from sandboxd.beneath import MAX_DEPTH, directory, parts, printable
from sandboxd.tar import Contents, Kind, Member, TarError, members

CHUNK = 64 * 1024
_FILE, _DIRECTORY = 0o644, 0o755


@dataclass(frozen=True, slots=True)
class Caps:
    """Bounds of one archive: bytes of contents, and entries."""

    bytes: int = 4 << 30
    entries: int = 100_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or directory of an archive; `executable` is all of its mode that counts."""

    path: tuple[bytes, ...]
    is_directory: bool
    size: int
    executable: bool


# --- reading an archive that somebody sent ----------------------------------------------------------------------------


def entries(source: BinaryIO, caps: Caps) -> Iterator[tuple[Entry, Contents | None]]:
    """The entries of a tar stream, each with its contents. Raises BackendError (SPEC_INVALID) at the first bad one.

    The contents are read by the caller, inside `_readable`.
    """
    count = total = 0
    with _readable():
        for member, contents in members(source):
            count += 1
            if count > caps.entries:
                raise _invalid(f"the archive has more than {caps.entries} entries")
            entry = _entry(member)
            total += entry.size
            if total > caps.bytes:
                raise _invalid(f"the archive has more than {caps.bytes} bytes of contents")
            yield entry, None if entry.is_directory else contents


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    """What is wrong with the format, as a refusal."""
    try:
        yield
    except TarError as error:
        raise _invalid(f"it is no tar stream that can be read: {error}") from None


def _entry(member: Member) -> Entry:
    if member.kind not in (Kind.FILE, Kind.DIRECTORY):
        raise _invalid(f"{printable(member.name)} is {member.kind}; only regular files and directories are taken")
    is_directory = member.kind is Kind.DIRECTORY
    path = parts(member.name, what="the archive's entry")
    if not path and not is_directory:
        raise _invalid("a file without a name")
    return Entry(path, is_directory, member.size, bool(member.mode & 0o100))


# --- into a directory -------------------------------------------------------------------------------------------------


def unpack(source: BinaryIO, root: int, path: bytes, caps: Caps | None = None) -> tuple[int, int]:
    """Unpack beneath a path of the directory `root`, all or nothing; (bytes, entries).

    Contents go to a staging directory first. Only when all of the archive was good, and on disk, are they renamed into
    their places. Raises BackendError.
    """
    caps = caps or Caps()
    staging = b".upload-" + uuid.uuid4().hex.encode()
    with directory(root, parts(path), make=True) as target:
        try:
            os.mkdir(staging, 0o700, dir_fd=target)
            found, size = _stage(source, target, staging, caps)
            _check_places(target, found)
            for index, entry in enumerate(found):
                _place(target, staging, index, entry)
        except OSError as error:
            raise _not_written(error) from None
        finally:
            _remove_staging(target, staging)
    return size, len(found)


def _not_written(error: OSError) -> BackendError:
    """A full disk is the runner's matter; a tree that commands change meanwhile is not."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    reason = "DISK_LOW" if full else "PATH_NOT_FOUND"
    return BackendError(reason, f"the upload could not be written: {error.strerror}")


def _stage(source: BinaryIO, target: int, staging: bytes, caps: Caps) -> tuple[list[Entry], int]:
    found: list[Entry] = []
    size = 0
    with _readable(), directory(target, (staging,)) as stage:
        for entry, contents in entries(source, caps):
            if contents is not None:
                size += _write(stage, b"%d" % len(found), entry, contents)
            found.append(entry)
    return found, size


def _write(stage: int, name: bytes, entry: Entry, contents: Contents) -> int:
    mode = _DIRECTORY if entry.executable else _FILE
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=stage), "wb") as file:
        while data := contents.read(CHUNK):
            file.write(data)
        os.fchmod(file.fileno(), mode)
        if file.tell() != entry.size:
            raise _invalid(f"{printable(b'/'.join(entry.path))} ends before its size")
        return file.tell()


def _check_places(target: int, found: list[Entry]) -> None:
    """Refuse, before anything is placed, what would put a file over a directory or a directory over a file."""
    kinds: dict[tuple[bytes, ...], bool] = {}
    for entry in found:
        for depth in range(1, len(entry.path) + 1):
            path, is_directory = entry.path[:depth], depth < len(entry.path) or entry.is_directory
            if kinds.setdefault(path, is_directory) != is_directory:
                raise _invalid(f"{printable(b'/'.join(path))} is a file and a directory in one archive")
    for path, is_directory in kinds.items():
        there = _kind(target, path)
        if there is not None and there != is_directory:
            if _is_link(target, path):
                raise _invalid(f"{printable(b'/'.join(path))} is a link, and links are not followed")
            raise _invalid(f"{printable(b'/'.join(path))} exists and is {'a directory' if there else 'no directory'}")


def _kind(target: int, path: tuple[bytes, ...]) -> bool | None:
    """Whether a directory is at the path; None when nothing is."""
    try:
        with directory(target, path[:-1]) as parent:
            return stat.S_ISDIR(os.stat(path[-1], dir_fd=parent, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return None
    except BackendError as error:
        if error.reason == "PATH_NOT_FOUND":
            return None
        raise


def _is_link(target: int, path: tuple[bytes, ...]) -> bool:
    with directory(target, path[:-1]) as parent:
        return stat.S_ISLNK(os.stat(path[-1], dir_fd=parent, follow_symlinks=False).st_mode)


def _place(target: int, staging: bytes, index: int, entry: Entry) -> None:
    if entry.is_directory:
        with directory(target, entry.path, make=True):
            return
    with directory(target, entry.path[:-1], make=True) as parent, directory(target, (staging,)) as stage:
        os.rename(b"%d" % index, entry.path[-1], src_dir_fd=stage, dst_dir_fd=parent)


def _remove_staging(target: int, staging: bytes) -> None:
    with contextlib.suppress(BackendError, OSError):
        with directory(target, (staging,)) as stage:
            for name in os.listdir(stage):  # noqa: PTH208 - of a descriptor
                os.unlink(name, dir_fd=stage)
        os.rmdir(staging, dir_fd=target)


# --- out of a directory -----------------------------------------------------------------------------------------------


def pack(root: int, path: bytes, left_out: list[str], caps: Caps | None = None) -> Iterator[bytes]:
    """A tar stream of what is beneath a path of the directory `root`. What is no file or directory is `left_out`.

    Files may change meanwhile: as many bytes are packed as were there when the file was opened, filled up with zeros.
    """
    writer = _Writer(caps or Caps(), left_out)
    where = parts(path)
    if where and not _kind_or_missing(root, where):
        with directory(root, where[:-1]) as parent:
            yield from writer.file(parent, where[-1], where[-1])
    else:
        with directory(root, where) as top:
            yield from _walk(top, writer)
    yield from writer.end()


def _kind_or_missing(root: int, path: tuple[bytes, ...]) -> bool:
    kind = _kind(root, path)
    if kind is None:
        name = printable(b"/".join(path))
        raise BackendError("PATH_NOT_FOUND", f"{name}: there is no such file or directory", path=name)
    return kind


def _walk(top: int, writer: _Writer) -> Iterator[bytes]:
    pending: list[tuple[bytes, ...]] = [()]
    while pending:
        path = pending.pop()
        if len(path) >= MAX_DEPTH:
            writer.leave_out(b"/".join(path), f"deeper than {MAX_DEPTH} directories")
            continue
        try:
            with directory(top, path) as current:
                for name in _names(current, path, writer):
                    full = b"/".join((*path, name))
                    mode = os.stat(name, dir_fd=current, follow_symlinks=False).st_mode
                    if stat.S_ISDIR(mode):
                        yield from writer.directory(full)
                        pending.append((*path, name))
                    elif stat.S_ISREG(mode):
                        yield from writer.file(current, name, full)
                    else:
                        writer.leave_out(full, _kind_name(mode))
        except (OSError, BackendError) as error:
            # It vanished, or became something else, while it was being read.
            writer.leave_out(b"/".join(path), str(error))


def _names(opened: int, path: tuple[bytes, ...], writer: _Writer) -> list[bytes]:
    """The names in a directory, in order; of one that was filled up to hurt, no more than can be packed."""
    most = writer.caps.entries
    with os.scandir(opened) as found:
        names = [os.fsencode(entry.name) for entry in itertools.islice(found, most)]
        if next(found, None) is not None:
            writer.leave_out(b"/".join(path), f"more than {most} entries")
    return sorted(names)


def _kind_name(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


class _Writer:
    """Makes the bytes of a tar stream, within caps."""

    def __init__(self, caps: Caps, left_out: list[str]) -> None:
        self.caps = caps
        self._left_out = left_out
        self._bytes = self._entries = 0

    def leave_out(self, name: bytes, why: str) -> None:
        if len(self._left_out) < 1000:
            self._left_out.append(f"{printable(name)}: {why}")

    def directory(self, name: bytes) -> Iterator[bytes]:
        if self._admit(name, 0):
            yield _header(name, 0, is_directory=True, executable=True)

    def file(self, parent: int, name: bytes, full: bytes) -> Iterator[bytes]:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            opened = os.open(name, flags, dir_fd=parent)
        except OSError as error:
            self.leave_out(full, error.strerror or "it can't be opened")
            return
        with os.fdopen(opened, "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                self.leave_out(full, _kind_name(status.st_mode))
            elif self._admit(full, status.st_size):
                yield _header(full, status.st_size, is_directory=False, executable=bool(status.st_mode & 0o100))
                yield from _contents(file, status.st_size)

    def copy(self, entry: Entry, contents: Contents | None) -> Iterator[bytes]:
        """An entry of another archive, written anew."""
        name = b"/".join(entry.path)
        if not self._admit(name, entry.size):
            return
        yield _header(name, entry.size, is_directory=entry.is_directory, executable=entry.executable)
        if contents is not None:
            yield from _contents(contents, entry.size)

    @staticmethod
    def end() -> Iterator[bytes]:
        yield bytes(2 * tarfile.BLOCKSIZE)

    def _admit(self, name: bytes, size: int) -> bool:
        if self._entries >= self.caps.entries or self._bytes + size > self.caps.bytes:
            self.leave_out(name, "the download's limit was reached")
            return False
        self._entries += 1
        self._bytes += size
        return True


def _header(name: bytes, size: int, *, is_directory: bool, executable: bool) -> bytes:
    info = tarfile.TarInfo(os.fsdecode(name))
    info.size = size
    info.type = tarfile.DIRTYPE if is_directory else tarfile.REGTYPE
    info.mode = _DIRECTORY if is_directory or executable else _FILE
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _contents(file: IO[bytes] | Contents, size: int) -> Iterator[bytes]:
    left = size
    while left:
        data = file.read(min(CHUNK, left))
        if not data:
            break
        left -= len(data)
        yield data
    while left:
        zeros = bytes(min(CHUNK, left))
        left -= len(zeros)
        yield zeros
    if size % tarfile.BLOCKSIZE:
        yield bytes(tarfile.BLOCKSIZE - size % tarfile.BLOCKSIZE)


# --- from archive to archive ------------------------------------------------------------------------------------------


def cleaned(source: BinaryIO, caps: Caps | None = None) -> tuple[BinaryIO, int, int]:
    """An archive made anew in an unnamed file, for an engine that unpacks itself; with its bytes and entries.

    Raises BackendError at the first entry that is not to be unpacked.
    """
    caps = caps or Caps()
    made = tempfile.TemporaryFile()  # noqa: SIM115 - the caller's
    try:
        writer = _Writer(caps, [])
        size = count = 0
        with _readable():
            for entry, contents in entries(source, caps):
                if entry.path:
                    made.writelines(writer.copy(entry, contents))
                size, count = size + entry.size, count + 1
        made.writelines(writer.end())
        made.seek(0)
    except BaseException:
        made.close()
        raise
    return cast("BinaryIO", made), size, count


def filtered(source: BinaryIO, left_out: list[str], caps: Caps | None = None) -> Iterator[bytes]:
    """A tar stream that an engine made, with everything but regular files and directories left out, made anew."""
    writer = _Writer(caps or Caps(), left_out)
    try:
        for member, contents in members(source):
            try:
                entry = _entry(member)
            except BackendError as error:
                writer.leave_out(member.name, error.message)
                continue
            if entry.path:
                yield from writer.copy(entry, None if entry.is_directory else contents)
    except TarError as error:
        raise BackendError("BACKEND_DOWN", f"the engine's archive can't be read: {error}") from None
    yield from writer.end()


# --- between threads and coroutines -----------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def spooled(stream: AsyncIterator[bytes], caps: Caps | None = None) -> AsyncIterator[BinaryIO]:
    """A client's stream in an unnamed file, at its start. Raises BackendError when it is longer than any archive."""
    most = (caps or Caps()).bytes + (caps or Caps()).entries * 2 * tarfile.BLOCKSIZE
    with tempfile.TemporaryFile() as file:
        async for chunk in stream:
            if file.tell() + len(chunk) > most:
                raise _invalid(f"the archive is longer than {most} bytes")
            await asyncio.to_thread(file.write, chunk)
        file.seek(0)
        yield cast("BinaryIO", file)


async def in_thread(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The chunks of a blocking iterator, which is always closed in the end."""
    end = object()
    try:
        while (chunk := await asyncio.to_thread(next, chunks, end)) is not end:
            yield cast("bytes", chunk)
    finally:
        close = getattr(chunks, "close", None)
        if close is not None:
            await asyncio.shield(asyncio.to_thread(close))


def _invalid(message: str) -> BackendError:
    return BackendError("SPEC_INVALID", message)
