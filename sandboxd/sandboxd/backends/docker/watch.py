"""Watches the limits of one container and says when one is reached.

Memory and processes are counted by the kernel and only read here; the writable layer is measured. Memory and process
counters are read twice a second and at each command's end, so that a command's limits are known before its exit is.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from sandboxd.backends.base import LimitHit, Limits
from sandboxd.backends.docker.cgroup import Counters

log = structlog.get_logger(__name__)

COUNTER_SECONDS = 0.5
# A measurement of the disk may take a tenth of the time.
DISK_SECONDS = 1.0
DISK_SHARE = 10.0


@dataclass
class _Level:
    """One counter; a hit is told when it starts to grow, and again only after it has stood still."""

    value: int = 0
    growing: bool = False

    def update(self, now: int) -> bool:
        started = now > self.value and not self.growing
        self.growing = now > self.value
        self.value = now
        return started


class Watch:
    """The watcher of one container. `disk` measures it, `count` reads the kernel's counters."""

    def __init__(
        self,
        limits: Limits,
        count: Callable[[], Awaitable[Counters]],
        disk: Callable[[int], Awaitable[int]],
        pause: float = COUNTER_SECONDS,
    ) -> None:
        self._limits = limits
        self._pause = pause
        self._count = count
        self._disk = disk
        self._memory = _Level()
        self._pids = _Level()
        self._hits: asyncio.Queue[LimitHit | None] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._used = 0

    def start(self) -> None:
        """Begin to watch."""
        self._tasks = [asyncio.create_task(self._counters()), asyncio.create_task(self._layer())]

    async def stop(self) -> None:
        """End the watching and the stream of hits."""
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                log.error("docker.watch", error=repr(result))
        self._tasks = []
        self._hits.put_nowait(None)

    async def next(self) -> LimitHit | None:
        """The next limit reached; None when the watching has ended."""
        hit = await self._hits.get()
        if hit is None:
            self._hits.put_nowait(None)
        return hit

    @property
    def memory(self) -> int:
        """How often memory ran out when the counters were last read."""
        return self._memory.value

    async def check(self) -> int:
        """Read the kernel's counters now; how often memory ran out so far."""
        counted = await self._count()
        if self._memory.update(counted.memory):
            self._hits.put_nowait(LimitHit("memory", self._limits.memory_bytes))
        if self._pids.update(counted.pids):
            self._hits.put_nowait(LimitHit("pids", self._limits.pids))
        return counted.memory

    async def _counters(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            await self.check()

    async def _layer(self) -> None:
        while True:
            began = time.monotonic()
            await self.look_at_disk()
            await asyncio.sleep(max(DISK_SECONDS, DISK_SHARE * (time.monotonic() - began)))

    async def look_at_disk(self) -> None:
        """Measure the disk now. Past the limit, whatever writes more is a hit again; what cleans up is none."""
        limit = self._limits.disk_bytes
        allowed = max(limit, self._used)
        used = await self._disk(allowed)
        if used > allowed:
            self._hits.put_nowait(LimitHit("disk", limit))
            used = await self._disk(sys.maxsize)  # the first measurement stopped when it had seen enough
        self._used = used
