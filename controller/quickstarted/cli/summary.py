"""What a run found, for people: pure, text from results. Colour is the caller's, through `paint`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from quickstarted.agents.base import StopReason
from quickstarted.classify import Classification
from quickstarted.results.model import AttemptResult, HostCount, RunResult, TaskResult
from quickstarted.sandbox.text import one_line, printable

WIDTH = 160
# Of a check's output: the end, where the reason usually stands.
OUTPUT_LINES = 20
DIGEST_CHARS = 19  # "sha256:" and twelve digits, as docker shows it

Paint = Callable[[str, str], str]  # a colour's name and text

_LABELS = {
    "PASS": "green",
    "GAP": "red",
    "INCONCLUSIVE": "yellow",
    "SKIP": "dim",
}


@dataclass(frozen=True, slots=True)
class Summary:
    """Renders results. `brief` leaves out the details of what passed."""

    paint: Paint
    directory: Path
    brief: bool = False

    def render(self, result: RunResult) -> str:
        """The whole summary; ends with a line break."""
        lines: list[str] = []
        for task in result.tasks:
            lines += self._task(task)
            if not self.brief:
                lines.append("")
        lines += self._totals(result)
        return "\n".join(lines) + "\n"

    def _task(self, task: TaskResult) -> Iterator[str]:
        label = label_of(task)
        head = f"{self.paint(_LABELS[label], f'[{label}]')} {task.task} ({task.attempts[0].agent})"
        if len(task.attempts) == 1:
            yield head
            yield from self._attempt(task.attempts[0])
            return
        yield f"{head}{_rate(task)}"
        for attempt in task.attempts:
            yield f"  attempt {attempt.attempt}: {attempt.classification}, {attempt.seconds:.1f}s"
            if not attempt.passed:
                yield from (f"  {line}" for line in self._attempt(attempt))

    def _attempt(self, one: AttemptResult) -> Iterator[str]:
        if self.brief and one.passed:
            return
        yield from (f"  {line}" for line in (*_verdict(one), *_run(one), *_docs(one), *_check(one), *_network(one)))
        if not one.passed and one.classification is not Classification.SKIPPED:
            yield f"  trace: {self.directory / one.trace}"

    def _totals(self, result: RunResult) -> Iterator[str]:
        counts = {label: sum(label_of(task) == label for task in result.tasks) for label in _LABELS}
        names = {"PASS": "passed", "GAP": "with a gap", "INCONCLUSIVE": "inconclusive", "SKIP": "skipped"}
        parts = [f"{count} {names[label]}" for label, count in counts.items() if count]
        many = "task" if len(result.tasks) == 1 else "tasks"
        stopped = " before it was interrupted" if result.interrupted else ""
        yield f"{len(result.tasks)} {many}{stopped}: {', '.join(parts) or 'nothing finished'}"
        yield f"results: {self.directory / 'results.json'}"


def label_of(task: TaskResult) -> str:
    """A task's label: a gap in one attempt is a gap, a pass needs a pass and no gap."""
    found = {one.classification for one in task.attempts}
    if Classification.DOCS_GAP in found:
        return "GAP"
    if Classification.PASSED in found:
        return "PASS"
    return "SKIP" if task.skipped else "INCONCLUSIVE"


def _rate(task: TaskResult) -> str:
    if not task.evidential or task.interval is None:
        return f": no evidence in {len(task.attempts)} attempts"
    low, high = task.interval
    return f": {task.passes} of {task.evidential} passed (95% interval {low:.2f} to {high:.2f})"


def _verdict(one: AttemptResult) -> Iterator[str]:
    why = "" if one.passed or one.classification is Classification.SKIPPED else f": {one_line(one.why, 4 * WIDTH)}"
    yield f"classification: {one.classification}{why}"
    if one.stop in (StopReason.DONE, StopReason.NOTHING_TO_RUN):
        return
    detail = printable(one.stop_detail).rstrip()
    yield f"stopped: {one.stop}{f' ({detail})' if detail else ''}"
    if one.failed_command is not None:
        yield f"  $ {one_line(one.failed_command, WIDTH)}"


def _run(one: AttemptResult) -> Iterator[str]:
    if one.classification is Classification.SKIPPED:
        return
    yield f"turns: {one.turns}, duration: {one.seconds:.1f}s"
    if one.tokens.total:
        tokens = one.tokens
        counters = f"input {tokens.input:,}, output {tokens.output:,}, cache write {tokens.cache_write:,}"
        model = one_line(one.model or "unknown", WIDTH)
        yield f"model: {model}, tokens: {tokens.total:,} ({counters}, cache read {tokens.cache_read:,})"
    if one.facts is None:
        return
    image = one_line(f"{one.facts.image}, {one.facts.image_digest[:DIGEST_CHARS]}".rstrip(", "), WIDTH)
    enforced = "" if one.facts.enforced else " UNENFORCED"
    yield f"backend: {one.facts.backend}{f' ({image})' if image else ''}{enforced}"
    if one.image_ignored:
        asked = one_line(one.image_ignored, WIDTH)
        yield f"  the image {asked} was ignored: {one.facts.backend} runs on the host's own system"


def _docs(one: AttemptResult) -> Iterator[str]:
    if one.classification is Classification.SKIPPED:
        return
    last = f", the last: {one_line(one.suspect_page, WIDTH)}" if one.suspect_page else ""
    yield f"docs pages read: {len(one.docs_pages)}{last}"
    for host, source in one.docs_map.items():
        yield f"  {host} was served from {one_line(source, WIDTH)}"


def _check(one: AttemptResult) -> Iterator[str]:
    if one.check is None or one.passed:
        return
    cause = "" if one.check.cause == "exited" else f" ({one.check.cause.replace('_', ' ')})"
    yield f"success check exit code: {one.check.exit_code}{cause}"
    lines = printable(one.check.output).splitlines()
    if not any(line.strip() for line in lines):
        yield "  it printed nothing; a check should say what it saw when it fails"
        return
    if len(lines) > OUTPUT_LINES:
        yield f"  | [... {len(lines) - OUTPUT_LINES} lines more in the trace ...]"
    yield from (f"  | {line}".rstrip() for line in lines[-OUTPUT_LINES:])


def _network(one: AttemptResult) -> Iterator[str]:
    if one.refused:
        yield f"refused to the shell: {_hosts(one.refused)}"
    if one.upstream_errors:
        yield f"failed upstream: {_hosts(one.upstream_errors)}"
    if one.docs_bypass_attempts:
        yield f"docs attempts from the shell: {one.docs_bypass_attempts}"
    for gap in one.attribution_gaps:
        yield f"attribution gap: {one_line(gap, WIDTH)}"


def _hosts(hosts: Sequence[HostCount], most: int = 8) -> str:
    """Hosts in one line, those that may have mattered first."""
    ordered = sorted(hosts, key=lambda host: not host.failed)
    shown = [
        f"{one_line(host.host, 60) or 'malformed'} ({host.reason}{', in a command that failed' if host.failed else ''})"
        for host in ordered[:most]
    ]
    return ", ".join(shown) + (f" and {len(hosts) - most} more" if len(hosts) > most else "")
