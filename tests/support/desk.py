"""A directory with tasks where somebody types `quickstarted run`, as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

QUICKSTARTED = [sys.executable, "-c", "import sys; from quickstarted.cli.main import main; sys.exit(main())"]

# A machine whose network has a certificate authority of its own names it here.
PASSED = ("PATH", "HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")


@dataclass
class Desk:
    """A directory with tasks, where somebody types commands."""

    directory: Path
    variables: dict[str, str]  # beside what every user has

    def task(self, name: str, *, replay: list[str] | None = None, check: str = "true", **more: Any) -> str:
        task = {
            "name": name,
            "goal": "make it work",
            "docs": {"entrypoint": "https://docs.test/start"},
            "success": {"script": check},
            **({"replay": replay} if replay is not None else {}),
            **more,
        }
        (self.directory / f"{name}.yaml").write_text(json.dumps(task))
        return f"{name}.yaml"

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in PASSED if name in os.environ}
        return {**kept, "TERM": "xterm", **self.variables}

    def run(self, *arguments: str, timeout: float = 100, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*QUICKSTARTED, "run", *arguments],
            cwd=self.directory,
            env=self.environment() | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*QUICKSTARTED, "run", *arguments],
            cwd=self.directory,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def results(self, out: str = "results") -> dict[str, Any]:
        data: dict[str, Any] = json.loads((self.directory / out / "results.json").read_text())
        return data

    def trace(self, task: str, attempt: int = 1) -> list[dict[str, Any]]:
        text = (self.directory / "results" / task / f"attempt-{attempt}" / "trace.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]


def until(process: subprocess.Popen[str], line: str) -> None:
    """Read what a command says until a line holds this text."""
    assert process.stderr
    for found in process.stderr:
        if line in found:
            return
    raise AssertionError(f"ended without {line!r}")
