"""Warnings: given when they are right, silent when there is a reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
from quickstarted.task.defaults import registry_hosts
from quickstarted.task.lint import NODE_TOOLS, warnings
from quickstarted.task.model import Docs, Network, Success, Task
from quickstarted_api.hosts import parse_host

TASK = Task(name="t", goal="do it", docs=Docs(("https://docs.test/",)), success=Success("test -f x"), replay=("x",))
REGISTRY = registry_hosts()[0]
FILES = registry_hosts()[1]


def said(task: Task) -> list[str]:
    return [warning.message for warning in warnings(task)]


def with_script(script: str, **fields: object) -> Task:
    return replace(TASK, success=Success(script), **fields)  # type: ignore[arg-type]  # fields of a task


def test_a_plain_task_gets_no_warning() -> None:
    assert said(TASK) == []


def test_the_default_list_is_canonical_and_complete() -> None:
    assert len(registry_hosts()) == len(set(registry_hosts())) == 14
    assert [parse_host(host) for host in registry_hosts()] == list(registry_hosts())


def test_a_registry_that_is_a_docs_host_is_lost_to_the_shell() -> None:
    (warning,) = said(replace(TASK, docs=Docs(TASK.docs.path, (REGISTRY,))))
    assert warning == (
        f"{REGISTRY} is declared a docs host, so the shell cannot reach it; installs that need it will fail. "
        "Add it under network.allow if that is intended."
    )


def test_the_entrypoint_makes_a_docs_host_too() -> None:
    (warning,) = said(replace(TASK, docs=Docs((f"https://{REGISTRY}/project/x/",))))
    assert warning.startswith(f"{REGISTRY} is declared a docs host")


def test_a_docs_host_above_a_registry_takes_it_away() -> None:
    parent = FILES.partition(".")[2]
    (warning,) = said(replace(TASK, docs=Docs(TASK.docs.path, (parent,))))
    assert warning.startswith(f"{parent} is declared a docs host, so the shell cannot reach {FILES}; installs")


def test_a_docs_host_below_a_registry_takes_nothing_away() -> None:
    assert said(replace(TASK, docs=Docs(TASK.docs.path, (f"docs.{REGISTRY}",)))) == []


@pytest.mark.parametrize(
    "network", [Network(only=("a.test",)), Network(only=()), Network(allow=(REGISTRY,)), Network(only=(REGISTRY,))]
)
def test_no_registry_is_lost_when_the_task_names_its_own(network: Network) -> None:
    task = replace(TASK, docs=Docs(TASK.docs.path, (REGISTRY,)), network=network)
    assert not [warning for warning in said(task) if "installs" in warning]


@pytest.mark.parametrize(
    ("entry", "opens"),
    [
        ("docs.test", "opens the docs host docs.test to the shell"),
        ("test", "opens the docs host docs.test to the shell"),
        ("cdn.docs.test", "opens a part of the docs host docs.test to the shell"),
        ("other.test", ""),
    ],
)
@pytest.mark.parametrize("field", ["allow", "only"])
def test_a_docs_host_in_the_network_leaves_a_gap(entry: str, opens: str, field: str) -> None:
    task = replace(TASK, network=Network(**{field: (entry,)}))
    gaps = [warning for warning in said(task) if "attribution" in warning]
    assert len(gaps) == bool(opens)
    assert all(gap.startswith(f"{entry} under network {opens}") for gap in gaps)


@pytest.mark.parametrize("tool", NODE_TOOLS)
def test_a_check_with_node_needs_an_image(tool: str) -> None:
    task = with_script(f"cd app\n{tool} x")
    (warning,) = said(task)
    assert warning.startswith(f"the success script calls {tool}, but no image is set")
    assert said(replace(task, image="node:22-slim")) == []


def test_tools_are_named_together() -> None:
    (warning,) = said(with_script("npm ci && npx x; node y"))
    assert warning.startswith("the success script calls npm, npx and node, but")


@pytest.mark.parametrize("script", ["test -d node_modules", "grep -q npm log", "echo 'npm test'", "# npm test"])
def test_a_check_that_mentions_node_needs_no_image(script: str) -> None:
    assert said(with_script(script)) == []


@pytest.mark.parametrize(
    ("script", "directory"),
    [
        (".venv/bin/python x.py", ".venv"),
        ("cd x\nsaid=$(.venv/bin/python x.py)", ".venv"),
        ('"$PWD/.venv/bin/python" x.py', ".venv"),
        ("./venv/bin/pytest", "venv"),
        ("env/bin/pytest", "env"),
        ("PATH=my-venv/bin/:$PATH x", "my-venv"),
    ],
)
def test_somebody_has_to_make_the_interpreter_that_a_check_uses(script: str, directory: str) -> None:
    (warning,) = said(with_script(script))
    assert f"uses {directory}/bin, but neither setup nor replay creates {directory}" in warning
    assert said(with_script(script, setup=(f"python3 -m venv {directory}",))) == []
    assert said(with_script(script, replay=("x", f"virtualenv ./{directory}"))) == []
    assert said(with_script(script, goal=f"Install it into a virtual environment {directory}.")) == []


@pytest.mark.parametrize(
    "task",
    [
        with_script(".venv/bin/x", setup=("uv venv",)),
        with_script(".venv/bin/x", replay=("poetry install",)),
        with_script("python3 -m venv .venv && .venv/bin/x"),
        with_script("if [ -x .venv/bin/x ]; then .venv/bin/x; else x; fi"),
        with_script("#!/usr/bin/env bash\n/usr/bin/env x; ~/.venv/bin/x; $HOME/venv/bin/y; ../.venv/bin/z"),
        with_script("node_modules/.bin/x; bin/x; target/bin/x"),
    ],
    ids=lambda task: task.success.script,
)
def test_no_alarm_about_an_interpreter_that_somebody_makes(task: Task) -> None:
    assert said(task) == []


def test_another_environment_does_not_count() -> None:
    (warning,) = said(with_script("venv/bin/x", setup=("python3 -m venv .venv",)))
    assert "neither setup nor replay creates venv" in warning


@pytest.mark.parametrize("field", ["network.allow", "network.only", "docs.allow"])
def test_an_entry_of_one_label_is_wider_than_it_looks(field: str) -> None:
    room, _, key = field.partition(".")
    fields = {room: Network(**{key: ("com",)}) if room == "network" else Docs(TASK.docs.path, ("com",))}
    assert f"com under {field} matches every name that ends in .com. List the hosts that are needed." in said(
        replace(TASK, **fields)  # type: ignore[arg-type]  # a room of a task
    )


def test_localhost_is_no_domain() -> None:
    assert said(replace(TASK, docs=Docs(("http://localhost:8000/",), ("localhost",)))) == []
