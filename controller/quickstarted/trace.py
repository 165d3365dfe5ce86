"""The record of one attempt: what happened, in order, as JSON lines that are written before the next thing happens.

Each line has `seq` (from 1, without holes), `time` (UTC) and `event`; the other fields are the event's. The events and
their fields are in `results/trace.schema.json`, and for people in the reference. Who renders progress listens here, so
that what a person sees and what is on record are the same.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from quickstarted_api.v1 import sandbox_pb2 as pb

from quickstarted.sandbox.base import CommandResult
from quickstarted.sandbox.names import lower_name

VERSION = 1

Clock = Callable[[], datetime]

# JSON allows them inside strings, and some readers split lines there.
_LINE_BREAKS = {ord(one): f"\\u{ord(one):04x}" for one in "\x85\u2028\u2029"}


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a trace."""

    seq: int
    time: str
    event: str
    fields: Mapping[str, object]


Listener = Callable[[Record], None]


class RecordsError(Exception):
    """Records can't be written: the disk is full, or the directory is not ours. Ends the run, not an attempt."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"can't write {path}: {error.strerror or error}")


class Trace:
    """Writes a trace. Opening one replaces what was at its path. Raises RecordsError where it can't be written."""

    def __init__(
        self, path: Path, listeners: Sequence[Listener] = (), clock: Clock = lambda: datetime.now(UTC)
    ) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Half of a surrogate pair, which a model can send, has no UTF-8; a question mark stands for it.
            self._file: IO[str] = path.open("w", encoding="utf-8", errors="replace")
        except OSError as error:
            raise RecordsError(path, error) from error
        self._listeners = listeners
        self._clock = clock
        self._seq = 0

    def write(self, event: str, **fields: object) -> None:
        """Add an event. It is with the operating system when this returns."""
        self._seq += 1
        time = self._clock().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        record = Record(self._seq, time, event, fields)
        line = {"seq": record.seq, "time": record.time, "event": event, **fields}
        try:
            self._file.write(json.dumps(line, ensure_ascii=False).translate(_LINE_BREAKS) + "\n")
            self._file.flush()
        except OSError as error:
            raise RecordsError(self._path, error) from error
        for listener in self._listeners:
            listener(record)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what was written is flushed; what could not be was told
            self._file.close()


def append_error(path: Path, label: str, error: BaseException) -> str:
    """Keep a traceback where somebody can find it. Returns its id, for people. Raises RecordsError."""
    error_id = secrets.token_hex(4)
    time = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8", errors="replace") as file:
            file.write(f"--- {error_id} {label} {time}\n{''.join(traceback.format_exception(error))}\n")
    except OSError as problem:
        raise RecordsError(path, problem) from error
    return error_id


def command_fields(result: CommandResult) -> dict[str, object]:
    """How a command ended, as every event about one has it."""
    return {
        "exec_id": result.exec_id,
        "exit_code": result.exit_code,
        "cause": result.cause.lower(),
        "seconds": round(result.seconds, 3),
        "output": result.output,
        "output_chars": result.output_chars,
        "truncated": result.truncated,
        "message": result.message,
    }


_EGRESS_EVENTS = {pb.ALLOWED: "egress_allowed", pb.REFUSED: "egress_blocked", pb.ERROR: "egress_error"}


def write_sandbox_event(trace: Trace, event: pb.Event) -> None:
    """Add what a runner told about a sandbox. What this version does not know is left out."""
    match event.WhichOneof("event"):
        case "egress":
            name = "egress_closed" if event.egress.closed else _EGRESS_EVENTS.get(event.egress.verdict)
            if name is not None:
                trace.write(name, exec_id=event.exec_id, **_egress_fields(event.egress))
        case "limit":
            kind = lower_name(pb.LimitReached.Kind.DESCRIPTOR, event.limit.kind)
            trace.write("limit_reached", exec_id=event.exec_id, kind=kind, value=event.limit.value)
        case "lifecycle":
            state = lower_name(pb.SandboxState.DESCRIPTOR, event.lifecycle.state)
            trace.write("sandbox_state", state=state, detail=event.lifecycle.detail)
        case "dropped":
            trace.write("events_dropped", count=event.dropped.count)


def _egress_fields(decision: pb.EgressDecision) -> dict[str, object]:
    return {
        "layer": lower_name(pb.EgressLayer.DESCRIPTOR, decision.layer),
        "reason": lower_name(pb.EgressReason.DESCRIPTOR, decision.reason),
        "host": decision.host,
        "port": decision.port,
        "target": decision.target,
        "method": decision.method,
        "path": decision.path,
        "status": decision.status,
        "bytes_up": decision.bytes_up,
        "bytes_down": decision.bytes_down,
        "seconds": round(decision.duration.ToTimedelta().total_seconds(), 3),
        "count": max(decision.count, 1),
        "address": decision.address,
        "detail": decision.detail,
    }
