"""A toolbox for tests of agents."""

from __future__ import annotations

from dataclasses import dataclass, field

from quickstarted.agents.base import BudgetExhaustedError, StopReason, Tokens
from quickstarted.sandbox.base import CommandResult


@dataclass
class Tools:
    """A toolbox that runs nothing and keeps what was asked of it."""

    max_turns: int = 50
    left: float = 100.0
    turns: int = 0
    asked: list[tuple[str, object]] = field(default_factory=list)
    spent: Tokens = field(default_factory=Tokens)
    events: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    async def bash(self, command: str) -> CommandResult:
        self.asked.append(("bash", command))
        return CommandResult("e1", 3 if command == "false" else 0, "EXITED", "out", 3, False, 0.1)

    async def read_docs(self, url: str, offset: int = 0) -> str:
        self.asked.append(("read_docs", (url, offset)))
        return "# Page"

    def begin_turn(self) -> int:
        if self.turns == self.max_turns:
            raise BudgetExhaustedError(StopReason.MAX_TURNS, "turns")
        self.turns += 1
        return self.turns

    def spend(self, tokens: Tokens) -> None:
        self.spent += tokens

    def seconds_left(self) -> float:
        return self.left

    def record(self, event: str, **fields: object) -> None:
        self.events.append((event, fields))
