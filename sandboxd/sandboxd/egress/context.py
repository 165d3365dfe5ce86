"""What the paths through one sandbox's gateway share."""

from __future__ import annotations

from dataclasses import dataclass

from sandboxd.egress.limits import GatewayLimits
from sandboxd.egress.policy import Policy
from sandboxd.egress.record import Emit
from sandboxd.egress.synthetic import SyntheticNames
from sandboxd.egress.upstream import Upstreams


@dataclass(frozen=True, slots=True)
class Context:
    """One sandbox's rules and means."""

    policy: Policy
    names: SyntheticNames
    upstreams: Upstreams
    limits: GatewayLimits
    emit: Emit
