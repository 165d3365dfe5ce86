"""Which files the words of a command line mean: files, directories and globs that no shell has expanded."""

# os.path answers where pathlib raises, on a name that is too long or not to be looked up, and starts faster.
# ruff: noqa: PTH112, PTH118, PTH207, PTH208

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

SUFFIXES = (".yaml", ".yml")
DEFAULT_DIRECTORY = "tasks"


class NothingFoundError(Exception):
    """There is no task file where one was named. Each argument is a line for one of the names."""


def expand(paths: Sequence[str]) -> tuple[str, ...]:
    """Task files, each once, in the order of the names. Without names: of `tasks`, or else of the current directory.

    A directory stands for its *.yaml and *.yml files that are not hidden, in alphabetical order. Raises
    NothingFoundError when one of the names means no file at all.
    """
    if not paths:
        paths = [DEFAULT_DIRECTORY if os.path.isdir(DEFAULT_DIRECTORY) else os.curdir]
    found: dict[str, str] = {}
    missing = []
    for path in paths:
        files = list(_files(path))
        if not files:
            missing.append(_why(path))
        for file in files:
            found.setdefault(os.path.normpath(file), file)
    if missing:
        raise NothingFoundError(*missing)
    return tuple(found.values())


def _files(path: str) -> Iterator[str]:
    if os.path.isdir(path):
        with contextlib.suppress(OSError):  # told as a directory that may not be listed
            names = sorted(filter(_is_task_file, os.listdir(path)))
            yield from (name if path == os.curdir else os.path.join(path, name) for name in names)
    elif os.path.lexists(path):
        yield path
    elif _is_pattern(path):
        import glob

        for name in sorted(glob.glob(path, recursive=True)):
            yield from _files(name)


def _is_task_file(name: str) -> bool:
    return name.endswith(SUFFIXES) and not name.startswith(".")


def _is_pattern(path: str) -> bool:
    return any(char in path for char in "*?[")


def _why(path: str) -> str:
    if os.path.isdir(path):
        return f"{path}: no *.yaml or *.yml file in this directory, or none that may be listed"
    if _is_pattern(path):
        return f"{path}: no file matches"
    return f"{path}: no such file or directory"
