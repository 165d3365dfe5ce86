"""Moving bytes from one connection to another: fast in one stream, small in a thousand.

A connection on which nothing comes holds no buffer. One that is busy borrows one, a large one as long as it fills it:
on one stream 1 MiB at a time measured faster than splice(2) through a pipe, and needs no descriptors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from sandboxd.egress.wire import Pulse, Wire

SMALL = 64 * 1024
LARGE = 1024 * 1024


class BufferPool:
    """Buffers for the streams of all gateways. At most `large` large ones exist; without one, a small one does."""

    def __init__(self, large: int = 16) -> None:
        self._large_left = large
        self._large: list[bytearray] = []
        self._small: list[bytearray] = []

    @contextmanager
    def lend(self, *, large: bool) -> Iterator[memoryview]:
        """A buffer for the time of a block."""
        if large and (self._large or self._large_left > 0):
            with self._lent(self._large, LARGE) as view:
                yield view
        else:
            with self._lent(self._small, SMALL) as view:
                yield view

    @contextmanager
    def _lent(self, free: list[bytearray], size: int) -> Iterator[memoryview]:
        if free:
            buffer = free.pop()
        else:
            buffer = bytearray(size)
            self._large_left -= size == LARGE
        try:
            with memoryview(buffer) as view:
                yield view
        finally:
            if len(free) < 16:
                free.append(buffer)


BUFFERS = BufferPool()
"""The process's own; the event loop is its one user."""


class Turns:
    """Rounds of the event loop: in each, all streams together move `size` bytes, and then everything else has its turn.

    Were it counted for each stream alone, a hundred busy ones would keep a neighbour's small request waiting for a
    hundred times as long.
    """

    def __init__(self, size: int = LARGE) -> None:
        self._size = size
        self._left = size
        self._next: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def moved(self, size: int) -> None:
        """So many bytes were moved; return when more may be."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # the rounds of a loop that has ended never come
            self._loop, self._left, self._next = loop, self._size, None
        self._left -= size
        while self._left <= 0:
            if self._next is None:
                self._next = asyncio.Event()
                loop.call_soon(self._begin, self._next)
            await self._next.wait()

    def _begin(self, round_: asyncio.Event) -> None:
        self._left = self._size
        self._next = None
        round_.set()


TURNS = Turns()
"""The process's own, as its event loop is."""


async def drain(
    source: Wire,
    pulse: Pulse,
    consume: Callable[[memoryview], Awaitable[bool]],
    wants: Callable[[], int | None] = lambda: None,
) -> bool:
    """Give what comes on a connection to `consume`, until that returns True, or until the end: False.

    `wants` tells how many bytes may be read next, where reading more would be reading what belongs to somebody else.
    A view is valid only until `consume` returns. Raises OSError when the source broke, and what `consume` raises.
    """
    while source.pending:
        if await consume(memoryview(source.take(wants() or SMALL))):
            return True
    last = 0
    while True:
        await source.readable()
        with BUFFERS.lend(large=last >= SMALL) as buffer:
            while (size := _receive(source, buffer[: wants()])) is not None:
                pulse.beat()
                if size == 0:
                    return False
                if await consume(buffer[:size]):
                    return True
                pulse.beat()
                last = size
                await TURNS.moved(size)
                if last == len(buffer) == SMALL:
                    break  # for a larger one


def _receive(source: Wire, buffer: memoryview) -> int | None:
    """Bytes received; 0 at the end, None when there are none now."""
    try:
        return source.socket.recv_into(buffer)
    except BlockingIOError:
        return None
