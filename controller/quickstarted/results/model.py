"""What a run found: frozen values, from one attempt up to the whole run. Writing them down is `record`'s.

A claim travels with what it depends on: every attempt says which backend ran it, whether that enforced anything, and
in which image, because a rate is not comparable across them.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from quickstarted.agents.base import StopReason, Tokens
from quickstarted.classify import Classification
from quickstarted.sandbox.base import SandboxFacts

# Two-sided 95 % of the normal distribution.
_Z = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Check:
    """How the success script ended."""

    exit_code: int
    cause: str
    output: str
    seconds: float


@dataclass(frozen=True, slots=True)
class HostCount:
    """Decisions of one kind about one host. `failed` when one of them was made during a command that failed."""

    host: str
    reason: str
    count: int
    failed: bool = False


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """One attempt at one task. Seconds and UTC times; `facts` is None when there was no sandbox."""

    task: str
    attempt: int
    agent: str
    classification: Classification
    why: str
    stop: StopReason
    stop_detail: str
    started: str
    seconds: float
    turns: int = 0
    tokens: Tokens = field(default_factory=Tokens)
    model: str | None = None
    prompt_hash: str | None = None
    failed_command: str | None = None
    facts: SandboxFacts | None = None
    image_ignored: str | None = None  # the image that was asked for, where the backend ignores images
    check: Check | None = None
    docs_pages: tuple[str, ...] = ()
    docs_map: dict[str, str] = field(default_factory=dict)
    refused: tuple[HostCount, ...] = ()
    upstream_errors: tuple[HostCount, ...] = ()
    docs_bypass_attempts: int = 0
    attribution_gaps: tuple[str, ...] = ()
    trace: str = ""  # relative to the results' directory

    @property
    def passed(self) -> bool:
        return self.classification is Classification.PASSED

    @property
    def suspect_page(self) -> str | None:
        """Where a gap probably is: the last page that was read."""
        gap = self.classification is Classification.DOCS_GAP
        return self.docs_pages[-1] if gap and self.docs_pages else None


@dataclass(frozen=True, slots=True)
class TaskResult:
    """All attempts at one task by one agent."""

    task: str
    source: str
    attempts: tuple[AttemptResult, ...]

    @property
    def passes(self) -> int:
        return sum(one.passed for one in self.attempts)

    @property
    def evidential(self) -> int:
        return sum(one.classification.evidential for one in self.attempts)

    @property
    def skipped(self) -> bool:
        return bool(self.attempts) and all(one.classification is Classification.SKIPPED for one in self.attempts)

    @property
    def pass_rate(self) -> float | None:
        """Passes over evidential attempts; None when there are none."""
        return self.passes / self.evidential if self.evidential else None

    @property
    def interval(self) -> tuple[float, float] | None:
        return wilson(self.passes, self.evidential)

    @property
    def discarded(self) -> dict[str, int]:
        """What is not evidence, by classification."""
        return dict(Counter(str(one.classification) for one in self.attempts if not one.classification.evidential))

    @property
    def suspect_pages(self) -> dict[str, int]:
        return dict(Counter(one.suspect_page for one in self.attempts if one.suspect_page).most_common())


@dataclass(frozen=True, slots=True)
class RunResult:
    """A whole run, as far as it came."""

    run_id: str
    agent: str
    repeat: int
    backend: str  # as it was asked for
    runner: str
    runner_version: str
    api: int  # the version of the contract
    started: str
    seconds: float
    interrupted: bool
    tasks: tuple[TaskResult, ...]

    @property
    def attempts(self) -> tuple[AttemptResult, ...]:
        return tuple(attempt for task in self.tasks for attempt in task.attempts)


def wilson(passes: int, of: int) -> tuple[float, float] | None:
    """The 95 % score interval of a rate (Wilson 1927): it stays within 0 and 1 and holds for few attempts too."""
    if of == 0:
        return None
    rate = passes / of
    scale = 1 + _Z**2 / of
    middle = (rate + _Z**2 / (2 * of)) / scale
    spread = _Z / scale * math.sqrt(rate * (1 - rate) / of + _Z**2 / (4 * of**2))
    return max(middle - spread, 0.0), min(middle + spread, 1.0)
