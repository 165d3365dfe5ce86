"""Task files from disk: what `validate` and `run` read.

One file becomes a Task or problems, never a library's exception. Everything that is wrong with a file is told at once.
"""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quickstarted_api.hosts import quoted
from voluptuous import Invalid, MultipleInvalid

from quickstarted.task import lint, schema
from quickstarted.task.document import Document, parse
from quickstarted.task.files import expand
from quickstarted.task.model import Budgets, Docs, Network, Success, Task
from quickstarted.task.problems import Path, Problem, Severity, TaskError, field_name, in_order
from quickstarted.task.syntax import position

MAX_BYTES = 2**20  # the largest task known has 5 KB


@dataclass(frozen=True, slots=True)
class Suite:
    """Several task files, in the order in which they were named. `problems` holds warnings too."""

    tasks: tuple[Task, ...]
    problems: tuple[Problem, ...]
    files: tuple[str, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that forbid running."""
        return tuple(problem for problem in self.problems if problem.severity is Severity.ERROR)


def load_task(path: str) -> Task:
    """The task of a file. Raises TaskError with all that is wrong; warnings alone raise nothing."""
    file = _load(path)
    if file.task is None:
        raise TaskError(file.problems)
    return file.task


def load_suite(paths: Sequence[str]) -> Suite:
    """The tasks of files, directories and globs; see `files.expand`, whose NothingFoundError passes through.

    All files are read, whatever is wrong with some. Two tasks of one name are an error of the second.
    """
    files = expand(paths)
    tasks: list[Task] = []
    problems: list[Problem] = []
    firsts: dict[str, _File] = {}
    firsts_in_any_case: dict[str, _File] = {}
    for path in files:
        file = _load(path)
        problems += file.problems
        if file.task is None:
            continue
        first = firsts.setdefault(file.task.name, file)
        like = firsts_in_any_case.setdefault(file.task.name.lower(), file)
        if first is not file:
            problems.append(_same_name(file, first))
            continue
        tasks.append(file.task)
        if like is not file:
            problems.append(_same_name(file, like))
    return Suite(tuple(tasks), tuple(problems), files)


def read(path: str) -> str:
    """The text of a file. Raises TaskError for what is no file of at most MAX_BYTES in UTF-8."""
    try:
        # Opening must not wait for the other end of a pipe.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                kind = "a directory" if stat.S_ISDIR(status.st_mode) else "no regular file"
                raise TaskError([Problem(path, 0, 0, "", f"is {kind}")])
            data = b"" if status.st_size > MAX_BYTES else _read_all(descriptor, status.st_size)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise TaskError([Problem(path, 0, 0, "", f"can't be read: {reason}")]) from None
    size = max(status.st_size, len(data))
    if size > MAX_BYTES:
        raise TaskError([Problem(path, 0, 0, "", f"has {size:,} bytes; a task file has at most {MAX_BYTES:,}")])
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = position(error.object[: error.start].decode("utf-8"))
        byte = f"0x{error.object[error.start]:02x}"
        message = f"found the byte {byte}, which is not UTF-8; save the file as UTF-8"
        raise TaskError([Problem(path, line, column, "", message)]) from None


def _read_all(descriptor: int, size: int) -> bytes:
    """A file to its end, or more than MAX_BYTES of it. `size` is what it had a moment ago."""
    data = b""
    while len(data) <= MAX_BYTES and (chunk := os.read(descriptor, max(size, 2**12) + 1)):
        data += chunk
    return data


@dataclass(frozen=True, slots=True)
class _File:
    """What one file holds."""

    task: Task | None
    problems: list[Problem]
    name_at: tuple[int, int] = (0, 0)


def _load(path: str) -> _File:
    try:
        document = parse(read(path), path)
    except TaskError as error:
        return _File(None, in_order(error.problems))
    problems = list(document.problems)
    try:
        data = schema.SCHEMA(document.value)
    except MultipleInvalid as error:
        problems += [_problem(path, document, fault) for fault in error.errors]
    warnings = _unknown_keys(path, document)
    if problems:
        return _File(None, in_order([*problems, *warnings]))
    task = _build(data, path)
    return _File(task, [*warnings, *lint.warnings(task)], document.place(["name"]))


def _same_name(file: _File, first: _File) -> Problem:
    """Results are stored by name: an error, or a warning where only some file systems take the two names for one."""
    assert file.task is not None
    assert first.task is not None
    line, column = first.name_at
    theirs = f"{first.task.source}:{line}:{column}"
    if file.task.name == first.task.name:
        severity, message = Severity.ERROR, f"found {quoted(file.task.name)}, the name of {theirs} too; "
    else:
        severity = Severity.WARNING
        message = f"found {quoted(file.task.name)}, which differs from {theirs} in case alone; "
    message += "results are stored by name, so give each task its own"
    return Problem(file.task.source, *file.name_at, "name", message, severity)


def _problem(file: str, document: Document, fault: Invalid, severity: Severity = Severity.ERROR) -> Problem:
    path: list[str | int] = [step if isinstance(step, int) else str(step) for step in fault.path]
    at: Path = fault.at if isinstance(fault, schema.Fault) else ()
    of_key = isinstance(fault, schema.Fault) and fault.of_key
    line, column = document.place([*path, *at], of_key=of_key)
    return Problem(file, line, column, field_name(path), fault.msg, severity)


def _unknown_keys(file: str, document: Document) -> list[Problem]:
    """Warnings of keys that the specification neither has nor refuses."""
    found = []
    for path, known in schema.LENIENT:
        value: Any = document.value
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        for key in value if isinstance(value, dict) else ():
            if key not in known:
                fault = schema.UnknownKey(key, known, ignored=True)
                fault.prepend(list(path))
                found.append(_problem(file, document, fault, Severity.WARNING))
    return found


def _build(data: dict[str, Any], path: str) -> Task:
    docs, network = data["docs"], data.get("network", {})
    only = network.get("only")
    return Task(
        name=data["name"],
        goal=data["goal"],
        docs=Docs(
            path=tuple(docs["path"] if "path" in docs else (docs["entrypoint"],)),
            allow=tuple(dict.fromkeys(docs.get("allow", ()))),
        ),
        success=Success(data["success"]["script"]),
        setup=tuple(data.get("setup", ())),
        replay=tuple(data.get("replay", ())),
        network=Network(
            allow=tuple(dict.fromkeys(network.get("allow", ()))),
            only=None if only is None else tuple(dict.fromkeys(only)),
        ),
        budgets=Budgets(**data.get("budgets", {})),
        image=data.get("image"),
        source=path,
    )
