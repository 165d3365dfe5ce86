"""Results on disk: whole files, documented fields, rates with what they rest on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
import quickstarted.results
from hypothesis import given
from hypothesis import strategies as st
from quickstarted.agents.base import StopReason, Tokens
from quickstarted.classify import Classification
from quickstarted.results import junit, record, reference
from quickstarted.results.model import AttemptResult, Check, HostCount, RunResult, TaskResult, wilson
from quickstarted.trace import RecordsError

from tests.support.fake_sandbox import FACTS

SCHEMA = json.loads((Path(quickstarted.results.__file__).parent / "results.schema.json").read_text())


def attempt(number: int = 1, classification: Classification = Classification.PASSED, **fields: object) -> AttemptResult:
    base = AttemptResult(
        task="demo",
        attempt=number,
        agent="replay",
        classification=classification,
        why="because",
        stop=StopReason.DONE,
        stop_detail="",
        started="2026-01-01T00:00:00Z",
        seconds=1.5,
        facts=FACTS,
        check=Check(0, "exited", "", 0.1),
        trace="demo/attempt-1/trace.jsonl",
    )
    return replace(base, **fields)  # type: ignore[arg-type]  # a test's shorthand


def run_of(*attempts: AttemptResult, interrupted: bool = False) -> RunResult:
    tasks = (TaskResult("demo", "demo.yaml", attempts),) if attempts else ()
    return RunResult(
        "run", "replay", 1, "auto", "embedded", "0.1.0", 1, "2026-01-01T00:00:00Z", 3.0, interrupted, tasks
    )


GAP = attempt(
    2,
    Classification.DOCS_GAP,
    docs_pages=("https://docs.test/a", "https://docs.test/b"),
    check=Check(1, "exited", "no \ud800 output", 0.1),
    refused=(HostCount("a.test", "not_allowlisted", 2, True),),
    tokens=Tokens(1, 2, 3, 4),
    model="model-1",
)
SKIPPED = attempt(3, Classification.SKIPPED, facts=None, check=None, stop=StopReason.NOTHING_TO_RUN)


@pytest.mark.parametrize(
    "result",
    [run_of(), run_of(attempt()), run_of(attempt(), GAP, SKIPPED), run_of(SKIPPED, interrupted=True)],
    ids=["nothing finished", "a pass", "one of each", "interrupted"],
)
def test_results_follow_the_schema_and_hold_no_field_that_is_not_in_it(result: RunResult, tmp_path: Path) -> None:
    data = json.loads(record.write(result, tmp_path).read_text())
    strict = json.loads(json.dumps(SCHEMA), object_hook=_closed)
    jsonschema.Draft202012Validator(strict).validate(data)


def _closed(node: dict[str, object]) -> dict[str, object]:
    """The schema as this version writes it: objects with a list of properties have no others."""
    if "properties" in node and node.get("type") == "object":
        return {**node, "additionalProperties": False}
    return node


def test_a_rate_rests_on_evidence_alone(tmp_path: Path) -> None:
    budget = attempt(4, Classification.BUDGET_EXHAUSTED)
    data = json.loads(record.write(run_of(attempt(), GAP, SKIPPED, budget), tmp_path).read_text())
    (task,) = data["tasks"]
    assert (task["attempts"], task["passes"], task["evidential_runs"], task["pass_rate"]) == (4, 1, 2, 0.5)
    assert task["discarded"] == {"skipped": 1, "budget_exhausted": 1}
    assert task["skipped"] == 1
    assert task["suspect_pages"] == {"https://docs.test/b": 1}
    assert data["totals"]["tokens"] == {"input": 1, "output": 2, "cache_write": 3, "cache_read": 4}


def test_without_evidence_there_is_no_rate(tmp_path: Path) -> None:
    (task,) = json.loads(record.write(run_of(SKIPPED), tmp_path).read_text())["tasks"]
    assert (task["pass_rate"], task["interval"]) == (None, None)


def test_a_file_is_replaced_whole_and_leaves_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.json"
    record.replace(path, "old")
    record.replace(path, "new")
    assert path.read_text() == "new"
    assert [one.name for one in path.parent.iterdir()] == ["results.json"]


def test_a_file_that_can_t_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.mkdir()
    with pytest.raises(RecordsError, match="can't write"):
        record.replace(path, "new")
    assert [one.name for one in tmp_path.iterdir()] == ["results.json"]


# Reference values: Wilson (1927) as computed by R's prop.test(x, n, correct = FALSE).
WILSON = [
    (0, 1, 0.0, 0.7935),
    (1, 1, 0.2065, 1.0),
    (5, 10, 0.2366, 0.7634),
    (9, 10, 0.5958, 0.9821),
    (0, 0, None, None),
]


@pytest.mark.parametrize(("passes", "of", "low", "high"), WILSON, ids=[f"{row[0]} of {row[1]}" for row in WILSON])
def test_the_interval_is_wilsons(passes: int, of: int, low: float | None, high: float | None) -> None:
    interval = wilson(passes, of)
    if low is None:
        assert interval is None
    else:
        assert interval == pytest.approx((low, high), abs=5e-5)


@given(of=st.integers(1, 10_000), share=st.floats(0, 1))
def test_the_interval_holds_the_rate_and_stays_within_bounds(of: int, share: float) -> None:
    passes = round(of * share)
    interval = wilson(passes, of)
    assert interval is not None
    assert 0 <= interval[0] <= passes / of + 1e-12
    assert passes / of - 1e-12 <= interval[1] <= 1


def test_junit_counts_a_gap_as_a_failure_and_no_evidence_as_an_error() -> None:
    infra = attempt(4, Classification.INFRA_ERROR, why="down \x1b[31m & out")
    root = ElementTree.fromstring(junit.to_xml(run_of(attempt(), GAP, SKIPPED, infra)))
    (suite,) = root
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4", "failures": "1", "errors": "1", "skipped": "1",
    }  # fmt: skip
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("type") == "docs_gap"
    assert "no \ufffd output" in (failure.text or "")


@given(st.text())
def test_junit_is_well_formed_whatever_was_printed(text: str) -> None:
    ElementTree.fromstring(
        junit.to_xml(run_of(attempt(1, Classification.DOCS_GAP, check=Check(1, "exited", text, 0.1), why=text)))
    )


@pytest.mark.parametrize("name", sorted(reference.PAGES))
def test_the_reference_page_is_what_the_schema_says(name: str) -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / name
    assert page.read_text() == reference.PAGES[name](), "run: python -m quickstarted.results.reference docs/reference"
