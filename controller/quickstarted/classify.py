"""The decision table: what one attempt says about the documentation.

Everything that affects a classification is in this file, and nothing here does I/O. The inputs are why the agent
stopped, the exit code of the success script, and what happened on the network, or at a limit of the sandbox, *during
commands that failed*. What happened during a command that succeeded never counts: refused telemetry is not a reason.

The first rule that matches decides.

| # | when | classification |
|---|---|---|
| 1 | there was nothing to run (the check is not run either) | skipped |
| 2 | the success script exited 0, whatever stopped the agent | passed |
| 3 | the sandbox was lost, the model's API failed for good, or the attempt was stopped from outside | infra_error |
| 4 | setup failed, and an upstream failed during the setup command that failed | infra_error |
| 5 | setup failed otherwise | harness_error |
| 6 | the daemon refused what was asked, the key or model was rejected, or the harness has a bug | harness_error |
| 7 | turns, time or tokens ran out, or a documented command passed its time limit | budget_exhausted |
| 8 | the model declined | agent_refusal |
| 9 | an upstream failed during a command that failed: the agent's, or the success script | infra_error |
| 10 | a host that configuration could allow was refused during an agent's command that failed | harness_error |
| 11 | a limit of the sandbox was reached during an agent's command that failed | harness_error |
| 12 | otherwise: the agent did what it could and the check failed | docs_gap |

What rule 10 does not count, because no change of the task could be the answer: a documentation host (the agent's way
round `read_docs`, counted on its own), IP addresses, malformed requests and lying TLS names, and DNS questions for
names that no allowlist can hold (a machine's own name, reverse look-ups, multicast names). Refusals during the success
script do not count either: the check must not need what a reader does not have. A replay stops at its first command
that fails; a check that fails after that is a gap, since the documented commands do not work, unless 9 to 11 apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from quickstarted.agents.base import StopReason


class Classification(StrEnum):
    """What an attempt says about the documentation. The names are those of results.json."""

    PASSED = "passed"
    DOCS_GAP = "docs_gap"
    BUDGET_EXHAUSTED = "budget_exhausted"
    INFRA_ERROR = "infra_error"
    HARNESS_ERROR = "harness_error"
    AGENT_REFUSAL = "agent_refusal"
    SKIPPED = "skipped"

    @property
    def evidential(self) -> bool:
        """Whether it counts in a pass rate: only what is evidence for or against the documentation."""
        return self in (Classification.PASSED, Classification.DOCS_GAP)


class Phase(StrEnum):
    """Whose command it was."""

    SETUP = "setup"
    AGENT = "agent"
    CHECK = "check"


class IncidentKind(StrEnum):
    REFUSED = "refused"  # the gateway refused a connection or a name
    ERROR = "error"  # allowed, but the upstream failed
    LIMIT = "limit"  # a limit of the sandbox was reached


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that happened during a command that failed.

    `reason` is a name of the wire's `EgressReason`, or of `LimitReached.Kind`, in lower case; `layer` one of
    `EgressLayer` in lower case, empty for limits.
    """

    phase: Phase
    kind: IncidentKind
    reason: str
    host: str = ""
    layer: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A classification, and in one sentence why; for harness errors also what to do about it."""

    classification: Classification
    why: str


# Refusals that a change of the task, or by the runner's operator, can lift; and what that change is.
REMEDIES = {
    "not_allowlisted": "add {host} under network.allow if the quickstart needs it",
    "private_address": "{host} has a private address; the runner's operator can allow it with --allow-private",
    "port_not_allowed": "the shell reaches ports 80 and 443 only; the quickstart needs another port of {host}",
    "method_not_allowed": "the runner inspects requests and allows reading only; its operator can change that",
    "upgrade_not_allowed": "the gateway does not switch protocols; the quickstart needs that of {host}",
    "too_many_connections": "the sandbox reached its limit of connections; the runner's operator can raise it",
    "too_many_names": "the sandbox reached its limit of names; the runner's operator can raise it",
    "rate_limited": "the sandbox reached its rate limit; the runner's operator can raise it",
}

_INFRA_STOPS = {
    StopReason.SANDBOX_ERROR: "the sandbox could not be made or was lost",
    StopReason.MODEL_ERROR: "the model's API failed for good",
    StopReason.INTERRUPTED: "the attempt was stopped before its end",
}
_HARNESS_STOPS = {
    StopReason.CONFIGURATION: "the sandbox daemon refused what was asked",
    StopReason.MODEL_REJECTED: "the model's API rejected the key, the model or the request",
    StopReason.BUG: "an unexpected error of the harness",
}
_BUDGET_STOPS = {
    StopReason.MAX_TURNS: "the turns ran out",
    StopReason.MAX_SECONDS: "the time ran out",
    StopReason.MAX_TOKENS: "the tokens ran out",
    StopReason.MAX_COMMAND_SECONDS: "a documented command passed its time limit",
}


def classify(stop: StopReason, check: int | None, incidents: Iterable[Incident] = ()) -> Verdict:
    """Apply the table. `check` is the success script's exit code, None when it was not run."""
    evidence = _Evidence(stop, check, tuple(incidents))
    for matches, classification in _RULES:
        why = matches(evidence)
        if why is not None:
            return Verdict(classification, why)
    raise AssertionError("the last rule matches everything")


def runs_check(stop: StopReason, turns: int) -> bool:
    """Whether the success script is run after such a stop.

    It is not run where its answer would say nothing: nothing was done, or there is no sandbox left to ask.
    """
    if stop is StopReason.MODEL_REJECTED:
        return turns > 0
    return stop not in _WITHOUT_CHECK


_WITHOUT_CHECK = frozenset(
    {
        StopReason.NOTHING_TO_RUN,
        StopReason.SETUP_FAILED,
        StopReason.SANDBOX_ERROR,
        StopReason.CONFIGURATION,
        StopReason.INTERRUPTED,
    }
)


@dataclass(frozen=True, slots=True)
class _Evidence:
    stop: StopReason
    check: int | None
    incidents: tuple[Incident, ...]

    def of(self, kind: IncidentKind, *phases: Phase) -> list[Incident]:
        return [one for one in self.incidents if one.kind is kind and one.phase in phases]


def _nothing_to_run(evidence: _Evidence) -> str | None:
    return "nothing to run in this mode" if evidence.stop is StopReason.NOTHING_TO_RUN else None


def _check_passed(evidence: _Evidence) -> str | None:
    return "the success script exited 0" if evidence.check == 0 else None


def _infrastructure_stopped(evidence: _Evidence) -> str | None:
    return _INFRA_STOPS.get(evidence.stop)


def _upstream_failed_setup(evidence: _Evidence) -> str | None:
    if evidence.stop is not StopReason.SETUP_FAILED:
        return None
    failed = evidence.of(IncidentKind.ERROR, Phase.SETUP)
    return f"setup failed while {_upstream(failed[0])}" if failed else None


def _setup_failed(evidence: _Evidence) -> str | None:
    if evidence.stop is not StopReason.SETUP_FAILED:
        return None
    refused = [one for one in evidence.of(IncidentKind.REFUSED, Phase.SETUP) if _is_configuration(one)]
    return f"setup failed: {_refusal(refused[0])}" if refused else "setup failed"


def _harness_stopped(evidence: _Evidence) -> str | None:
    return _HARNESS_STOPS.get(evidence.stop)


def _budget_ran_out(evidence: _Evidence) -> str | None:
    return _BUDGET_STOPS.get(evidence.stop)


def _model_declined(evidence: _Evidence) -> str | None:
    return "the model declined the task" if evidence.stop is StopReason.REFUSAL else None


def _upstream_failed(evidence: _Evidence) -> str | None:
    failed = evidence.of(IncidentKind.ERROR, Phase.AGENT, Phase.CHECK)
    return f"a command failed while {_upstream(failed[0])}" if failed else None


def _needed_host_refused(evidence: _Evidence) -> str | None:
    refused = [one for one in evidence.of(IncidentKind.REFUSED, Phase.AGENT) if _is_configuration(one)]
    return f"a command failed: {_refusal(refused[0])}" if refused else None


def _limit_reached(evidence: _Evidence) -> str | None:
    limits = [one for one in evidence.of(IncidentKind.LIMIT, Phase.AGENT) if one.reason in _RESOURCE_LIMITS]
    if not limits:
        return None
    return f"a command failed at the sandbox's {limits[0].reason} limit; the runner's operator can raise it"


# Time and output are limits of a command, which its budget has; these are the sandbox's.
_RESOURCE_LIMITS = frozenset({"memory", "pids", "disk"})


def _otherwise(evidence: _Evidence) -> str | None:
    if evidence.stop is StopReason.COMMAND_FAILED:
        return "a documented command failed, and so did the success script"
    return "the agent finished, and the success script failed"


_RULES: tuple[tuple[Callable[[_Evidence], str | None], Classification], ...] = (
    (_nothing_to_run, Classification.SKIPPED),
    (_check_passed, Classification.PASSED),
    (_infrastructure_stopped, Classification.INFRA_ERROR),
    (_upstream_failed_setup, Classification.INFRA_ERROR),
    (_setup_failed, Classification.HARNESS_ERROR),
    (_harness_stopped, Classification.HARNESS_ERROR),
    (_budget_ran_out, Classification.BUDGET_EXHAUSTED),
    (_model_declined, Classification.AGENT_REFUSAL),
    (_upstream_failed, Classification.INFRA_ERROR),
    (_needed_host_refused, Classification.HARNESS_ERROR),
    (_limit_reached, Classification.HARNESS_ERROR),
    (_otherwise, Classification.DOCS_GAP),
)


def _is_configuration(refused: Incident) -> bool:
    """Whether a change of configuration could have allowed it."""
    return refused.reason in REMEDIES and not (refused.layer == "dns" and _never_allowlisted(refused.host))


# Names that resolvers ask on their own and that are no registry's: RFC 6761 and RFC 6762, reverse look-ups (RFC 1035).
_LOCAL_SUFFIXES = ("arpa", "local", "localhost", "localdomain", "internal", "lan", "home")


def _never_allowlisted(name: str) -> bool:
    return "." not in name or name.rpartition(".")[2] in _LOCAL_SUFFIXES


def _refusal(refused: Incident) -> str:
    host = refused.host or "a host"
    return f"{host} was refused ({refused.reason}); {REMEDIES[refused.reason].format(host=host)}"


def _upstream(failed: Incident) -> str:
    return f"{failed.host or 'an upstream'} did not answer as it should ({failed.reason})"


class RunExit(IntEnum):
    """The exit code of `quickstarted run`."""

    PASSED = 0
    DOCS_GAP = 1
    NO_EVIDENCE = 2
    USAGE = 3
    INTERRUPTED = 130


def exit_code(attempts_by_task: Iterable[Sequence[Classification]]) -> RunExit:
    """The exit code of a run that was not interrupted.

    A gap anywhere is 1. Otherwise 2 when a task that ran gave no evidence in any of its attempts, or when nothing ran
    at all. Skipped tasks neither help nor harm; a run of nothing but skipped tasks is 2, because it showed nothing.
    """
    ran = [set(attempts) - {Classification.SKIPPED} for attempts in attempts_by_task]
    ran = [attempts for attempts in ran if attempts]
    if any(Classification.DOCS_GAP in attempts for attempts in ran):
        return RunExit.DOCS_GAP
    if not ran or any(Classification.PASSED not in attempts for attempts in ran):
        return RunExit.NO_EVIDENCE
    return RunExit.PASSED
