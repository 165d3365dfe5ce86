"""`quickstarted run` with a real daemon and real sandboxes, on every enforced backend."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import processes_with
from tests.support.desk import Desk

REACH = "python3 -c \"import urllib.request as u; u.urlopen('http://{host}/', timeout=5)\""


def events(trace: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [line for line in trace if line["event"] == name]


def the_run(desk: Desk) -> dict[str, Any]:
    found: dict[str, Any] = desk.results()["tasks"][0]["runs"][0]
    return found


def test_a_pass_in_an_enforced_sandbox_and_what_is_on_record(desk: Desk, backend: str) -> None:
    task = desk.task("demo", setup=["mkdir app"], replay=["cd app", "echo made > made"], check="grep -q made app/made")
    done = desk.run(task, "--backend", backend)
    assert done.returncode == 0, done.stderr + done.stdout
    run = the_run(desk)
    assert (run["classification"], run["backend"], run["enforced"]) == ("passed", backend, True)
    if backend == "docker":
        assert run["image"] == "python:3.12-slim"
        assert run["image_digest"].startswith("sha256:")
        assert f"backend: docker (python:3.12-slim, {run['image_digest'][:19]})\n" in done.stdout
    else:
        assert (run["image"], run["image_digest"]) == (None, None)
        assert "backend: bubblewrap\n" in done.stdout
    assert run["attribution_gaps"] == []
    assert run["node_id"]
    assert run["instance_id"]
    assert desk.results()["environment"]["runner"] == "embedded"


def test_a_gap(desk: Desk, backend: str) -> None:
    task = desk.task("demo", replay=["touch wrong"], check="test -e right || { echo 'no right'; exit 4; }")
    done = desk.run(task, "--backend", backend)
    assert done.returncode == 1, done.stderr
    assert "success check exit code: 4\n    | no right\n" in done.stdout


def test_a_session_is_the_readers_terminal_and_the_check_has_its_own(desk: Desk, backend: str) -> None:
    replay = [
        "mkdir -p app/bin && cd app",
        "printf '#!/bin/sh\\necho \"$GREETING\"\\n' > bin/greet && chmod +x bin/greet",
        "export PATH=$PWD/bin:$PATH GREETING=hello",
        "set -e; greet > greeting",
        "cd .. && exit 0",
        "test -d app",
    ]
    check = 'grep -q hello app/greeting && ! command -v greet && test -z "${GREETING-}" && test -d app'
    done = desk.run(desk.task("demo", replay=replay, check=check), "--backend", backend)
    assert done.returncode == 0, done.stdout


def test_a_host_refused_in_a_command_that_failed_is_the_harness_and_named(desk: Desk, backend: str) -> None:
    task = desk.task("demo", replay=[REACH.format(host="elsewhere.test")], check="false")
    done = desk.run(task, "--backend", backend)
    assert done.returncode == 2, done.stdout
    run = the_run(desk)
    assert run["classification"] == "harness_error"
    assert "elsewhere.test" in run["why"]
    assert "network.allow" in run["why"]
    assert "demo: refused elsewhere.test to the shell (not_allowlisted)" in done.stderr


def test_a_host_refused_in_a_command_that_succeeded_hides_no_gap(desk: Desk, backend: str) -> None:
    task = desk.task("demo", replay=[f"{REACH.format(host='telemetry.test')} 2>/dev/null || true"], check="false")
    assert desk.run(task, "--backend", backend).returncode == 1
    run = the_run(desk)
    assert run["classification"] == "docs_gap"
    assert [host["host"] for host in run["refused_hosts"]] == ["telemetry.test"]


def test_a_docs_host_is_refused_to_the_shell_and_counted(desk: Desk, backend: str) -> None:
    task = desk.task("demo", replay=[REACH.format(host="docs.test")], check="false")
    done = desk.run(task, "--backend", backend)
    assert done.returncode == 1, done.stdout
    assert the_run(desk)["docs_bypass_attempts"] >= 1
    assert "docs attempts from the shell: " in done.stdout


def test_events_carry_the_command_that_was_running(desk: Desk, backend: str) -> None:
    one, two = REACH.format(host="one.test"), REACH.format(host="two.test")
    desk.run(desk.task("demo", replay=[f"{one} || true", f"{two} || true"], check="true"), "--backend", backend)
    trace = desk.trace("demo")
    commands = [line["exec_id"] for line in events(trace, "tool_result")]
    hosts = {line["host"]: line["exec_id"] for line in events(trace, "egress_blocked")}
    assert hosts == {"one.test": commands[0], "two.test": commands[1]}
    for line in events(trace, "egress_blocked"):
        ended = next(one for one in events(trace, "tool_result") if one["exec_id"] == line["exec_id"])
        assert line["seq"] < ended["seq"] or line["host"] == "two.test"


def test_nothing_in_the_sandbox_holds_the_check_before_the_agent_stopped(desk: Desk, backend: str) -> None:
    secret = "the-secret-of-the-check"
    look = f"! grep -rsl {secret[:-1]}[k] /proc/*/cmdline /proc/*/environ . ~ /tmp /run 2>/dev/null"
    task = desk.task("demo", replay=[look], check=f": {secret}")
    done = desk.run(task, "--backend", backend)
    assert events(desk.trace("demo"), "tool_result")[0]["exit_code"] == 0, done.stdout


def test_no_key_reaches_the_sandbox_or_a_record(desk: Desk, backend: str) -> None:
    desk.variables |= {"ANTHROPIC_API_KEY": "canary-key", "QUICKSTARTED_OPENAI_API_KEY": "canary-key"}
    look = "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; true"
    done = desk.run(desk.task("demo", replay=[look]), "--backend", backend, "--verbose")
    assert done.returncode == 0, done.stdout
    assert "PATH=" in events(desk.trace("demo"), "tool_result")[0]["output"]
    for path in (desk.directory / "results").rglob("*"):
        assert path.is_dir() or b"canary-key" not in path.read_bytes(), path


def test_a_command_that_passes_its_limit_is_ended_with_all_that_it_started(
    desk: Desk, backend: str, marker: str
) -> None:
    command = f"trap '' TERM; (setsid sleep {marker} &) ; sleep {marker}"
    task = desk.task("demo", replay=[command], check="false", budgets={"max_command_seconds": 2})
    done = desk.run(task, "--backend", backend)
    assert done.returncode == 2, done.stdout
    (result,) = events(desk.trace("demo"), "tool_result")
    assert (result["exit_code"], result["cause"]) == (124, "timed_out")
    assert result["seconds"] < 4.5
    assert the_run(desk)["classification"] == "budget_exhausted"
    assert processes_with(marker) == []


def test_the_deadline_cuts_a_command_in_flight(desk: Desk, backend: str, marker: str) -> None:
    task = desk.task(
        "demo", replay=[f"sleep {marker}", "touch never"], check="test -e never", budgets={"max_seconds": 2}
    )
    assert desk.run(task, "--backend", backend).returncode == 2
    run = the_run(desk)
    assert (run["stop_reason"], run["classification"]) == ("max_seconds", "budget_exhausted")


def test_a_flood_of_output_keeps_its_head_and_tail(desk: Desk, backend: str) -> None:
    flood = "echo first; head -c 50000000 /dev/zero | tr '\\0' 'x'; echo; echo last"
    task = desk.task("demo", replay=[flood], budgets={"max_output_chars": 5000})
    assert desk.run(task, "--backend", backend).returncode == 0
    (result,) = events(desk.trace("demo"), "tool_result")
    assert result["output"].startswith("first\nxxx")
    assert result["output"].endswith("xxx\nlast\n")
    assert len(result["output"]) <= 5000
    assert result["output_chars"] == 50_000_012
    assert result["truncated"]


def test_bytes_that_are_no_text_are_replaced(desk: Desk, backend: str) -> None:
    desk.run(desk.task("demo", replay=["printf 'a\\377\\300z \\303\\251 \\0'"]), "--backend", backend)
    assert events(desk.trace("demo"), "tool_result")[0]["output"] == "a\ufffd\ufffdz é \x00"


def test_a_command_has_no_terminal_and_no_input(desk: Desk, backend: str) -> None:
    task = desk.task("demo", replay=["! test -t 0 && ! test -t 1 && ! read -r line"])
    assert desk.run(task, "--backend", backend).returncode == 0


def test_a_server_that_the_agent_left_running_answers_the_check(desk: Desk, backend: str) -> None:
    replay = ["python3 -m http.server 8123 >server.log 2>&1 &"]
    check = f"for i in $(seq 50); do {REACH.format(host='127.0.0.1:8123')} && exit; sleep 0.1; done; exit 1"
    done = desk.run(desk.task("demo", replay=replay, check=check), "--backend", backend)
    assert done.returncode == 0, done.stdout


def test_ten_tasks_at_a_time(desk: Desk, backend: str) -> None:
    tasks = [
        desk.task(f"task-{n}", replay=[f"echo {n} > mine; sleep 0.5"], check=f"grep -qx {n} mine") for n in range(10)
    ]
    done = desk.run(*tasks, "--backend", backend, "--workers", "10")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 tasks: 10 passed" in done.stdout
    assert [task["task"] for task in desk.results()["tasks"]] == [f"task-{n}" for n in range(10)]


def test_nothing_is_left_after_a_run(
    desk: Desk, backend: str, marker: str, containers: Callable[[str], list[str]]
) -> None:
    task = desk.task("demo", replay=[f"(setsid sleep {marker} >/dev/null 2>&1 &); touch here"])
    assert desk.run(task, "--backend", backend).returncode == 0
    assert processes_with(marker) == []
    assert containers(desk.results()["run_id"]) == []
    instances = desk.directory / "state" / "sandboxd" / "instances"
    assert not instances.exists() or list(instances.iterdir()) == []


def test_an_image_is_used_on_docker_and_named_as_ignored_elsewhere(desk: Desk, backend: str) -> None:
    done = desk.run(desk.task("demo", replay=["node --version"], image="node:22-slim"), "--backend", backend)
    if backend == "docker":
        assert done.returncode == 0, done.stdout
        assert "started on docker (node:22-slim)" in done.stderr
    else:
        assert "the image node:22-slim is ignored there" in done.stderr


def test_an_image_that_can_t_be_had_is_said_with_the_engines_reason(desk: Desk) -> None:
    task = desk.task("demo", replay=["true"], image="registry.test/no/such-image:1")
    done = desk.run(task, "--backend", "docker")
    assert done.returncode == 2
    run = the_run(desk)
    assert (run["classification"], run["stop_reason"]) == ("harness_error", "configuration")
    assert "registry.test/no/such-image:1" in done.stdout


def test_docker_without_an_engine_says_what_to_do(desk: Desk) -> None:
    task = desk.task("demo", replay=["true"])
    done = desk.run(task, "--backend", "docker", DOCKER_HOST=f"unix://{desk.directory}/no.sock")
    assert done.returncode == 2
    assert "docker" in done.stderr
    assert "DOCKER_HOST" in done.stderr
    assert "Traceback" not in done.stderr


def test_auto_is_docker_where_an_engine_answers_and_else_bubblewrap(desk: Desk) -> None:
    task = desk.task("demo", replay=["true"])
    assert "started on docker" in desk.run(task).stderr
    assert "started on bubblewrap" in desk.run(task, DOCKER_HOST=f"unix://{desk.directory}/no.sock").stderr


def test_a_backend_of_another_system_says_so(desk: Desk) -> None:
    done = desk.run(desk.task("demo", replay=["true"]), "--backend", "seatbelt")
    assert done.returncode == 2
    assert "seatbelt" in done.stderr


def test_local_with_consent_never_passes_for_enforced(desk: Desk) -> None:
    done = desk.run(desk.task("demo", replay=["true"]), "--backend", "local", "--allow-unenforced")
    assert done.returncode == 0, done.stderr
    assert "UNENFORCED" in done.stdout
    assert the_run(desk)["enforced"] is False
    assert the_run(desk)["attribution_gaps"]


@pytest.fixture
def daemon(desk: Desk) -> Iterator[str]:
    """A daemon that runs already."""
    path = Path(desk.variables["XDG_STATE_HOME"]).parent / "d.sock"
    short = Path("/tmp") / f"qs-e2e-{path.stat().st_ino if path.exists() else time.monotonic_ns()}.sock"
    process = subprocess.Popen(
        [sys.executable, "-m", "sandboxd", "serve", "--unix", short, "--exit-with-stdin"],
        env=desk.environment(),
        cwd=desk.directory,
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    while not short.exists():
        assert process.poll() is None
        time.sleep(0.02)
    yield f"unix:{short}"
    process.communicate()
    assert not short.exists()


def test_a_daemon_that_runs_already_is_used_and_stays(desk: Desk, daemon: str, backend: str) -> None:
    for _ in range(2):
        done = desk.run(desk.task("demo", replay=["true"]), "--backend", backend, "--sandboxd", daemon)
        assert done.returncode == 0, done.stderr
    assert desk.results()["environment"]["runner"] == daemon
    assert json.loads((desk.directory / "results/results.json").read_text())["environment"]["sandboxd"]
