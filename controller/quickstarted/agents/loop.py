"""The agent loop: call the model, run the tools that it asked for in order, until it stops or something stops it.

Everything an answer can be has one rule, and all of them are here:

| the answer | rule |
|---|---|
| asks for tools | each is run, in order, one after the other; all are answered |
| an unknown tool, or unusable input | answered as a failed tool, saying what is there or what was wrong |
| text without a tool | the agent is done |
| nothing at all | asked once to go on or to say that it is done; a second time in a row is the end |
| truncated | tools that were complete are run; then it is told to take smaller steps; three in a row end it |
| paused | called again |
| refused | the agent is done: agent_refusal unless the check passes |
| context full | ends like a token budget |

| the call | rule |
|---|---|
| failed, retryable | tried again after a backoff, within the deadline; each is an `api_retry` event |
| rejected | ends the attempt |
| past the deadline | closed; the time budget ended it |
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from quickstarted.agents import prompt
from quickstarted.agents.backoff import Backoff
from quickstarted.agents.base import AgentOutcome, BudgetExhaustedError, StopReason, Tokens, Toolbox
from quickstarted.agents.model import (
    ContextFullError,
    Conversation,
    ModelFaultError,
    RejectedError,
    Reply,
    ReplyEnd,
    RetryableFaultError,
    ToolCall,
    ToolOutput,
)
from quickstarted.sandbox.base import CommandResult

MAX_TRUNCATED = 3
MAX_EMPTY = 2
# Enough to see what a model meant to do; the trace is for people.
TRACE_TEXT = 20_000

GO_ON = "You answered nothing. Go on with the goal, or say in a sentence that you are done."
SMALLER_STEPS = (
    "Your answer was cut because it was too long, and what was incomplete was not run. Go on in smaller steps: "
    "shorter commands, and large files in several pieces."
)

Sleep = Callable[[float], Awaitable[None]]


@dataclass
class Loop:
    """One run of the loop. The conversation is the caller's to close."""

    conversation: Conversation
    tools: Toolbox
    backoff: Backoff = field(default_factory=Backoff)
    sleep: Sleep = asyncio.sleep
    chance: Callable[[], float] = random.random

    _turns: int = 0
    _tokens: Tokens = field(default_factory=Tokens)
    _model: str | None = None

    async def run(self) -> AgentOutcome:
        """Until the agent is done. Lets SandboxError, BudgetExhaustedError and CancelledError pass."""
        truncated = empty = 0
        while True:
            reply = await self._turn()
            if isinstance(reply, AgentOutcome):
                return reply
            if reply.calls:
                empty = 0
                self.conversation.answer([await self._run_tool(call) for call in reply.calls])
            if reply.end is ReplyEnd.TRUNCATED:
                truncated += 1
                if truncated >= MAX_TRUNCATED:
                    return self._outcome(StopReason.MAX_TOKENS, f"{truncated} answers in a row were cut", reply.text)
                self.conversation.say(SMALLER_STEPS)
                continue
            truncated = 0
            if reply.calls or reply.end is ReplyEnd.PAUSED:
                continue
            if reply.text.strip():
                self.tools.record("agent_final", text=reply.text[:TRACE_TEXT])
                return self._outcome(StopReason.DONE, final_text=reply.text)
            empty += 1
            if empty >= MAX_EMPTY:
                return self._outcome(StopReason.DONE, "the model answered nothing")
            self.conversation.say(GO_ON)

    async def _turn(self) -> Reply | AgentOutcome:
        """One answer, or the outcome when there will be no more."""
        self._turns = self.tools.begin_turn()
        try:
            reply = await self._reply()
        except ContextFullError as fault:
            return self._outcome(StopReason.MAX_TOKENS, f"the model's context is full: {fault.message}")
        except RejectedError as fault:
            return self._outcome(StopReason.MODEL_REJECTED, fault.message)
        except ModelFaultError as fault:
            return self._outcome(StopReason.MODEL_ERROR, fault.message)
        if reply.end is ReplyEnd.REFUSED:
            return self._outcome(StopReason.REFUSAL, reply.detail or "the model declined", reply.text)
        if reply.end is ReplyEnd.CONTEXT_FULL:
            return self._outcome(StopReason.MAX_TOKENS, "the model's context is full", reply.text)
        return reply

    def _outcome(self, stop: StopReason, detail: str = "", final_text: str = "") -> AgentOutcome:
        return AgentOutcome(stop, detail, self._turns, self._tokens, self._model, final_text)

    async def _reply(self) -> Reply:
        failed = 0
        while True:
            try:
                async with asyncio.timeout(self.tools.seconds_left()):
                    reply = await self.conversation.reply()
            except TimeoutError:
                raise BudgetExhaustedError(StopReason.MAX_SECONDS, "the time ran out during a model's call") from None
            except ModelFaultError as fault:
                self._spend(fault.spent)
                if not isinstance(fault, RetryableFaultError):
                    raise
                failed += 1
                await self._wait_out(fault, failed)
            else:
                self._model = reply.model or self._model
                self._record(reply)
                self._spend(reply.tokens)
                return reply

    async def _wait_out(self, fault: RetryableFaultError, failed: int) -> None:
        seconds = self.backoff.wait(failed, fault.retry_after, self.chance)
        if seconds is None or seconds >= self.tools.seconds_left():
            raise ModelFaultError(f"{fault.message} (after {failed} tries)", status=fault.status)
        self.tools.record(
            "api_retry", failed=failed, seconds=round(seconds, 3), status=fault.status, error=fault.message
        )
        await self.sleep(seconds)

    def _spend(self, tokens: Tokens) -> None:
        self._tokens += tokens
        if tokens.total:
            self.tools.spend(tokens)

    def _record(self, reply: Reply) -> None:
        self.tools.record(
            "agent_turn",
            turn=self._turns,
            end=reply.end.value,
            text=reply.text[:TRACE_TEXT],
            tools=[call.name for call in reply.calls],
            model=reply.model,
            tokens={
                "input": reply.tokens.input,
                "output": reply.tokens.output,
                "cache_write": reply.tokens.cache_write,
                "cache_read": reply.tokens.cache_read,
            },
        )

    async def _run_tool(self, call: ToolCall) -> ToolOutput:
        if call.problem:
            return ToolOutput(call, f"{call.name} was not run: {call.problem}.", failed=True)
        text, failed = await run_tool(self.tools, call.name, call.input)
        return ToolOutput(call, text, failed)


async def run_tool(tools: Toolbox, name: str, given: object) -> tuple[str, bool]:
    """Run a tool by name with the input that a model gave; its answer, and whether it failed."""
    if not isinstance(given, dict):
        return f"{name} was not run: its input must be an object.", True
    match name:
        case prompt.BASH:
            return await _bash(tools, given)
        case prompt.READ_DOCS:
            return await _read_docs(tools, given)
        case _:
            return f"There is no tool {name!r}. The tools are {prompt.BASH} and {prompt.READ_DOCS}.", True


async def _bash(tools: Toolbox, given: dict[str, object]) -> tuple[str, bool]:
    command = given.get("command")
    if not isinstance(command, str) or not command.strip():
        return "bash was not run: it takes a string `command`.", True
    if "\0" in command:
        return "bash was not run: the command has a NUL character.", True
    result = await tools.bash(command)
    return command_answer(result), not result.ok


async def _read_docs(tools: Toolbox, given: dict[str, object]) -> tuple[str, bool]:
    url, offset = given.get("url"), given.get("offset", 0)
    if not isinstance(url, str) or not url.strip():
        return "read_docs was not run: it takes a string `url`.", True
    if isinstance(offset, float) and offset.is_integer():
        offset = int(offset)
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
        return "read_docs was not run: `offset` is a number of characters, 0 or more.", True
    return await tools.read_docs(url, offset), False


def command_answer(result: CommandResult) -> str:
    """What a model is told of a command that ended."""
    output = result.output if not result.output or result.output.endswith("\n") else result.output + "\n"
    match result.cause:
        case "EXITED":
            ending = f"exit code: {result.exit_code}"
        case "TIMED_OUT":
            ending = f"stopped after {result.seconds:.0f} s, its time limit; everything that it started was ended"
        case "OOM_KILLED":
            ending = f"ended by the memory limit (exit code {result.exit_code})"
        case _:
            ending = f"ended: {result.message or result.cause.lower().replace('_', ' ')} (exit code {result.exit_code})"
    return f"{output}[{ending}]"
