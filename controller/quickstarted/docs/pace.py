"""Politeness: one request at a time per host, and some time between two."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

SECONDS_BETWEEN = 1.0


@dataclass(slots=True)
class _Host:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    free_at: float = float("-inf")


class Pacer:
    """Turns of a run's requests. `between` is in seconds, from the end of one to the start of the next."""

    def __init__(
        self,
        between: float = SECONDS_BETWEEN,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._between = between
        self._clock = clock
        self._sleep = sleep
        self._hosts: dict[str, _Host] = {}

    @asynccontextmanager
    async def turn(self, host: str) -> AsyncIterator[None]:
        """Held while a request to `host` is in flight. First come, first served."""
        state = self._hosts.setdefault(host, _Host())
        async with state.lock:
            wait = state.free_at - self._clock()
            if wait > 0:
                await self._sleep(wait)
            try:
                yield
            finally:
                state.free_at = max(state.free_at, self._clock() + self._between)

    def hold(self, host: str, seconds: float) -> None:
        """No request to `host` before `seconds` are over: its server asked for that."""
        state = self._hosts.setdefault(host, _Host())
        state.free_at = max(state.free_at, self._clock() + seconds)
