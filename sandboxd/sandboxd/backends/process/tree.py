"""Measuring and removing directories that hostile commands filled. Blocking.

Nothing here follows a link, and nothing grows with the depth of a tree: a path may be longer than any system call
takes, and a tree deeper than Python recurses or than there are descriptors.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

# Each name costs at least this, however little is in it: an inode and its share of a directory.
ENTRY_BYTES = 4096
BLOCK = 512

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def usage(paths: Iterable[str]) -> int:
    """Bytes on disk beneath these directories."""
    seen: set[tuple[int, int]] = set()
    return sum(sum(_sizes(path, seen)) for path in paths)


def _sizes(path: str, seen: set[tuple[int, int]]) -> Iterator[int]:
    """What each entry beneath `path` takes; a file with several names is counted once."""
    here = os.open(path, _DIRECTORY)
    try:
        # The way from the top to here: what each directory is, and those in it that wait.
        way: list[tuple[tuple[int, int], list[str]]] = []
        while True:
            waiting: list[str] = []
            for entry, status in _entries(here):
                if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
                    if (status.st_dev, status.st_ino) in seen:
                        continue
                    seen.add((status.st_dev, status.st_ino))
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(entry)
                yield max(status.st_blocks * BLOCK, ENTRY_BYTES)
            way.append((_identity(here), waiting))
            moved = _next(here, way)
            if moved is None:
                return
            os.close(here)
            here = moved
    finally:
        os.close(here)


def _entries(directory: int) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # it vanished meanwhile
                yield entry.name, entry.stat(follow_symlinks=False)


def _next(here: int, way: list[tuple[tuple[int, int], list[str]]]) -> int | None:
    """The next directory that waits, in or above `here`; None at the end, or when the tree was moved on the way."""
    current = os.dup(here)
    while way:
        waiting = way[-1][1]
        while waiting:
            with contextlib.suppress(OSError):  # it vanished, or may not be read
                below = os.open(waiting.pop(), _DIRECTORY, dir_fd=current)
                os.close(current)
                return below
        way.pop()
        if not way:
            break
        above = os.open("..", _DIRECTORY, dir_fd=current)
        os.close(current)
        current = above
        if _identity(current) != way[-1][0]:
            break  # a command moved the directory elsewhere while it was being measured
    os.close(current)
    return None


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
