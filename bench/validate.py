"""How long task files take to check, beyond the YAML parser and the compiled schema."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import yaml
from quickstarted.cli import validate
from quickstarted.task.schema import SCHEMA

from bench.measure import Work

FILES = 1000
TASKS = Path(__file__).parents[1] / "tasks"


def write_tasks(directory: Path) -> list[str]:
    """As many files as the bar says: real tasks of ours, each with a name of its own."""
    texts = [path.read_text() for path in sorted(TASKS.glob("*-quickstart.yaml")) if path.stat().st_size < 2000]
    paths = []
    for number in range(FILES):
        path = directory / f"task-{number:04}.yaml"
        path.write_text(re.sub("^name: ", f"name: n{number}-", texts[number % len(texts)], count=1, flags=re.M))
        paths.append(str(path))
    return paths


@contextlib.asynccontextmanager
async def many() -> AsyncIterator[Work]:
    """The command over 1,000 files, over CSafeLoader and the schema over the same files."""
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        paths = write_tasks(Path(home))

        def parse() -> None:
            for path in paths:
                SCHEMA(yaml.load(Path(path).read_bytes(), Loader=yaml.CSafeLoader))

        async def reference() -> None:
            parse()

        async def candidate() -> None:
            with contextlib.redirect_stdout(io.StringIO()):
                code = validate.run(argparse.Namespace(paths=paths))
            assert code == 0

        yield Work(reference, candidate)
