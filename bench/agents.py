"""What the agent loop itself costs: a turn without the model's and the command's time, and many attempts that wait."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from quickstarted.agents.base import Tokens
from quickstarted.agents.loop import Loop
from quickstarted.agents.model import Reply, ReplyEnd, ToolCall, ToolOutput
from quickstarted.task.model import Budgets, Docs
from quickstarted.toolbox import AttemptToolbox, NoDocs, Shell
from quickstarted.trace import Trace

from bench.measure import Seconds, Work
from tests.support.fake_sandbox import FakeSandbox

TURNS = 200
TURN_SECONDS = 0.005
LATE_SECONDS = 0.1
MEGABYTES = 500.0


class _Talk:
    """A model that takes no time: it asks for a command in each turn, and says much with the last."""

    def __init__(self) -> None:
        self._left = TURNS

    async def reply(self) -> Reply:
        self._left -= 1
        if not self._left:
            return Reply(ReplyEnd.COMPLETE, "done")
        call = ToolCall(str(self._left), "bash", {"command": "true"})
        return Reply(ReplyEnd.COMPLETE, "I go on. " * 100, (call,), Tokens(1, 1, 1, 1), "m")

    def answer(self, outputs: Sequence[ToolOutput]) -> None: ...

    def say(self, text: str) -> None: ...

    async def close(self) -> None: ...


@contextlib.asynccontextmanager
async def turn() -> AsyncIterator[Work]:
    """Turns with all that surrounds them: budgets, the shell, and a trace that is flushed to disk."""
    with tempfile.TemporaryDirectory() as name:

        async def reference() -> Seconds:
            return TURNS * TURN_SECONDS

        async def candidate() -> None:
            budgets = Budgets(max_turns=TURNS + 1)
            trace = Trace(Path(name) / "trace.jsonl")
            tools = AttemptToolbox(Shell(FakeSandbox(), budgets), NoDocs, Docs(("https://docs.test/",)), trace, budgets)
            await Loop(_Talk(), tools).run()
            trace.close()

        yield Work(reference=reference, candidate=candidate)


@contextlib.asynccontextmanager
async def lateness() -> AsyncIterator[Work]:
    """How late the latest of 200 attempts is that wait for a model past their deadline, over 100 ms."""
    measured = await _many()

    async def reference() -> Seconds:
        return LATE_SECONDS

    async def candidate() -> Seconds:
        return measured["late"]

    yield Work(reference=reference, candidate=candidate)


@contextlib.asynccontextmanager
async def memory() -> AsyncIterator[Work]:
    """What 200 attempts in flight take, over 500 MB: megabytes stand in the place of seconds."""
    measured = await _many()

    async def reference() -> Seconds:
        return MEGABYTES

    async def candidate() -> Seconds:
        return measured["megabytes"]

    yield Work(reference=reference, candidate=candidate)


async def _many() -> dict[str, float]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.many_attempts", stdout=asyncio.subprocess.PIPE
    )
    told, _ = await process.communicate()
    measured: dict[str, float] = json.loads(told)
    return measured
