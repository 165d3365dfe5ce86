"""The loop's rules: each kind of answer, and each kind of failure, does the one thing that the table says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from quickstarted.agents.backoff import Backoff
from quickstarted.agents.base import BudgetExhaustedError, StopReason, Tokens
from quickstarted.agents.loop import GO_ON, SMALLER_STEPS, Loop, command_answer, run_tool
from quickstarted.agents.model import (
    ContextFullError,
    RejectedError,
    Reply,
    ReplyEnd,
    RetryableFaultError,
    ToolCall,
    ToolOutput,
    parse_tool_input,
    retry_after,
)
from quickstarted.sandbox.base import CommandResult

from tests.support.toolbox import Tools


@dataclass
class Script:
    """A conversation that gives what it is told to, an exception or a reply, and keeps what it is told."""

    steps: list[Reply | Exception]
    told: list[str | list[ToolOutput]] = field(default_factory=list)

    async def reply(self) -> Reply:
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def answer(self, outputs: Sequence[ToolOutput]) -> None:
        self.told.append(list(outputs))

    def say(self, text: str) -> None:
        self.told.append(text)

    async def close(self) -> None: ...


def calls(*names: str, end: ReplyEnd = ReplyEnd.COMPLETE) -> Reply:
    asked = tuple(ToolCall(str(n), "bash", {"command": name}) for n, name in enumerate(names))
    return Reply(end, "", asked, Tokens(input=1, output=2), "m-1")


DONE = Reply(ReplyEnd.COMPLETE, "all done", tokens=Tokens(output=5), model="m-1")
EMPTY = Reply(ReplyEnd.COMPLETE)
CUT = Reply(ReplyEnd.TRUNCATED, "a very long")


async def run(steps: list[Reply | Exception], tools: Tools | None = None) -> tuple[object, Script, Tools, list[float]]:
    conversation, toolbox, waits = Script(list(steps)), tools or Tools(), list[float]()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    outcome = await Loop(conversation, toolbox, Backoff(tries=3), sleep, lambda: 1.0).run()
    return outcome, conversation, toolbox, waits


@pytest.mark.parametrize(
    ("steps", "stop", "turns"),
    [
        pytest.param([DONE], StopReason.DONE, 1, id="text without a tool is the end"),
        pytest.param([calls("ls"), DONE], StopReason.DONE, 2, id="a tool is run and the model asked again"),
        pytest.param([EMPTY, DONE], StopReason.DONE, 2, id="an empty answer is asked about once"),
        pytest.param([EMPTY, EMPTY], StopReason.DONE, 2, id="a second empty answer is the end"),
        pytest.param([EMPTY, calls("ls"), EMPTY, DONE], StopReason.DONE, 4, id="work between two empty answers"),
        pytest.param([CUT, DONE], StopReason.DONE, 2, id="a cut answer goes on"),
        pytest.param([CUT, CUT, CUT], StopReason.MAX_TOKENS, 3, id="three cut answers in a row are the end"),
        pytest.param([CUT, CUT, calls("ls"), CUT, CUT, DONE], StopReason.DONE, 6, id="cut answers not in a row"),
        pytest.param([Reply(ReplyEnd.PAUSED), DONE], StopReason.DONE, 2, id="a paused turn is continued"),
        pytest.param([Reply(ReplyEnd.REFUSED, "no")], StopReason.REFUSAL, 1, id="a refusal"),
        pytest.param([calls("ls"), Reply(ReplyEnd.CONTEXT_FULL)], StopReason.MAX_TOKENS, 2, id="a full context"),
        pytest.param([calls("ls"), ContextFullError("big")], StopReason.MAX_TOKENS, 2, id="a refused full context"),
        pytest.param([RejectedError("bad key")], StopReason.MODEL_REJECTED, 1, id="a rejected key"),
        pytest.param([RetryableFaultError("x"), DONE], StopReason.DONE, 1, id="a retry is no turn"),
        pytest.param([RetryableFaultError("x")] * 3, StopReason.MODEL_ERROR, 1, id="tries run out"),
    ],
)
async def test_the_rule_of_each_answer(steps: list[Reply | Exception], stop: StopReason, turns: int) -> None:
    outcome, *_ = await run(steps)
    assert (outcome.stop, outcome.turns) == (stop, turns)  # type: ignore[attr-defined]


async def test_several_tools_in_one_turn_are_run_in_order_and_answered_in_order() -> None:
    _, conversation, tools, _ = await run([calls("a", "false", "c"), DONE])
    assert tools.asked == [("bash", "a"), ("bash", "false"), ("bash", "c")]
    (outputs,) = conversation.told
    assert [(output.call.id, output.failed) for output in outputs] == [("0", False), ("1", True), ("2", False)]  # type: ignore[union-attr]


async def test_tools_that_were_complete_in_a_cut_answer_are_run_before_it_is_told_to_take_smaller_steps() -> None:
    _, conversation, tools, _ = await run([calls("a", end=ReplyEnd.TRUNCATED), DONE])
    assert tools.asked == [("bash", "a")]
    assert conversation.told[1] == SMALLER_STEPS


async def test_an_empty_answer_is_told_to_go_on() -> None:
    _, conversation, *_ = await run([EMPTY, DONE])
    assert conversation.told == [GO_ON]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        pytest.param(ToolCall("1", "python", {}), "There is no tool 'python'", id="unknown"),
        pytest.param(ToolCall("1", "bash", {}, "its input is not valid JSON"), "not valid JSON", id="malformed"),
        pytest.param(ToolCall("1", "bash", {"command": 5}), "a string `command`", id="wrong type"),
        pytest.param(ToolCall("1", "bash", {"cmd": "ls"}), "a string `command`", id="missing"),
        pytest.param(ToolCall("1", "bash", {"command": "a\0b"}), "NUL", id="NUL"),
        pytest.param(ToolCall("1", "read_docs", {"url": "x", "offset": -1}), "0 or more", id="negative offset"),
        pytest.param(ToolCall("1", "read_docs", {"url": "x", "offset": True}), "0 or more", id="boolean offset"),
        pytest.param(ToolCall("1", "read_docs", {"url": ["x"]}), "a string `url`", id="a list of pages"),
    ],
)
async def test_a_tool_that_can_not_be_run_is_answered_with_what_is_wrong(call: ToolCall, says: str) -> None:
    _, conversation, tools, _ = await run([Reply(ReplyEnd.COMPLETE, calls=(call,)), DONE])
    assert tools.asked == []
    (outputs,) = conversation.told
    assert isinstance(outputs, list)
    assert outputs[0].failed
    assert says in outputs[0].text


async def test_an_offset_that_a_vendor_sends_as_a_float_is_a_whole_number() -> None:
    tools = Tools()
    assert await run_tool(tools, "read_docs", {"url": "u", "offset": 40.0}) == ("# Page", False)
    assert tools.asked == [("read_docs", ("u", 40))]


async def test_tokens_of_failed_and_finished_calls_are_each_counted_once() -> None:
    broken = RetryableFaultError("x", spent=Tokens(input=7))
    outcome, _, tools, _ = await run([broken, calls("ls"), DONE])
    assert tools.spent == Tokens(input=8, output=7)
    assert outcome.tokens == tools.spent  # type: ignore[attr-defined]


async def test_each_retry_is_an_event_and_waits_what_was_asked_and_a_little_more() -> None:
    _, _, tools, waits = await run([RetryableFaultError("x", status=429, retry_after=20), DONE])
    assert waits == [21.0]
    assert ("api_retry", {"failed": 1, "seconds": 21.0, "status": 429, "error": "x"}) in tools.events


async def test_a_wait_past_the_deadline_is_not_begun() -> None:
    outcome, _, _, waits = await run([RetryableFaultError("x", retry_after=200)], Tools(left=100))
    assert outcome.stop is StopReason.MODEL_ERROR  # type: ignore[attr-defined]
    assert waits == []


async def test_a_call_past_the_deadline_is_cancelled_and_the_time_budget_ends_it() -> None:
    class Slow(Script):
        cancelled = False

        async def reply(self) -> Reply:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
            raise AssertionError

    conversation = Slow([])
    with pytest.raises(BudgetExhaustedError) as caught:
        await Loop(conversation, Tools(left=0.01)).run()
    assert caught.value.stop is StopReason.MAX_SECONDS
    assert conversation.cancelled


async def test_turns_are_checked_before_each_call() -> None:
    conversation = Script([calls("a"), calls("b"), calls("c")])
    with pytest.raises(BudgetExhaustedError):
        await Loop(conversation, Tools(max_turns=2)).run()
    assert len(conversation.steps) == 1


async def test_a_turn_is_recorded_with_its_tokens_and_tools() -> None:
    _, _, tools, _ = await run([calls("ls"), DONE])
    kinds = [kind for kind, _ in tools.events]
    assert kinds == ["agent_turn", "agent_turn", "agent_final"]
    assert tools.events[0][1]["tools"] == ["bash"]
    assert tools.events[0][1]["tokens"] == {"input": 1, "output": 2, "cache_write": 0, "cache_read": 0}


@pytest.mark.parametrize(
    ("failed", "asked", "chance", "seconds"),
    [
        (1, None, 0.0, 0.5),
        (1, None, 1.0, 1.0),
        (4, None, 1.0, 8.0),
        (7, None, 1.0, 60.0),
        (1, 5.0, 0.0, 5.0),
        (1, 5.0, 1.0, 6.0),
        (1, 0.0, 1.0, 0.0),
        (8, None, 1.0, None),
        (8, 1.0, 1.0, None),
    ],
)
def test_backoff(failed: int, asked: float | None, chance: float, seconds: float | None) -> None:
    assert Backoff().wait(failed, asked, lambda: chance) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 90.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:01 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e300"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now=10.0) == seconds


@pytest.mark.parametrize(
    ("text", "given", "problem"),
    [
        ("", {}, ""),
        ('{"command": "ls"}', {"command": "ls"}, ""),
        ("[1]", {}, "its input is a JSON list, not an object"),
        ("{", {}, "its input is not valid JSON"),
        ("[" * 100_000, {}, "its input is not valid JSON"),
    ],
    ids=["nothing", "an object", "a list", "cut", "too deep"],
)
def test_tool_input(text: str, given: dict[str, object], problem: str) -> None:
    assert parse_tool_input(text) == (given, problem)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (CommandResult("e", 0, "EXITED", "hi\n", 3, False, 1), "hi\n[exit code: 0]"),
        (CommandResult("e", 2, "EXITED", "hi", 2, False, 1), "hi\n[exit code: 2]"),
        (CommandResult("e", 0, "EXITED", "", 0, False, 1), "[exit code: 0]"),
        (CommandResult("e", 137, "OOM_KILLED", "", 0, False, 1), "[ended by the memory limit (exit code 137)]"),
        (CommandResult("e", 153, "DISK_LIMIT", "", 0, False, 1, "the disk limit"), "[ended: the disk limit (exit"),
    ],
)
def test_what_a_model_is_told_of_a_command(result: CommandResult, says: str) -> None:
    assert command_answer(result).startswith(says)


def test_a_command_that_timed_out_says_so() -> None:
    result = CommandResult("e", 137, "TIMED_OUT", "x\n", 2, False, 300.2)
    assert "stopped after 300 s, its time limit" in command_answer(result)
