"""Coding agents: a real program that speaks MCP over HTTP with the mcp package's own client."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from quickstarted.agents.base import BudgetExhaustedError, StopReason
from quickstarted.agents.command import CommandAgent, CommandError, _fill, split_command
from quickstarted.agents.mcp_server import ToolServer
from quickstarted.sandbox.base import CommandResult
from quickstarted.task.model import Docs, Success, Task

from tests.support.toolbox import Tools

TASK = Task("t", "make {mcp_token} work", Docs(("https://docs.test/start",)), Success("true"))

# A coding agent in small: reads its configuration, calls tools, says what it saw.
AGENT = """
import asyncio, json, os, sys
import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

async def main(goal, config, *commands):
    server = json.load(open(config))["mcpServers"]["quickstarted"]
    print("goal:", goal.splitlines()[0])
    print("files:", os.listdir("."), "canary" in json.dumps(dict(os.environ)), os.environ.get("AGENT_KEY"))
    async with httpx2.AsyncClient(headers=server["headers"]) as http:
        async with Client(streamable_http_client(server["url"], http_client=http)) as client:
            for command in commands:
                result = await client.call_tool("bash", {"command": command})
                print(result.is_error, result.content[0].text)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    path = tmp_path / "agent.py"
    path.write_text(AGENT)
    return path


def command(agent: Path, *commands: str, environ: dict[str, str] | None = None) -> CommandAgent:
    words = [sys.executable, str(agent), "{goal}", "{mcp_config}", *commands]
    return CommandAgent(words, ["AGENT_KEY"], environ or {"PATH": os.environ["PATH"]})


async def test_a_coding_agent_works_with_the_tools_in_an_empty_directory_without_the_controllers_keys(
    agent: Path,
) -> None:
    tools = Tools()
    environ = {"PATH": os.environ["PATH"], "QUICKSTARTED_ANTHROPIC_API_KEY": "canary", "AGENT_KEY": "its own"}
    outcome = await command(agent, "ls", "false", environ=environ).run(TASK, tools)
    assert (outcome.stop, outcome.turns) == (StopReason.DONE, 2)
    assert tools.asked == [("bash", "ls"), ("bash", "false")]
    assert "goal: Goal: make {mcp_token} work" in outcome.final_text
    assert "files: [] False its own" in outcome.final_text
    assert "False out\n[exit code: 0]" in outcome.final_text
    assert "True out\n[exit code: 3]" in outcome.final_text


async def test_a_spent_budget_ends_the_agent(agent: Path) -> None:
    with pytest.raises(BudgetExhaustedError) as caught:
        await command(agent, "a", "b", "c").run(TASK, Tools(max_turns=1))
    assert caught.value.stop is StopReason.MAX_TURNS


async def test_an_error_of_the_tools_reaches_the_caller_not_the_agent(agent: Path) -> None:
    class Broken(Tools):
        async def bash(self, command: str) -> CommandResult:
            raise LookupError("the sandbox is gone")

    with pytest.raises(LookupError, match="the sandbox is gone"):
        await command(agent, "a").run(TASK, Broken())


async def test_time_that_runs_out_ends_the_agent_and_its_children(tmp_path: Path) -> None:
    script = tmp_path / "slow.sh"
    script.write_text(f"sleep 600 & echo $! > {tmp_path}/child; trap '' TERM; wait; wait")
    agent = CommandAgent(["sh", str(script), "{goal}"], [], {"PATH": os.environ["PATH"]})
    running = asyncio.create_task(agent.run(TASK, Tools(left=1.5)))
    with pytest.raises(BudgetExhaustedError):
        await running
    child = int((tmp_path / "child").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


async def test_a_program_that_fails_is_the_models_failure() -> None:
    agent = CommandAgent(["sh", "-c", "echo broken; exit 7", "{goal}"], [], {"PATH": os.environ["PATH"]})
    outcome = await agent.run(TASK, Tools())
    assert (outcome.stop, outcome.detail) == (StopReason.MODEL_ERROR, "sh ended with exit code 7")
    assert outcome.final_text == "broken\n"


async def test_a_program_that_is_not_there_says_so() -> None:
    outcome = await CommandAgent(["no-such-agent", "{goal}"], [], {"PATH": "/bin"}).run(TASK, Tools())
    assert outcome.stop is StopReason.MODEL_REJECTED
    assert "no-such-agent can't be started: No such file or directory" in outcome.detail


async def test_nobody_without_the_token_is_answered() -> None:
    async with ToolServer(Tools()).http() as endpoint, httpx2.AsyncClient() as client:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": endpoint.token}):
            answer = await client.post(endpoint.url, json={}, headers=headers)
            assert answer.status_code == 401
        assert endpoint.token not in repr(endpoint)


async def test_tools_are_listed_with_the_schemas_of_the_prompt() -> None:
    async with ToolServer(Tools()).http() as endpoint:
        headers = {"Authorization": f"Bearer {endpoint.token}"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(endpoint.url, http_client=http)) as client,
        ):
            listed = await client.list_tools()
    assert [tool.name for tool in listed.tools] == ["bash", "read_docs"]
    assert listed.tools[0].input_schema["required"] == ["command"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("claude -p {goal} --mcp-config {mcp_config}", ("claude", "-p", "{goal}", "--mcp-config", "{mcp_config}")),
        ("a 'b c {goal}'", ("a", "b c {goal}")),
    ],
)
def test_a_command_is_split_like_a_shell_does(text: str, words: tuple[str, ...]) -> None:
    assert split_command(text) == words


@pytest.mark.parametrize("text", ["", "   ", "claude 'unclosed", "claude -p hello"])
def test_a_command_that_can_not_work_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="--agent-command"):
        split_command(text)


def test_a_value_that_looks_like_a_placeholder_is_not_filled_again() -> None:
    assert _fill("<{goal}{x}>", {"{goal}": "{x}", "{x}": "secret"}) == "<{x}secret>"
