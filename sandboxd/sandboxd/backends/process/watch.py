"""Watches the limits of one sandbox, says when one is reached, and ends what reached it where the kernel doesn't.

With a control group the kernel holds memory and processes, and its counters are read here. Without one, the supervisor
looks at both and `noticed` is how it tells. Disk is measured here in either case: what writes past the limit is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

import structlog

from sandboxd.backends.base import BackendError, LimitHit, Limits
from sandboxd.backends.process.group import Counters, Group

COUNTER_SECONDS = 0.5
DISK_SECONDS = 1.0
# A measurement of the disk may take a tenth of the time.
DISK_SHARE = 10.0

_log = structlog.get_logger(__name__)


class _Level:
    """One counter; a hit is told when it starts to grow, and again only after it has stood still."""

    def __init__(self) -> None:
        self.value = 0
        self._growing = False

    def update(self, now: int) -> bool:
        started = now > self.value and not self._growing
        self._growing = now > self.value
        self.value = now
        return started


class Watch:
    """The watcher of one sandbox. `measure` blocks and gives the bytes on disk; `busy` says whether anything runs that
    could write; `end_all` ends everything that runs.
    """

    def __init__(
        self,
        limits: Limits,
        group: Group | None,
        measure: Callable[[], int],
        busy: Callable[[], bool],
        end_all: Callable[[], Awaitable[None]],
    ) -> None:
        self._limits = limits
        self._group = group
        self._measure = measure
        self._busy = busy
        self._end_all = end_all
        self._memory = _Level()
        self._pids = _Level()
        self._hits: asyncio.Queue[LimitHit | None] = asyncio.Queue()
        self._used = 0
        self._tasks = [asyncio.create_task(self._disk())]
        if group is not None:
            self._tasks.append(asyncio.create_task(self._counters(group)))

    async def stop(self) -> None:
        """End the watching and the stream of hits."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._hits.put_nowait(None)

    async def next(self) -> LimitHit | None:
        """The next limit reached; None when the watching has ended."""
        hit = await self._hits.get()
        if hit is None:
            self._hits.put_nowait(None)
        return hit

    def noticed(self, kind: str) -> None:
        """The supervisor found that a limit is reached, and ended what reached it."""
        self._hits.put_nowait(LimitHit(kind, self._limits.memory_bytes if kind == "memory" else self._limits.pids))

    def memory_kills(self) -> int:
        """How often the kernel has ended something for memory, read now."""
        return self._update(self._group.counters() if self._group is not None else Counters())

    def _update(self, counted: Counters) -> int:
        if self._memory.update(counted.memory):
            self.noticed("memory")
        if self._pids.update(counted.pids):
            self.noticed("pids")
        return counted.memory

    async def _counters(self, group: Group) -> None:
        while True:
            await asyncio.sleep(COUNTER_SECONDS)
            self._update(group.counters())

    async def _disk(self) -> None:
        while True:
            began = time.monotonic()
            if self._busy():
                await self._look_at_disk()
            await asyncio.sleep(max(DISK_SECONDS, DISK_SHARE * (time.monotonic() - began)))

    async def _look_at_disk(self) -> None:
        limit = self._limits.disk_bytes
        before = self._used
        # Past the limit, less than before is fine: a command that cleans up may go on.
        self._used = await asyncio.to_thread(self._measure)
        if self._used > max(limit, before):
            self._hits.put_nowait(LimitHit("disk", limit))
            with contextlib.suppress(BackendError):  # then the sandbox is lost, which is told elsewhere
                await self._end_all()
