"""What a sandbox tells while an attempt runs: each event goes into the trace as it arrives, and is counted here.

The counts say what the gateway allowed, refused and failed at, by host and by the command that was running.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from quickstarted_api.v1 import sandbox_pb2 as pb

from quickstarted.classify import Incident, IncidentKind
from quickstarted.results.model import HostCount
from quickstarted.sandbox.base import Sandbox
from quickstarted.sandbox.names import lower_name
from quickstarted.toolbox import Ended
from quickstarted.trace import Trace, write_sandbox_event

DOCS_REFUSED = "docs_host_requires_read_docs"
DOCS_OPENED = "explicit_docs_host"
# Different things to remember of one attempt. A sandbox can name hosts without end; the trace has them all.
MAX_KINDS = 10_000

_KINDS: dict[int, IncidentKind] = {pb.REFUSED: IncidentKind.REFUSED, pb.ERROR: IncidentKind.ERROR}


@dataclass(frozen=True, slots=True)
class _Seen:
    exec_id: str
    verdict: int  # 0 for a limit
    reason: str
    host: str = ""
    layer: str = ""


@dataclass
class Watcher:
    """Follows one sandbox."""

    trace: Trace
    _seen: Counter[_Seen] = field(default_factory=Counter)

    async def follow(self, sandbox: Sandbox) -> None:
        """Until the sandbox has ended and its last event came. Raises SandboxError when events can't be had."""
        async with aclosing(sandbox.events()) as events:
            async for event in events:
                write_sandbox_event(self.trace, event)
                self._count(event)

    def _count(self, event: pb.Event) -> None:
        match event.WhichOneof("event"):
            case "egress" if not event.egress.closed:
                decision = event.egress
                seen = _Seen(
                    event.exec_id,
                    decision.verdict,
                    lower_name(pb.EgressReason.DESCRIPTOR, decision.reason),
                    decision.host,
                    lower_name(pb.EgressLayer.DESCRIPTOR, decision.layer),
                )
                self._add(seen, max(decision.count, 1))
            case "limit":
                self._add(_Seen(event.exec_id, 0, lower_name(pb.LimitReached.Kind.DESCRIPTOR, event.limit.kind)), 1)

    def _add(self, seen: _Seen, count: int) -> None:
        if seen in self._seen or len(self._seen) < MAX_KINDS:
            self._seen[seen] += count

    def incidents(self, ended: Mapping[str, Ended]) -> Iterator[Incident]:
        """What happened during commands that failed, in order. Events of no command that is known do not count."""
        for seen in self._seen:
            command = ended.get(seen.exec_id)
            if command is None or command.result.ok:
                continue
            if seen.verdict == 0:
                yield Incident(command.phase, IncidentKind.LIMIT, seen.reason)
            elif seen.verdict in _KINDS:
                yield Incident(command.phase, _KINDS[seen.verdict], seen.reason, seen.host, seen.layer)

    def refused(self, ended: Mapping[str, Ended]) -> tuple[HostCount, ...]:
        """What the policy refused by host; documentation hosts are counted on their own."""
        return self._by_host(pb.REFUSED, ended, leave_out=DOCS_REFUSED)

    def upstream_errors(self, ended: Mapping[str, Ended]) -> tuple[HostCount, ...]:
        return self._by_host(pb.ERROR, ended)

    @property
    def docs_bypass_attempts(self) -> int:
        return sum(count for seen, count in self._seen.items() if seen.reason == DOCS_REFUSED)

    @property
    def docs_hosts_reached(self) -> tuple[str, ...]:
        """Documentation hosts that the shell reached, because the task opened them."""
        return tuple(dict.fromkeys(seen.host for seen in self._seen if seen.reason == DOCS_OPENED))

    def _by_host(self, verdict: int, ended: Mapping[str, Ended], leave_out: str = "") -> tuple[HostCount, ...]:
        counts: Counter[tuple[str, str]] = Counter()
        failed: set[tuple[str, str]] = set()
        for seen, count in self._seen.items():
            if seen.verdict != verdict or seen.reason == leave_out:
                continue
            key = (seen.host, seen.reason)
            counts[key] += count
            command = ended.get(seen.exec_id)
            if command is not None and not command.result.ok:
                failed.add(key)
        return tuple(HostCount(host, reason, n, (host, reason) in failed) for (host, reason), n in counts.items())
