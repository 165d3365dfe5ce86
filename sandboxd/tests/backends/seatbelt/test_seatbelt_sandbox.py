"""The seatbelt backend: on Linux with a program that confines nothing in its place, on a Mac with the real one."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sandboxd.backends.base import BackendError, ExecRequest, Exited, Limits, SandboxRequest, Stream
from sandboxd.backends.local import LocalBackend
from sandboxd.backends.process import supervisor
from sandboxd.backends.seatbelt import SeatbeltBackend
from sandboxd.backends.seatbelt.backend import EXPECTED, SeatbeltSandbox, findings
from sandboxd.environment import build
from sandboxd.inside.processes import Process, Trail
from sandboxd.instances import instance

# Takes its profile and runs the command.
NOTHING = '#!/bin/sh\n[ "$1" = -p ] && case $2 in "(version 1)"*) shift 2; exec "$@";; esac\nexit 65\n'
WITHOUT_ADOPTION = supervisor.CODE.replace(
    "from sandboxd.inside.supervisor import main",
    "import sandboxd.inside.system as system; system.adopt_orphans = lambda: False; "
    "from sandboxd.inside.supervisor import main",
)


class Sink:
    def __init__(self) -> None:
        self.data = b""

    def write(self, stream: Stream, data: bytes | memoryview) -> None:
        self.data += bytes(data)


async def run(sandbox: SeatbeltSandbox, *argv: str, environment: dict[str, str] | None = None) -> tuple[Exited, str]:
    sink = Sink()
    running = await sandbox.start(ExecRequest("x", argv, environment=environment or {}), sink)
    async with asyncio.timeout(30):
        return await running.wait(), sink.data.decode()


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[SeatbeltSandbox]:
    program = tmp_path / "sandbox-exec"
    program.write_text(NOTHING)
    program.chmod(0o755)
    with instance(tmp_path / "state") as own:
        backend = SeatbeltBackend(state=own.state, instance_id=own.instance_id, sandbox_exec=str(program))
        environment = build(path=os.environ["PATH"], proxy=None)
        made = await backend.create(SandboxRequest("s", "", Limits(), {**environment, "DYLD_INSERT_LIBRARIES": "x"}))
        yield made
        await made.destroy()
        assert not (own.directory / "seatbelt" / "s").exists()
        await backend.close()


async def test_each_command_runs_under_the_profile(sandbox: SeatbeltSandbox) -> None:
    assert await run(sandbox, "sh", "-c", "echo it runs; exit 3") == (Exited(3), "it runs\n")
    assert await run(sandbox, "sh", "-c", "kill -TERM $$") == (Exited(143, signal=15), "")


@pytest.mark.parametrize(("program", "code"), [("nothing-of-that-name", 127), ("/etc/passwd", 126), ("/usr", 126)])
async def test_what_cannot_be_started_is_told_by_us_and_not_by_the_wrapper(
    sandbox: SeatbeltSandbox, program: str, code: int
) -> None:
    exited, said = await run(sandbox, program)
    assert (exited.code, said) == (code, "")
    assert exited.start_error


async def test_the_environment_has_a_proxy_of_its_own_and_nothing_for_the_loader(sandbox: SeatbeltSandbox) -> None:
    _, said = await run(sandbox, "env", environment={"DYLD_LIBRARY_PATH": "/x", "MORE": "1"})
    found = dict(line.partition("=")[::2] for line in said.splitlines())
    assert not [name for name in found if name.startswith("DYLD_")]
    assert found["MORE"] == "1"
    assert found["http_proxy"] == found["HTTPS_PROXY"]
    assert found["http_proxy"].startswith("http://sandbox:")
    assert found["HOME"] != found["TMPDIR"] != sandbox.workspace


async def test_a_sandbox_that_is_open_is_not_handed_over(sandbox: SeatbeltSandbox) -> None:
    planted = await sandbox.plant()
    assert planted is not None
    with pytest.raises(BackendError) as caught:
        await sandbox.self_test()
    assert caught.value.reason == "ISOLATION_UNAVAILABLE"
    assert "a write outside ended with done" in caught.value.message
    for each in (planted.proxy, planted.dns_udp, planted.dns_tcp):
        each.close()


@pytest.mark.parametrize("said", [b"", b"{}", b"[]", b"Traceback", b'{"a write outside": "EPERM"}'])
def test_an_answer_that_is_none_is_a_finding(said: bytes) -> None:
    assert findings(said)


def test_the_right_answers_are_no_finding() -> None:
    import json

    assert findings(json.dumps({attempt: allowed[0] for attempt, allowed in EXPECTED.items()}).encode()) == []


async def test_on_linux_it_is_not_available(tmp_path: Path) -> None:
    backend = SeatbeltBackend(state=tmp_path, instance_id="i")
    answer = await backend.probe()
    assert answer.available is (sys.platform == "darwin")
    await backend.close()


def table(**processes: tuple[int, int]) -> dict[int, Process]:
    """Processes by their numbers: p11=(parent, group)."""
    return {int(name[1:]): Process(parent, group, group, "S", 1) for name, (parent, group) in processes.items()}


def test_a_trail_keeps_what_lost_its_parent_and_what_left_its_group() -> None:
    trail = Trail()
    assert trail.follow(table(p10=(1, 10), p11=(10, 11), p12=(11, 12), p20=(1, 20)), [10]) == {11, 12}
    # 11 has ended: 12, in a group of its own, is init's now, and has a child in another.
    assert trail.follow(table(p10=(1, 10), p12=(1, 12), p13=(12, 13), p20=(1, 20)), [10]) == {12, 13}
    assert trail.follow(table(p13=(1, 13), p20=(1, 20)), []) == {13}
    assert trail.follow(table(p20=(1, 20)), []) == set()


async def test_without_adoption_survivors_are_found_by_group_and_ancestry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "CODE", WITHOUT_ADOPTION)
    mark = f"4000.{os.getpid()}"
    with instance(tmp_path) as own:
        backend = LocalBackend(state=own.state, instance_id=own.instance_id)
        made = await backend.create(SandboxRequest("s", "", Limits(), build(path=os.environ["PATH"], proxy=None)))
        text = f"setsid sleep {mark} & setsid sh -c 'sleep {mark} & sleep 2' & sleep 1.5; exit 4"
        running = await made.start(ExecRequest("x", ["sh", "-c", text]), Sink())
        assert await running.wait() == Exited(4)
        other = await made.start(ExecRequest("y", ["sh", "-c", f"sleep {mark} & sleep 0.3; exit 0"]), Sink())
        await other.wait()
        # By now the second has lost its parent, and both their first process.
        await asyncio.sleep(0.5)
        assert len(_with(mark)) == 3
        await running.kill()
        assert len(_with(mark)) == 1
        await made.destroy()
        assert _with(mark) == []
        await backend.close()


def _with(mark: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(entry.name)
        except OSError:
            continue
    return found


# What only a Mac can show. Each attempt and what may come of it.
ATTEMPTS = {
    "reading the home directory": ("ls ~root /Users/*/Documents /Users/*/.ssh", False),
    "writing to the home directory": (
        'touch "$(dscl . -read /Users/$(id -un) NFSHomeDirectory | cut -d" " -f2)/x"',
        False,
    ),
    "starting an application": ("open -a Calculator", False),
    "an Apple event": ("osascript -e 'tell application \"Finder\" to get name of home'", False),
    "a name": ("dscacheutil -q host -a name example.com | grep -q ip_address", False),
    "an address": ("nc -z -G 3 192.0.2.1 443", False),
    "another port of loopback": ("nc -z -G 3 127.0.0.1 22", False),
    "another's arguments": ("ps eww -p 1", False),
    "moving its own workspace": ('mv "$PWD" "$PWD-moved"', False),
    "a python of its own": ("python3 -m venv v && v/bin/python -c 'print(1)'", True),
    "a server of its own": ("python3 -c 'import socket; socket.create_server((\"127.0.0.1\", 0))'", True),
}


@pytest.mark.macos
@pytest.mark.parametrize(("text", "works"), ATTEMPTS.values(), ids=ATTEMPTS.keys())
async def test_on_a_mac_a_command_can_do_what_it_needs_and_no_more(tmp_path: Path, text: str, works: bool) -> None:
    with instance(tmp_path / "state") as own:
        backend = SeatbeltBackend(state=own.state, instance_id=own.instance_id)
        made = await backend.create(SandboxRequest("s", "", Limits(), build(path=os.environ["PATH"], proxy=None)))
        try:
            exited, said = await run(made, "sh", "-c", text)
            assert (exited.code == 0) is works, said
        finally:
            await made.destroy()
            await backend.close()


@pytest.mark.macos
async def test_on_a_mac_the_probe_finds_a_sandbox_that_is_closed(tmp_path: Path) -> None:
    with instance(tmp_path / "state") as own:
        backend = SeatbeltBackend(state=own.state, instance_id=own.instance_id)
        answer = await backend.probe()
        assert answer.available, answer
        await backend.close()
