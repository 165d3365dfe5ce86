"""A command's output as a log: one offset space over both streams, spooled to disk, resumable at every offset.

Of output past its limit the first and the last half are kept and a gap stands between. The file holds a head and,
behind it, a ring for the tail, so it never grows past the limit; memory holds only where the streams change. Writers
are threads and never wait for readers; readers are coroutines of one event loop and never wait for the disk that a
writer waits for. What a writer is about to overwrite is given up first, so a reader that loaded it finds out.

Once output is cut, who follows it waits at the cut for the command's end: a flood is sent on within the limit too.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
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


class CorruptError(Exception):
    """The log's file can't be read."""


class ExecLog(Generic[ExitT]):
    """The log of one command. `limit` is in bytes; `on_cut` is called once, from a writer, when output is first cut."""

    def __init__(self, path: Path, limit: int, on_cut: Callable[[], None] | None = None) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        # [0, head) is kept for good, [kept, end) is in the ring, and what is between is the gap.
        self._head = limit - limit // 2
        self._ring = limit // 2
        self._kept = self._head
        self._end = 0
        self._on_cut = on_cut
        self._runs = _Runs()
        self._exit: ExitT | None = None
        self._spoilt = ""
        self._cut_told = False
        self._writing = threading.Lock()  # held while the disk is written to
        self._lock = threading.Lock()  # held for the fields above, and never for long
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[int, asyncio.Event]] = []

    @property
    def end(self) -> int:
        """The offset of the next byte."""
        return self._end

    @property
    def cut(self) -> int:
        """How many bytes are not kept."""
        return max(0, min(self._kept, self._end) - self._head)

    @property
    def exit(self) -> ExitT | None:
        """How the command ended, once the log is complete."""
        return self._exit

    @property
    def spoilt(self) -> str:
        """Why output could not be kept, when the disk refused it."""
        return self._spoilt

    def write(self, stream: Stream, data: bytes | memoryview) -> None:
        """Append; from any thread. What comes after the log was finished is dropped."""
        view = memoryview(data)
        with self._writing:
            if self._exit is None and view:
                self._append(stream, view)
            if self._exit is not None:
                self._let_go()

    def finish(self, exit_of: Callable[[int, int], ExitT]) -> None:
        """Write the exit record, made of the bytes that were written and the bytes that were cut. The first stands."""
        with self._lock:
            if self._exit is None:
                self._exit = exit_of(self._end, self.cut)
            reached = self._reached()
        if self._writing.acquire(blocking=False):  # else the writer that has it lets go
            self._let_go()
            self._writing.release()
        self._wake(reached)

    @contextlib.contextmanager
    def reader(self, *, follow: bool = True) -> Iterator[LogReader[ExitT]]:
        """A reader, which can go on reading also when the log is dropped meanwhile.

        One that follows has nothing to read beyond a cut before the log is complete.
        """
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            file = -1
        try:
            yield LogReader(self, file, follow=follow)
        finally:
            if file >= 0:
                os.close(file)

    async def reach(self, offset: int, seconds: float) -> bool:
        """Wait until who follows can read up to an offset, or the log is complete; False when that takes longer."""
        event = asyncio.Event()
        with self._lock:
            if offset <= self._followable() or self._exit is not None:
                return True
            self._waiting.append((offset, event))
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return False
        finally:
            with self._lock:
                self._waiting = [each for each in self._waiting if each[1] is not event]
        return True

    def drop(self) -> None:
        """Give the disk space back. From now on all output is a gap, to those who begin to read."""
        self.path.unlink(missing_ok=True)

    # --- for writers ----------------------------------------------------------------------------------------------

    def _append(self, stream: Stream, view: memoryview) -> None:
        start, end = self._end, self._end + len(view)
        with self._lock:
            self._kept = max(self._kept, end - self._ring)
            self._runs.forget_between(self._head, self._kept)
        try:
            self._store(view, start)
        except OSError as error:
            self._spoil(start, end, error)
        with self._lock:
            if self._exit is not None:
                return
            self._runs.append(start, stream)
            self._end = end
            told, self._cut_told = self._cut_told, self.cut > 0
            reached = self._reached()
        self._wake(reached)
        if self._cut_told and not told and self._on_cut is not None:
            self._on_cut()

    def _spoil(self, start: int, end: int, error: OSError) -> None:
        """The disk is full, or broken: nothing more is kept, and the command goes on."""
        with self._lock:
            self._spoilt = error.strerror or str(error)
            self._head = min(self._head, start)
            self._kept, self._ring = end, 0

    def _store(self, view: memoryview, offset: int) -> None:
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

    def _let_go(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _reached(self) -> list[asyncio.Event]:
        if not self._waiting:
            return []
        over, end = self._exit is not None, self._followable()
        reached = [event for offset, event in self._waiting if over or offset <= end]
        if reached:
            self._waiting = [each for each in self._waiting if not over and each[0] > end]
        return reached

    def _followable(self) -> int:
        return self._end if self._exit is not None or self._kept <= self._head else min(self._head, self._end)

    def _wake(self, reached: list[asyncio.Event]) -> None:
        for event in reached:
            self._loop.call_soon_threadsafe(event.set)

    # --- for LogReader --------------------------------------------------------------------------------------------

    def look(
        self, offset: int, file: int, *, follow: bool
    ) -> Gap | End[ExitT] | tuple[Stream, list[tuple[int, int]]] | None:
        """What is at an offset; of output its stream, and the places (start, size) in the file that hold it."""
        with self._lock:
            if offset >= (self._followable() if follow else self._end):
                if self._exit is None:
                    return None
                if offset > self._end:
                    raise OffsetError(self._end)
                return End(self._exit)
            if file < 0:
                return Gap(offset, self._end)
            if self._head <= offset < self._kept:
                return Gap(offset, min(self._kept, self._end))
            stream, until = self._runs.at(offset, self._end)
            if offset < self._head and self._kept > self._head:
                until = min(until, self._head)
            return stream, self._places(offset, min(CHUNK, until - offset))

    def _places(self, offset: int, size: int) -> list[tuple[int, int]]:
        places = []
        while size:
            if offset < self._head:
                place, room = offset, self._head - offset
            else:
                ring = (offset - self._head) % self._ring
                place, room = self._head + ring, self._ring - ring
            places.append((place, min(size, room)))
            offset, size = offset + places[-1][1], size - places[-1][1]
        return places

    def is_kept(self, offset: int) -> bool:
        """Whether what was loaded from an offset on is what the log has there."""
        with self._lock:
            return offset < self._head or offset >= self._kept


class LogReader(Generic[ExitT]):
    """Reads one log on the event loop. Made by `ExecLog.reader`."""

    def __init__(self, log: ExecLog[ExitT], file: int, *, follow: bool) -> None:
        self._log = log
        self._file = file
        self._follow = follow

    def read(self, offset: int) -> Data | Gap | End[ExitT] | None:
        """The record at an offset, None when it is not written yet. Raises OffsetError and CorruptError."""
        while True:
            found = self._log.look(offset, self._file, follow=self._follow)
            if not isinstance(found, tuple):
                return found
            stream, places = found
            data = [_read(self._file, place, size) for place, size in places]
            if self._log.is_kept(offset):
                return Data(offset, stream, data[0] if len(data) == 1 else b"".join(data))
            # A writer came round the ring meanwhile: look again, and find a gap.


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


def _read(file: int, place: int, size: int) -> bytes:
    try:
        data = os.pread(file, size, place)
    except OSError as error:
        raise CorruptError(f"the log can't be read: {error.strerror}") from None
    if len(data) != size:
        raise CorruptError(f"the log's file ends {size - len(data)} bytes early")
    return data
