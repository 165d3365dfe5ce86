"""`quickstarted validate` as a user types it: what it prints and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from quickstarted.cli.main import main
from quickstarted.task.defaults import registry_hosts

TASK = """\
name: {name}
goal: do it
docs:
  entrypoint: https://docs.test/start
  allow: [{allow}]
success:
  script: test -f x
replay:
  - touch x
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tasks").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, allow: str = "more.test", replace: tuple[str, str] = ("\0", "")) -> None:
    Path("tasks", f"{name}.yaml").write_text(TASK.format(name=name, allow=allow).replace(*replace))


def test_a_valid_task_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    write("one-quickstart")
    assert main(["validate", "tasks/one-quickstart.yaml"]) == 0
    assert capsys.readouterr() == ("ok       tasks/one-quickstart.yaml (one-quickstart, replay+agent)\n", "")


def test_a_warning_stands_below_its_task_and_is_wrapped_beside_its_label(capsys: pytest.CaptureFixture[str]) -> None:
    host = registry_hosts()[0]
    write("one", allow=host)
    assert main(["validate", "tasks"]) == 0
    assert capsys.readouterr().out == (
        "ok       tasks/one.yaml (one, replay+agent)\n"
        f"warning  {host} is declared a docs host, so the shell cannot reach it;\n"
        "         installs that need it will fail. Add it under network.allow if that\n"
        "         is intended.\n"
    )


def test_errors_name_their_place_and_no_file_stops_another(capsys: pytest.CaptureFixture[str]) -> None:
    write("one", replace=("do it", "7"))
    write("two", allow='"*.more.test", 7', replace=("replay:", "replays:"))
    write("zero")
    assert main(["validate"]) == 1
    assert capsys.readouterr().out == (
        "error    tasks/one.yaml:2:7 goal: found 7, a number; put it in quotes to make\n"
        "         it a string that tells what the agent has to achieve\n"
        "error    tasks/two.yaml:5:11 docs.allow[0]: found \"*.more.test\", which is a\n"
        "         pattern; give the bare hostname more.test: it matches its subdomains\n"
        "         already\n"
        "error    tasks/two.yaml:5:26 docs.allow[1]: found 7, a number; put it in\n"
        "         quotes to make it a hostname\n"
        "warning  tasks/two.yaml:8:1 replays: unknown key, which is ignored; did you\n"
        "         mean replay? Allowed: name, goal, docs, success, setup, replay,\n"
        "         network, budgets, image\n"
        "ok       tasks/zero.yaml (zero, replay+agent)\n"
    )  # fmt: skip


def test_two_tasks_of_one_name(capsys: pytest.CaptureFixture[str]) -> None:
    write("a")
    write("b")
    Path("tasks/b.yaml").write_text(Path("tasks/a.yaml").read_text())
    assert main(["validate"]) == 1
    assert capsys.readouterr().out == (
        "ok       tasks/a.yaml (a, replay+agent)\n"
        'error    tasks/b.yaml:1:7 name: found "a", the name of tasks/a.yaml:1:7 too;\n'
        "         results are stored by name, so give each task its own\n"
    )


def test_tasks_without_replay_are_counted_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    write("one", replace=("replay:", "setup:"))
    assert main(["validate"]) == 0
    assert capsys.readouterr().out == (
        "ok       tasks/one.yaml (one, agent-only)\n"
        "note     1 task has no replay commands, so only an agent can run it.\n"
    )  # fmt: skip
    write("two", replace=("replay:", "setup:"))
    assert main(["validate"]) == 0
    assert capsys.readouterr().out.endswith(
        "note     2 tasks have no replay commands, so only an agent can run them.\n"
    )


def test_nothing_to_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "x.yaml", "tasks", "*.yml"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "quickstarted validate: x.yaml: no such file or directory\n"
        "quickstarted validate: tasks: no *.yaml or *.yml file in this directory, or none that may be listed\n"
        "quickstarted validate: *.yml: no file matches\n"
    )


def test_what_cannot_be_read_is_an_error_without_a_place(capsys: pytest.CaptureFixture[str]) -> None:
    Path("tasks/a.yaml").mkdir()
    assert main(["validate"]) == 1
    assert capsys.readouterr().out == "error    tasks/a.yaml: is a directory\n"


def test_a_terminal_is_not_steered_by_what_a_file_is_called_or_holds(capsys: pytest.CaptureFixture[str]) -> None:
    Path("tasks/\x1b[2J\n.yaml").write_text("name: \u202ex\n")
    assert main(["validate"]) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert r'error    tasks/\x1b[2J\n.yaml:1:7 name: found "\u202ex"; give' in out


@pytest.mark.parametrize(
    ("terminal", "environment", "coloured"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {"TERM": "xterm"}, False),
    ],
    ids=["a terminal", "NO_COLOR empty", "NO_COLOR", "a dumb terminal", "a file"],
)
def test_colour_is_for_terminals_that_want_it(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    terminal: bool,
    environment: dict[str, str],
    coloured: bool,
) -> None:
    write("one")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    assert main(["validate"]) == 0
    label = "\x1b[32mok       \x1b[0m" if coloured else "ok       "
    assert capsys.readouterr().out == f"{label}tasks/one.yaml (one, replay+agent)\n"


def test_the_schema_for_editors_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["required"] == ["name", "goal", "docs", "success"]
