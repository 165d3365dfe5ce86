"""The lines that tell what a run is doing, made from the events that go into the traces.

What a sandbox printed or asked for is a stranger's text: it is made printable before a terminal gets it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from quickstarted.sandbox.text import one_line
from quickstarted.trace import Record

WIDTH = 160


class Verbosity(enum.IntEnum):
    """How much is told."""

    QUIET = 0  # nothing
    NORMAL = 1  # what is read and refused, how each phase ended
    VERBOSE = 2  # each command too


@dataclass
class Progress:
    """Prints lines such as `[  2s] duckdb-quickstart: started on docker (python:3.12-slim)`."""

    write: Callable[[str], None]
    clock: Callable[[], float]
    verbosity: Verbosity = Verbosity.NORMAL
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def say(self, label: str, text: str) -> None:
        if self.verbosity > Verbosity.QUIET:
            self.write(f"[{self.clock() - self._began:3.0f}s] {label}: {text}")

    def listener(self, label: str) -> Callable[[Record], None]:
        """What tells of one attempt."""
        told: set[str] = set()

        def listen(record: Record) -> None:
            text = _LINES.get(record.event, _nothing)(record.fields, self.verbosity is Verbosity.VERBOSE)
            # Hosts are refused again and again; in the trace each time is on record.
            once = record.event in _ONCE and self.verbosity is Verbosity.NORMAL
            if text and not (once and text in told):
                told.add(text)
                self.say(label, text)

        return listen


Fields = Mapping[str, Any]
_ONCE = {"egress_blocked", "egress_error", "limit_reached"}


def _nothing(fields: Fields, verbose: bool) -> str:
    return ""


def _ready(fields: Fields, verbose: bool) -> str:
    image = f" ({one_line(fields['image'], WIDTH)})" if fields["image"] else ""
    unenforced = "" if fields["enforced"] else ", UNENFORCED: its commands can reach any host"
    asked = one_line(fields["image_ignored"] or "", WIDTH)
    ignored = f"; the image {asked} is ignored there" if asked else ""
    return f"started on {fields['backend']}{image}{unenforced}{ignored}"


def _wait(fields: Fields, verbose: bool) -> str:
    return f"waiting for room on the runner: {one_line(fields['message'], WIDTH)}"


def _setup(fields: Fields, verbose: bool) -> str:
    if fields["exit_code"] == 0 and not verbose:
        return ""
    return f"setup: {one_line(fields['command'], WIDTH)} ({_ended(fields)})"


def _call(fields: Fields, verbose: bool) -> str:
    return f"$ {one_line(fields['command'], WIDTH)}" if verbose and fields["tool"] == "bash" else ""


def _result(fields: Fields, verbose: bool) -> str:
    return f"  {_ended(fields)}" if verbose and fields["tool"] == "bash" else ""


def _blocked(fields: Fields, verbose: bool) -> str:
    return f"refused {_host(fields)} to the shell ({fields['reason']})"


def _upstream(fields: Fields, verbose: bool) -> str:
    return f"{_host(fields)} failed ({fields['reason']})"


def _allowed(fields: Fields, verbose: bool) -> str:
    return f"reached {_host(fields)}" if verbose and fields["layer"] != "dns" else ""


def _limit(fields: Fields, verbose: bool) -> str:
    return f"reached the {fields['kind']} limit of {fields['value']:,}" if verbose or fields["kind"] != "output" else ""


def _docs(said: str) -> Callable[[Fields, bool], str]:
    def line(fields: Fields, verbose: bool) -> str:
        reason = fields.get("reason") or fields.get("error") or ""
        return one_line(f"{said} {fields.get('url', '')}{f' ({reason})' if reason else ''}", WIDTH)

    return line


def _retry(fields: Fields, verbose: bool) -> str:
    return one_line(f"the model's API failed, trying again: {fields.get('error', '')}", WIDTH)


def _check(fields: Fields, verbose: bool) -> str:
    return f"the success check ended: {_ended(fields)}"


def _close_failed(fields: Fields, verbose: bool) -> str:
    return f"the sandbox could not be removed, its lease will end it: {one_line(fields['message'], WIDTH)}"


def _end(fields: Fields, verbose: bool) -> str:
    if fields["classification"] is None:
        return "interrupted"
    return f"{fields['classification']} after {fields['seconds']:.1f}s"


def _ended(fields: Fields) -> str:
    how = f"exit {fields['exit_code']}"
    if fields["cause"] != "exited":
        how = f"{fields['cause'].replace('_', ' ')}, {how}"
    return f"{how}, {fields['seconds']:.1f}s"


def _host(fields: Fields) -> str:
    name = one_line(fields["host"] or fields["target"], WIDTH) or "a host"
    return f"{name}:{fields['port']}" if fields["port"] not in (0, 53, 80, 443) else name


_LINES: dict[str, Callable[[Fields, bool], str]] = {
    "sandbox_wait": _wait,
    "sandbox_ready": _ready,
    "sandbox_close_failed": _close_failed,
    "setup": _setup,
    "tool_call": _call,
    "tool_result": _result,
    "docs_read": _docs("read"),
    "docs_read_blocked": _docs("refused to read"),
    "docs_read_error": _docs("could not read"),
    "api_retry": _retry,
    "egress_allowed": _allowed,
    "egress_blocked": _blocked,
    "egress_error": _upstream,
    "limit_reached": _limit,
    "success_check": _check,
    "run_end": _end,
}
