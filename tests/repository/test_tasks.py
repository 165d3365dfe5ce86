"""The tasks that come with the product are valid, and their checks are shell that can be read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from quickstarted.task.load import load_suite, load_task

ROOT = Path(__file__).parents[2]
TASKS = sorted((ROOT / "tasks").glob("*.yaml"))

# Its browsers come from a host beneath its documentation's; the task says so.
OPENS_DOCS = {"playwright-quickstart.yaml"}


def test_the_suite_has_no_error_and_only_known_warnings() -> None:
    suite = load_suite([str(ROOT / "tasks")])
    assert not suite.errors
    assert {Path(problem.file).name for problem in suite.problems} == OPENS_DOCS
    assert len(suite.tasks) == len(TASKS) == 30


@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
def test_every_check_is_clean_shell_and_says_why_it_fails(path: Path) -> None:
    script = load_task(str(path)).success.script
    told = subprocess.run(
        ["shellcheck", "--shell=sh", "--severity=warning", "-"], input=script, capture_output=True, text=True
    )
    assert told.returncode == 0, told.stdout
    assert script.startswith("set -eu\nfail() { echo")


def test_the_readme_names_every_task() -> None:
    readme = (ROOT / "tasks" / "README.md").read_text()
    assert [path.name for path in TASKS if f"({path.name})" not in readme] == []
