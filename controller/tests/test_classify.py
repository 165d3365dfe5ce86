"""The decision table: each rule, their order, and what must never matter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quickstarted.agents.base import StopReason
from quickstarted.classify import (
    REMEDIES,
    Classification,
    Incident,
    IncidentKind,
    Phase,
    RunExit,
    classify,
    exit_code,
    runs_check,
)
from quickstarted_api.v1 import sandbox_pb2 as pb

PASSED, GAP, BUDGET = Classification.PASSED, Classification.DOCS_GAP, Classification.BUDGET_EXHAUSTED
INFRA, HARNESS = Classification.INFRA_ERROR, Classification.HARNESS_ERROR
REFUSAL, SKIPPED = Classification.AGENT_REFUSAL, Classification.SKIPPED


def refused(phase: Phase = Phase.AGENT, reason: str = "not_allowlisted", **fields: str) -> Incident:
    return Incident(phase, IncidentKind.REFUSED, reason, **{"host": "cdn.test", "layer": "connect", **fields})


def error(phase: Phase = Phase.AGENT, reason: str = "connect_failure") -> Incident:
    return Incident(phase, IncidentKind.ERROR, reason, host="registry.test", layer="connect")


def limit(phase: Phase = Phase.AGENT, reason: str = "memory") -> Incident:
    return Incident(phase, IncidentKind.LIMIT, reason)


STOPS = [
    (StopReason.NOTHING_TO_RUN, None, SKIPPED),
    (StopReason.DONE, 1, GAP),
    (StopReason.COMMAND_FAILED, 1, GAP),
    (StopReason.MAX_TURNS, 1, BUDGET),
    (StopReason.MAX_SECONDS, 1, BUDGET),
    (StopReason.MAX_TOKENS, 1, BUDGET),
    (StopReason.MAX_COMMAND_SECONDS, 1, BUDGET),
    (StopReason.REFUSAL, 1, REFUSAL),
    (StopReason.SETUP_FAILED, None, HARNESS),
    (StopReason.MODEL_ERROR, 1, INFRA),
    (StopReason.MODEL_REJECTED, None, HARNESS),
    (StopReason.SANDBOX_ERROR, None, INFRA),
    (StopReason.CONFIGURATION, None, HARNESS),
    (StopReason.INTERRUPTED, None, INFRA),
    (StopReason.BUG, 1, HARNESS),
]


@pytest.mark.parametrize(("stop", "check", "expected"), STOPS, ids=[str(stop) for stop, *_ in STOPS])
def test_a_stop_without_incidents_has_its_class(stop: StopReason, check: int | None, expected: Classification) -> None:
    verdict = classify(stop, check)
    assert verdict.classification is expected
    assert verdict.why


def test_the_table_of_stops_names_every_stop() -> None:
    assert {stop for stop, *_ in STOPS} == set(StopReason)


NETWORK = [
    ("an upstream error in the agent's failed command", StopReason.DONE, [error()], INFRA),
    ("an upstream error in the failed check", StopReason.DONE, [error(Phase.CHECK)], INFRA),
    ("an upstream error in a replayed command", StopReason.COMMAND_FAILED, [error()], INFRA),
    ("an upstream error in setup that went on", StopReason.DONE, [error(Phase.SETUP)], GAP),
    ("an upstream error in the setup that failed", StopReason.SETUP_FAILED, [error(Phase.SETUP)], INFRA),
    ("a refused host in the setup that failed", StopReason.SETUP_FAILED, [refused(Phase.SETUP)], HARNESS),
    ("a refused host in the agent's failed command", StopReason.DONE, [refused()], HARNESS),
    ("a refused host in a replayed command", StopReason.COMMAND_FAILED, [refused()], HARNESS),
    ("a refused host in the check", StopReason.DONE, [refused(Phase.CHECK)], GAP),
    ("an error wins over a refusal", StopReason.DONE, [refused(), error()], INFRA),
    ("a budget wins over an error", StopReason.MAX_TURNS, [error(), refused()], BUDGET),
    ("the model's refusal wins over an error", StopReason.REFUSAL, [error(), refused()], REFUSAL),
    ("a docs host is a bypass attempt", StopReason.DONE, [refused(reason="docs_host_requires_read_docs")], GAP),
    ("an address is nobody's registry", StopReason.DONE, [refused(reason="ip_literal")], GAP),
    ("a lying TLS name is nobody's mistake", StopReason.DONE, [refused(reason="tls_name_mismatch")], GAP),
    ("a private address is the operator's", StopReason.DONE, [refused(reason="private_address")], HARNESS),
    ("a DNS question for a host", StopReason.DONE, [refused(layer="dns")], HARNESS),
    ("a DNS question for the own name", StopReason.DONE, [refused(layer="dns", host="6f2d31aa09c1")], GAP),
    ("a reverse look-up", StopReason.DONE, [refused(layer="dns", host="1.0.0.127.in-addr.arpa")], GAP),
    ("a multicast name", StopReason.DONE, [refused(layer="dns", host="printer.local")], GAP),
    ("a proxy request for a short name", StopReason.DONE, [refused(host="intranet")], HARNESS),
    ("the memory limit in the agent's command", StopReason.DONE, [limit()], HARNESS),
    ("the process limit in the agent's command", StopReason.DONE, [limit(reason="pids")], HARNESS),
    ("the disk limit in the agent's command", StopReason.DONE, [limit(reason="disk")], HARNESS),
    ("the time limit of one command", StopReason.DONE, [limit(reason="time")], GAP),
    ("the output limit of one command", StopReason.DONE, [limit(reason="output")], GAP),
    ("the memory limit in the check", StopReason.DONE, [limit(Phase.CHECK)], GAP),
]


@pytest.mark.parametrize(
    ("stop", "incidents", "expected"), [row[1:] for row in NETWORK], ids=[row[0] for row in NETWORK]
)
def test_incidents_during_failed_commands(
    stop: StopReason, incidents: list[Incident], expected: Classification
) -> None:
    check = 1 if runs_check(stop, turns=1) else None
    assert classify(stop, check, incidents).classification is expected


def test_a_refusal_names_the_host_and_the_remedy() -> None:
    why = classify(StopReason.COMMAND_FAILED, 1, [refused(host="binaries.test")]).why
    assert "binaries.test" in why
    assert "network.allow" in why


def test_an_upstream_error_names_the_host_and_the_reason() -> None:
    why = classify(StopReason.DONE, 1, [error()]).why
    assert "registry.test" in why
    assert "connect_failure" in why


def test_every_remedy_is_for_a_reason_of_the_contract() -> None:
    assert set(REMEDIES) <= set(REASONS)


REASONS = [value.name.lower() for value in pb.EgressReason.DESCRIPTOR.values]

incidents = st.lists(
    st.builds(
        Incident,
        phase=st.sampled_from(Phase),
        kind=st.sampled_from(IncidentKind),
        reason=st.sampled_from([*REASONS, "memory", "disk", "pids", "time"]),
        host=st.sampled_from(["", "cdn.test", "localhost", "a.b.test"]),
        layer=st.sampled_from(["", "dns", "connect", "transparent_tls"]),
    ),
    max_size=4,
)


@given(stop=st.sampled_from([stop for stop in StopReason if stop is not StopReason.NOTHING_TO_RUN]), happened=incidents)
def test_a_success_script_that_exits_0_is_a_pass_whatever_happened(stop: StopReason, happened: list[Incident]) -> None:
    assert classify(stop, 0, happened).classification is PASSED


@given(stop=st.sampled_from(StopReason), check=st.none() | st.integers(1, 255), happened=incidents, more=incidents)
def test_the_table_is_total_and_nothing_but_a_zero_passes(
    stop: StopReason, check: int | None, happened: list[Incident], more: list[Incident]
) -> None:
    verdict = classify(stop, check, happened + more)
    assert verdict.classification is not PASSED
    assert verdict.why
    assert classify(stop, check, happened + more) == verdict


@given(check=st.integers(1, 255), happened=incidents)
def test_incidents_turn_a_gap_into_an_error_and_into_nothing_else(check: int, happened: list[Incident]) -> None:
    assert classify(StopReason.DONE, check, happened).classification in (GAP, INFRA, HARNESS)


EXITS: list[tuple[str, list[list[Classification]], RunExit]] = [
    ("all passed", [[PASSED], [PASSED, PASSED]], RunExit.PASSED),
    ("a gap among passes", [[PASSED], [PASSED, GAP]], RunExit.DOCS_GAP),
    ("a gap among errors", [[INFRA], [GAP]], RunExit.DOCS_GAP),
    ("an error alone", [[INFRA]], RunExit.NO_EVIDENCE),
    ("an error of one task", [[PASSED], [HARNESS]], RunExit.NO_EVIDENCE),
    ("an error beside a pass of the same task", [[PASSED, INFRA]], RunExit.PASSED),
    ("budget exhausted", [[BUDGET]], RunExit.NO_EVIDENCE),
    ("a refusal", [[REFUSAL]], RunExit.NO_EVIDENCE),
    ("skipped beside a pass", [[SKIPPED], [PASSED]], RunExit.PASSED),
    ("skipped beside a gap", [[SKIPPED], [GAP]], RunExit.DOCS_GAP),
    ("all skipped", [[SKIPPED], [SKIPPED]], RunExit.NO_EVIDENCE),
    ("nothing at all", [], RunExit.NO_EVIDENCE),
]


@pytest.mark.parametrize(("tasks", "expected"), [row[1:] for row in EXITS], ids=[row[0] for row in EXITS])
def test_exit_code(tasks: list[list[Classification]], expected: RunExit) -> None:
    assert exit_code(tasks) is expected


def test_only_passes_and_gaps_are_evidence() -> None:
    assert {one for one in Classification if one.evidential} == {PASSED, GAP}


@pytest.mark.parametrize("turns", [0, 3])
def test_a_rejected_model_is_checked_only_after_it_did_something(turns: int) -> None:
    assert runs_check(StopReason.MODEL_REJECTED, turns) is (turns > 0)
