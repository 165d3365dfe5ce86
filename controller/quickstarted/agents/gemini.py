"""Gemini through the google-genai SDK. Translates and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import httpx2
from google import genai
from google.genai import errors, types

from quickstarted.agents import prompt
from quickstarted.agents.base import Tokens
from quickstarted.agents.model import (
    Conversation,
    ModelFaultError,
    Reply,
    ReplyEnd,
    RetryableFaultError,
    ToolCall,
    ToolOutput,
    fault_of_status,
)

DEFAULT_MODEL = "gemini-2.5-pro"
MAX_ANSWER_TOKENS = 16_000
IDLE_MILLISECONDS = 120_000

_REFUSED = {
    types.FinishReason.SAFETY,
    types.FinishReason.RECITATION,
    types.FinishReason.BLOCKLIST,
    types.FinishReason.PROHIBITED_CONTENT,
    types.FinishReason.SPII,
}


def client(key: str, base_url: str | None = None) -> genai.Client:
    """A client for one conversation. One try a call: each retry is an event of ours."""
    options = types.HttpOptions(
        base_url=base_url, timeout=IDLE_MILLISECONDS, retry_options=types.HttpRetryOptions(attempts=1)
    )
    return genai.Client(api_key=key, vertexai=False, http_options=options)


def opener(model: str, key: str, base_url: str | None) -> Callable[[str], Conversation]:
    """Opens the conversations of a run, each with its own client."""
    return lambda opening: GeminiConversation(client(key, base_url), model, opening)


class GeminiConversation:
    """A conversation with one Gemini model."""

    def __init__(self, client: genai.Client, model: str, opening: str) -> None:
        self._client = client
        self._model = model
        self._contents: list[types.Content] = []
        self._calls = 0
        self.say(opening)

    async def reply(self) -> Reply:
        chunks: list[types.GenerateContentResponse] = []
        try:
            stream = await self._client.aio.models.generate_content_stream(
                model=self._model,
                contents=list(self._contents),
                config=_config(),
            )
            async for chunk in stream:
                chunks.append(chunk)  # noqa: PERF401 - what came before a broken stream is kept
        except asyncio.CancelledError:
            # This SDK leaves the response of a cancelled stream open; only closing its client ends the request.
            await self.close()
            raise
        except errors.APIError as error:
            raise _fault(error, _tokens(chunks)) from error
        except (httpx.HTTPError, httpx2.HTTPError, errors.UnknownApiResponseError) as error:
            raise RetryableFaultError(
                f"no connection to the model's API: {type(error).__name__} {error}", spent=_tokens(chunks)
            ) from error
        return self._take(chunks)

    def answer(self, outputs: Sequence[ToolOutput]) -> None:
        parts = [
            types.Part(
                function_response=types.FunctionResponse(
                    id=output.call.id if not output.call.id.startswith(_OWN_ID) else None,
                    name=output.call.name,
                    response={"error" if output.failed else "output": output.text},
                )
            )
            for output in outputs
        ]
        self._add_user(parts)

    def say(self, text: str) -> None:
        self._add_user([types.Part(text=text)])

    async def close(self) -> None:
        await self._client.aio.aclose()

    def _add_user(self, parts: list[types.Part]) -> None:
        last = self._contents[-1] if self._contents else None
        if last is not None and last.role == "user" and last.parts is not None:
            last.parts.extend(parts)
        else:
            self._contents.append(types.Content(role="user", parts=parts))

    def _take(self, chunks: list[types.GenerateContentResponse]) -> Reply:
        tokens = _tokens(chunks)
        blocked = next((c.prompt_feedback.block_reason for c in chunks if c.prompt_feedback), None)
        if blocked is not None:
            return Reply(ReplyEnd.REFUSED, tokens=tokens, model=_model(chunks), detail=f"blocked: {blocked.value}")
        candidates = [chunk.candidates[0] for chunk in chunks if chunk.candidates]
        finish = next((c.finish_reason for c in reversed(candidates) if c.finish_reason), None)
        if finish is None:
            raise RetryableFaultError("the answer's stream ended before the answer did", spent=tokens)
        parts = [part for c in candidates if c.content and c.content.parts for part in c.content.parts]
        if parts:
            self._contents.append(types.Content(role="model", parts=parts))
        text = "".join(part.text for part in parts if part.text and not part.thought)
        calls = tuple(self._call(part.function_call) for part in parts if part.function_call)
        return Reply(_end(finish), text, calls, tokens, _model(chunks), _detail(finish))

    def _call(self, call: types.FunctionCall) -> ToolCall:
        self._calls += 1
        return ToolCall(call.id or f"{_OWN_ID}{self._calls}", call.name or "", call.args or {})


# This API may leave ids out; those that we make up are never sent.
_OWN_ID = "own:"


def _end(finish: types.FinishReason) -> ReplyEnd:
    if finish is types.FinishReason.MAX_TOKENS:
        return ReplyEnd.TRUNCATED
    return ReplyEnd.REFUSED if finish in _REFUSED else ReplyEnd.COMPLETE


def _detail(finish: types.FinishReason) -> str:
    return f"the vendor stopped the answer: {finish.value}" if finish in _REFUSED else ""


def _model(chunks: list[types.GenerateContentResponse]) -> str | None:
    return next((chunk.model_version for chunk in chunks if chunk.model_version), None)


def _tokens(chunks: list[types.GenerateContentResponse]) -> Tokens:
    """Prompt tokens of this API include those of the cache; ours do not. Counters are cumulative: the last stands."""
    usage = next((chunk.usage_metadata for chunk in reversed(chunks) if chunk.usage_metadata), None)
    if usage is None:
        return Tokens()
    read = usage.cached_content_token_count or 0
    prompt_tokens = (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0)
    output = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
    return Tokens(input=max(0, prompt_tokens - read), output=output, cache_read=read)


def _fault(error: errors.APIError, spent: Tokens) -> ModelFaultError:
    headers = getattr(error.response, "headers", None) or {}
    return fault_of_status(error.code, error.message or error.status or "the model's API failed", headers, spent)


def _config() -> types.GenerateContentConfig:
    declarations: list[dict[str, Any]] = [
        {"name": tool.name, "description": tool.description, "parameters_json_schema": tool.schema}
        for tool in prompt.TOOLS
    ]
    return types.GenerateContentConfig(
        system_instruction=prompt.SYSTEM,
        tools=[types.Tool(function_declarations=[types.FunctionDeclaration(**each) for each in declarations])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        max_output_tokens=MAX_ANSWER_TOKENS,
    )
