"""OpenAI's Responses API, and whatever speaks it at another base URL. Translates and nothing else.

Nothing is stored with the vendor: the history travels with every call, reasoning items encrypted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import httpx2
import openai
from openai.types import responses as api

from quickstarted.agents import prompt
from quickstarted.agents.base import Tokens
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
    fault_of_status,
    parse_tool_input,
)

DEFAULT_MODEL = "gpt-5"
MAX_ANSWER_TOKENS = 16_000
CONNECT_SECONDS = 10.0
IDLE_SECONDS = 120.0

_FINAL_EVENTS = (api.ResponseCompletedEvent, api.ResponseIncompleteEvent, api.ResponseFailedEvent)
# Codes of the API that say more than their status; the vendor documents them as stable.
_CONTEXT_CODES = {"context_length_exceeded", "string_above_max_length"}
_FINAL_CODES = {"insufficient_quota", "billing_hard_limit_reached", "invalid_prompt"}
_RETRYABLE_CODES = {"server_error", "rate_limit_exceeded", "server_is_overloaded", "slow_down"}


def client(key: str, base_url: str | None = None) -> openai.AsyncOpenAI:
    """A client that a run's conversations share."""
    timeout = openai.Timeout(IDLE_SECONDS, connect=CONNECT_SECONDS)
    return openai.AsyncOpenAI(api_key=key, base_url=base_url, max_retries=0, timeout=timeout)


def opener(model: str, key: str, base_url: str | None) -> Callable[[str], Conversation]:
    """Opens the conversations of a run, which share a client."""
    shared = client(key, base_url)
    return lambda opening: OpenAIConversation(shared, model, opening)


class OpenAIConversation:
    """A conversation with one model behind the Responses API."""

    def __init__(self, client: openai.AsyncOpenAI, model: str, opening: str) -> None:
        self._client = client
        self._model = model
        self._items: list[dict[str, Any]] = []
        self.say(opening)

    async def reply(self) -> Reply:
        items: list[dict[str, Any]] = []
        final: api.Response | None = None
        try:
            stream: openai.AsyncStream[Any] = await self._client.responses.create(**self._request(), stream=True)
            async with stream:
                async for event in stream:
                    if isinstance(event, api.ResponseOutputItemDoneEvent):
                        items.append(event.item.to_dict(mode="json"))
                    elif isinstance(event, _FINAL_EVENTS):
                        final = event.response
                    elif isinstance(event, api.ResponseErrorEvent):
                        raise _fault_of_code(event.code, event.message, Tokens())
        except openai.APIError as error:
            raise _fault(error) from error
        except httpx2.HTTPError as error:
            raise RetryableFaultError(f"the connection to the model's API broke: {error}") from error
        if final is None:
            raise RetryableFaultError("the answer's stream ended before the answer did")
        return self._take(final, items)

    def _request(self) -> dict[str, Any]:
        return {
            "model": self._model,
            "instructions": prompt.SYSTEM,
            "input": self._items,
            "tools": _tools(),
            "max_output_tokens": MAX_ANSWER_TOKENS,
            "include": ["reasoning.encrypted_content"],
            "store": False,
        }

    def answer(self, outputs: Sequence[ToolOutput]) -> None:
        self._items += [
            {"type": "function_call_output", "call_id": output.call.id, "output": output.text or "(no output)"}
            for output in outputs
        ]

    def say(self, text: str) -> None:
        self._items.append({"role": "user", "content": text})

    async def close(self) -> None:
        """The client is the run's, not this conversation's."""

    def _take(self, final: api.Response, items: list[dict[str, Any]]) -> Reply:
        tokens = _tokens(final.usage)
        if final.error is not None:
            raise _fault_of_code(final.error.code, final.error.message, tokens)
        end, detail = _end(final)
        calls, text, refusal = [], [], ""
        for item in items:
            if item["type"] == "function_call":
                given, problem = parse_tool_input(item.get("arguments", ""))
                if problem and end is ReplyEnd.TRUNCATED:
                    continue
                calls.append(ToolCall(item["call_id"], item["name"], given, problem))
            elif item["type"] == "message":
                text += [part["text"] for part in item["content"] if part["type"] == "output_text"]
                refusal = next((part["refusal"] for part in item["content"] if part["type"] == "refusal"), refusal)
            self._items.append(item)
        if refusal:
            end, detail = ReplyEnd.REFUSED, refusal
        return Reply(end, "\n".join(text), tuple(calls), tokens, final.model, detail)


def _end(final: api.Response) -> tuple[ReplyEnd, str]:
    if final.status != "incomplete":
        return ReplyEnd.COMPLETE, ""
    reason = final.incomplete_details.reason if final.incomplete_details else None
    if reason == "content_filter":
        return ReplyEnd.REFUSED, "the answer was stopped by the vendor's content filter"
    return ReplyEnd.TRUNCATED, ""


def _tokens(usage: api.ResponseUsage | None) -> Tokens:
    """Input tokens of this API include those of the cache; ours do not. Output tokens include the reasoning."""
    if usage is None:
        return Tokens()
    details = usage.input_tokens_details
    read = details.cached_tokens or 0 if details else 0
    # Compatible servers leave this newer counter out.
    written = getattr(details, "cache_write_tokens", 0) or 0
    fresh = max(0, usage.input_tokens - read - written)
    return Tokens(input=fresh, output=usage.output_tokens, cache_write=written, cache_read=read)


def _fault(error: openai.APIError) -> ModelFaultError:
    if isinstance(error, openai.APIConnectionError):
        return RetryableFaultError(f"no connection to the model's API: {error.message}")
    if not isinstance(error, openai.APIStatusError):
        return _fault_of_code(error.code, error.message, Tokens())
    if error.code in _CONTEXT_CODES or error.code in _FINAL_CODES:
        return _fault_of_code(error.code, error.message, Tokens())
    return fault_of_status(error.status_code, error.message, error.response.headers, Tokens())


def _fault_of_code(code: str | None, message: str, spent: Tokens) -> ModelFaultError:
    if code in _CONTEXT_CODES:
        return ContextFullError(message, spent=spent)
    if code is None or code in _RETRYABLE_CODES:
        return RetryableFaultError(message, spent=spent)
    return RejectedError(message, spent=spent)


def _tools() -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.schema,
            "strict": False,
        }
        for tool in prompt.TOOLS
    ]
