"""A local server that speaks the wire formats of the model vendors, scripted request by request.

It is driven by the vendors' real SDKs. Each request takes the next `Answer` of the script: a status, headers, and the
body in pieces, between which faults can be put (a pause, a broken connection). What was asked is kept in `requests`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Cut:
    """The connection breaks here, without an end of the body."""


@dataclass(frozen=True)
class Hang:
    """Nothing more comes until the client goes away."""


Piece = bytes | Cut | Hang


@dataclass(frozen=True)
class Answer:
    pieces: Sequence[Piece]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "text/event-stream"


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


Respond = Callable[[Request], Answer]


class ModelServer:
    """Answers in the order of a script, or with a function of the request; past the script it answers 500 and says so.

    `busy` and `idle` tell whether the request that came last is still being answered.
    """

    def __init__(self, script: Iterable[Answer] | Respond) -> None:
        self.script = [] if callable(script) else list(script)
        self._respond = script if callable(script) else self._next
        self.requests: list[Request] = []
        self.busy, self.idle = asyncio.Event(), asyncio.Event()
        self.url = ""
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[ModelServer]:
        server = await asyncio.start_server(self._client, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            tasks = [task for task in self._connections.values() if task is not None]
            for writer in list(self._connections):
                writer.transport.abort()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _next(self, _: Request) -> Answer:
        return self.script.pop(0) if self.script else json_answer({"error": {"message": "past the script"}}, 500)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections[writer] = asyncio.current_task()
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away: that is what some tests are about
        finally:
            del self._connections[writer]
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        start, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = start.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        request = Request(method, path, headers, json.loads(body) if body else None)
        self.requests.append(request)
        answer = self._respond(request)
        self.idle.clear()
        self.busy.set()
        try:
            return await self._send(answer, reader, writer)
        finally:
            self.busy.clear()
            self.idle.set()

    async def _send(self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = [f"HTTP/1.1 {answer.status} Scripted", f"content-type: {answer.content_type}"]
        head += ["transfer-encoding: chunked", *(f"{name}: {value}" for name, value in answer.headers.items())]
        writer.write("\r\n".join([*head, "", ""]).encode())
        for piece in answer.pieces:
            match piece:
                case Cut():
                    await writer.drain()
                    return False
                case Hang():
                    await writer.drain()
                    await reader.read()
                    return False
                case _:
                    writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


def json_answer(body: object, status: int = 200, **headers: str) -> Answer:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer([json.dumps(body).encode()], status, given, "application/json")


def split(data: bytes, size: int) -> list[Piece]:
    """The same bytes in pieces that respect no boundary of the format."""
    return [data[start : start + size] for start in range(0, len(data), size)]


# --- Anthropic ---------------------------------------------------------------------------------------------------


def anthropic_events(
    blocks: Sequence[Mapping[str, Any]],
    stop: str | None = "end_turn",
    usage: Mapping[str, int] | None = None,
    model: str = "claude-test-20260101",
) -> list[bytes]:
    """The events of one answer, one bytes object each. A tool's input may be given as raw text in `raw_input`."""
    used = {"input_tokens": 10, "output_tokens": 1} | dict(usage or {})
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": used | {"output_tokens": 1},
    }
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(blocks):
        events += _anthropic_block(index, block)
    delta = {"stop_reason": stop, "stop_sequence": None}
    events += [{"type": "message_delta", "delta": delta, "usage": used}, {"type": "message_stop"}]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


def _anthropic_block(index: int, block: Mapping[str, Any]) -> list[dict[str, Any]]:
    def delta(**fields: str) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": fields}

    match block["type"]:
        case "text":
            start: dict[str, Any] = {"type": "text", "text": ""}
            deltas = [delta(type="text_delta", text=block["text"])]
        case "thinking":
            start = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [delta(type="thinking_delta", thinking=block["thinking"])]
            if "signature" in block:
                deltas.append(delta(type="signature_delta", signature=block["signature"]))
        case _:
            start = {"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}
            text = block.get("raw_input", json.dumps(block.get("input", {})))
            middle = len(text) // 2
            deltas = [delta(type="input_json_delta", partial_json=part) for part in (text[:middle], text[middle:])]
    opening = {"type": "content_block_start", "index": index, "content_block": start}
    return [opening, *deltas, {"type": "content_block_stop", "index": index}]


def anthropic_answer(blocks: Sequence[Mapping[str, Any]], stop: str = "end_turn", **kwargs: Any) -> Answer:
    return Answer(split(b"".join(anthropic_events(blocks, stop, **kwargs)), 37))


def anthropic_error(status: int, kind: str, message: str = "no", **headers: str) -> Answer:
    return json_answer({"type": "error", "error": {"type": kind, "message": message}}, status, **headers)


# --- OpenAI ------------------------------------------------------------------------------------------------------


def openai_answer(
    items: Sequence[Mapping[str, Any]],
    status: str = "completed",
    *,
    usage: Mapping[str, Any] | None = None,
    incomplete: str | None = None,
    error: Mapping[str, str] | None = None,
    finish: bool = True,
) -> Answer:
    """A streamed answer of the Responses API; items are messages (`text` or `refusal`) and function calls."""
    done = [_openai_item(index, item) for index, item in enumerate(items)]
    response = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-test-2026-01-01",
        "status": status,
        "output": done,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": error,
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "usage": usage,
    }
    events: list[dict[str, Any]] = [
        {"type": "response.output_item.done", "output_index": index, "item": item} for index, item in enumerate(done)
    ]
    if finish:
        events.append({"type": f"response.{status}", "response": response})
    text = "".join(
        f"event: {event['type']}\ndata: {json.dumps(event | {'sequence_number': number})}\n\n"
        for number, event in enumerate(events)
    )
    return Answer(split(text.encode(), 41))


def _openai_item(index: int, item: Mapping[str, Any]) -> dict[str, Any]:
    if "name" in item:
        arguments = item.get("arguments", json.dumps(item.get("input", {})))
        return {
            "type": "function_call",
            "id": f"fc_{index}",
            "call_id": f"call_{index}",
            "name": item["name"],
            "arguments": arguments,
            "status": "completed",
        }
    part = (
        {"type": "refusal", "refusal": item["refusal"]}
        if "refusal" in item
        else {"type": "output_text", "text": item["text"], "annotations": []}
    )
    return {"type": "message", "id": f"msg_{index}", "role": "assistant", "status": "completed", "content": [part]}


# --- Gemini ------------------------------------------------------------------------------------------------------


def gemini_answer(
    parts: Sequence[Mapping[str, Any]],
    finish: str | None = "STOP",
    usage: Mapping[str, int] | None = None,
    feedback: Mapping[str, str] | None = None,
) -> Answer:
    """A streamed answer of generateContent, one chunk a part."""
    chunks: list[dict[str, Any]] = [
        {"candidates": [{"content": {"role": "model", "parts": [part]}}], "modelVersion": "gemini-test-001"}
        for part in parts
    ]
    last: dict[str, Any] = {"modelVersion": "gemini-test-001", "usageMetadata": dict(usage or {})}
    if finish is not None:
        last["candidates"] = [{"content": {"role": "model", "parts": []}, "finishReason": finish}]
    if feedback is not None:
        last["promptFeedback"] = feedback
    text = "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in [*chunks, last])
    return Answer(split(text.encode(), 29))
