"""The embedded daemon lives exactly as long as we do, on a socket that is only ours, without our keys."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from quickstarted.sandbox import embedded as module
from quickstarted.sandbox.base import SandboxError
from quickstarted.sandbox.client import Runner
from quickstarted.sandbox.embedded import embedded, scrubbed
from quickstarted.sandbox.placement import open_runner

FAKE = str(Path(__file__).parents[2] / "tests" / "support" / "fake_sandboxd_main.py")


def fake(mode: str = "well") -> list[str]:
    return [sys.executable, FAKE, mode]


@pytest.fixture(autouse=True)
def own_temporary_directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        monkeypatch.setenv("TMPDIR", directory)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Path(directory)
    tempfile.tempdir = None


@pytest.fixture
def log(own_temporary_directory: Path) -> Path:
    return own_temporary_directory / "sandboxd.log"


def said(log: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(log.read_text().splitlines()[0])
    return found


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def until_gone(pid: int) -> None:
    while alive(pid):  # pytest's deadline ends it
        time.sleep(0.02)


async def test_it_serves_in_a_private_directory_and_is_gone_at_the_end(log: Path) -> None:
    async with embedded(log, fake()) as daemon:
        socket = Path(daemon.address.socket)
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        runner = await Runner.open(daemon.address, run_id="run")
        assert runner.info.software_version == "fake"
        await runner.close()
        pid = said(log)["pid"]
        assert alive(pid)
    assert not alive(pid)
    assert not socket.parent.exists()


async def test_it_is_told_to_leave_with_its_stdin(log: Path) -> None:
    async with embedded(log, fake()):
        arguments = said(log)["arguments"]
    assert arguments[0] == "serve"
    assert "--exit-with-stdin" in arguments


async def test_its_environment_has_no_key(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "QUICKSTARTED_OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH"):
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("DOCKER_HOST", "unix:///engine.sock")
    async with embedded(log, fake()):
        environment = said(log)["environment"]
    assert "canary" not in str(environment)
    assert environment["DOCKER_HOST"] == "unix:///engine.sock"


PASSED_ON = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "XDG_STATE_HOME",
    "DOCKER_HOST",
    "SANDBOXD_PLANT",
]
PASSED_ON += ["SSL_CERT_FILE", "SSL_CERT_DIR"]
KEPT_BACK = ["ANTHROPIC_API_KEY", "HTTP_PROXY", "PATHS", "HOMEBREW_TOKEN", "LANGUAGE", "DOCKERISH", "GITHUB_TOKEN", "A"]


def test_only_what_is_on_the_list_is_passed_on() -> None:
    assert set(scrubbed(dict.fromkeys([*PASSED_ON, *KEPT_BACK], "x"))) == set(PASSED_ON)


async def test_a_daemon_that_dies_early_shows_the_end_of_its_log(log: Path) -> None:
    with pytest.raises(SandboxError, match=r"exited with code 1(?s:.)*no such luck") as caught:
        async with embedded(log, fake("broken")):
            pass
    assert caught.value.reason == "BACKEND_DOWN"


async def test_a_daemon_that_does_not_serve_in_time_is_an_error(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.5)
    with pytest.raises(SandboxError, match="did not start within"):
        async with embedded(log, fake("deaf")):
            pass
    assert not alive(said(log)["pid"])


async def test_a_daemon_that_does_not_leave_is_made_to(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOP_SECONDS", 0.3)
    async with embedded(log, fake("stubborn")):
        pid = said(log)["pid"]
    assert not alive(pid)


async def test_a_daemon_that_is_not_installed_is_an_error_with_a_remedy(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SandboxError, match="not installed") as caught:
        async with embedded(log):
            pass
    assert "--sandboxd" in caught.value.metadata["remedy"]


async def test_cancelling_the_start_leaves_no_process(log: Path, own_temporary_directory: Path) -> None:
    async def start() -> None:
        async with embedded(log, fake("deaf")):
            pass

    starting = asyncio.create_task(start())
    while not (log.exists() and log.read_text().endswith("\n")):  # noqa: ASYNC110 - a file has no event
        await asyncio.sleep(0.02)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not alive(said(log)["pid"])
    assert [path.name for path in own_temporary_directory.iterdir()] == ["sandboxd.log"]


async def test_a_daemon_that_is_killed_is_lost_to_its_runner(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_command", fake)
    async with open_runner(None, run_id="run", log=log) as runner:
        os.kill(said(log)["pid"], signal.SIGKILL)
        while runner.link.lost is None:  # noqa: ASYNC110 - the deadline is pytest's
            await asyncio.sleep(0.02)
        assert "killed by signal 9" in runner.link.lost.message


OWNER = f"""
import asyncio, sys, time
from pathlib import Path
from quickstarted.sandbox.embedded import embedded

async def main():
    async with embedded(Path(sys.argv[1]), [sys.executable, {FAKE!r}, "well"]):
        print("serving", flush=True)
        await asyncio.sleep(3600)

asyncio.run(main())
"""


def test_it_dies_with_us_even_on_sigkill_and_the_next_run_sweeps_up(log: Path, own_temporary_directory: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(log)], stdout=subprocess.PIPE)
    assert owner.stdout
    assert owner.stdout.readline() == b"serving\n"
    pid = said(log)["pid"]
    owner.kill()
    owner.wait()
    owner.stdout.close()
    until_gone(pid)
    (left,) = own_temporary_directory.glob("quickstarted-*")

    async def next_run() -> None:
        async with embedded(log, fake()) as daemon:
            assert not left.exists()
            async with embedded(log, fake()):  # and a run beside it leaves what is in use alone
                assert Path(daemon.address.socket).exists()

    asyncio.run(next_run())
