"""Each adapter against its vendor's wire format, spoken by a local server to the vendor's real SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from quickstarted.agents import claude, gemini, openai, prompt
from quickstarted.agents.base import Tokens
from quickstarted.agents.model import (
    ContextFullError,
    Conversation,
    RejectedError,
    Reply,
    ReplyEnd,
    RetryableFaultError,
    ToolOutput,
)

from tests.support import model_api as api
from tests.support.model_api import Answer, Cut, Hang, ModelServer

KEY = "canary-key-of-the-tests"
TEXT = {"type": "text", "text": "done"}


def claude_conversation(url: str, memory: claude.ThinkingMemory | None = None) -> claude.ClaudeConversation:
    return claude.ClaudeConversation(
        claude.client(KEY, url), "claude-test", "the goal", memory or claude.ThinkingMemory()
    )


def openai_conversation(url: str) -> openai.OpenAIConversation:
    return openai.OpenAIConversation(openai.client(KEY, url), "gpt-test", "the goal")


def gemini_conversation(url: str) -> gemini.GeminiConversation:
    return gemini.GeminiConversation(gemini.client(KEY, url), "gemini-test", "the goal")


Make = Callable[[str], Conversation]


async def with_server(
    script: list[Answer], make: Make, work: Callable[[Conversation], Awaitable[Any]]
) -> tuple[Any, ModelServer]:
    async with ModelServer(script).serve() as server, asyncio.timeout(20):
        return await work(make(server.url)), server


async def one(script: list[Answer], make: Make) -> tuple[Reply, ModelServer]:
    reply, server = await with_server(script, make, lambda conversation: conversation.reply())
    return reply, server


# --- Claude ------------------------------------------------------------------------------------------------------


async def test_claude_reads_text_tools_tokens_and_the_exact_model() -> None:
    usage = {
        "input_tokens": 7,
        "output_tokens": 20,
        "cache_creation_input_tokens": 300,
        "cache_read_input_tokens": 4000,
    }
    blocks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls 'ä'"}},
    ]
    reply, server = await one([api.anthropic_answer(blocks, "tool_use", usage=usage)], claude_conversation)
    assert reply.end is ReplyEnd.COMPLETE
    assert reply.text == "I look."
    assert [(call.id, call.name, call.input) for call in reply.calls] == [("t1", "bash", {"command": "ls 'ä'"})]
    assert reply.tokens == Tokens(input=7, output=20, cache_write=300, cache_read=4000)
    assert reply.model == "claude-test-20260101"
    asked = server.requests[0]
    assert KEY in (asked.headers.get("x-api-key"), asked.headers.get("authorization", "").removeprefix("Bearer "))
    assert asked.body["thinking"] == {"type": "adaptive"}
    assert asked.body["system"][0] == {"type": "text", "text": prompt.SYSTEM, "cache_control": {"type": "ephemeral"}}
    assert asked.body["tools"][-1]["cache_control"] == {"type": "ephemeral"}
    assert asked.body["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}


async def test_claude_sends_the_history_back_as_it_was_with_four_cache_marks_at_most() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    call = {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}}
    script = [api.anthropic_answer([thinking, call], "tool_use"), api.anthropic_answer([TEXT])]

    async def work(conversation: Conversation) -> None:
        reply = await conversation.reply()
        conversation.answer([ToolOutput(reply.calls[0], "", failed=True)])
        conversation.say("go on")
        await conversation.reply()

    _, server = await with_server(script, claude_conversation, work)
    body = server.requests[1].body
    assert body["messages"][1] == {"role": "assistant", "content": [thinking, call]}
    result, said = body["messages"][2]["content"]
    assert (result["tool_use_id"], result["content"], result["is_error"]) == ("t1", "(no output)", True)
    assert said["text"] == "go on"
    assert str(body).count("cache_control") == 4


@pytest.mark.parametrize(
    ("stop", "end"),
    [
        ("end_turn", ReplyEnd.COMPLETE),
        ("max_tokens", ReplyEnd.TRUNCATED),
        ("pause_turn", ReplyEnd.PAUSED),
        ("refusal", ReplyEnd.REFUSED),
        ("model_context_window_exceeded", ReplyEnd.CONTEXT_FULL),
        ("something_new", ReplyEnd.COMPLETE),
    ],
)
async def test_claude_stop_reasons(stop: str, end: ReplyEnd) -> None:
    reply, _ = await one([api.anthropic_answer([TEXT], stop)], claude_conversation)
    assert reply.end is end


async def test_a_tool_input_that_is_no_json_is_a_problem_of_the_call_not_an_exception() -> None:
    block = {"type": "tool_use", "id": "t1", "name": "bash", "raw_input": '{"command": '}
    reply, _ = await one([api.anthropic_answer([block], "tool_use")], claude_conversation)
    assert reply.calls[0].problem == "its input is not valid JSON"


async def test_a_tool_that_was_cut_with_its_answer_is_dropped_from_calls_and_history() -> None:
    whole = {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}}
    cut = {"type": "tool_use", "id": "t2", "name": "bash", "raw_input": '{"command": "cat > f <<EOF'}
    script = [api.anthropic_answer([whole, cut], "max_tokens"), api.anthropic_answer([TEXT])]

    async def work(conversation: Conversation) -> Reply:
        reply = await conversation.reply()
        conversation.answer([ToolOutput(call, "x") for call in reply.calls])
        await conversation.reply()
        return reply

    reply, server = await with_server(script, claude_conversation, work)
    assert [call.id for call in reply.calls] == ["t1"]
    assert [block["id"] for block in server.requests[1].body["messages"][1]["content"]] == ["t1"]


async def test_a_model_that_refuses_adaptive_thinking_is_asked_without_it_from_then_on() -> None:
    memory = claude.ThinkingMemory()
    refusal = api.anthropic_error(400, "invalid_request_error")
    script = [refusal, api.anthropic_answer([TEXT]), api.anthropic_answer([TEXT])]

    async def work(conversation: Conversation) -> None:
        await conversation.reply()
        conversation.say("again")
        await conversation.reply()

    _, server = await with_server(script, lambda url: claude_conversation(url, memory), work)
    assert ["thinking" in request.body for request in server.requests] == [True, False, False]
    assert not memory.wants("claude-test")
    assert memory.wants("another-model")


async def test_a_request_that_is_wrong_with_and_without_thinking_is_rejected_and_teaches_nothing() -> None:
    memory = claude.ThinkingMemory()
    script = [api.anthropic_error(400, "invalid_request_error", "bad")] * 2
    with pytest.raises(RejectedError, match="bad"):
        await one(script, lambda url: claude_conversation(url, memory))
    assert memory.wants("claude-test")


async def test_a_stream_that_breaks_tells_the_tokens_that_it_reported() -> None:
    events = api.anthropic_events([TEXT], usage={"input_tokens": 55, "cache_read_input_tokens": 9})
    with pytest.raises(RetryableFaultError) as caught:
        await one([Answer([*events[:3], Cut()])], claude_conversation)
    assert caught.value.spent == Tokens(input=55, output=1, cache_read=9)


async def test_a_stream_that_ends_without_its_last_event_is_retryable() -> None:
    events = api.anthropic_events([TEXT])
    with pytest.raises(RetryableFaultError):
        await one([Answer(events[:3])], claude_conversation)


async def test_an_overload_told_inside_the_stream_is_retryable() -> None:
    error = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    with pytest.raises(RetryableFaultError):
        await one([Answer([*api.anthropic_events([TEXT])[:2], error])], claude_conversation)


async def test_a_failed_call_leaves_the_history_as_it_was() -> None:
    events = api.anthropic_events([TEXT])
    script = [Answer([*events[:3], Cut()]), api.anthropic_answer([TEXT])]

    async def work(conversation: Conversation) -> None:
        with pytest.raises(RetryableFaultError):
            await conversation.reply()
        await conversation.reply()

    _, server = await with_server(script, claude_conversation, work)
    assert server.requests[0].body["messages"] == server.requests[1].body["messages"]


# --- OpenAI ------------------------------------------------------------------------------------------------------

USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 0},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 20},
    "total_tokens": 130,
}


async def test_openai_reads_text_tools_tokens_and_the_exact_model() -> None:
    items: list[dict[str, Any]] = [{"text": "I look."}, {"name": "bash", "input": {"command": "ls"}}]
    reply, server = await one([api.openai_answer(items, usage=USAGE)], openai_conversation)
    assert (reply.end, reply.text) == (ReplyEnd.COMPLETE, "I look.")
    assert [(call.id, call.name, call.input) for call in reply.calls] == [("call_1", "bash", {"command": "ls"})]
    assert reply.tokens == Tokens(input=40, output=30, cache_read=60)
    assert reply.model == "gpt-test-2026-01-01"
    asked = server.requests[0]
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body["instructions"] == prompt.SYSTEM
    assert asked.body["store"] is False


async def test_openai_answers_tools_by_their_call_id_after_the_items_they_belong_to() -> None:
    script = [api.openai_answer([{"name": "bash", "input": {"command": "ls"}}]), api.openai_answer([{"text": "ok"}])]

    async def work(conversation: Conversation) -> None:
        reply = await conversation.reply()
        conversation.answer([ToolOutput(reply.calls[0], "a.txt")])
        await conversation.reply()

    _, server = await with_server(script, openai_conversation, work)
    goal, call, output = server.requests[1].body["input"]
    assert goal == {"role": "user", "content": "the goal"}
    assert (call["type"], call["call_id"]) == ("function_call", "call_0")
    assert output == {"type": "function_call_output", "call_id": "call_0", "output": "a.txt"}


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        (api.openai_answer([{"text": "x"}], "incomplete", incomplete="max_output_tokens"), ReplyEnd.TRUNCATED),
        (api.openai_answer([{"text": "x"}], "incomplete", incomplete="content_filter"), ReplyEnd.REFUSED),
        (api.openai_answer([{"refusal": "no"}]), ReplyEnd.REFUSED),
        (api.openai_answer([]), ReplyEnd.COMPLETE),
    ],
    ids=["cut", "filtered", "refused", "empty"],
)
async def test_openai_ends(answer: Answer, end: ReplyEnd) -> None:
    reply, _ = await one([answer], openai_conversation)
    assert reply.end is end


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (api.openai_answer([], "failed", error={"code": "server_error", "message": "x"}), RetryableFaultError),
        (api.openai_answer([], "failed", error={"code": "invalid_prompt", "message": "x"}), RejectedError),
        (api.openai_answer([{"text": "x"}], finish=False), RetryableFaultError),
        (
            api.json_answer({"error": {"code": "context_length_exceeded", "message": "x", "type": "t"}}, 400),
            ContextFullError,
        ),
        (api.json_answer({"error": {"code": "insufficient_quota", "message": "x", "type": "t"}}, 429), RejectedError),
    ],
    ids=["failed", "failed for good", "no last event", "context", "quota"],
)
async def test_openai_faults(answer: Answer, fault: type[Exception]) -> None:
    with pytest.raises(fault):
        await one([answer], openai_conversation)


# --- Gemini ------------------------------------------------------------------------------------------------------


async def test_gemini_reads_text_tools_tokens_and_the_exact_model() -> None:
    usage = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 10,
        "thoughtsTokenCount": 5,
    }
    parts: list[dict[str, Any]] = [
        {"text": "thinking", "thought": True},
        {"text": "I "},
        {"text": "look."},
        {"functionCall": {"name": "bash", "args": {"command": "ls"}}},
    ]
    reply, server = await one([api.gemini_answer(parts, usage=usage)], gemini_conversation)
    assert (reply.end, reply.text) == (ReplyEnd.COMPLETE, "I look.")
    assert [(call.name, call.input) for call in reply.calls] == [("bash", {"command": "ls"})]
    assert reply.tokens == Tokens(input=40, output=15, cache_read=60)
    assert reply.model == "gemini-test-001"
    assert server.requests[0].headers["x-goog-api-key"] == KEY


async def test_gemini_answers_tools_by_name_and_never_sends_an_id_that_it_did_not_get() -> None:
    call = {"functionCall": {"name": "bash", "args": {"command": "ls"}}}
    script = [api.gemini_answer([call]), api.gemini_answer([{"text": "ok"}])]

    async def work(conversation: Conversation) -> None:
        reply = await conversation.reply()
        conversation.answer([ToolOutput(reply.calls[0], "a.txt")])
        await conversation.reply()

    _, server = await with_server(script, gemini_conversation, work)
    given = server.requests[1].body["contents"][-1]["parts"][0]["functionResponse"]
    assert given == {"name": "bash", "response": {"output": "a.txt"}}


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        (api.gemini_answer([{"text": "x"}], "MAX_TOKENS"), ReplyEnd.TRUNCATED),
        (api.gemini_answer([], "SAFETY"), ReplyEnd.REFUSED),
        (api.gemini_answer([], None, feedback={"blockReason": "SAFETY"}), ReplyEnd.REFUSED),
        (api.gemini_answer([], "MALFORMED_FUNCTION_CALL"), ReplyEnd.COMPLETE),
    ],
    ids=["cut", "unsafe answer", "unsafe prompt", "malformed call is an empty answer"],
)
async def test_gemini_ends(answer: Answer, end: ReplyEnd) -> None:
    reply, _ = await one([answer], gemini_conversation)
    assert reply.end is end


async def test_gemini_nonsense_in_a_stream_is_retryable() -> None:
    with pytest.raises(RetryableFaultError):
        await one([Answer([b"nonsense\n\n"])], gemini_conversation)


# --- what is the same with every vendor --------------------------------------------------------------------------

MAKES = pytest.mark.parametrize(
    "make", [claude_conversation, openai_conversation, gemini_conversation], ids=["claude", "openai", "gemini"]
)


def error(status: int, **headers: str) -> Answer:
    body = {"error": {"type": "some_error", "message": "told", "code": status, "status": "X"}, "type": "error"}
    return api.json_answer(body, status, **headers)


@MAKES
@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (401, RejectedError),
        (403, RejectedError),
        (404, RejectedError),
        (413, ContextFullError),
        (408, RetryableFaultError),
        (429, RetryableFaultError),
        (500, RetryableFaultError),
        (503, RetryableFaultError),
        (529, RetryableFaultError),
    ],
)
async def test_a_status_means_the_same_with_every_vendor(make: Make, status: int, fault: type[Exception]) -> None:
    with pytest.raises(fault) as caught:
        await one([error(status)], make)
    assert getattr(caught.value, "status", None) == status
    assert "told" in str(caught.value)
    assert KEY not in str(caught.value)


@MAKES
async def test_the_time_to_wait_is_what_the_vendor_asked(make: Make) -> None:
    with pytest.raises(RetryableFaultError) as caught:
        await one([error(429, retry_after="17")], make)
    assert caught.value.retry_after == 17


@MAKES
async def test_the_sdk_itself_never_retries(make: Make) -> None:
    async with ModelServer([error(503), error(503)]).serve() as server:
        with pytest.raises(RetryableFaultError):
            await make(server.url).reply()
    assert len(server.requests) == 1


@MAKES
async def test_a_connection_that_breaks_before_the_answer_is_retryable(make: Make) -> None:
    with pytest.raises(RetryableFaultError):
        await one([Answer([Cut()])], make)


@MAKES
async def test_no_server_at_all_is_retryable(make: Make) -> None:
    async with ModelServer([]).serve() as server:
        url = server.url
    with pytest.raises(RetryableFaultError):
        await make(url).reply()


@MAKES
async def test_a_cancelled_call_leaves_no_request_open(make: Make) -> None:
    async with ModelServer([Answer([Hang()])]).serve() as server:
        call = asyncio.ensure_future(make(server.url).reply())
        async with asyncio.timeout(10):
            await server.busy.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await server.idle.wait()
