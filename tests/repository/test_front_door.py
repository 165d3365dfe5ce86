"""make passes on what it is given, and tells how a command ended."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def make(bin_directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # -o: the stamp counts as fresh, so nothing is installed.
    return subprocess.run(
        ["make", "-o", ".venv/run.stamp", f"BIN={bin_directory}", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=30,
    )


@pytest.fixture
def echo(tmp_path: Path) -> Path:
    """A directory of commands that print their arguments, one a line, and end with 3."""
    for name in ("quickstarted", "sandboxd"):
        command = tmp_path / name
        command.write_text("#!/bin/sh\nprintf '<%s>\\n' \"$@\"\nexit 3\n")
        command.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["run", "TASKS=tasks/a.yaml"], ["run", "tasks/a.yaml"], id="a file"),
        pytest.param(["run", "TASKS=tasks/*.yaml t?"], ["run", "tasks/*.yaml", "t?"], id="globs reach the command"),
        pytest.param(["run", "TASKS=$(shell id) $HOME"], ["run", "$(shell", "id)", "$HOME"], id="nothing is expanded"),
        pytest.param(["run", "TASKS=a; touch b `id`"], ["run", "a;", "touch", "b", "`id`"], id="no shell reads it"),
        pytest.param(
            ["run", "TASKS=a", "AGENT=replay", "BACKEND=docker", "SANDBOXD=unix:/s d", "ARGS=--repeat 3"],
            ["run", "--agent", "replay", "--backend", "docker", "--sandboxd", "unix:/s d", "a", "--repeat", "3"],
            id="every variable of run",
        ),
        pytest.param(
            ["run", "TASKS=a", "ARGS=--agent-command 'codex exec' --repeat 2 *"],
            ["run", "a", "--agent-command", "codex exec", "--repeat", "2", "*"],
            id="quoted arguments",
        ),
        pytest.param(["validate", "TASKS=x", "ARGS=-q"], ["validate", "x", "-q"], id="validate"),
        pytest.param(["sandboxd", "ARGS=--unix /s"], ["serve", "--unix", "/s"], id="the daemon"),
    ],
)
def test_arguments_reach_the_command_as_they_were_given(echo: Path, arguments: list[str], expected: list[str]) -> None:
    result = make(echo, *arguments)
    assert re.findall("<(.*)>", result.stdout) == expected


def test_the_exit_code_of_the_command_is_printed_and_make_fails(echo: Path) -> None:
    result = make(echo, "run", "TASKS=a")
    assert "exit code of quickstarted: 3" in result.stderr
    assert result.returncode == 2


def test_help_has_a_line_for_every_target_that_a_person_calls(echo: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^\.PHONY: (\S+)$", makefile, re.M)) - {"proto-check"}
    listed = dict(re.findall(r"^  (\S+) +(\S.*)$", make(echo, "help").stdout, re.M))
    assert set(listed) - {"make"} == targets
