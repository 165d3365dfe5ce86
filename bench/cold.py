"""How long a command takes that has hardly anything to do: what is imported decides."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from bench.measure import Work

COMMAND = str(Path(sys.executable).parent / "quickstarted")
TASK = str(Path(__file__).parents[1] / "tasks" / "duckdb-quickstart.yaml")


def program(*argv: str) -> Callable[[], Awaitable[None]]:
    """Run a program to its end."""

    async def run() -> None:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL
        )
        if await process.wait() != 0:
            raise RuntimeError(f"{argv} ended with {process.returncode}")

    return run


IMPORTS = program(sys.executable, "-c", "import yaml, voluptuous, structlog")


@contextlib.asynccontextmanager
async def help_page() -> AsyncIterator[Work]:
    """`quickstarted --help` over the imports that it can't do without."""
    yield Work(reference=IMPORTS, candidate=program(COMMAND, "--help"))


@contextlib.asynccontextmanager
async def validate_one() -> AsyncIterator[Work]:
    """`quickstarted validate` of one file over the same imports."""
    yield Work(reference=IMPORTS, candidate=program(COMMAND, "validate", TASK))
