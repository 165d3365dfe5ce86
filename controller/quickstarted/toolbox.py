"""The two tools as an agent may use them: budgets are enforced and everything is recorded here, whoever the agent is.

`Shell` runs the commands of one attempt, its setup's and its check's too, and remembers how each ended: what happened
on the network counts only if it happened during a command that failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from quickstarted.agents.base import BudgetExhaustedError, StopReason, Tokens
from quickstarted.classify import Phase
from quickstarted.sandbox.base import CommandResult, Sandbox
from quickstarted.task.model import Budgets, Docs
from quickstarted.trace import Trace, command_fields

# A command is never given less: the runner needs some time to start it.
MIN_COMMAND_SECONDS = 0.1
# For one page, with its redirects and the pauses that its host asks for.
READ_SECONDS = 120.0


class DocsText(Protocol):
    """What the model is told of a page."""

    @property
    def text(self) -> str: ...


class DocsReader(Protocol):
    """What answers `read_docs` in one attempt. It records each read, blocked and failed ones too."""

    async def read(self, url: str, offset: int = 0, *, seconds: float) -> DocsText:
        """The answer within `seconds`. Never raises for a bad URL."""

    async def probe_affordances(self, *, seconds: float) -> object:
        """Record what the site offers to machines."""


# Opens a reader for an attempt: what may be read, and what writes an event.
OpenDocs = Callable[[Docs, Callable[..., None]], DocsReader]


@dataclass(frozen=True, slots=True)
class NoDocs:
    """For agents that read nothing."""

    docs: Docs
    record: Callable[..., None]

    async def read(self, url: str, offset: int = 0, *, seconds: float) -> NoDocsText:
        self.record("docs_read_error", url=url, offset=offset, error="no docs reader is configured")
        return NoDocsText("Documentation can't be read in this run: no docs reader is configured.")

    async def probe_affordances(self, *, seconds: float) -> object:
        return None


@dataclass(frozen=True, slots=True)
class NoDocsText:
    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that ended."""

    phase: Phase
    command: str
    result: CommandResult


class Shell:
    """Runs commands in the sandbox, one after the other."""

    def __init__(self, sandbox: Sandbox, budgets: Budgets) -> None:
        self._sandbox = sandbox
        self._budgets = budgets
        self.ended: dict[str, Ended] = {}

    async def run(
        self, phase: Phase, command: str, *, seconds: float | None = None, session: bool = True
    ) -> CommandResult:
        """Run a command for at most `max_command_seconds`, and `seconds` where that is less. Raises SandboxError."""
        limit = float(self._budgets.max_command_seconds)
        result = await self._sandbox.run(
            command,
            seconds=max(min(limit, limit if seconds is None else seconds), MIN_COMMAND_SECONDS),
            max_chars=self._budgets.max_output_chars,
            session=session,
        )
        self.ended[result.exec_id] = Ended(phase, command, result)
        return result

    def last(self, phase: Phase) -> Ended | None:
        """The last command of a phase."""
        return next((one for one in reversed(self.ended.values()) if one.phase is phase), None)


@dataclass
class AttemptToolbox:
    """Implements `agents.base.Toolbox` for one agent phase, which begins when it is made."""

    shell: Shell
    open_docs: OpenDocs
    docs: Docs
    trace: Trace
    budgets: Budgets
    clock: Callable[[], float] = time.monotonic
    turns: int = 0
    tokens: Tokens = field(default_factory=Tokens)
    pages: list[str] = field(default_factory=list)
    model: str | None = None
    _deadline: float = field(init=False)
    _reader: DocsReader = field(init=False)

    def __post_init__(self) -> None:
        self._deadline = self.clock() + self.budgets.max_seconds
        self._reader = self.open_docs(self.docs, self.record)

    async def bash(self, command: str) -> CommandResult:
        self._require_time("before a command")
        self.trace.write("tool_call", turn=self.turns, tool="bash", command=command)
        result = await self.shell.run(Phase.AGENT, command, seconds=self.seconds_left())
        self.trace.write("tool_result", turn=self.turns, tool="bash", **command_fields(result))
        self._require_time("during a command")
        return result

    async def read_docs(self, url: str, offset: int = 0) -> str:
        self._require_time("before a page was read")
        self.trace.write("tool_call", turn=self.turns, tool="read_docs", url=url, offset=offset)
        answer = await self._reader.read(url, offset, seconds=min(self.seconds_left(), READ_SECONDS))
        self.trace.write("tool_result", turn=self.turns, tool="read_docs", url=url, chars=len(answer.text))
        self._require_time("while a page was read")
        return answer.text

    async def probe_affordances(self) -> None:
        """Record what the documentation's site offers to machines, after the agent has stopped."""
        await self._reader.probe_affordances(seconds=READ_SECONDS)

    def begin_turn(self) -> int:
        self._require_time("before a turn")
        if self.turns >= self.budgets.max_turns:
            raise BudgetExhaustedError(StopReason.MAX_TURNS, f"{self.budgets.max_turns} turns were used")
        if self.budgets.max_tokens and self.tokens.total >= self.budgets.max_tokens:
            raise self._out_of_tokens()
        self.turns += 1
        return self.turns

    def spend(self, tokens: Tokens) -> None:
        self.tokens += tokens
        if self.budgets.max_tokens and self.tokens.total > self.budgets.max_tokens:
            raise self._out_of_tokens()

    def seconds_left(self) -> float:
        return max(self._deadline - self.clock(), 0.0)

    def record(self, event: str, **fields: object) -> None:
        # A page is what it was in the end, whatever led to it.
        page = fields.get("resolved_to") or fields.get("url")
        if event == "docs_read" and isinstance(page, str):
            # Read again, it is the page read last: where a gap is looked for first.
            self.pages = [*(each for each in self.pages if each != page), page]
        if isinstance(model := fields.get("model"), str) and event == "agent_turn":
            self.model = model
        self.trace.write(event, **fields)

    def _require_time(self, when: str) -> None:
        if self.seconds_left() <= 0:
            raise self._out_of_time(when)

    def _out_of_time(self, when: str) -> BudgetExhaustedError:
        return BudgetExhaustedError(StopReason.MAX_SECONDS, f"{self.budgets.max_seconds} s were used up {when}")

    def _out_of_tokens(self) -> BudgetExhaustedError:
        said = f"{self.tokens.total:,} of {self.budgets.max_tokens:,} tokens were used"
        return BudgetExhaustedError(StopReason.MAX_TOKENS, said)
