"""However a run ends, in whichever phase, nothing is left and nothing that finished is lost."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import processes_with
from tests.support.desk import Desk, until

GONE_SECONDS = 20.0

PHASES: dict[str, Callable[[str], dict[str, Any]]] = {
    "setup": lambda sleep: {"setup": [sleep], "replay": ["true"]},
    "command": lambda sleep: {"replay": [sleep]},
    "check": lambda sleep: {"replay": ["true"], "check": sleep},
}


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + GONE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def daemons_of(desk: Desk) -> list[int]:
    """The daemons whose state lies beside the desk."""
    found = []
    for pid in processes_with("--exit-with-stdin"):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if str(desk.directory).encode() in environment:
            found.append(pid)
    return found


def started(desk: Desk, backend: str, phase: str, marker: str) -> subprocess.Popen[str]:
    """A run in the middle of a phase, after another task of it has passed."""
    first = desk.task("first", replay=["true"])
    slow = desk.task("slow", **PHASES[phase](f"(setsid sleep {marker} &); sleep {marker}"))
    process = desk.start(first, slow, "--backend", backend, "--verbose")
    until(process, "first: passed")
    wait_until(lambda: bool(processes_with(marker)), "the command did not start")
    return process


@pytest.mark.parametrize("phase", PHASES)
def test_ctrl_c_ends_the_command_and_keeps_what_finished(
    desk: Desk, backend: str, phase: str, marker: str, containers: Callable[[str], list[str]]
) -> None:
    process = started(desk, backend, phase, marker)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "[PASS] first" in stdout
    assert "Traceback" not in stderr
    results = desk.results()
    assert results["interrupted"] is True
    assert [task["task"] for task in results["tasks"]] == ["first"]
    assert desk.trace("slow")[-1]["stop_reason"] == "interrupted"
    assert processes_with(marker) == []
    assert containers(results["run_id"]) == []
    assert daemons_of(desk) == []


def test_a_second_ctrl_c_ends_at_once_and_leaves_nothing_either(
    desk: Desk, backend: str, marker: str, containers: Callable[[str], list[str]]
) -> None:
    process = started(desk, backend, "command", marker)
    process.send_signal(signal.SIGINT)
    until(process, "interrupted")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    run_id = desk.results()["run_id"]
    wait_until(lambda: not processes_with(marker), "processes are left")
    wait_until(lambda: not containers(run_id), "containers are left")
    wait_until(lambda: not daemons_of(desk), "the daemon is left")


@pytest.mark.parametrize("phase", PHASES)
def test_kill_9_of_the_controller_leaves_nothing(
    desk: Desk, backend: str, phase: str, marker: str, containers: Callable[[str], list[str]]
) -> None:
    process = started(desk, backend, phase, marker)
    process.kill()
    process.communicate()
    results = desk.results()
    assert results["interrupted"] is True
    assert [task["task"] for task in results["tasks"]] == ["first"]
    wait_until(lambda: not processes_with(marker), "processes are left")
    wait_until(lambda: not containers(results["run_id"]), "containers are left")
    wait_until(lambda: not daemons_of(desk), "the daemon is left")
    instances = desk.directory / "state" / "sandboxd" / "instances"
    wait_until(lambda: not instances.exists() or not list(instances.iterdir()), "instances are left")


def test_kill_9_of_the_daemon_is_an_infra_error_and_leaves_nothing(
    desk: Desk, backend: str, marker: str, containers: Callable[[str], list[str]]
) -> None:
    process = started(desk, backend, "command", marker)
    (daemon,) = daemons_of(desk)
    subprocess.run(["kill", "-9", str(daemon)], check=True)
    stdout, stderr = process.communicate(timeout=90)
    assert process.returncode == 2
    assert "[INCONCLUSIVE] slow" in stdout
    assert "sandboxd was killed by signal 9" in stdout
    assert "Traceback" not in stderr
    run_id = desk.results()["run_id"]
    wait_until(lambda: not processes_with(marker), "processes are left")
    wait_until(lambda: not containers(run_id), "containers are left")
    # What a dead daemon left on disk is removed by the next one.
    assert desk.run(desk.task("next", replay=["true"]), "--backend", backend).returncode == 0
    instances = desk.directory / "state" / "sandboxd" / "instances"
    assert not instances.exists() or not list(instances.iterdir())
