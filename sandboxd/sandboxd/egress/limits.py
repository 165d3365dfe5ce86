"""What one sandbox may take of the gateway, and the counters that hold it to that. No clock: `now` is an argument."""

from __future__ import annotations

import resource
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """Bounds of one sandbox's gateway. Times are in seconds."""

    # Connections to the proxy and captured ones together. npm opens some 15 a host, a browser 6 a host and 256 in all.
    connections: int = 128
    # New connections a second, and at once. Beyond that they wait in the kernel's queue, at no cost for others.
    accepts: float = 200.0
    accept_burst: float = 1000.0
    # Plain requests a second, and at once. Beyond that they are served later: apt fetches some hundreds of files in one
    # run, and a pipelining flood on one connection would take a whole processor.
    requests: float = 200.0
    request_burst: float = 1000.0
    # From a connection's start to the end of its first request head or ClientHello. nginx and Apache wait 60 s and
    # 20 s, for clients far away.
    head: float = 10.0
    # Between two requests on one connection (nginx: 75 s).
    keep_alive: float = 60.0
    # For all of name resolution, and for all of dialling; a single address gets no more than `attempt`.
    resolve: float = 10.0
    connect: float = 10.0
    attempt: float = 4.0
    # From a request's end to the end of the answer's head (nginx's proxy_read_timeout: 60 s).
    answer: float = 60.0
    # Without a byte in either direction. RFC 5382 asks NATs to keep a connection for 2 h 4 min; a stalled download
    # should end sooner. Ten minutes is more than any registry keeps a silent connection.
    idle: float = 600.0
    # From start to end of one tunnel or request, whatever it carries: 4 h for 14 GB at 1 MB/s.
    absolute: float = 4 * 3600.0
    # New names below an entry that are resolved, a minute; an entry's own name costs nothing.
    names_a_minute: int = 12
    # Resolutions in flight.
    lookups: int = 8
    # DNS queries a second, and at once. A build that resolves for every file stays under it.
    queries: float = 200.0
    query_burst: float = 400.0
    # DNS over TCP: connections, and seconds without a whole query (RFC 7766, section 6.2.3: a few seconds).
    dns_connections: int = 16
    dns_idle: float = 5.0


class TokenBucket:
    """`rate` tokens a second, `burst` at most."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._at: float | None = None

    def take(self, now: float) -> bool:
        """Take a token, if there is one. `now` must not go back."""
        self._fill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def reserve(self, now: float) -> float:
        """Take a token, also one that is still to come; the seconds until it is there."""
        self._fill(now)
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)

    def _fill(self, now: float) -> None:
        if self._at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now


class NameBudget:
    """How many new names may be resolved. A name that was once paid for is free as long as it is remembered."""

    _REMEMBERED = 1024

    def __init__(self, names_a_minute: int) -> None:
        self._bucket = TokenBucket(names_a_minute / 60, names_a_minute)
        self._paid: dict[str, None] = {}

    def take(self, name: str, now: float) -> bool:
        """Whether a name may be resolved now."""
        if name in self._paid:
            return True
        if not self._bucket.take(now):
            return False
        if len(self._paid) >= self._REMEMBERED:
            del self._paid[next(iter(self._paid))]
        self._paid[name] = None
        return True


class DescriptorBudget:
    """Descriptors that connections of all gateways together may take, so that the daemon keeps some for its callers.

    `accept` fails with EMFILE for everybody when a process has none left; by then a controller can't reach the daemon.
    """

    RESERVED = 256  # for gRPC, journals, logs, engines and children
    PER_CONNECTION = 2

    def __init__(self) -> None:
        self._used = 0

    def take(self, held: int) -> bool:
        """Take what one connection needs, for a sandbox that holds so many.

        A sandbox may hold no more than it leaves free: the first takes half, and there is always some left for one that
        comes later. The limit is read anew each time, because an operator may change it.
        """
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if limit != resource.RLIM_INFINITY:
            room = max(limit - self.RESERVED, limit // 2) // self.PER_CONNECTION
            if held >= room - self._used:
                return False
        self._used += 1
        return True

    def give(self) -> None:
        """Give back what one connection took."""
        self._used -= 1


DESCRIPTORS = DescriptorBudget()
"""The process's own: descriptors are a process's resource, so there is one."""
