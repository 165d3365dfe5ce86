"""Where a sandbox may connect to: pure decisions about names and ports, and the grammar of a target.

Every path through the gateway asks `Policy.judge`, so that a proxy request, a captured connection and a DNS query about
one name get one answer. `_RULES` is the policy. Which addresses a name may have is another question, asked once the
name is resolved: see `quickstarted_api.addresses`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from quickstarted_api.hosts import HostError, first_match, parse_host
from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd.egress.refusal import Layer, Reason, Refusal, printable

# A row holds when every list that it names covers the host. The first row that holds decides.
_RULES: tuple[tuple[frozenset[str], Reason], ...] = (
    (frozenset({"explicit", "docs"}), pb.EXPLICIT_DOCS_HOST),
    (frozenset({"explicit"}), pb.EXPLICIT_HOST),
    (frozenset({"docs"}), pb.DOCS_HOST_REQUIRES_READ_DOCS),
    (frozenset({"registry"}), pb.REGISTRY_HOST),
    (frozenset(), pb.NOT_ALLOWLISTED),
)
_LISTS = ("explicit", "docs", "registry")
_REFUSING = {
    pb.DOCS_HOST_REQUIRES_READ_DOCS: "{host} is a documentation host",
    pb.NOT_ALLOWLISTED: "{host} is not on the allowlist",
}

# The port that each path leads to. A tunnel is for TLS, because that is what the gateway can check in one.
PORTS: dict[Layer, int] = {
    pb.CONNECT: 443,
    pb.HTTP: 80,
    pb.TRANSPARENT_HTTP: 80,
    pb.TRANSPARENT_TLS: 443,
}

# uri-host [":" port] of RFC 9110, section 4.1. RFC 3986 allows an empty port and leading zeros too; both are refused,
# because programs differ in what they make of them.
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([^:]*))?", re.DOTALL)
_PORT = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)

# "Ends in a number" of the WHATWG URL standard: such a host is an IPv4 address, in dozens of notations, to browsers and
# to the C library.
_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9a-fA-F]*)\.?", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a connection should go. `host` is canonical; `port` is 1 to 65535."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Policy:
    """The names that a sandbox may reach. Entries are hosts; each covers itself and its subdomains.

    `explicit` are those that the task names under network, `docs` those that only `read_docs` reads, `registry` the
    default package registries. Raises HostError for an entry that is no hostname.
    """

    explicit: tuple[str, ...] = ()
    docs: tuple[str, ...] = ()
    registry: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in _LISTS:
            object.__setattr__(self, name, tuple(map(parse_host, getattr(self, name))))

    def judge(self, host: str) -> Reason:
        """The reason why a canonical host is allowed. Raises Refusal with the reason why it is not."""
        covering = {name for name in _LISTS if first_match(host, getattr(self, name)) is not None}
        reason = next(reason for lists, reason in _RULES if lists <= covering)
        if reason in _REFUSING:
            raise Refusal(reason, _REFUSING[reason].format(host=host))
        return reason

    def judge_target(self, layer: Layer, target: Target) -> Reason:
        """As `judge`, and the port has to be the one that the path leads to."""
        reason = self.judge(target.host)
        if target.port != PORTS[layer]:
            raise Refusal(pb.PORT_NOT_ALLOWED, f"port {target.port} is closed; this path leads to {PORTS[layer]}")
        return reason

    def is_entry(self, host: str) -> bool:
        """Whether a canonical host is itself an entry, not only a name below one."""
        return host in self.explicit or host in self.registry


def parse_authority(text: str, default_port: int | None = None) -> Target:
    """The target in `host:port`; without a port it is `default_port`, or malformed when that is None.

    Raises Refusal: SELF_CONNECTION for loopback, IP_LITERAL for an address in any other notation, MALFORMED_TARGET for
    the rest.
    """
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        raise Refusal(pb.MALFORMED_TARGET, f"'{printable(text, 80)}' is not host:port (RFC 9112, section 3.2.3)")
    port = _parse_port(found[2], default_port)
    return Target(parse_name(found[1]), port)


def parse_name(host: str) -> str:
    """The canonical form of a host that a client sent, without a port. Raises Refusal as `parse_authority` does."""
    name = host.removesuffix(".").lower()
    if name == "localhost" or name.endswith(".localhost") or _is_loopback(host):
        raise Refusal(pb.SELF_CONNECTION, f"{printable(host, 80)} is this sandbox itself; connect to it directly")
    if host.startswith("["):
        raise Refusal(pb.IP_LITERAL, f"{printable(host, 80)} is an address; only names are allowed")
    if _NUMBER.fullmatch(host):
        raise Refusal(pb.IP_LITERAL, f"{printable(host, 80)} ends in a number and so is an address; use a name")
    try:
        return parse_host(host)
    except HostError as error:
        raise Refusal(pb.MALFORMED_TARGET, str(error).encode("ascii", "backslashreplace").decode()) from None


def _parse_port(text: str | None, default: int | None) -> int:
    if text is None and default is not None:
        return default
    if text is None:
        raise Refusal(pb.MALFORMED_TARGET, "the port is missing (RFC 9112, section 3.2.3)")
    if _PORT.fullmatch(text) is None or int(text) > 65535:
        raise Refusal(pb.MALFORMED_TARGET, f"'{printable(text, 20)}' is not a port: 1 to 65535, in plain digits")
    return int(text)


def _is_loopback(host: str) -> bool:
    try:
        if host.startswith("["):
            return IPv6Address(host[1:-1]).is_loopback
        return IPv4Address(host).is_loopback
    except AddressValueError:
        return False
