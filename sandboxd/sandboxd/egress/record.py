"""One passage's events: what is decided about it, how it fails, and how it ends. See EgressDecision in the contract."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd.egress.answers import status_of
from sandboxd.egress.refusal import TARGET_LENGTH, Layer, Reason, Refusal, printable

Emit = Callable[[pb.EgressDecision], None]


@dataclass(slots=True)
class Record:
    """A request, tunnel, captured connection or DNS query, as its events tell it.

    Its fields are filled in as they become known; `emit` takes each event at once.
    """

    emit: Emit
    layer: Layer
    host: str = ""
    port: int = 0
    target: str = ""
    method: str = ""
    path: str = ""
    address: str = ""
    status: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    allowed: Reason | None = None
    began: float = field(default_factory=time.monotonic)

    def allow(self, reason: Reason) -> None:
        """It goes through. Called before anything goes upstream."""
        self.allowed = reason
        self._send(pb.ALLOWED, reason)

    def refuse(self, refusal: Refusal) -> None:
        """It does not go through; or, when it was allowed, it failed upstream."""
        verdict = pb.ERROR if refusal.reason in _UPSTREAM else pb.REFUSED
        self._send(verdict, refusal.reason, status=status_of(refusal.reason), detail=refusal.detail)

    def fail(self, reason: Reason, detail: str, status: int = 0) -> None:
        """It was allowed, and the upstream failed."""
        self._send(pb.ERROR, reason, status=status, detail=detail)

    def close(self) -> None:
        """It ended. Told once, and only of what was allowed: for the rest the refusal was the end."""
        if self.allowed is None:
            return
        event = self._event(pb.ALLOWED, self.allowed, self.status, "")
        self.allowed = None
        event.closed = True
        event.bytes_up = self.bytes_up
        event.bytes_down = self.bytes_down
        event.duration.FromNanoseconds(int((time.monotonic() - self.began) * 1e9))
        self.emit(event)

    def _send(self, verdict: pb.Verdict.ValueType, reason: Reason, *, status: int = 0, detail: str = "") -> None:
        self.emit(self._event(verdict, reason, status, detail))

    def _event(self, verdict: pb.Verdict.ValueType, reason: Reason, status: int, detail: str) -> pb.EgressDecision:
        return pb.EgressDecision(
            layer=self.layer,
            verdict=verdict,
            reason=reason,
            host=self.host,
            port=self.port,
            target=self.target,
            method=self.method,
            path=printable(self.path),
            status=status,
            count=1,
            address=self.address,
            detail=detail[:TARGET_LENGTH],
        )


_UPSTREAM = frozenset(
    {
        pb.DNS_FAILURE,
        pb.CONNECT_FAILURE,
        pb.UPSTREAM_TIMEOUT,
        pb.UPSTREAM_CLOSED,
        pb.UPSTREAM_MALFORMED,
        pb.UPSTREAM_SERVER_ERROR,
    }
)
