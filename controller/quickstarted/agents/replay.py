"""The agent that thinks nothing: it runs the documented commands in order, and stops at the first that fails."""

from __future__ import annotations

from quickstarted.agents.base import AgentOutcome, StopReason, Toolbox
from quickstarted.task.model import Task


class ReplayAgent:
    """Each command is a turn."""

    name = "replay"

    def can_run(self, task: Task) -> bool:
        return bool(task.replay)

    async def run(self, task: Task, tools: Toolbox) -> AgentOutcome:
        turns = 0
        for command in task.replay:
            turns = tools.begin_turn()
            result = await tools.bash(command)
            if result.cause == "TIMED_OUT":
                limit = f"it was stopped after {task.budgets.max_command_seconds} s"
                return AgentOutcome(StopReason.MAX_COMMAND_SECONDS, limit, turns)
            if not result.ok:
                how = result.message or f"exit code {result.exit_code}"
                return AgentOutcome(StopReason.COMMAND_FAILED, how, turns)
        return AgentOutcome(StopReason.DONE, turns=turns)
