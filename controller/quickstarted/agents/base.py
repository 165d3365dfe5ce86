"""What an agent is: something that works towards a task's goal with two tools until it stops.

Agents know neither budgets nor records: the tools that they are given enforce the budgets and write the trace.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from quickstarted.sandbox.base import CommandResult
from quickstarted.task.model import Task


class StopReason(StrEnum):
    """Why the agent phase ended. The classification is a function of it, the check and the events."""

    DONE = "done"
    NOTHING_TO_RUN = "nothing_to_run"
    COMMAND_FAILED = "command_failed"  # replay stops at the first documented command that fails
    MAX_TURNS = "max_turns"
    MAX_SECONDS = "max_seconds"
    MAX_TOKENS = "max_tokens"
    MAX_COMMAND_SECONDS = "max_command_seconds"  # a documented command passed the limit of one command
    REFUSAL = "refusal"
    SETUP_FAILED = "setup_failed"
    MODEL_ERROR = "model_error"  # the model's API failed for good
    MODEL_REJECTED = "model_rejected"  # key, model name or request were wrong: ours or the operator's mistake
    SANDBOX_ERROR = "sandbox_error"  # could not be made, or was lost
    CONFIGURATION = "configuration"  # the daemon refused what the task or the operator asked for
    INTERRUPTED = "interrupted"
    BUG = "bug"


@dataclass(frozen=True, slots=True)
class Tokens:
    """The four counters of a model's usage, each token in exactly one of them."""

    input: int = 0
    output: int = 0
    cache_write: int = 0
    cache_read: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output + self.cache_write + self.cache_read

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.input + other.input,
            self.output + other.output,
            self.cache_write + other.cache_write,
            self.cache_read + other.cache_read,
        )


@dataclass(frozen=True, slots=True)
class AgentOutcome:
    """How the agent phase ended. `detail` is one line for people; `model` is what the API reported."""

    stop: StopReason
    detail: str = ""
    turns: int = 0
    tokens: Tokens = field(default_factory=Tokens)
    model: str | None = None
    final_text: str = ""


class BudgetExhaustedError(Exception):
    """Raised by the tools and by `spend` when a budget has run out; an agent lets it pass."""

    def __init__(self, stop: StopReason, detail: str) -> None:
        super().__init__(detail)
        self.stop = stop
        self.detail = detail


class Toolbox(Protocol):
    """The two tools, the budgets and the trace, as an agent may use them."""

    async def bash(self, command: str) -> CommandResult:
        """Run a command in the sandbox. A command in flight at the deadline is ended."""

    async def read_docs(self, url: str, offset: int = 0) -> str:
        """The answer for the model: a page (or a part of it), or why it can't be read. Never raises for a bad URL."""

    def begin_turn(self) -> int:
        """Count a turn; raises BudgetExhaustedError when turns, time or tokens are spent."""

    def spend(self, tokens: Tokens) -> None:
        """Count tokens of a finished call."""

    def seconds_left(self) -> float:
        """Until the deadline of the agent phase."""

    def record(self, event: str, **fields: object) -> None:
        """Write an event to the trace (agent_turn, agent_final, api_retry)."""


class Agent(Protocol):
    """`name` is what `--agent` says."""

    name: str

    def can_run(self, task: Task) -> bool:
        """False when there is nothing to run in this mode (replay without commands): the attempt is skipped."""

    async def run(self, task: Task, tools: Toolbox) -> AgentOutcome:
        """Work until done. Lets BudgetExhaustedError, SandboxError and CancelledError pass."""
