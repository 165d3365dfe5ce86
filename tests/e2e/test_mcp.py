"""`quickstarted mcp`: whoever speaks MCP on standard input works in the sandbox, and the check decides."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.support.desk import QUICKSTARTED, Desk

PAGES = {"start.html": "<html><body><main><h1>Start</h1><pre>touch made</pre></main></body></html>"}


async def session(desk: Desk, task: str, pages: Path, calls: Sequence[tuple[str, dict[str, object]]]) -> list[str]:
    program, *rest = QUICKSTARTED
    words = [*rest, "mcp", task, "--backend", "bubblewrap", "--docs-map", f"docs.test={pages}"]
    parameters = StdioServerParameters(command=program, args=words, env=desk.environment(), cwd=desk.directory)
    answers = []
    async with Client(stdio_client(parameters)) as client:
        for name, given in calls:
            answer = await client.call_tool(name, given)
            answers.append(getattr(answer.content[0], "text", ""))
    return answers


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    directory = tmp_path / "pages"
    directory.mkdir()
    for name, text in PAGES.items():
        (directory / name).write_text(text)
    return directory


async def test_a_client_reads_works_and_leaves_and_the_check_decides(desk: Desk, pages: Path) -> None:
    task = desk.task("by-hand", check="test -f made", docs={"entrypoint": "https://docs.test/start.html"})
    calls: list[tuple[str, dict[str, object]]] = [
        ("read_docs", {"url": "https://docs.test/start.html"}),
        ("bash", {"command": "touch made"}),
        ("bash", {"command": "ls; pwd"}),
    ]
    read, made, seen = await session(desk, task, pages, calls)
    assert "touch made" in read
    assert made == "[exit code: 0]"
    assert "made\n/workspace\n[exit code: 0]" in seen
    (run,) = desk.results()["tasks"][0]["runs"]
    assert (run["classification"], run["agent"], run["turns"]) == ("passed", "mcp", 3)
    assert [line["url"] for line in desk.trace("by-hand") if line["event"] == "docs_read"] == [
        "https://docs.test/start.html"
    ]


async def test_a_spent_budget_is_told_to_the_client_and_ends_the_attempt(desk: Desk, pages: Path) -> None:
    task = desk.task("short", check="false", budgets={"max_turns": 1})
    answers = await session(desk, task, pages, [("bash", {"command": "true"})] * 2)
    assert "The attempt is over" in answers[1]
    (run,) = desk.results()["tasks"][0]["runs"]
    assert run["classification"] == "budget_exhausted"


def test_more_than_one_task_is_a_usage_error(desk: Desk) -> None:
    done = subprocess.run(
        [*QUICKSTARTED, "mcp"], cwd=desk.directory, env=desk.environment(), capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "takes one task file" in done.stderr
