"""Names on a command line become files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from quickstarted.task.files import NothingFoundError, expand


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("b.yaml", "a.yml", ".hidden.yaml", "notes.txt", "c.YAML", "[x].yaml"):
        (tmp_path / "tasks").mkdir(exist_ok=True)
        (tmp_path / "tasks" / name).touch()
    (tmp_path / "tasks" / "deeper").mkdir()
    (tmp_path / "tasks" / "deeper" / "d.yaml").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "top.yaml").touch()
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    os.chdir("/")


EXPANDED = {
    "a file": (["top.yaml"], ["top.yaml"]),
    "a file by any name": (["tasks/notes.txt"], ["tasks/notes.txt"]),
    "a hidden file that is named": (["tasks/.hidden.yaml"], ["tasks/.hidden.yaml"]),
    "files in the order of their names": (["top.yaml", "tasks/b.yaml"], ["top.yaml", "tasks/b.yaml"]),
    "a directory in alphabetical order": (["tasks"], ["tasks/[x].yaml", "tasks/a.yml", "tasks/b.yaml"]),
    "a directory with a slash": (["tasks/deeper/"], ["tasks/deeper/d.yaml"]),
    "the current directory": (["."], ["top.yaml"]),
    "a glob": (["tasks/?.y*ml"], ["tasks/a.yml", "tasks/b.yaml"]),
    "a glob over all levels": (["tasks/**/d.yaml"], ["tasks/deeper/d.yaml"]),
    "a glob that finds a directory": (["tasks/dee*"], ["tasks/deeper/d.yaml"]),
    "a file whose name looks like a glob": (["tasks/[x].yaml"], ["tasks/[x].yaml"]),
    "each file once": (["tasks/b.yaml", "./tasks/b.yaml", "tasks/*.yaml"], ["tasks/b.yaml", "tasks/[x].yaml"]),
    "no name at all": ([], ["tasks/[x].yaml", "tasks/a.yml", "tasks/b.yaml"]),
}

NOTHING = {
    "no such file": ("x.yaml", "x.yaml: no such file or directory"),
    "no match": ("x*.yaml", "x*.yaml: no file matches"),
    "an empty directory": ("empty", "empty: no *.yaml or *.yml file in this directory, or none that may be listed"),
    "an empty name": ("", ": no such file or directory"),
    "a name with a NUL": ("a\0b", "a\0b: no such file or directory"),
    "a name that is too long": ("a" * 5_000, "a" * 5_000 + ": no such file or directory"),
}


@pytest.mark.parametrize(("paths", "files"), EXPANDED.values(), ids=EXPANDED)
def test_names_stand_for_files(paths: list[str], files: list[str]) -> None:
    assert list(expand(paths)) == files


def test_without_names_and_tasks_it_is_the_current_directory(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here / "tasks" / "deeper")
    assert expand([]) == ("d.yaml",)


@pytest.mark.parametrize(("path", "says"), NOTHING.values(), ids=NOTHING)
def test_a_name_that_stands_for_nothing_is_told(path: str, says: str) -> None:
    with pytest.raises(NothingFoundError) as error:
        expand(["top.yaml", path])
    assert error.value.args == (says,)


def test_all_such_names_are_told() -> None:
    with pytest.raises(NothingFoundError) as error:
        expand(["x", "top.yaml", "y"])
    assert error.value.args == ("x: no such file or directory", "y: no such file or directory")
