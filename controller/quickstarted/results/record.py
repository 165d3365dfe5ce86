"""Results on disk: `results.json`, for programs, whose fields are in `results.schema.json` and in the reference.

Fields are added within a schema version, never changed. The file is replaced as a whole: nobody ever sees half of one,
and a run that was killed leaves what had finished.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import socket
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from quickstarted import __version__
from quickstarted.agents.base import Tokens
from quickstarted.results.model import AttemptResult, HostCount, RunResult, TaskResult
from quickstarted.trace import RecordsError

SCHEMA_VERSION = 1
FILE_NAME = "results.json"


def trace_path(task: str, attempt: int) -> str:
    """Where an attempt's trace is, relative to the results' directory."""
    return f"{task}/attempt-{attempt}/trace.jsonl"


def write(result: RunResult, directory: Path) -> Path:
    """Write results.json. Raises RecordsError."""
    text = json.dumps(to_json(result), indent=2, ensure_ascii=True) + "\n"
    path = directory / FILE_NAME
    replace(path, text)
    return path


def replace(path: Path, text: str) -> None:
    """Write a file so that there is the old one or the new one, whatever happens. Raises RecordsError."""
    fresh = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise RecordsError(path, error) from error


def to_json(result: RunResult) -> dict[str, object]:
    attempts = result.attempts
    return {
        "schema_version": SCHEMA_VERSION,
        "generated_at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "started_at": result.started,
        "run_id": result.run_id,
        "environment": {
            "quickstarted": __version__,
            "sandboxd": result.runner_version,
            "api": result.api,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "hostname": socket.gethostname(),
            "backend": result.backend,
            "runner": result.runner,
        },
        "agent": result.agent,
        "repeat": result.repeat,
        "duration_seconds": round(result.seconds, 3),
        "interrupted": result.interrupted,
        "totals": {
            "runs": len(attempts),
            "tokens": _tokens(one.tokens for one in attempts),
            "estimated_cost_usd": None,
            "unpriced_models": _models(attempts),
        },
        "tasks": [_task(task) for task in result.tasks],
    }


def _task(task: TaskResult) -> dict[str, object]:
    attempts = task.attempts
    return {
        "task": task.task,
        "source": task.source,
        "agent": attempts[0].agent,
        "attempts": len(attempts),
        "passes": task.passes,
        "evidential_runs": task.evidential,
        "pass_rate": task.pass_rate,
        "interval": [round(end, 4) for end in task.interval] if task.interval else None,
        "discarded": task.discarded,
        "skipped": sum(one.classification == "skipped" for one in attempts),
        "models_reported": _models(attempts),
        "suspect_pages": task.suspect_pages,
        "tokens": _tokens(one.tokens for one in attempts),
        "estimated_cost_usd": None,
        "runs": [_run(one) for one in attempts],
    }


def _run(one: AttemptResult) -> dict[str, object]:
    return {
        "task": one.task,
        "attempt": one.attempt,
        "agent": one.agent,
        "model_reported": one.model,
        "prompt_hash": one.prompt_hash,
        "classification": one.classification.value,
        "why": one.why,
        "passed": one.passed,
        "evidential": one.classification.evidential,
        "stop_reason": one.stop.value,
        "stop_detail": one.stop_detail,
        "failed_command": one.failed_command,
        "turns": one.turns,
        "started_at": one.started,
        "duration_seconds": one.seconds,
        **_facts(one),
        "docs_pages_read": list(one.docs_pages),
        "docs_map": one.docs_map,
        "suspect_page": one.suspect_page,
        "docs_bypass_attempts": one.docs_bypass_attempts,
        "attribution_gaps": list(one.attribution_gaps),
        "refused_hosts": [_host(host) for host in one.refused],
        "upstream_errors": [_host(host) for host in one.upstream_errors],
        "success_check": asdict(one.check) if one.check else None,
        "tokens": asdict(one.tokens),
        "trace": one.trace,
    }


def _facts(one: AttemptResult) -> dict[str, object]:
    facts = one.facts
    return {
        "backend": facts.backend if facts else None,
        "enforced": facts.enforced if facts else None,
        "image": facts.image or None if facts else None,
        "image_digest": facts.image_digest or None if facts else None,
        "image_ignored": one.image_ignored,
        "runner": facts.runner if facts else None,
        "node_id": facts.node_id if facts else None,
        "instance_id": facts.instance_id if facts else None,
        "allow_private": list(facts.allow_private) if facts else [],
        "timings": {step: round(took, 3) for step, took in facts.timings.items()} if facts else {},
    }


def _host(host: HostCount) -> dict[str, object]:
    return {"host": host.host, "reason": host.reason, "count": host.count, "command_failed": host.failed}


def _tokens(tokens: Iterable[Tokens]) -> dict[str, int]:
    return asdict(sum(tokens, Tokens()))


def _models(attempts: Iterable[AttemptResult]) -> list[str]:
    return list(dict.fromkeys(one.model for one in attempts if one.model))
