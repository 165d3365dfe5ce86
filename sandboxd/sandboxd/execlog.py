"""A command's output as a log: one offset space over both streams, spooled to disk, resumable at every offset.

Of output past its limit the first and the last half are kept and a gap stands between. The file holds a head and,
behind it, a ring for the tail, so it never grows past the limit; memory holds only where the streams change. Writers
are threads and never wait for readers; readers are coroutines of one event loop and are woken when there is more.
"""

from __future__ import annotations

import asyncio
import bisect
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from sandboxd.backends.base import Stream

CHUNK = 64 * 1024
# Where streams alternate byte by byte, the places of change would outgrow the output: past so many, output of one
# stream may be filed under the other's name. No byte is lost by that.
MAX_RUNS = 20_000

ExitT = TypeVar("ExitT")


@dataclass(frozen=True, slots=True)
class Data:
    """Output from `offset` on, of one stream."""

    offset: int
    stream: Stream
    data: bytes


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes [start, end) are not kept."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class End(Generic[ExitT]):
    """The exit record: the last."""

    exit: ExitT


class OffsetError(Exception):
    """An offset beyond the end of a log that is complete; `end` is where it ends."""

    def __init__(self, end: int) -> None:
        super().__init__(f"the log ends at {end}")
        self.end = end


class ExecLog(Generic[ExitT]):
    """The log of one command. `limit` is in bytes; `on_cut` is called once, from a writer, when output is first cut."""

    def __init__(self, path: Path, limit: int, on_cut: Callable[[], None] | None = None) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        path.unlink()  # the descriptor is the only name: nothing is left however the daemon ends
        self._head = limit - limit // 2
        self._ring = limit // 2
        self._on_cut = on_cut
        self._end = 0
        self._runs = _Runs()
        self._exit: ExitT | None = None
        self._lock = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._waiting: set[asyncio.Event] = set()

    @property
    def end(self) -> int:
        """The offset of the next byte."""
        return self._end

    @property
    def cut(self) -> int:
        """How many bytes are not kept."""
        return max(0, self._end - self._head - self._ring)

    @property
    def exit(self) -> ExitT | None:
        """How the command ended, once the log is complete."""
        return self._exit

    def write(self, stream: Stream, data: bytes | memoryview) -> None:
        """Append; from any thread. What comes after the log was finished or closed is dropped."""
        view = memoryview(data)
        with self._lock:
            if self._exit is not None or self._file < 0 or not view:
                return
            cut = self.cut
            self._runs.append(self._end, stream)
            self._store(view)
            self._end += len(view)
            first_cut = not cut and self.cut > 0
            self._runs.forget_between(self._head, self._end - self._ring)
            waiting, self._waiting = self._waiting, set()
        self._wake(waiting)
        if first_cut and self._on_cut is not None:
            self._on_cut()

    def finish(self, ended: ExitT) -> None:
        """Write the exit record. The first one stands."""
        with self._lock:
            if self._exit is None:
                self._exit = ended
            waiting, self._waiting = self._waiting, set()
        self._wake(waiting)

    def read(self, offset: int) -> Data | Gap | End[ExitT] | None:
        """The record at an offset, None when it is not written yet. Raises OffsetError."""
        with self._lock:
            if offset >= self._end:
                if self._exit is None:
                    return None
                if offset > self._end:
                    raise OffsetError(self._end)
                return End(self._exit)
            kept = self._end - self._ring
            if self._head <= offset < kept:
                return Gap(offset, kept)
            stream, until = self._runs.at(offset, self._end)
            if offset < self._head:
                until = min(until, self._head) if self.cut else until
            size = min(CHUNK, until - offset)
            return Data(offset, stream, self._load(offset, size))

    async def changed(self, offset: int, seconds: float) -> bool:
        """Wait until there is something at the offset; False when it took longer than that."""
        event = asyncio.Event()
        with self._lock:
            if offset < self._end or self._exit is not None:
                return True
            self._waiting.add(event)
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return False
        finally:
            with self._lock:
                self._waiting.discard(event)
        return True

    def close(self) -> None:
        """Give the disk space back. Nothing can be read after it."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def _wake(self, waiting: set[asyncio.Event]) -> None:
        for event in waiting:
            self._loop.call_soon_threadsafe(event.set)

    def _store(self, view: memoryview) -> None:
        offset = self._end
        if offset < self._head:
            part = view[: self._head - offset]
            _write(self._file, part, offset)
            view, offset = view[len(part) :], offset + len(part)
        if len(view) > self._ring:
            view, offset = view[len(view) - self._ring :], offset + len(view) - self._ring
        while view:
            place = (offset - self._head) % self._ring
            part = view[: self._ring - place]
            _write(self._file, part, self._head + place)
            view, offset = view[len(part) :], offset + len(part)

    def _load(self, offset: int, size: int) -> bytes:
        if self._file < 0:
            raise OffsetError(self._end)
        parts = []
        while size:
            if offset < self._head:
                place, room = offset, self._head - offset
            else:
                ring = (offset - self._head) % self._ring
                place, room = self._head + ring, self._ring - ring
            part = os.pread(self._file, min(size, room), place)
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class _Runs:
    """Where which stream begins. Adjacent output of one stream is one run."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._streams: list[Stream] = []

    def append(self, start: int, stream: Stream) -> None:
        if self._streams and (self._streams[-1] is stream or len(self._starts) >= MAX_RUNS):
            return
        self._starts.append(start)
        self._streams.append(stream)

    def at(self, offset: int, end: int) -> tuple[Stream, int]:
        index = bisect.bisect_right(self._starts, offset) - 1
        until = self._starts[index + 1] if index + 1 < len(self._starts) else end
        return self._streams[index], until

    def forget_between(self, start: int, end: int) -> None:
        """Forget the runs that lie wholly in [start, end), where nothing is kept."""
        if end <= start or len(self._starts) < 2:
            return
        first = bisect.bisect_left(self._starts, start)
        last = bisect.bisect_right(self._starts, end) - 1
        # Rare enough to be cheap: only once a good part of the list has become useless.
        if last - first > 256:
            del self._starts[first:last]
            del self._streams[first:last]


def _write(file: int, view: memoryview, place: int) -> None:
    while view:
        written = os.pwrite(file, view, place)
        view, place = view[written:], place + written
