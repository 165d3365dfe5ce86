"""Where sandboxes come from: the one runner of a run, ours or one that somebody named.

`Placer` is all that an attempt knows of runners. More than one host is another implementation of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol

from quickstarted.sandbox.base import Sandbox
from quickstarted.sandbox.client import Runner, Wanted
from quickstarted.sandbox.connect import Address
from quickstarted.sandbox.embedded import Embedded, embedded


class Placer(Protocol):
    """Makes sandboxes somewhere."""

    async def create(self, wanted: Wanted, on_wait: Callable[[str], None] = ...) -> Sandbox:
        """A sandbox that is ready. Raises SandboxError. `on_wait` is told when there is no room, and why."""


@contextlib.asynccontextmanager
async def open_runner(address: Address | None, *, run_id: str, log: Path) -> AsyncIterator[Runner]:
    """The runner at an address; without one an embedded runner that lives as long as the context.

    `log` takes what an embedded daemon writes. Raises SandboxError.
    """
    if address is not None:
        async with await Runner.open(address, run_id=run_id) as runner:
            yield runner
        return
    async with embedded(log) as daemon, await Runner.open(daemon.address, run_id=run_id, name="embedded") as runner:
        watch = asyncio.create_task(_lose_with(daemon, runner), name="embedded runner")
        try:
            yield runner
        finally:
            watch.cancel()
            await asyncio.wait([watch])


async def _lose_with(daemon: Embedded, runner: Runner) -> None:
    runner.lose(await asyncio.shield(daemon.died))
