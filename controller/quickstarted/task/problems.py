"""What is wrong with a task file, as a value: the text is made where it is shown."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Path = Sequence[str | int]  # where a value stands in a document: keys and indices


class Severity(enum.StrEnum):
    """An error makes the file unusable. A warning doesn't."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of one file.

    `line` and `column` count from 1 and in characters; both are 0 when the fault has no place in the text. `field` is
    the path as users write it, such as `docs.allow[0]`; it is empty when the fault is not of a field.
    """

    file: str
    line: int
    column: int
    field: str
    message: str
    severity: Severity = Severity.ERROR

    @property
    def where(self) -> str:
        """`file:line:column`, or the file alone."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def __str__(self) -> str:
        return f"{self.where} {self.field}: {self.message}" if self.field else f"{self.where}: {self.message}"


class TaskError(Exception):
    """A file that is no task. `problems` holds all that was found, in the order of the file; its warnings too."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """The problems of one file as a reader meets them."""
    return sorted(problems, key=lambda problem: (problem.line, problem.column))


def field_name(path: Path) -> str:
    """A path as messages show it: `docs.allow[0]`."""
    shown = ""
    for step in path:
        shown += f"[{step}]" if isinstance(step, int) else f".{_key(step)}" if shown else _key(step)
    return shown


def nearest(key: str, known: Iterable[str]) -> str | None:
    """The known key that a typo probably meant."""
    import difflib  # costs more to import than a good file costs to check

    found = difflib.get_close_matches(key[:100].lower().replace("-", "_"), list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def _key(key: str) -> str:
    from quickstarted_api.hosts import quoted

    return key if key.isidentifier() and len(key) <= 60 else quoted(key)
