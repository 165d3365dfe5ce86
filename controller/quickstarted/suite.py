"""Many attempts: every task as often as asked, some at a time, each result on disk before the next attempt starts.

Tasks keep their order and a task's attempts follow each other, so that the first results are whole. Cancelling ends
what runs, in its sandboxes too, and keeps what finished.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from quickstarted.attempt import Plan
from quickstarted.results.model import AttemptResult, TaskResult

RunAttempt = Callable[[Plan], Awaitable[AttemptResult]]


@dataclass
class Suite:
    """Runs plans. `on_result` is called with each result as it comes, before the worker takes the next plan."""

    plans: Sequence[Plan]
    run_attempt: RunAttempt
    workers: int = 1
    on_result: Callable[[AttemptResult], None] = lambda _: None
    finished: list[AttemptResult] = field(default_factory=list)

    async def run(self) -> None:
        """Until all plans were run. The first unexpected error cancels the rest and is raised; so is a cancellation."""
        waiting = deque(self.plans)

        async def work() -> None:
            while waiting:
                result = await self.run_attempt(waiting.popleft())
                self.finished.append(result)
                self.on_result(result)

        workers = [asyncio.create_task(work(), name=f"worker {n}") for n in range(min(self.workers, len(waiting)))]
        if not workers:
            return
        try:
            done, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for worker in workers:
                worker.cancel()
            # Ending takes as long as the sandboxes take; a second cancellation does not make it shorter.
            await _all(workers)
        for worker in done:
            worker.result()

    def by_task(self) -> tuple[TaskResult, ...]:
        """What finished, by task, in the order of the plans. Tasks of which nothing finished are left out."""
        tasks: dict[str, list[AttemptResult]] = {plan.task.name: [] for plan in self.plans}
        sources = {plan.task.name: plan.task.source for plan in self.plans}
        for result in self.finished:
            tasks[result.task].append(result)
        return tuple(
            TaskResult(name, sources[name], tuple(sorted(attempts, key=lambda one: one.attempt)))
            for name, attempts in tasks.items()
            if attempts
        )


async def _all(tasks: Sequence[asyncio.Task[None]]) -> None:
    cancelled = False
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
