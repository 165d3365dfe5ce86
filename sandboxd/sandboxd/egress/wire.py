"""A TCP connection as the gateway's paths use it: reads with a push-back, writes with backpressure, two ways to end.

Sockets are used without asyncio's transports: those buffer what is written and pause late, and here a slow reader has
to slow its writer down and cost no memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from types import TracebackType

READ_SIZE = 64 * 1024
_LINGER = 2.0  # seconds that a client has to take in a last answer
_DRAIN = 1 << 20  # bytes that it may still send meanwhile


class ClientGoneError(Exception):
    """The client's connection broke: nobody is left to tell anything."""


class Wire:
    """One connection. Whoever makes one ends it, with `finish`, `abort` or `close`; ending it again does nothing."""

    def __init__(self, connection: socket.socket) -> None:
        """`connection` is non-blocking, and owned from here on."""
        self.socket = connection
        self.pending = bytearray()  # read, but not yet taken
        self._loop = asyncio.get_running_loop()

    async def fill(self) -> bool:
        """Read more into `pending`; False at the end. Raises OSError when the connection broke."""
        data = await self._loop.sock_recv(self.socket, READ_SIZE)
        self.pending += data
        return bool(data)

    def take(self, size: int) -> bytes:
        """The next `size` bytes of `pending`."""
        data = bytes(self.pending[:size])
        del self.pending[:size]
        return data

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Hand all of it to the kernel. Raises OSError when the connection broke."""
        await self._loop.sock_sendall(self.socket, data)

    async def readable(self) -> None:
        """Return once a read would not wait."""
        if self.pending:
            return
        ready: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self.socket, _wake, ready)
        try:
            await ready
        finally:
            self._loop.remove_reader(self.socket)

    def is_quiet(self) -> bool:
        """Whether nothing has come and the connection still stands, as it should between two requests."""
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return not self.pending
        except OSError:
            return False
        return False

    def end_writing(self) -> None:
        """Tell the other side that no more comes, and go on reading."""
        with contextlib.suppress(OSError):  # it is gone already
            self.socket.shutdown(socket.SHUT_WR)

    async def finish(self) -> None:
        """End a connection so that the last answer arrives.

        Closing a socket with unread data resets the connection, which destroys what the client has not yet read
        (RFC 9112, section 9.6). So the client's data is read, for a bounded time, until it hangs up.
        """
        self.end_writing()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_LINGER):
                left = _DRAIN
                while left > 0 and (data := await self._loop.sock_recv(self.socket, READ_SIZE)):
                    left -= len(data)
        self.close()

    def abort(self) -> None:
        """End a connection with a reset: what was sent so far is not the whole."""
        with contextlib.suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        """End a connection in order."""
        self.socket.close()


def why(error: OSError) -> str:
    """An error of the system in a phrase; asyncio puts addresses into some."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or type(error).__name__


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


class Pulse:
    """Deadlines for work whose length can't be told: so long without a sign of life, and so long in all.

    `async with Pulse(idle, absolute) as pulse` raises TimeoutError at either; `pulse.beat()` is a sign of life. A beat
    is an assignment: the timer looks at it only when it fires.
    """

    def __init__(self, idle: float, absolute: float) -> None:
        self._idle = idle
        self._loop = asyncio.get_running_loop()
        self._timeout = asyncio.timeout(absolute)
        self._timer: asyncio.TimerHandle | None = None
        self._last = self._loop.time()

    def beat(self) -> None:
        """There was a sign of life."""
        self._last = self._loop.time()

    async def __aenter__(self) -> Pulse:
        await self._timeout.__aenter__()
        self._timer = self._loop.call_at(self._last + self._idle, self._look)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._timeout.__aexit__(kind, error, trace)

    def _look(self) -> None:
        due = self._last + self._idle
        if due > self._loop.time():
            self._timer = self._loop.call_at(due, self._look)
        elif not self._timeout.expired():
            self._timeout.reschedule(due)
