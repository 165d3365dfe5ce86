"""A command's output: a pipe, and a thread that reads it until nobody can write to it any more.

Both streams share the pipe, as they share a terminal: that alone keeps them in the order in which they were written.
The thread goes on after the command has ended, without keeping anything: a server that the command left running would
be ended by its next line of output if the pipe were closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading

import structlog

from sandboxd.backends.base import OutputSink, Stream

READ_BYTES = 64 << 10
PIPE_BYTES = 1 << 20
F_SETPIPE_SZ = 1031  # fcntl(2), Linux

_log = structlog.get_logger(__name__)


class Output:
    """The reading side. `writing` is the writing end, for the command; whoever sends it off closes it."""

    def __init__(self, sink: OutputSink, owner: int | None) -> None:
        self._sink: OutputSink | None = sink
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._reading, self.writing = os.pipe()
        if owner is not None:
            # Else /dev/stdout can't be opened: the pipe's user is who may.
            os.fchown(self.writing, owner, owner)
        with contextlib.suppress(OSError, ImportError):  # an ordinary user's pipes have a limit together
            import fcntl

            fcntl.fcntl(self.writing, F_SETPIPE_SZ, PIPE_BYTES)

    def start(self) -> None:
        """Begin to read."""
        threading.Thread(target=self._run, name="command-output", daemon=True).start()

    async def drained(self, seconds: float) -> None:
        """Wait until nobody can write any more, but no longer than that; later output is read and thrown away."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        self._sink = None

    def _run(self) -> None:
        buffer = bytearray(READ_BYTES)
        view = memoryview(buffer)
        try:
            while (size := os.readv(self._reading, [buffer])) > 0:
                self._deliver(view[:size])
        finally:
            os.close(self._reading)
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
                self._loop.call_soon_threadsafe(self._ended.set)

    def _deliver(self, data: memoryview) -> None:
        sink = self._sink
        if sink is None:
            return
        try:
            # The sink copies what it keeps: the buffer is used again.
            sink.write(Stream.STDOUT, data)
        except Exception:  # noqa: BLE001 whatever a sink does, the command must not hang on a full pipe
            _log.exception("sink_failed")
            self._sink = None
