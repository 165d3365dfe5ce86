"""Measuring and removing directories that hostile commands filled. Blocking.

Nothing here follows a link, and nothing grows with the depth of a tree: a path may be longer than any system call
takes, and a tree deeper than Python recurses or than there are descriptors.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

# Each name costs at least this, however little is in it: an inode and its share of a directory.
ENTRY_BYTES = 4096
BLOCK = 512
# So many levels of a tree are held open while it is measured; below, a level is found again by its "..".
KEPT_OPEN = 64

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def is_directory(path: str | Path) -> bool:
    """Whether there is a directory that can be reached; pathlib's own raises where there is none to be seen."""
    return stat.S_ISDIR(_mode(path))


def is_file(path: str | Path) -> bool:
    """Whether there is a regular file that can be reached."""
    return stat.S_ISREG(_mode(path))


def is_socket(path: str | Path) -> bool:
    """Whether there is a unix socket that can be reached."""
    return stat.S_ISSOCK(_mode(path))


def _mode(path: str | Path) -> int:
    try:
        return os.stat(path).st_mode  # noqa: PTH116 a text will do
    except OSError:
        return 0


def usage(paths: Iterable[str]) -> int:
    """Bytes on disk beneath these directories, also in those whose owner, our own user, has shut them."""
    seen: set[tuple[int, int]] = set()
    return sum(sum(_sizes(path, seen)) for path in paths)


@dataclass(slots=True)
class _Level:
    """A directory on the way from the top: its descriptor (-1: not open), what it is, the mode to give it back."""

    descriptor: int
    identity: tuple[int, int]
    mode: int | None
    waiting: list[str] | None = None  # the directories in it; None before it was read

    def close(self) -> None:
        if self.descriptor >= 0:
            if self.mode is not None:
                with contextlib.suppress(OSError):
                    os.fchmod(self.descriptor, self.mode)
            os.close(self.descriptor)
            self.descriptor = -1


def _sizes(path: str, seen: set[tuple[int, int]]) -> Iterator[int]:
    """What each entry beneath `path` takes; a file with several names is counted once."""
    try:
        way = [_open_to_measure(path)]
    except FileNotFoundError:
        return
    try:
        while way:
            level = way[-1]
            if level.waiting is None:
                level.waiting = []
                yield from _read(level, level.waiting, seen)
            elif level.waiting:
                with contextlib.suppress(OSError):  # it vanished meanwhile
                    way.append(_open_to_measure(level.waiting.pop(), level.descriptor))
                    if len(way) > KEPT_OPEN:
                        level.mode = None  # it stays opened up: the way back leads through it
                        level.close()
            else:
                way.pop()
                _go_up(level, way)
                level.close()
    finally:
        for level in way:
            level.close()


def _read(level: _Level, waiting: list[str], seen: set[tuple[int, int]]) -> Iterator[int]:
    with os.scandir(level.descriptor) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # it vanished meanwhile
            if stat.S_ISDIR(status.st_mode):
                waiting.append(entry.name)
            elif status.st_nlink > 1:
                if (status.st_dev, status.st_ino) in seen:
                    continue
                seen.add((status.st_dev, status.st_ino))
            yield max(status.st_blocks * BLOCK, ENTRY_BYTES)


def _go_up(left: _Level, way: list[_Level]) -> None:
    """Open the level above again, if it was closed; whoever moves a directory meanwhile hides only what is deep."""
    while way and way[-1].descriptor < 0:
        with contextlib.suppress(OSError):
            above = os.open("..", _DIRECTORY, dir_fd=left.descriptor)
            if _identity(above) == way[-1].identity:
                way[-1].descriptor = above
                return
            os.close(above)
        way.pop()


def _open_to_measure(name: str, directory: int | None = None) -> _Level:
    """Open a directory for reading; one that is shut is opened up until it is closed, so that it can hide nothing."""
    try:
        opened = os.open(name, _DIRECTORY, dir_fd=directory)
        return _Level(opened, _identity(opened), None)
    except PermissionError:
        if sys.platform != "linux":
            raise
    # What is changed is this directory, wherever a command moves it and whatever it puts in its place.
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        itself = f"/proc/self/fd/{handle}"
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        os.chmod(itself, mode | stat.S_IRUSR | stat.S_IXUSR)  # noqa: PTH101 a descriptor by its name
        opened = os.open(itself, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return _Level(opened, _identity(opened), mode)
    finally:
        os.close(handle)


def _identity(directory: int) -> tuple[int, int]:
    status = os.fstat(directory)
    return status.st_dev, status.st_ino


def held_bytes(pids: Iterable[int], device: int) -> int:
    """Bytes of files on this device that have no name any more and that these processes hold open."""
    held: dict[int, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as descriptors:
            for entry in descriptors:
                with contextlib.suppress(OSError):
                    status = entry.stat()
                    if stat.S_ISREG(status.st_mode) and status.st_nlink == 0 and status.st_dev == device:
                        held[status.st_ino] = status.st_blocks * BLOCK
    return sum(held.values())


def remove(path: str) -> None:
    """Remove a directory and all beneath it, whatever its modes; nothing happens when it isn't there.

    No process may be at work in it any more. Raises OSError when something can't be removed.
    """
    try:
        here = _open_for_removal(path)
    except FileNotFoundError:
        return
    try:
        # The names of the directories that wait, at each level from the top to here.
        way = [_unlink_files(here)]
        while way:
            if way[-1]:
                moved = _open_for_removal(way[-1][-1], here)
                way.append(_unlink_files(moved))
            else:
                way.pop()
                if not way:
                    break
                moved = os.open("..", _DIRECTORY, dir_fd=here)
                os.rmdir(way[-1].pop(), dir_fd=moved)
            os.close(here)
            here = moved
    finally:
        os.close(here)
    Path(path).rmdir()


def _unlink_files(directory: int) -> list[str]:
    """Remove what is no directory; the names of those that are."""
    with os.scandir(directory) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in found:
        if not is_directory:
            os.unlink(name, dir_fd=directory)
    return [name for name, is_directory in found if is_directory]


def _open_for_removal(name: str, directory: int | None = None) -> int:
    try:
        opened = os.open(name, _DIRECTORY, dir_fd=directory)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=directory)
        opened = os.open(name, _DIRECTORY, dir_fd=directory)
    try:
        # To read it is not enough: its entries are to go.
        os.fchmod(opened, 0o700)
    except BaseException:
        os.close(opened)
        raise
    return opened
