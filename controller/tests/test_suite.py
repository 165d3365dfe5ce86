"""Many attempts: order, workers, interruption."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from quickstarted.agents.replay import ReplayAgent
from quickstarted.attempt import Attempt, Place, Plan
from quickstarted.classify import Classification
from quickstarted.results.model import AttemptResult
from quickstarted.suite import Suite
from quickstarted.task.model import Docs, Success, Task
from quickstarted.toolbox import NoDocs
from quickstarted.trace import RecordsError

from tests.support.fake_sandbox import Act, FakePlacer, FakeSandbox


def plan(name: str, number: int = 1) -> Plan:
    task = Task(
        name, "goal", Docs(("https://docs.test/",)), Success("check"), replay=(f"do {name}",), source=f"{name}.yaml"
    )
    return Plan(task, number, ReplayAgent(), "run", "image")


class Rig:
    """Runs plans on fake sandboxes; `script` says what their commands do."""

    def __init__(self, directory: Path, script: dict[str, Act] | None = None) -> None:
        self.directory = directory
        self.placer = FakePlacer(lambda _: FakeSandbox(script or {}))
        self.running = 0
        self.most = 0

    async def __call__(self, one: Plan) -> AttemptResult:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(0)
            place = Place(self.directory, f"{one.task.name}/attempt-{one.attempt}/trace.jsonl", self.directory / "log")
            return await Attempt(one, self.placer, NoDocs, place).run()
        finally:
            self.running -= 1


async def test_attempts_run_in_order_and_each_result_comes_as_it_finishes(tmp_path: Path) -> None:
    seen: list[str] = []
    plans = [plan("a", 1), plan("a", 2), plan("b", 1)]
    suite = Suite(plans, Rig(tmp_path), on_result=lambda one: seen.append(f"{one.task}{one.attempt}"))
    await suite.run()
    assert seen == ["a1", "a2", "b1"]
    assert [(task.task, task.source, task.passes) for task in suite.by_task()] == [
        ("a", "a.yaml", 2),
        ("b", "b.yaml", 1),
    ]


@pytest.mark.parametrize("workers", [1, 3, 50])
async def test_as_many_run_at_a_time_as_there_are_workers(tmp_path: Path, workers: int) -> None:
    rig = Rig(tmp_path)
    suite = Suite([plan("a", n) for n in range(1, 11)], rig, workers=workers)
    await suite.run()
    assert rig.most == min(workers, 10)
    assert [one.attempt for one in suite.by_task()[0].attempts] == list(range(1, 11))


async def test_an_interruption_keeps_what_finished_and_ends_what_runs(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {"do b": Act(hangs=True), "do c": Act(hangs=True)})
    suite = Suite([plan("a"), plan("b"), plan("c"), plan("d")], rig, workers=2)
    running = asyncio.create_task(suite.run())
    while len(rig.placer.made) < 3:  # noqa: ASYNC110 - the deadline is pytest's
        await asyncio.sleep(0)
    await asyncio.gather(*(sandbox.started.wait() for sandbox in rig.placer.made[1:]))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [task.task for task in suite.by_task()] == ["a"]
    assert len(rig.placer.made) == 3
    assert all(sandbox.closed == 1 for sandbox in rig.placer.made)
    assert [sandbox.killed for sandbox in rig.placer.made] == [[], ["do b"], ["do c"]]


async def test_a_second_interruption_does_not_cut_the_clean_up(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {"do a": Act(hangs=True)})
    suite = Suite([plan("a")], rig)
    running = asyncio.create_task(suite.run())
    while not rig.placer.made:  # noqa: ASYNC110 - the deadline is pytest's
        await asyncio.sleep(0)
    await rig.placer.made[0].started.wait()
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert rig.placer.made[0].closed == 1


async def test_records_that_can_t_be_written_end_the_run_and_its_sandboxes(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("a file in the way")
    rig = Rig(tmp_path, {"do a": Act(hangs=True)})
    suite = Suite([plan("a"), plan("b")], rig, workers=2)
    with pytest.raises(RecordsError):
        await suite.run()
    assert [sandbox.closed for sandbox in rig.placer.made] == [1]


async def test_no_plans_are_no_results(tmp_path: Path) -> None:
    suite = Suite([], Rig(tmp_path))
    await suite.run()
    assert suite.by_task() == ()


async def test_a_gap_of_one_task_stops_no_other(tmp_path: Path) -> None:
    suite = Suite([plan("a"), plan("b")], Rig(tmp_path, {"check": Act(1)}))
    await suite.run()
    assert [one.classification for one in suite.finished] == [Classification.DOCS_GAP] * 2
