"""What the paths through one sandbox's gateway share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sandboxd.egress.limits import GatewayLimits, TokenBucket
from sandboxd.egress.policy import Policy
from sandboxd.egress.record import Emit, Record
from sandboxd.egress.synthetic import SyntheticNames
from sandboxd.egress.upstream import Upstreams
from sandboxd.egress.wire import Wire

Inspect = Callable[[Wire, "Context", Record], Awaitable[None]]
"""Serves the plain requests inside a TLS connection whose ClientHello, still pending, named the record's host."""


@dataclass(frozen=True, slots=True)
class Context:
    """One sandbox's rules and means."""

    policy: Policy
    names: SyntheticNames
    upstreams: Upstreams
    limits: GatewayLimits
    emit: Emit
    requests: TokenBucket
    # Set when the operator has TLS inspected: opaque otherwise.
    inspect: Inspect | None = None
    # What may be asked for inside an inspected connection.
    inspected_methods: frozenset[str] = frozenset()
