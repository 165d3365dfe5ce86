"""Claude through the anthropic SDK: streaming, prompt caching, adaptive thinking. Translates and nothing else.

The SDK's own retries are off, because each retry is an event of ours. The stream's raw events are put together here,
so that a stream that breaks still tells the tokens it cost, and a tool's input that is no JSON is an answer to the
model instead of an exception.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import anthropic
import httpx2
from anthropic import types as api

from quickstarted.agents import prompt
from quickstarted.agents.base import Tokens
from quickstarted.agents.model import (
    Conversation,
    ModelFaultError,
    RejectedError,
    Reply,
    ReplyEnd,
    RetryableFaultError,
    ToolCall,
    ToolOutput,
    fault_of_status,
    parse_tool_input,
    retry_after,
)

DEFAULT_MODEL = "claude-sonnet-4-5"
# Room for one answer. Files that a quickstart asks for are far smaller, and every current model takes as much.
MAX_ANSWER_TOKENS = 16_000
# Until the first byte, and between two: a model that thinks sends pings meanwhile.
CONNECT_SECONDS = 10.0
IDLE_SECONDS = 120.0

_CACHED: dict[str, str] = {"type": "ephemeral"}
_ENDS = {
    "end_turn": ReplyEnd.COMPLETE,
    "stop_sequence": ReplyEnd.COMPLETE,
    "tool_use": ReplyEnd.COMPLETE,
    "max_tokens": ReplyEnd.TRUNCATED,
    "pause_turn": ReplyEnd.PAUSED,
    "refusal": ReplyEnd.REFUSED,
    "model_context_window_exceeded": ReplyEnd.CONTEXT_FULL,
}
# Overloaded has a status of its own (529); in a stream that has begun, errors come as events with these types.
_RETRYABLE_TYPES = {"overloaded_error", "rate_limit_error", "api_error", "timeout_error"}


class ThinkingMemory:
    """Which models refuse adaptive thinking, learned from their refusals and shared by a run's conversations."""

    def __init__(self) -> None:
        self._without: set[str] = set()

    def wants(self, model: str) -> bool:
        return model not in self._without

    def refused(self, model: str) -> None:
        self._without.add(model)


def client(key: str, base_url: str | None = None) -> anthropic.AsyncAnthropic:
    """A client that a run's conversations share. The key is given, never looked up: the environment is not ours."""
    timeout = anthropic.Timeout(IDLE_SECONDS, connect=CONNECT_SECONDS)
    return anthropic.AsyncAnthropic(api_key=key, base_url=base_url, max_retries=0, timeout=timeout)


def opener(model: str, key: str, base_url: str | None) -> Callable[[str], Conversation]:
    """Opens the conversations of a run, which share a client and what was learned about thinking."""
    shared, thinking = client(key, base_url), ThinkingMemory()
    return lambda opening: ClaudeConversation(shared, model, opening, thinking)


class ClaudeConversation:
    """A conversation with one Claude model."""

    def __init__(self, client: anthropic.AsyncAnthropic, model: str, opening: str, thinking: ThinkingMemory) -> None:
        self._client = client
        self._model = model
        self._thinking = thinking
        self._messages: list[dict[str, Any]] = []
        self.say(opening)

    async def reply(self) -> Reply:
        if not self._thinking.wants(self._model):
            return await self._call(thinking=False)
        try:
            return await self._call(thinking=True)
        except _BadRequestError as first:
            if len(self._messages) > 1:
                raise
            try:
                reply = await self._call(thinking=False)
            except _BadRequestError:
                raise first from None
            self._thinking.refused(self._model)
            return reply

    def answer(self, outputs: Sequence[ToolOutput]) -> None:
        self._add_user(
            [
                {"type": "tool_result", "tool_use_id": output.call.id, "content": output.text or "(no output)"}
                | ({"is_error": True} if output.failed else {})
                for output in outputs
            ]
        )

    def say(self, text: str) -> None:
        self._add_user([{"type": "text", "text": text}])

    async def close(self) -> None:
        """The client is the run's, not this conversation's."""

    def _add_user(self, blocks: list[dict[str, Any]]) -> None:
        if self._messages and self._messages[-1]["role"] == "user":
            self._messages[-1]["content"].extend(blocks)
        else:
            self._messages.append({"role": "user", "content": blocks})

    async def _call(self, *, thinking: bool) -> Reply:
        answer = _Answer()
        request: dict[str, Any] = {
            "model": self._model,
            "max_tokens": MAX_ANSWER_TOKENS,
            "system": [{"type": "text", "text": prompt.SYSTEM, "cache_control": _CACHED}],
            "tools": _tools(),
            "messages": _with_cache_marks(self._messages),
        }
        if thinking:
            request["thinking"] = {"type": "adaptive"}
        try:
            stream: AsyncIterator[Any] = await self._client.messages.create(**request, stream=True)
            async with _closing(stream):
                async for event in stream:
                    answer.take(event)
        except anthropic.APIError as error:
            raise _fault(error, answer.tokens()) from error
        except httpx2.HTTPError as error:
            broke = f"the connection to the model's API broke: {error}"
            raise RetryableFaultError(broke, spent=answer.tokens()) from error
        if answer.stop_reason is None:
            raise RetryableFaultError("the answer's stream ended before the answer did", spent=answer.tokens())
        reply = answer.reply()
        content = answer.content(keep={call.id for call in reply.calls})
        if content:
            self._messages.append({"role": "assistant", "content": content})
        return reply


@dataclass
class _Answer:
    """An answer while its stream's events come in."""

    blocks: dict[int, dict[str, Any]] = field(default_factory=dict)
    inputs: dict[int, list[str]] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)
    usage: dict[str, int] = field(default_factory=dict)
    stop_reason: str | None = None
    detail: str = ""
    model: str | None = None

    def take(self, event: api.RawMessageStreamEvent) -> None:
        match event.type:
            case "message_start":
                self.model = event.message.model
                self._count(event.message.usage)
            case "content_block_start":
                self.blocks[event.index] = event.content_block.to_dict()
            case "content_block_delta":
                self._extend(event.index, event.delta)
            case "content_block_stop":
                self.finished.add(event.index)
            case "message_delta":
                self._count(event.usage)
                self.stop_reason = event.delta.stop_reason
                if event.delta.stop_details is not None:
                    self.detail = event.delta.stop_details.explanation or ""
            case _:
                pass  # pings, and what later versions of the API add

    def _extend(self, index: int, delta: api.RawContentBlockDelta) -> None:
        block = self.blocks.setdefault(index, {"type": "text", "text": ""})
        match delta.type:
            case "text_delta":
                block["text"] = block.get("text", "") + delta.text
            case "input_json_delta":
                self.inputs.setdefault(index, []).append(delta.partial_json)
            case "thinking_delta":
                block["thinking"] = block.get("thinking", "") + delta.thinking
            case "signature_delta":
                block["signature"] = delta.signature
            case _:
                pass

    def _count(self, usage: api.Usage | api.MessageDeltaUsage) -> None:
        # The counters of a stream are cumulative: the last one stands, none is added up.
        for name in ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"):
            value = getattr(usage, name)
            if value is not None:
                self.usage[name] = value

    def tokens(self) -> Tokens:
        count = self.usage.get
        return Tokens(
            input=count("input_tokens", 0),
            output=count("output_tokens", 0),
            cache_write=count("cache_creation_input_tokens", 0),
            cache_read=count("cache_read_input_tokens", 0),
        )

    def reply(self) -> Reply:
        end = _ENDS.get(self.stop_reason or "", ReplyEnd.COMPLETE)
        ordered = sorted(self.blocks.items())
        text = "\n".join(block["text"] for _, block in ordered if block.get("type") == "text" and block.get("text"))
        calls = tuple(self._call(index, block) for index, block in ordered if self._is_call(index, block, end))
        return Reply(end, text, calls, self.tokens(), self.model, self.detail)

    def _is_call(self, index: int, block: dict[str, Any], end: ReplyEnd) -> bool:
        if block.get("type") != "tool_use" or index not in self.finished:
            return False
        last = index == max(self.blocks)
        return not (end is ReplyEnd.TRUNCATED and last and bool(self._input(index)[1]))

    def _call(self, index: int, block: dict[str, Any]) -> ToolCall:
        given, problem = self._input(index)
        return ToolCall(block["id"], block["name"], given, problem)

    def _input(self, index: int) -> tuple[Any, str]:
        return parse_tool_input("".join(self.inputs.get(index, ())))

    def content(self, keep: set[str]) -> list[dict[str, Any]]:
        """The blocks as the history needs them: thinking with its signature, tools that will be answered, text."""
        blocks = []
        for index, block in sorted(self.blocks.items()):
            kept = self._kept(index, block, keep)
            if kept is not None:
                blocks.append(kept)
        # Thinking alone is no message.
        return blocks if any(block["type"] in ("text", "tool_use") for block in blocks) else []

    def _kept(self, index: int, block: dict[str, Any], keep: set[str]) -> dict[str, Any] | None:
        kind = block.get("type")
        if kind == "tool_use":
            if block["id"] not in keep:
                return None
            return {"type": kind, "id": block["id"], "name": block["name"], "input": self._input(index)[0]}
        if kind == "text":
            return {"type": kind, "text": block["text"]} if block.get("text") else None
        if kind == "thinking" and not block.get("signature"):
            return None  # cut before its signature came: the API would refuse it
        return block


class _BadRequestError(RejectedError):
    """A 400: the only refusal that may mean a parameter which this model does not take."""


def _fault(error: anthropic.APIError, spent: Tokens) -> ModelFaultError:
    if isinstance(error, anthropic.APIConnectionError):
        return RetryableFaultError(f"no connection to the model's API: {error.message}", spent=spent)
    if not isinstance(error, anthropic.APIStatusError):
        return RetryableFaultError(f"the model's API answered nonsense: {error.message}", spent=spent)
    message = error.api_message or error.message
    if error.type in _RETRYABLE_TYPES:
        asked = retry_after(error.response.headers)
        return RetryableFaultError(message, status=error.status_code, spent=spent, retry_after=asked)
    if error.status_code == 400:
        return _BadRequestError(f"{message} (HTTP 400)", status=400, spent=spent)
    return fault_of_status(error.status_code, message, error.response.headers, spent)


def _tools() -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.schema} for tool in prompt.TOOLS
    ]
    tools[-1]["cache_control"] = _CACHED
    return tools


def _with_cache_marks(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The history with a mark at the end of its last two user messages: what was sent before is read from the cache."""
    marked = list(messages)
    users = [index for index, message in enumerate(messages) if message["role"] == "user"]
    for index in users[-2:]:
        content = list(messages[index]["content"])
        content[-1] = content[-1] | {"cache_control": _CACHED}
        marked[index] = messages[index] | {"content": content}
    return marked


class _closing:  # noqa: N801 - reads as contextlib.aclosing, which wants aclose() where the SDK has close()
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None:
        await self._stream.close()
