"""Any coding agent as the agent: it is started in an empty directory with the goal, and its tools come over MCP.

The command is split into words once and never given to a shell. In its words `{goal}` is the goal and where the
documentation starts, `{instructions}` the rules that every agent gets, `{mcp_config}` the path of a JSON file with
`mcpServers`, `{mcp_url}` and `{mcp_token}` what is in it. The agent runs beside the controller, outside any sandbox:
its own shell and file tools must be switched off by its options, or what it does is neither contained nor on record.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from quickstarted.agents import prompt
from quickstarted.agents.base import AgentOutcome, BudgetExhaustedError, StopReason, Toolbox
from quickstarted.agents.mcp_server import SERVER_NAME, Endpoint, ToolServer
from quickstarted.task.model import Task

# What a program needs to run and to reach its vendor; keys only when their variables are named.
PASSED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")
GRACE_SECONDS = 5.0
# The end of what the agent printed, in characters: its last words are what people look for.
KEPT_OUTPUT = 20_000


class CommandError(Exception):
    """The command of `--agent-command` can't be used; the message says why."""


def split_command(text: str) -> tuple[str, ...]:
    """The command's words, quoted as in a shell. Raises CommandError."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise CommandError(f"--agent-command: {error}: {text!r}") from None
    if not words:
        raise CommandError("--agent-command is empty")
    if not any("{goal}" in word for word in words):
        raise CommandError("--agent-command has no {goal}: the agent would not know what to do")
    return words


class CommandAgent:
    """A coding agent. `passed` names variables of the environment that it gets beyond PASSED, its key for instance."""

    name = "command"

    def __init__(self, words: Sequence[str], passed: Sequence[str], environ: Mapping[str, str]) -> None:
        self._words = tuple(words)
        wanted = {*PASSED, *passed}
        self._environ = {name: value for name, value in environ.items() if name in wanted}

    def can_run(self, task: Task) -> bool:
        return True

    async def run(self, task: Task, tools: Toolbox) -> AgentOutcome:
        server = ToolServer(tools)
        with tempfile.TemporaryDirectory(prefix="quickstarted-agent-") as name:
            async with server.http() as endpoint:
                try:
                    code, output = await self._attend(Path(name), task, endpoint, server, tools.seconds_left())
                except OSError as error:
                    reason = error.strerror or type(error).__name__
                    return AgentOutcome(StopReason.MODEL_REJECTED, f"{self._words[0]} can't be started: {reason}")
        if server.stopped.done():
            raise server.stopped.result()
        tools.record("agent_final", text=output)
        if code != 0:
            detail = f"{self._words[0]} ended with exit code {code}"
            return AgentOutcome(StopReason.MODEL_ERROR, detail, server.turns, final_text=output)
        return AgentOutcome(StopReason.DONE, "", server.turns, final_text=output)

    async def _attend(
        self, scratch: Path, task: Task, endpoint: Endpoint, server: ToolServer, seconds: float
    ) -> tuple[int, str]:
        """Run the command until it ends, the time is over, or its tools have stopped."""
        async with _process(self._argv(scratch, task, endpoint), _empty(scratch), self._environ) as process:
            reading = asyncio.create_task(_last_output(process))
            try:
                async with asyncio.timeout(seconds):
                    either: set[asyncio.Future[Any]] = {reading, server.stopped}
                    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                    if server.stopped.done():
                        return 0, ""
                    return await process.wait(), await reading
            except TimeoutError:
                raise BudgetExhaustedError(StopReason.MAX_SECONDS, "the time ran out") from None
            finally:
                reading.cancel()

    def _argv(self, scratch: Path, task: Task, endpoint: Endpoint) -> list[str]:
        config = scratch / "mcp.json"
        headers = {"Authorization": f"Bearer {endpoint.token}"}
        servers = {SERVER_NAME: {"type": "http", "url": endpoint.url, "headers": headers}}
        config.touch(mode=0o600)
        config.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
        values = {
            "{goal}": prompt.opening(task),
            "{instructions}": prompt.SYSTEM,
            "{mcp_config}": str(config),
            "{mcp_url}": endpoint.url,
            "{mcp_token}": endpoint.token,
        }
        return [_fill(word, values) for word in self._words]


class StdioAgent:
    """Whoever speaks MCP on this process's standard input and output; done when they close it."""

    name = "mcp"

    def can_run(self, task: Task) -> bool:
        return True

    async def run(self, task: Task, tools: Toolbox) -> AgentOutcome:
        server = ToolServer(tools, f"{prompt.SYSTEM}\n{prompt.opening(task)}\n")
        try:
            async with asyncio.timeout(tools.seconds_left()):
                await server.stdio()
        except TimeoutError:
            raise BudgetExhaustedError(StopReason.MAX_SECONDS, "the time ran out") from None
        if server.stopped.done():
            raise server.stopped.result()
        return AgentOutcome(StopReason.DONE, "the client closed the connection", server.turns)


def _fill(word: str, values: Mapping[str, str]) -> str:
    """Replace the placeholders of a word, in one pass: a value that looks like a placeholder stays as it is."""
    filled, rest = "", word
    while rest:
        name = next((name for name in values if rest.startswith(name)), None)
        filled += values[name] if name else rest[0]
        rest = rest[len(name) if name else 1 :]
    return filled


def _empty(scratch: Path) -> Path:
    directory = scratch / "work"
    directory.mkdir()
    return directory


@contextlib.asynccontextmanager
async def _process(
    argv: Sequence[str], directory: Path, environ: Mapping[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process in its own session; at the end everything in its group is ended."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=directory,
        env=dict(environ),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await process.wait()
                if number is signal.SIGTERM:
                    continue  # the group may hold children that ignore SIGTERM
                return


async def _last_output(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    kept = b""
    while data := await process.stdout.read(65536):
        kept = (kept + data)[-4 * KEPT_OUTPUT :]
    return kept.decode("utf-8", "replace")[-KEPT_OUTPUT:]
