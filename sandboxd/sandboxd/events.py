"""A sandbox's events: numbered from 1 without holes, kept in a ring, streamed to whoever asks from any number on.

Egress decisions come in floods, so equal ones within a second are one event: the first is written at once, the others
are counted and written when the second is over, or when somebody needs to know that nothing is outstanding.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncGenerator, Callable

from google.protobuf.timestamp_pb2 import Timestamp
from quickstarted_api.v1 import sandbox_pb2 as pb

KEPT = 10_000
# Of all events kept, as they are sent: long targets and paths must not become a way to the daemon's memory.
MAX_BYTES = 4 << 20
WINDOW_SECONDS = 1.0
# Different decisions counted at once; past it they are written one by one.
MAX_COUNTED = 1_000

_Key = tuple[object, ...]


class EventLog:
    """The events of one sandbox. Used on the event loop only.

    `running` tells which commands run now: an event is attributed when there is exactly one.
    """

    def __init__(self, running: Callable[[], list[str]], kept: int = KEPT) -> None:
        self._running = running
        self._kept: deque[pb.Event] = deque()
        self._max = kept
        self._bytes = 0
        self._last = 0
        self._counted: dict[_Key, tuple[pb.EgressDecision, str, asyncio.TimerHandle]] = {}
        self._changed = asyncio.Event()
        self._closed = False

    @property
    def last_seq(self) -> int:
        """The number of the latest event."""
        return self._last

    def egress(self, decision: pb.EgressDecision) -> None:
        """Write a decision of the gateway, or count it with an equal one of this second."""
        if self._closed:
            return
        exec_id = self._attributed()
        if decision.closed:
            self._write(pb.Event(exec_id=exec_id, egress=decision))
            return
        key = _key(decision, exec_id)
        counted = self._counted.get(key)
        if counted is not None:
            counted[0].count += decision.count or 1
            return
        decision.count = decision.count or 1
        self._write(pb.Event(exec_id=exec_id, egress=decision))
        if len(self._counted) < MAX_COUNTED:
            more = pb.EgressDecision()
            more.CopyFrom(decision)
            more.count = 0
            handle = asyncio.get_running_loop().call_later(WINDOW_SECONDS, self._flush_one, key)
            self._counted[key] = (more, exec_id, handle)

    def limit(self, kind: pb.LimitReached.Kind.ValueType, value: int, exec_id: str | None = None) -> None:
        """A limit was reached; by the command that runs, when none is named."""
        owner = self._attributed() if exec_id is None else exec_id
        self._write(pb.Event(exec_id=owner, limit=pb.LimitReached(kind=kind, value=value)))

    def lifecycle(self, state: pb.SandboxState.ValueType, detail: str = "") -> None:
        """The sandbox came to another state."""
        self._write(pb.Event(lifecycle=pb.Lifecycle(state=state, detail=detail)))

    def flush(self) -> None:
        """Write out what is still being counted."""
        for key in list(self._counted):
            self._flush_one(key)

    def close(self) -> None:
        """No more events come. Streams end when they have sent the last."""
        self.flush()
        self._closed = True
        self._wake()

    async def stream(self, after: int) -> AsyncGenerator[pb.Event, None]:
        """Events after a number, live, until the log is closed."""
        while True:
            for event in self._after(after):
                after = event.seq
                yield event
            if self._closed:
                return
            changed = self._changed
            if self._last <= after:
                await changed.wait()

    def _after(self, seq: int) -> list[pb.Event]:
        if not self._kept or self._last <= seq:
            return []
        first = self._kept[0].seq
        if seq + 1 < first:
            # What fell out of the ring: one event stands for it, with the number of the last of them.
            gap = pb.Event(seq=first - 1, time=self._kept[0].time, dropped=pb.Dropped(count=first - 1 - seq))
            return [gap, *self._kept]
        # Usually the last one of thousands: taken from the end.
        newer = [*itertools.islice(reversed(self._kept), self._last - seq)]
        newer.reverse()
        return newer

    def _attributed(self) -> str:
        running = self._running()
        return running[0] if len(running) == 1 else ""

    def _flush_one(self, key: _Key) -> None:
        decision, exec_id, handle = self._counted.pop(key)
        handle.cancel()
        if decision.count:
            self._write(pb.Event(exec_id=exec_id, egress=decision))

    def _write(self, event: pb.Event) -> None:
        if self._closed:
            return
        self._last += 1
        event.seq = self._last
        now = Timestamp()
        now.GetCurrentTime()
        event.time.CopyFrom(now)
        self._kept.append(event)
        self._bytes += event.ByteSize()
        while len(self._kept) > self._max or (self._bytes > MAX_BYTES and len(self._kept) > 1):
            self._bytes -= self._kept.popleft().ByteSize()
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _key(decision: pb.EgressDecision, exec_id: str) -> _Key:
    return (
        exec_id,
        decision.layer,
        decision.verdict,
        decision.reason,
        decision.host,
        decision.port,
        decision.target,
        decision.method,
        decision.path,
        decision.status,
    )
