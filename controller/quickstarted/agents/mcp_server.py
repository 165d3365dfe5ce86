"""The two tools over MCP, for coding agents that people run: over stdio, or streamable HTTP on loopback with a token.

Each tool call is a turn, and calls run one after the other in the order in which they came. When a budget is spent
the agent is told so, and `stopped` tells the caller, who ends the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import secrets
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import anyio
import mcp_types as types
import uvicorn
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from starlette.types import ASGIApp, Receive, Scope, Send

from quickstarted.agents import prompt
from quickstarted.agents.base import BudgetExhaustedError, Toolbox
from quickstarted.agents.loop import run_tool

SERVER_NAME = "quickstarted"
PATH = "/mcp"
STARTUP_SECONDS = 10.0
MAX_MESSAGE = 4 << 20


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a coding agent finds the tools. The token shows in no representation."""

    url: str
    token: str

    def __repr__(self) -> str:
        return f"Endpoint({self.url!r})"


class ToolServer:
    """Serves a toolbox. `turns` counts the calls; `stopped` is set to why no more will be answered."""

    def __init__(self, tools: Toolbox, instructions: str = prompt.SYSTEM) -> None:
        self._tools = tools
        self._turn = asyncio.Lock()
        self.turns = 0
        self.stopped: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self.server: Server[dict[str, Any]] = Server(
            SERVER_NAME, instructions=instructions, on_list_tools=self._list, on_call_tool=self._call
        )

    @contextlib.asynccontextmanager
    async def http(self) -> AsyncIterator[Endpoint]:
        """Serve on a port of loopback, to whoever presents the token."""
        token = secrets.token_urlsafe(32)
        app = _RequireToken(self.server.streamable_http_app(streamable_http_path=PATH), token)
        config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=2)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = _QuietServer(config)
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                async with asyncio.timeout(STARTUP_SECONDS):
                    await server.up.wait()
                yield Endpoint(f"http://127.0.0.1:{listener.getsockname()[1]}{PATH}", token)
            finally:
                server.should_exit = True
                await serving

    async def stdio(self) -> None:
        """Serve on standard input and output until the client closes them, or no more calls are answered."""
        async with _standard_streams() as (given, told), stdio_server(given, told) as (reading, writing):
            serving = asyncio.ensure_future(
                self.server.run(reading, writing, self.server.create_initialization_options())
            )
            try:
                either: set[asyncio.Future[Any]] = {serving, self.stopped}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finally:
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)

    async def _list(
        self, _: ServerRequestContext[dict[str, Any]], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(name=tool.name, description=tool.description, input_schema=dict(tool.schema))
                for tool in prompt.TOOLS
            ]
        )

    async def _call(
        self, _: ServerRequestContext[dict[str, Any]], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        async with self._turn:
            if self.stopped.done():
                return _result("The attempt is over: stop now.", failed=True)
            try:
                self.turns = self._tools.begin_turn()
                given: Mapping[str, object] = params.arguments or {}
                text, failed = await run_tool(self._tools, params.name, dict(given))
            except BudgetExhaustedError as error:
                self._stop(error)
                return _result(f"The attempt is over ({error.detail}): stop now.", failed=True)
            except Exception as error:  # noqa: BLE001 - handed on whole through `stopped`
                self._stop(error)
                return _result("The attempt is over: stop now.", failed=True)
        return _result(text, failed)

    def _stop(self, error: Exception) -> None:
        if not self.stopped.done():
            self.stopped.set_result(error)


@contextlib.asynccontextmanager
async def _standard_streams() -> AsyncIterator[tuple[anyio.AsyncFile[str], anyio.AsyncFile[str]]]:
    """The process's own input and output, whatever `sys.stdout` is just now.

    Input is read on the event loop and not in a thread: a thread that waits for a client that says nothing more would
    keep the process from ending.
    """
    lines = asyncio.StreamReader(limit=MAX_MESSAGE)
    with os.fdopen(os.dup(0), "rb", buffering=0) as given, os.fdopen(os.dup(1), "w", encoding="utf-8") as told:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), given
        )
        try:
            yield cast("anyio.AsyncFile[str]", _Lines(lines)), anyio.wrap_file(told)
        finally:
            transport.close()


class _Lines:
    """The lines of a stream as text: all that the MCP server wants of a file."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[str]:
        while line := await self._stream.readline():
            yield line.decode("utf-8", "replace")


def _result(text: str, failed: bool) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)


class _RequireToken:
    """Answers 401 to every request without the bearer token (RFC 6750, 2.1), before anything else reads it."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            if not hmac.compare_digest(given, self._expected):
                headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b""})
                return
        await self._app(scope, receive, send)


class _QuietServer(uvicorn.Server):
    """Leaves the process's signals alone, and tells when it is up."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()
