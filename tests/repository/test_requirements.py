"""The locks, the lists that they are made from, and the three distributions agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MEMBERS = ("proto", "controller", "sandboxd")
OUR_OWN = {"quickstarted-api", "quickstarted", "sandboxd"}
BUILDS_THEM = {"hatchling", "editables"}


def requirements(name: str) -> set[str]:
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    return {line.replace('"', "'").strip() for line in lines if line.strip() and not line.startswith(("#", "-r"))}


def pins(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", (ROOT / "requirements" / name).read_text(), re.M))


def test_the_lists_are_what_the_distributions_declare() -> None:
    declared: set[str] = set()
    optional: set[str] = set()
    for member in MEMBERS:
        project = tomllib.loads((ROOT / member / "pyproject.toml").read_text())["project"]
        extras = dict(project.get("optional-dependencies", {}))
        declared |= {*project["dependencies"], *extras.pop("embedded", [])}
        optional |= {requirement for each in extras.values() for requirement in each}
    assert requirements("run.in") - BUILDS_THEM == declared - OUR_OWN
    assert optional <= requirements("dev.in"), "what is optional for users is there for the tests"


def test_what_is_tested_is_what_runs() -> None:
    tested = pins("dev.txt")
    assert {name: tested.get(name) for name in pins("run.txt")} == pins("run.txt")


@pytest.mark.parametrize("name", ["run.txt", "dev.txt"])
def test_a_lock_has_a_hash_for_everything_and_an_address_for_nothing(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text()
    entries = re.split(r"\n(?=[a-z0-9])", text)
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert re.findall(r"://|--(?:extra-)?index|--find-links", text) == []
