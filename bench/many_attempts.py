"""200 agents in one process, each in a call of a model that does not answer: how late their deadlines are kept, and
how much memory they take. Prints JSON. A process of its own, because memory is counted by process.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from quickstarted.agents.base import BudgetExhaustedError
from quickstarted.agents.keys import Credentials
from quickstarted.agents.registry import ModelAgent
from quickstarted.task.model import Budgets, Docs, Success, Task
from quickstarted.toolbox import AttemptToolbox, NoDocs, Shell
from quickstarted.trace import Trace

from tests.support.fake_sandbox import FakeSandbox
from tests.support.model_api import Answer, Hang, ModelServer

ATTEMPTS = 200
SECONDS = 10


async def main() -> None:
    budgets = Budgets(max_seconds=SECONDS)
    docs = Docs(("https://docs.test/",))
    task = Task("t", "do it", docs, Success("true"), budgets=budgets)
    async with ModelServer(lambda _: Answer([Hang()])).serve() as server:
        agent = ModelAgent("claude", None, Credentials("key", server.url))
        with tempfile.TemporaryDirectory() as name:

            async def attempt(number: int) -> float:
                trace = Trace(Path(name) / f"{number}.jsonl")
                tools = AttemptToolbox(Shell(FakeSandbox(), budgets), NoDocs, docs, trace, budgets)
                deadline = time.monotonic() + SECONDS
                try:
                    await agent.run(task, tools)
                except BudgetExhaustedError:
                    return time.monotonic() - deadline
                finally:
                    trace.close()
                raise AssertionError("the model does not answer")

            late = await asyncio.gather(*(attempt(number) for number in range(ATTEMPTS)))
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    print(json.dumps({"late": max(late), "megabytes": peak / 1e6, "asked": len(server.requests)}))


if __name__ == "__main__":
    asyncio.run(main())
