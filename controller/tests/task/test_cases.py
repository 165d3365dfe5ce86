"""The handed cases: task files, and what has to be said of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from quickstarted.task.load import load_suite
from quickstarted.task.problems import Severity

CASES = yaml.safe_load(Path(__file__).with_name("cases.yaml").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "task.yaml"
    file.write_bytes(case["task"].encode())

    suite = load_suite([str(file)])

    found = {problem.severity for problem in suite.problems}
    assert (Severity.ERROR in found) is (case["expect"] == "error")
    assert len(suite.tasks) == (case["expect"] != "error")
    if case["expect"] == "warning":
        assert found == {Severity.WARNING}
    said = "\n".join(map(str, suite.problems))
    if "field" in case:
        assert case["field"] in [problem.field for problem in suite.problems], said
    for words in case.get("says", ()):
        assert words in said
    for problem in suite.errors:
        assert str(problem).startswith(f"{file}:{problem.line}:{problem.column} " if problem.field else f"{file}:")
        assert problem.line >= 1
        assert problem.column >= 1
