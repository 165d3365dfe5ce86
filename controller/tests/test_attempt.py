"""One attempt: its phases, its records, and that nothing is left or lost however it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import quickstarted.results
from quickstarted.agents.base import AgentOutcome, StopReason, Tokens, Toolbox
from quickstarted.agents.replay import ReplayAgent
from quickstarted.attempt import Attempt, Place, Plan
from quickstarted.classify import Classification
from quickstarted.results.model import AttemptResult
from quickstarted.sandbox.base import SandboxError
from quickstarted.task.model import Budgets, Docs, Network, Success, Task
from quickstarted.toolbox import NoDocs
from quickstarted.trace import Record, RecordsError
from quickstarted_api.v1 import sandbox_pb2 as pb

from tests.support.fake_sandbox import FACTS, Act, FakePlacer, FakeSandbox
from tests.support.fake_sandboxd import egress

CHECK = "test -f done # the secret of success"
SCHEMA = json.loads((Path(quickstarted.results.__file__).parent / "trace.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

TASK = Task(
    name="demo",
    goal="make it work",
    docs=Docs(("https://docs.test/start",)),
    success=Success(CHECK),
    setup=("prepare",),
    replay=("install", "use"),
)


class Agent:
    """An agent from a function."""

    name = "scripted"

    def __init__(self, act: Callable[[Toolbox], Any]) -> None:
        self._act = act

    def can_run(self, task: Task) -> bool:
        return True

    async def run(self, task: Task, tools: Toolbox) -> AgentOutcome:
        outcome = await self._act(tools)
        return outcome or AgentOutcome(StopReason.DONE)


@dataclass
class Bench:
    """An attempt on a fake sandbox."""

    directory: Path
    sandbox: FakeSandbox = field(default_factory=FakeSandbox)
    task: Task = TASK
    agent: Any = field(default_factory=ReplayAgent)
    seen: list[Record] = field(default_factory=list)
    make_error: SandboxError | None = None
    plan: dict[str, Any] = field(default_factory=dict)
    clock: Callable[[], float] | None = None
    waits: tuple[str, ...] = ()

    def attempt(self) -> Attempt:
        def make(_: object) -> FakeSandbox:
            if self.make_error:
                raise self.make_error
            return self.sandbox

        self.placer = FakePlacer(make, waits=self.waits)
        plan = Plan(self.task, 1, self.agent, "run", "python:3.12-slim", registry_hosts=("registry.test",), **self.plan)
        place = Place(self.directory, "demo/attempt-1/trace.jsonl", self.directory / "errors.log")
        extra = {"clock": self.clock} if self.clock else {}
        return Attempt(plan, self.placer, NoDocs, place, [self.seen.append], **extra)

    async def run(self) -> AttemptResult:
        try:
            return await self.attempt().run()
        finally:
            self.check_trace()

    def trace(self) -> list[dict[str, Any]]:
        lines = (self.directory / "demo/attempt-1/trace.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def events(self) -> list[str]:
        return [line["event"] for line in self.trace()]

    def check_trace(self) -> None:
        """What holds of every trace."""
        trace = self.trace()
        assert [line["seq"] for line in trace] == list(range(1, len(trace) + 1))
        assert trace[0]["event"] == "run_start"
        assert trace[-1]["event"] == "run_end"
        for line in trace:
            VALIDATOR.validate(line)
        assert [record.event for record in self.seen] == [line["event"] for line in trace]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def refused(host: str = "cdn.test", reason: pb.EgressReason.ValueType = pb.NOT_ALLOWLISTED) -> pb.Event:
    return egress(host, pb.REFUSED, reason)


def failed_upstream(host: str = "registry.test") -> pb.Event:
    return egress(host, pb.ERROR, pb.CONNECT_FAILURE)


async def test_a_pass_runs_setup_the_commands_and_the_check_in_order(bench: Bench) -> None:
    result = await bench.run()
    assert result.classification is Classification.PASSED
    assert bench.sandbox.commands == [("prepare", True), ("install", True), ("use", True), (CHECK, False)]
    assert (result.turns, result.stop, result.failed_command) == (2, StopReason.DONE, None)
    assert result.check
    assert result.check.exit_code == 0
    assert bench.sandbox.closed == 1
    assert bench.events() == [
        "run_start", "sandbox_ready", "setup", "tool_call", "tool_result", "tool_call", "tool_result",
        "success_check", "run_end",
    ]  # fmt: skip


async def test_a_replay_stops_at_the_first_command_that_fails_and_is_checked(bench: Bench) -> None:
    bench.sandbox.script = {"install": Act(3, "no such package"), CHECK: Act(1, "not done")}
    result = await bench.run()
    assert result.classification is Classification.DOCS_GAP
    assert (result.stop, result.failed_command, result.stop_detail) == (
        StopReason.COMMAND_FAILED,
        "install",
        "exit code 3",
    )
    assert "use" not in [command for command, _ in bench.sandbox.commands]
    assert result.check
    assert (result.check.exit_code, result.check.output) == (1, "not done")


async def test_a_replay_whose_command_failed_passes_when_the_check_does(bench: Bench) -> None:
    bench.sandbox.script = {"install": Act(3)}
    assert (await bench.run()).classification is Classification.PASSED


async def test_a_documented_command_that_passes_its_limit_exhausts_a_budget(bench: Bench) -> None:
    bench.sandbox.script = {"install": Act(124, cause="TIMED_OUT"), CHECK: Act(1)}
    result = await bench.run()
    assert (result.classification, result.stop) == (Classification.BUDGET_EXHAUSTED, StopReason.MAX_COMMAND_SECONDS)


async def test_nothing_to_replay_is_skipped_without_a_sandbox(bench: Bench) -> None:
    bench.task = replace(TASK, replay=())
    result = await bench.run()
    assert result.classification is Classification.SKIPPED
    assert result.check is None
    assert not bench.placer.wanted
    assert bench.events() == ["run_start", "run_end"]


async def test_setup_that_fails_ends_the_attempt_without_a_check(bench: Bench) -> None:
    bench.sandbox.script = {"prepare": Act(1, "no python")}
    result = await bench.run()
    assert (result.classification, result.failed_command) == (Classification.HARNESS_ERROR, "prepare")
    assert result.check is None
    assert bench.sandbox.closed == 1


NETWORK = [
    ("a host refused in a command that failed", {"install": Act(1, events=(refused(),))}, Classification.HARNESS_ERROR),
    ("a host refused in a command that succeeded", {"install": Act(0, events=(refused(),))}, Classification.DOCS_GAP),
    ("an upstream that failed a command", {"use": Act(1, events=(failed_upstream(),))}, Classification.INFRA_ERROR),
    ("an upstream that failed and was survived", {"use": Act(0, events=(failed_upstream(),))}, Classification.DOCS_GAP),
    (
        "a docs host tried from the shell",
        {"use": Act(1, events=(refused("docs.test", pb.DOCS_HOST_REQUIRES_READ_DOCS),))},
        Classification.DOCS_GAP,
    ),
]


@pytest.mark.parametrize(("script", "expected"), [row[1:] for row in NETWORK], ids=[row[0] for row in NETWORK])
async def test_the_network_counts_only_during_commands_that_failed(
    bench: Bench, script: dict[str, Act], expected: Classification
) -> None:
    bench.sandbox.script = {CHECK: Act(1), **script}
    assert (await bench.run()).classification is expected


async def test_an_upstream_that_failed_the_check_is_no_gap(bench: Bench) -> None:
    bench.sandbox.script = {CHECK: Act(1, events=(failed_upstream(),))}
    assert (await bench.run()).classification is Classification.INFRA_ERROR


async def test_hosts_are_counted_with_what_they_did(bench: Bench) -> None:
    docs = refused("docs.test", pb.DOCS_HOST_REQUIRES_READ_DOCS)
    docs.egress.count = 3
    bench.sandbox.script = {
        "install": Act(0, events=(refused("a.test"), docs)),
        "use": Act(1, events=(refused("a.test"), refused("b.test"), failed_upstream())),
    }
    result = await bench.run()
    assert {(one.host, one.reason, one.count, one.failed) for one in result.refused} == {
        ("a.test", "not_allowlisted", 2, True),
        ("b.test", "not_allowlisted", 1, True),
    }
    assert [one.host for one in result.upstream_errors] == ["registry.test"]
    assert result.docs_bypass_attempts == 3


async def test_the_end_of_a_passage_is_no_decision(bench: Bench) -> None:
    closed = failed_upstream()
    closed.egress.closed = True
    bench.sandbox.script = {"install": Act(1, events=(closed,)), CHECK: Act(1)}
    result = await bench.run()
    assert (result.classification, result.upstream_errors) == (Classification.DOCS_GAP, ())
    assert "egress_closed" in bench.events()


async def test_events_are_in_the_trace_before_their_command_ends(bench: Bench) -> None:
    async def settle() -> None:
        while "egress_blocked" not in bench.events():  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0)

    bench.sandbox.script = {"install": Act(0, events=(refused(),), then=settle)}
    await bench.run()
    events = bench.events()
    assert events.index("egress_blocked") < events.index("tool_result")


async def test_the_script_is_in_no_record_and_no_command_before_the_agent_stopped(bench: Bench) -> None:
    await bench.run()
    assert CHECK not in (bench.directory / "demo/attempt-1/trace.jsonl").read_text()
    assert CHECK not in repr(bench.task)
    assert [command for command, _ in bench.sandbox.commands].index(CHECK) == 3


async def test_the_policy_has_the_tasks_hosts_in_their_lists(bench: Bench) -> None:
    bench.task = replace(TASK, network=Network(allow=("extra.test",)))
    await bench.run()
    policy = bench.placer.wanted[0].spec.network
    assert list(policy.explicit_hosts) == ["extra.test"]
    assert list(policy.docs_hosts) == ["docs.test"]
    assert list(policy.registry_hosts) == ["registry.test"]


async def test_network_only_replaces_the_registries(bench: Bench) -> None:
    bench.task = replace(TASK, network=Network(only=()))
    await bench.run()
    policy = bench.placer.wanted[0].spec.network
    assert (list(policy.explicit_hosts), list(policy.registry_hosts)) == ([], [])


REFUSALS = [
    ("BACKEND_UNSUPPORTED", Classification.HARNESS_ERROR, StopReason.CONFIGURATION),
    ("IMAGE_UNAVAILABLE", Classification.HARNESS_ERROR, StopReason.CONFIGURATION),
    ("BACKEND_DOWN", Classification.INFRA_ERROR, StopReason.SANDBOX_ERROR),
    ("SANDBOX_LOST", Classification.INFRA_ERROR, StopReason.SANDBOX_ERROR),
]


@pytest.mark.parametrize(("reason", "expected", "stop"), REFUSALS, ids=[row[0] for row in REFUSALS])
async def test_a_sandbox_that_can_t_be_made(
    bench: Bench, reason: str, expected: Classification, stop: StopReason
) -> None:
    bench.make_error = SandboxError(reason, "it can't be made.", {"remedy": "do this"})
    result = await bench.run()
    assert (result.classification, result.stop, result.facts) == (expected, stop, None)
    assert result.stop_detail == "it can't be made; do this"


@pytest.mark.parametrize("where", ["prepare", "use", CHECK], ids=["setup", "agent", "check"])
async def test_a_sandbox_that_is_lost_is_an_infra_error(bench: Bench, where: str) -> None:
    bench.sandbox.script = {where: Act(error=SandboxError("SANDBOX_LOST", "engine stopped"))}
    result = await bench.run()
    assert (result.classification, result.stop) == (Classification.INFRA_ERROR, StopReason.SANDBOX_ERROR)
    assert result.check is None
    assert bench.sandbox.closed == 1


async def test_a_close_that_fails_is_recorded_and_changes_nothing(bench: Bench) -> None:
    bench.sandbox.close_error = SandboxError("SANDBOX_LOST", "no answer")
    result = await bench.run()
    assert result.classification is Classification.PASSED
    assert "sandbox_close_failed" in bench.events()


@pytest.mark.parametrize(("code", "expected"), [(0, Classification.PASSED), (1, Classification.INFRA_ERROR)])
async def test_events_that_are_lost_take_away_a_gap_but_no_pass(
    bench: Bench, code: int, expected: Classification
) -> None:
    bench.sandbox.script = {CHECK: Act(code)}
    bench.sandbox.settle_error = SandboxError("SANDBOX_LOST", "no events")
    assert (await bench.run()).classification is expected


PHASES = ["prepare", "install", CHECK]


@pytest.mark.parametrize("where", PHASES, ids=["setup", "agent", "check"])
async def test_cancelling_ends_the_command_and_the_sandbox_and_keeps_the_records(bench: Bench, where: str) -> None:
    bench.sandbox.script = {where: Act(hangs=True)}
    attempt = asyncio.create_task(bench.run())
    await bench.sandbox.started.wait()
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert bench.sandbox.killed == [where]
    assert bench.sandbox.closed == 1
    end = bench.trace()[-1]
    assert (end["stop_reason"], end["classification"]) == ("interrupted", None)


async def test_a_bug_of_an_agent_is_recorded_with_an_id_and_its_traceback(bench: Bench) -> None:
    async def act(_: Toolbox) -> None:
        raise ZeroDivisionError("a bug")

    bench.agent = Agent(act)
    bench.sandbox.script = {CHECK: Act(1)}
    result = await bench.run()
    assert (result.classification, result.stop) == (Classification.HARNESS_ERROR, StopReason.BUG)
    log = (bench.directory / "errors.log").read_text()
    error_id = log.split()[1]
    assert error_id in result.stop_detail
    assert "ZeroDivisionError: a bug" in log


async def test_a_bug_of_the_harness_is_recorded_too(bench: Bench) -> None:
    bench.sandbox.script = {"prepare": Act(error=KeyError("oops"))}
    result = await bench.run()
    assert (result.classification, result.stop) == (Classification.HARNESS_ERROR, StopReason.BUG)
    assert bench.sandbox.closed == 1


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_a_command_gets_the_time_that_is_left_and_no_more(bench: Bench) -> None:
    clock = bench.clock = Clock()
    bench.task = replace(TASK, budgets=Budgets(max_seconds=100, max_command_seconds=60))

    async def work(seconds: float) -> None:
        clock.now += seconds

    bench.sandbox.script = {
        "install": Act(then=lambda: work(55)),
        "use": Act(124, cause="TIMED_OUT", then=lambda: work(45)),
    }
    result = await bench.run()
    assert bench.sandbox.limits == [60, 60, 45, 60]  # setup, install, use, the check
    assert result.stop is StopReason.MAX_SECONDS
    assert result.classification is Classification.PASSED  # the check has the last word


BUDGETS = [
    ("turns", Budgets(max_turns=3), StopReason.MAX_TURNS),
    ("tokens", Budgets(max_tokens=250), StopReason.MAX_TOKENS),
]


@pytest.mark.parametrize(("budgets", "stop"), [row[1:] for row in BUDGETS], ids=[row[0] for row in BUDGETS])
async def test_a_budget_that_is_used_up_stops_the_agent(bench: Bench, budgets: Budgets, stop: StopReason) -> None:
    async def act(tools: Toolbox) -> None:
        while True:
            tools.begin_turn()
            tools.spend(Tokens(input=60, output=20, cache_write=10, cache_read=10))
            await tools.bash("ls")

    bench.agent, bench.task = Agent(act), replace(TASK, budgets=budgets)
    bench.sandbox.script = {CHECK: Act(1)}
    result = await bench.run()
    assert (result.stop, result.classification) == (stop, Classification.BUDGET_EXHAUSTED)
    assert result.turns == 3
    assert result.tokens.total == 300


async def test_exactly_the_tokens_of_the_budget_may_be_used(bench: Bench) -> None:
    async def act(tools: Toolbox) -> None:
        tools.begin_turn()
        tools.spend(Tokens(input=100))

    bench.agent, bench.task = Agent(act), replace(TASK, budgets=Budgets(max_tokens=100))
    assert (await bench.run()).stop is StopReason.DONE


async def test_pages_and_the_model_are_taken_from_what_the_agent_records(bench: Bench) -> None:
    async def act(tools: Toolbox) -> None:
        tools.begin_turn()
        for url in ("https://docs.test/a", "https://docs.test/b", "https://docs.test/a"):
            tools.record("docs_read", url=url)
        tools.record("agent_turn", turn=1, model="model-1")

    bench.agent = Agent(act)
    bench.sandbox.script = {CHECK: Act(1)}
    result = await bench.run()
    assert result.docs_pages == ("https://docs.test/b", "https://docs.test/a")
    assert (result.suspect_page, result.model) == ("https://docs.test/a", "model-1")


async def test_without_a_docs_reader_the_agent_is_told_so(bench: Bench) -> None:
    answers = []

    async def act(tools: Toolbox) -> None:
        answers.append(await tools.read_docs("https://docs.test/"))

    bench.agent = Agent(act)
    await bench.run()
    assert "no docs reader" in answers[0]
    assert "docs_read_error" in bench.events()


async def test_waiting_for_room_is_on_record(bench: Bench) -> None:
    bench.waits = ("2 of 2 slots are in use",)
    await bench.run()
    assert bench.trace()[1]["message"] == "2 of 2 slots are in use"


async def test_an_image_that_the_backend_ignores_is_told(bench: Bench) -> None:
    bench.plan = {"image_asked": "node:22-slim"}
    bench.sandbox.facts = replace(FACTS, backend="bubblewrap", image="", image_digest="")
    assert (await bench.run()).image_ignored == "node:22-slim"


GAPS: list[tuple[str, Task, dict[str, Any], list[str]]] = [
    ("nothing is open", TASK, {}, []),
    ("a docs host is opened", replace(TASK, network=Network(allow=("docs.test",))), {}, ["docs.test"]),
    ("a parent of a docs host is opened", replace(TASK, network=Network(only=("test",))), {}, ["test"]),
    ("a child of a docs host is opened", replace(TASK, network=Network(allow=("x.docs.test",))), {}, ["x.docs.test"]),
    ("another host is opened", replace(TASK, network=Network(allow=("mydocs.test",))), {}, []),
    ("private addresses are allowed", TASK, {"allow_private": ("10.0.0.0/8",)}, ["10.0.0.0/8"]),
    ("nothing is enforced", TASK, {"backend": "local", "enforced": False}, ["local"]),
]


@pytest.mark.parametrize(("task", "facts", "expected"), [row[1:] for row in GAPS], ids=[row[0] for row in GAPS])
async def test_attribution_gaps(bench: Bench, task: Task, facts: dict[str, Any], expected: list[str]) -> None:
    bench.task, bench.sandbox.facts = task, replace(FACTS, **facts)
    gaps = (await bench.run()).attribution_gaps
    assert len(gaps) == len(expected)
    assert all(word in gap for word, gap in zip(expected, gaps, strict=True))


async def test_records_that_can_t_be_written_end_the_run(bench: Bench) -> None:
    (bench.directory / "demo").write_text("a file in the way")
    with pytest.raises(RecordsError, match="can't write"):
        await bench.attempt().run()


async def test_odd_text_of_a_command_can_be_written(bench: Bench) -> None:
    bench.sandbox.script = {"install": Act(0, "\ud800 \x00 é \u2028")}
    await bench.run()
    assert len(bench.trace()) == 9
