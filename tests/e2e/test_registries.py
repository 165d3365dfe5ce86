"""Real quickstarts against the real package registries: wheels, npm packages, Debian packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.desk import Desk

TASKS = Path(__file__).parents[2] / "tasks"

RUNS = [
    ("duckdb-quickstart", "docker"),
    ("duckdb-quickstart", "bubblewrap"),
    ("vite-quickstart", "docker"),
    ("ripgrep-apt-quickstart", "docker"),
]


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("task", "backend"), RUNS, ids=[f"{task} on {backend}" for task, backend in RUNS])
def test_a_quickstart_passes(desk: Desk, task: str, backend: str) -> None:
    done = desk.run(str(TASKS / f"{task}.yaml"), "--backend", backend, "--verbose", timeout=390)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = desk.results()["tasks"][0]["runs"]
    assert (run["classification"], run["enforced"]) == ("passed", True)
    reached = {line["host"] for line in desk.trace(task) if line["event"] == "egress_allowed"}
    assert reached
