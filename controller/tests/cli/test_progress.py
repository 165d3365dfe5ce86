"""Lines that tell what a run is doing."""

from __future__ import annotations

from typing import Any

import pytest
from quickstarted.cli.progress import Progress, Verbosity
from quickstarted.trace import Record

COMMAND = {"exec_id": "exec-1", "exit_code": 0, "cause": "exited", "seconds": 1.25}
READY = {"backend": "docker", "image": "python:3.12-slim", "enforced": True, "image_ignored": None}
HOST = {"host": "cdn.test", "target": "cdn.test:443", "port": 443, "reason": "not_allowlisted", "layer": "connect"}


def lines(events: list[tuple[str, dict[str, Any]]], verbosity: Verbosity = Verbosity.NORMAL) -> list[str]:
    found: list[str] = []
    now = iter([100.0, *(102.4 for _ in events)])
    listen = Progress(found.append, lambda: next(now), verbosity).listener("demo")
    for number, (event, fields) in enumerate(events, 1):
        listen(Record(number, "", event, fields))
    return found


NORMAL: list[tuple[str, str, dict[str, Any], str]] = [
    ("ready", "sandbox_ready", READY, "started on docker (python:3.12-slim)"),
    (
        "an image that is ignored",
        "sandbox_ready",
        {**READY, "backend": "bubblewrap", "image": "", "image_ignored": "node:22-slim"},
        "started on bubblewrap; the image node:22-slim is ignored there",
    ),
    (
        "no enforcement",
        "sandbox_ready",
        {**READY, "backend": "local", "image": "", "enforced": False},
        "started on local, UNENFORCED: its commands can reach any host",
    ),
    ("no room", "sandbox_wait", {"message": "2 of 2\nslots"}, "waiting for room on the runner: 2 of 2 slots"),
    ("setup that failed", "setup", {**COMMAND, "command": "x", "exit_code": 1}, "setup: x (exit 1, 1.2s)"),
    ("a host refused", "egress_blocked", HOST, "refused cdn.test to the shell (not_allowlisted)"),
    ("a port refused", "egress_blocked", {**HOST, "port": 22}, "refused cdn.test:22 to the shell (not_allowlisted)"),
    (
        "no host",
        "egress_blocked",
        {**HOST, "host": "", "target": "\\x00"},
        "refused \\x00 to the shell (not_allowlisted)",
    ),
    ("an upstream", "egress_error", {**HOST, "reason": "dns_failure"}, "cdn.test failed (dns_failure)"),
    ("a limit", "limit_reached", {"kind": "memory", "value": 4096}, "reached the memory limit of 4,096"),
    ("a page", "docs_read", {"url": "https://docs.test/"}, "read https://docs.test/"),
    ("a page refused", "docs_read_blocked", {"url": "u", "reason": "host"}, "refused to read u (host)"),
    ("the check", "success_check", {**COMMAND, "exit_code": 3}, "the success check ended: exit 3, 1.2s"),
    (
        "a check that was stopped",
        "success_check",
        {**COMMAND, "exit_code": 124, "cause": "timed_out"},
        "the success check ended: timed out, exit 124, 1.2s",
    ),
    ("the end", "run_end", {"classification": "passed", "seconds": 24.41}, "passed after 24.4s"),
    ("cut off", "run_end", {"classification": None, "seconds": 1.0}, "interrupted"),
]


@pytest.mark.parametrize(("event", "fields", "text"), [row[1:] for row in NORMAL], ids=[row[0] for row in NORMAL])
def test_a_line(event: str, fields: dict[str, Any], text: str) -> None:
    assert lines([(event, fields)]) == [f"[  2s] demo: {text}"]


QUIETER: list[tuple[str, dict[str, Any]]] = [
    ("setup", {**COMMAND, "command": "x"}),
    ("tool_call", {"tool": "bash", "command": "x"}),
    ("tool_result", {"tool": "bash", **COMMAND}),
    ("egress_allowed", HOST),
    ("limit_reached", {"kind": "output", "value": 5}),
]


@pytest.mark.parametrize(("event", "fields"), QUIETER, ids=[row[0] for row in QUIETER])
def test_what_only_verbose_shows(event: str, fields: dict[str, Any]) -> None:
    assert lines([(event, fields)]) == []
    assert len(lines([(event, fields)], Verbosity.VERBOSE)) == 1


def test_quiet_shows_nothing() -> None:
    assert lines([(event, fields) for _, event, fields, _ in NORMAL], Verbosity.QUIET) == []


def test_a_host_is_told_once_and_each_time_when_verbose() -> None:
    again = [("egress_blocked", HOST)] * 3
    assert len(lines(again)) == 1
    assert len(lines(again, Verbosity.VERBOSE)) == 3


def test_events_that_are_unknown_are_passed_over() -> None:
    assert lines([("something_new", {})]) == []
