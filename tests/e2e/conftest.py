"""A desk for each enforced backend, and eyes for what a run leaves on the machine."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import jsonschema
import pytest
from quickstarted.results.reference import load

from tests.support import engine as engines
from tests.support.desk import Desk

ENFORCED = ["bubblewrap", "docker"]


@pytest.fixture(scope="session")
def engine() -> Iterator[engines.Engine]:
    with engines.running() as engine:
        yield engine


@pytest.fixture
def marker() -> str:
    """A number of seconds that no other test sleeps: processes are found by it."""
    return f"9{secrets.randbelow(10**8):08}.5"


def processes_with(text: str) -> list[int]:
    """The processes of this machine, of sandboxes too, whose arguments hold a text."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes()
        except OSError:
            continue  # it has just ended
        if text.encode() in arguments:
            found.append(int(entry.name))
    return found


@pytest.fixture
def containers(engine: engines.Engine) -> Iterator[Callable[[str], list[str]]]:
    """The engine's containers of a run, whatever their state."""
    client = docker.APIClient(base_url=engine.host, version="auto")

    def of(run_id: str) -> list[str]:
        every = client.containers(all=True, filters={"label": "sandboxd.sandbox"})
        labels = [container["Labels"]["sandboxd.sandbox"] for container in every]
        return [label for label in labels if label.startswith(run_id)]

    yield of
    client.close()


@pytest.fixture
def desk(tmp_path: Path, engine: engines.Engine) -> Iterator[Desk]:
    """A desk whose daemons keep their state beside it. Whatever a test does there, the records follow their schemas."""
    yield Desk(tmp_path, {"DOCKER_HOST": engine.host, "XDG_STATE_HOME": str(tmp_path / "state")})
    trace, results = (jsonschema.Draft202012Validator(load(name)) for name in ("trace", "results"))
    for path in tmp_path.glob("results/*/attempt-*/trace.jsonl"):
        for line in path.read_text().splitlines():
            trace.validate(json.loads(line))
    for path in tmp_path.glob("results/results.json"):
        results.validate(json.loads(path.read_text()))


@pytest.fixture(params=ENFORCED)
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name
