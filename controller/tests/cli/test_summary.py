"""What a run found, as people read it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from quickstarted.agents.base import StopReason, Tokens
from quickstarted.classify import Classification
from quickstarted.cli.summary import Summary, label_of
from quickstarted.results.model import AttemptResult, Check, HostCount, RunResult, TaskResult

from tests.support.fake_sandbox import FACTS

DIGEST = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
PASS = AttemptResult(
    task="duckdb-quickstart",
    attempt=1,
    agent="replay",
    classification=Classification.PASSED,
    why="the success script exited 0",
    stop=StopReason.DONE,
    stop_detail="",
    started="2026-01-01T00:00:00Z",
    seconds=24.4,
    turns=2,
    facts=replace(FACTS, image_digest=DIGEST),
    check=Check(0, "exited", "", 0.1),
    docs_pages=("https://docs.test/a", "https://docs.test/b"),
    trace="duckdb-quickstart/attempt-1/trace.jsonl",
)
GAP = replace(
    PASS,
    classification=Classification.DOCS_GAP,
    why="the agent finished, and the success script failed",
    check=Check(1, "exited", "no table", 0.1),
)


def render(*attempts: AttemptResult, brief: bool = False, interrupted: bool = False) -> str:
    tasks = (TaskResult(attempts[0].task, "t.yaml", attempts),) if attempts else ()
    run = RunResult("run", "replay", 1, "auto", "embedded", "0", 1, "2026-01-01T00:00:00Z", 1.0, interrupted, tasks)
    return Summary(lambda _, text: text, Path("results"), brief).render(run)


def test_a_pass_is_short() -> None:
    assert render(PASS) == (
        "[PASS] duckdb-quickstart (replay)\n"
        "  classification: passed\n"
        "  turns: 2, duration: 24.4s\n"
        "  backend: docker (python:3.12-slim, sha256:9f86d081884c)\n"
        "  docs pages read: 2\n"
        "\n"
        "1 task: 1 passed\n"
        "results: results/results.json\n"
    )


LINES: list[tuple[str, AttemptResult, str]] = [
    ("a gap names the last page", GAP, "  docs pages read: 2, the last: https://docs.test/b\n"),
    ("a gap shows the check", GAP, "  success check exit code: 1\n    | no table\n"),
    ("a gap says why", GAP, "  classification: docs_gap: the agent finished, and the success script failed\n"),
    ("a gap names its trace", GAP, "  trace: results/duckdb-quickstart/attempt-1/trace.jsonl\n"),
    (
        "a check that printed nothing",
        replace(GAP, check=Check(1, "exited", " \n", 0.1)),
        "    it printed nothing; a check should say what it saw when it fails\n",
    ),
    (
        "a check that was stopped",
        replace(GAP, check=Check(124, "timed_out", "", 300.0)),
        "  success check exit code: 124 (timed out)\n",
    ),
    (
        "a long check keeps its end",
        replace(GAP, check=Check(1, "exited", "\n".join(map(str, range(100))), 0.1)),
        "    | [... 80 lines more in the trace ...]\n    | 80\n",
    ),
    (
        "hosts that may have mattered come first",
        replace(
            GAP, refused=(HostCount("t.test", "not_allowlisted", 9), HostCount("c.test", "not_allowlisted", 1, True))
        ),
        "  refused to the shell: c.test (not_allowlisted, in a command that failed), t.test (not_allowlisted)\n",
    ),
    (
        "many hosts are cut",
        replace(GAP, refused=tuple(HostCount(f"h{i}.test", "not_allowlisted", 1) for i in range(20))),
        " and 12 more\n",
    ),
    (
        "upstream errors",
        replace(GAP, upstream_errors=(HostCount("r.test", "connect_failure", 1),)),
        "  failed upstream: r.test (connect_failure)\n",
    ),
    ("docs attempts", replace(GAP, docs_bypass_attempts=3), "  docs attempts from the shell: 3\n"),
    (
        "gaps of attribution, of a pass too",
        replace(PASS, attribution_gaps=("x is open",)),
        "  attribution gap: x is open\n",
    ),
    ("a mapped host", replace(PASS, docs_map={"docs.test": "/srv/html"}), "    docs.test was served from /srv/html\n"),
    (
        "an unenforced backend",
        replace(PASS, facts=replace(FACTS, backend="local", image="", image_digest="", enforced=False)),
        "  backend: local UNENFORCED\n",
    ),
    (
        "a model with its tokens",
        replace(PASS, model="model-1", tokens=Tokens(1000, 200, 30, 4)),
        "  model: model-1, tokens: 1,234 (input 1,000, output 200, cache write 30, cache read 4)\n",
    ),
    (
        "a budget",
        replace(GAP, classification=Classification.BUDGET_EXHAUSTED, stop=StopReason.MAX_TURNS, stop_detail="20 turns"),
        "  stopped: max_turns (20 turns)\n",
    ),
]


@pytest.mark.parametrize(("attempt", "line"), [row[1:] for row in LINES], ids=[row[0] for row in LINES])
def test_a_line_of_the_summary(attempt: AttemptResult, line: str) -> None:
    assert line in render(attempt)


def test_a_strangers_text_can_t_speak_to_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202ea\r"
    text = render(
        replace(
            GAP,
            why=evil,
            stop=StopReason.BUG,
            stop_detail=evil,
            failed_command=evil,
            docs_pages=(evil,),
            check=Check(1, "exited", evil, 0.1),
            refused=(HostCount(evil, "not_allowlisted", 1),),
            attribution_gaps=(evil,),
            image_ignored=evil,
            model=evil,
            tokens=Tokens(1),
            facts=replace(FACTS, image=evil),
        )
    )
    assert not set(text) & set("\x1b\x07\u202e\r")


def test_repeats_show_the_rate_and_what_did_not_pass() -> None:
    text = render(PASS, replace(GAP, attempt=2), replace(PASS, attempt=3))
    assert text.startswith("[GAP] duckdb-quickstart (replay): 2 of 3 passed (95% interval 0.21 to 0.94)\n")
    assert "  attempt 1: passed, 24.4s\n  attempt 2: docs_gap, 24.4s\n    classification: docs_gap" in text
    assert text.count("backend: docker") == 1


def test_repeats_without_evidence_have_no_rate() -> None:
    infra = replace(GAP, classification=Classification.INFRA_ERROR)
    assert "[INCONCLUSIVE] duckdb-quickstart (replay): no evidence in 2 attempts\n" in render(infra, infra)


def test_brief_shows_details_of_what_did_not_pass_alone() -> None:
    assert render(PASS, brief=True).splitlines()[:2] == ["[PASS] duckdb-quickstart (replay)", "1 task: 1 passed"]
    assert "no table" in render(GAP, brief=True)


def test_nothing_finished() -> None:
    assert render(interrupted=True).startswith("0 tasks before it was interrupted: nothing finished\n")


LABELS = [
    ([Classification.PASSED], "PASS"),
    ([Classification.PASSED, Classification.INFRA_ERROR], "PASS"),
    ([Classification.PASSED, Classification.DOCS_GAP], "GAP"),
    ([Classification.BUDGET_EXHAUSTED], "INCONCLUSIVE"),
    ([Classification.SKIPPED, Classification.SKIPPED], "SKIP"),
    ([Classification.SKIPPED, Classification.HARNESS_ERROR], "INCONCLUSIVE"),
]


@pytest.mark.parametrize(("found", "label"), LABELS, ids=[" and ".join(row[0]) for row in LABELS])
def test_labels(found: list[Classification], label: str) -> None:
    assert label_of(TaskResult("t", "t.yaml", tuple(replace(PASS, classification=one) for one in found))) == label
