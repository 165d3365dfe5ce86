"""One thread a sandbox that moves the bytes of all its connections and pipes, so that no slow one holds up another.

Callbacks run in that thread, in the order in which the bytes came, and must not block for long.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

import structlog

log = structlog.get_logger(__name__)

READ_BYTES = 256 << 10


class Source(Protocol):
    """Something that a selector can wait for, and that can be read without blocking."""

    def fileno(self) -> int: ...

    def pending(self) -> bool:
        """Whether bytes wait that a selector can't see."""

    def receive(self, size: int) -> bytes | None:
        """What has arrived: None when there is nothing yet, empty at the end."""

    def close(self) -> None: ...


class Pipe:
    """The reading end of a pipe as a source."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def pending(self) -> bool:
        return False

    def receive(self, size: int) -> bytes | None:
        try:
            return os.read(self._fd, size)
        except BlockingIOError:
            return None

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


class _Watched:
    def __init__(self, source: Source, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self.source = source
        self.on_data = on_data
        self.on_end = on_end


class Pump:
    """The thread and what it reads. A source is the pump's from `add` on: it closes it at its end."""

    def __init__(self, name: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._todo: deque[Callable[[], None]] = deque()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"docker-pump-{name}", daemon=True)
        self._thread.start()

    def add(self, source: Source, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        """Read `source` from now on. `on_end` is called once, at its end or when the pump closes."""
        if not self._thread.is_alive():
            self._end(_Watched(source, on_data, on_end))
            return
        self._do(lambda: self._register(_Watched(source, on_data, on_end)))

    def drop(self, source: Source) -> None:
        """Stop reading `source` and close it, as if it had ended. Nothing happens when it has."""
        self._do(lambda: self._forget(source))

    def close(self) -> None:
        """End every source and the thread. Returns at once; the thread ends on its own."""
        self._closing = True
        self._do(lambda: None)

    def join(self, seconds: float) -> None:
        """Wait for the thread's end after `close`."""
        self._thread.join(seconds)

    def _do(self, work: Callable[[], None]) -> None:
        self._todo.append(work)
        try:
            self._wake_write.send(b"x")
        except OSError:
            return  # full: it is awake already; closed: nothing is left to do

    def _register(self, watched: _Watched) -> None:
        if self._closing:
            self._end(watched)
            return
        self._selector.register(watched.source, selectors.EVENT_READ, watched)
        if watched.source.pending():
            self._read(watched)

    def _forget(self, source: Source) -> None:
        for key in list(self._selector.get_map().values()):
            if key.data is not None and key.data.source is source:
                self._finish(key.data)

    def _run(self) -> None:
        while not self._closing or self._todo:
            for key, _ in self._selector.select():
                if key.data is None:
                    self._work()
                else:
                    self._read(key.data)
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                self._finish(key.data)
        self._selector.close()
        self._wake_read.close()
        self._wake_write.close()

    def _work(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake_read.recv(4096)
        while self._todo:
            self._todo.popleft()()

    def _read(self, watched: _Watched) -> None:
        data = watched.source.receive(READ_BYTES)
        while data:
            try:
                watched.on_data(data)
            except Exception:  # one command's sink must not end the output of all others
                log.exception("docker.pump", thread=self._thread.name)
                self._finish(watched)
                return
            if not watched.source.pending():
                return
            data = watched.source.receive(READ_BYTES)
        if data is not None:
            self._finish(watched)

    def _finish(self, watched: _Watched) -> None:
        try:
            self._selector.unregister(watched.source)
        except KeyError:
            return  # it has ended already
        self._end(watched)

    @staticmethod
    def _end(watched: _Watched) -> None:
        watched.source.close()
        watched.on_end()
