"""API keys exist in the controller only: with canaries for keys, everything else is searched, meanwhile and after."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support import model_api
from tests.support.desk import QUICKSTARTED, Desk
from tests.support.model_api import Answer, ModelServer

CANARIES = {
    "QUICKSTARTED_ANTHROPIC_API_KEY": "canary-of-quickstarted",
    "ANTHROPIC_API_KEY": "canary-of-the-vendor",
    "OPENAI_API_KEY": "canary-of-another-vendor",
    "AWS_SECRET_ACCESS_KEY": "canary-of-a-cloud",
}
LOOK = (
    "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; cat ~/.* 2>/dev/null; sleep 2; echo looked"
)


def answers() -> list[Answer]:
    """A run with a retry, whose error tells the key back, and a command that looks for keys."""
    told = model_api.anthropic_error(529, "overloaded_error", "busy")
    call = {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": LOOK}}
    done = {"type": "text", "text": "done"}
    return [told, model_api.anthropic_answer([call], "tool_use"), model_api.anthropic_answer([done])]


def holders(text: bytes) -> set[bytes]:
    """The arguments of this machine's processes that have a text in their environment or arguments.

    By their arguments, because a child has its parent's environment until it has become its own program.
    """
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                arguments = (entry / "cmdline").read_bytes()
                if text in arguments or text in (entry / "environ").read_bytes():
                    found.add(arguments)
        except OSError:
            continue  # it has ended, or is not ours to look at
    return found


@pytest.mark.timeout(120)
@pytest.mark.parametrize("backend", ["bubblewrap", "docker"])
async def test_no_key_is_anywhere_but_in_the_controller(desk: Desk, tmp_path: Path, backend: str) -> None:
    task = desk.task("keys", check="env; true")
    async with ModelServer(answers()).serve() as server:
        process = await asyncio.create_subprocess_exec(
            *QUICKSTARTED,
            *("run", task, "--agent", "claude", "--base-url", server.url, "--backend", backend, "--verbose"),
            cwd=desk.directory,
            env=desk.environment() | CANARIES | {"SANDBOXD_LOG_LEVEL": "debug"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        reading = asyncio.create_task(process.communicate())
        seen: set[bytes] = set()
        controller = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        while not reading.done():
            for canary in CANARIES.values():
                seen |= await asyncio.to_thread(holders, canary.encode())
            await asyncio.sleep(0.1)
        said, _ = await reading
    text = said.decode()
    assert process.returncode == 0, text
    assert seen == {controller}
    keys = {request.headers.get("x-api-key") or request.headers["authorization"] for request in server.requests}
    assert {key.removeprefix("Bearer ") for key in keys} == {"canary-of-quickstarted"}
    (command,) = [line for line in desk.trace("keys") if line["event"] == "tool_result" and line["tool"] == "bash"]
    assert "looked" in command["output"]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "trace.jsonl" for path in files)
    for canary in CANARIES.values():
        assert canary not in text
        assert [path for path in files if canary.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("status", [401, 400, 500])
async def test_an_error_that_tells_the_key_back_does_not_pass_it_on(desk: Desk, tmp_path: Path, status: int) -> None:
    key = CANARIES["QUICKSTARTED_ANTHROPIC_API_KEY"]
    refusal = model_api.anthropic_error(status, "authentication_error", f"the key {key} is wrong")
    async with ModelServer([refusal] * 20).serve() as server:
        process = await asyncio.create_subprocess_exec(
            *QUICKSTARTED,
            *(
                "run",
                desk.task("told", check="false", budgets={"max_seconds": 3}),
                "--agent",
                "claude",
                "--base-url",
                server.url,
            ),
            *("--backend", "bubblewrap"),
            cwd=desk.directory,
            env=desk.environment() | CANARIES,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
    assert process.returncode == 2
    assert key not in said.decode()
    assert [path for path in tmp_path.rglob("*") if path.is_file() and key.encode() in path.read_bytes()] == []
