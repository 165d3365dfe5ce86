"""One conversation with a model, free of any vendor: what the loop sends, what comes back, and how it can fail.

An adapter (claude, openai, gemini) implements `Conversation` for one vendor's API and does nothing else: it
translates. When to call, retry, stop and what to tell the model is the loop's. Errors are types with fields; nobody
reads their texts.
"""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from quickstarted.agents.base import Tokens


class ReplyEnd(StrEnum):
    """Why a model's answer ended."""

    COMPLETE = "complete"  # it said what it wanted, and asked for the tools in `calls`, if any
    TRUNCATED = "truncated"  # the answer reached the limit of one answer
    PAUSED = "paused"  # the vendor paused a long turn; calling again continues it
    REFUSED = "refused"
    CONTEXT_FULL = "context_full"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model asked for. `problem` says why its input can't be used; `input` is then empty."""

    id: str
    name: str
    input: Mapping[str, object]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """One finished answer. `model` is the exact model that the API reported."""

    end: ReplyEnd
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    tokens: Tokens = field(default_factory=Tokens)
    model: str | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A tool's answer to the call with this id."""

    call: ToolCall
    text: str
    failed: bool = False


class ModelFaultError(Exception):
    """A call of a model's API failed. `spent` are the tokens that it reported before it did."""

    def __init__(self, message: str, *, status: int | None = None, spent: Tokens | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.spent = spent or Tokens()


class RetryableFaultError(ModelFaultError):
    """Rate limit, overload, 5xx or a broken connection. `retry_after` is what the API asked to wait, in seconds."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        spent: Tokens | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, status=status, spent=spent)
        self.retry_after = retry_after


class RejectedError(ModelFaultError):
    """The API will never take this request: a wrong key or model, no permission, a malformed request."""


class ContextFullError(ModelFaultError):
    """The conversation has become larger than the model or the API takes."""


class Conversation(Protocol):
    """The state of one conversation. Created with the system prompt, the tools and the goal already in it."""

    async def reply(self) -> Reply:
        """Ask for the next answer and take it into the history. Raises ModelFaultError; the history is then as before.

        Cancelling it closes the request.
        """

    def answer(self, outputs: Sequence[ToolOutput]) -> None:
        """Give the tools' answers to the last reply's calls, in their order."""

    def say(self, text: str) -> None:
        """Say something as the user."""

    async def close(self) -> None:
        """Close the client. Idempotent."""


def fault_of_status(status: int, message: str, headers: Mapping[str, str], spent: Tokens) -> ModelFaultError:
    """The fault that an HTTP status means with every vendor: timeouts, conflicts, 429 and 5xx pass with time."""
    message = f"{message} (HTTP {status})"
    if status in (408, 409, 425, 429) or status >= 500:
        return RetryableFaultError(message, status=status, spent=spent, retry_after=retry_after(headers))
    if status == 413:
        return ContextFullError(message, status=status, spent=spent)
    return RejectedError(message, status=status, spent=spent)


def parse_tool_input(text: str) -> tuple[Mapping[str, object], str]:
    """A tool's input from the JSON text that a model wrote: the object, or the problem in a sentence."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}, "its input is not valid JSON"
    if not isinstance(value, dict):
        return {}, f"its input is a JSON {type(value).__name__}, not an object"
    return value, ""


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """The seconds that a `Retry-After` (RFC 9110, 10.2.3: seconds or a date) or `retry-after-ms` header asks for."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        at = email.utils.parsedate_to_datetime(value).timestamp()
    except (TypeError, ValueError):
        return None
    return max(0.0, at - (time.time() if now is None else now))


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < 1e9 else None
