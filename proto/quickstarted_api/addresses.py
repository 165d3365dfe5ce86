"""Which addresses a daemon or a controller never connects to on a stranger's behalf.

The table is explicit. `ipaddress.is_global` is true for multicast, NAT64, 6to4, IPv4-compatible and site-local
addresses and for the metadata services of two clouds, and what it answers changes with Python's version.

An address that carries an IPv4 address is unwrapped first. IPv4-mapped and NAT64 addresses are judged by what they
carry, because that is where a packet ends. The forms that nobody uses any more (IPv4-compatible, 6to4, Teredo) are
refused whatever they carry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from quickstarted_api.hosts import quoted

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Each row: a network, what it is, and who says so. The most specific row for an address comes first.
#
# The documentation ranges 192.0.2.0/24, 198.51.100.0/24 and 203.0.113.0/24 (RFC 5737) are left out on purpose: they
# reach nothing of anybody's, and laboratories map their package mirrors there.
_DENIED_V4 = (
    ("0.0.0.0/8", "this host on this network", "RFC 791, section 3.2"),
    ("10.0.0.0/8", "a private network", "RFC 1918"),
    ("100.64.0.0/10", "a carrier's shared network", "RFC 6598"),
    ("127.0.0.0/8", "loopback", "RFC 1122, section 3.2.1.3"),
    ("168.63.129.16/32", "a cloud's host service", "Microsoft Azure, IP address 168.63.129.16"),
    ("169.254.0.0/16", "link-local, where clouds keep their metadata", "RFC 3927"),
    ("172.16.0.0/12", "a private network", "RFC 1918"),
    ("192.0.0.0/24", "IETF protocol assignments, where one cloud keeps its metadata", "RFC 6890, section 2.1"),
    ("192.88.99.0/24", "the 6to4 relay that was withdrawn", "RFC 7526"),
    ("192.168.0.0/16", "a private network", "RFC 1918"),
    ("198.18.0.0/15", "a network for benchmarks", "RFC 2544"),
    ("224.0.0.0/4", "multicast", "RFC 5771"),
    ("255.255.255.255/32", "broadcast", "RFC 919, section 7"),
    ("240.0.0.0/4", "reserved", "RFC 1112, section 4"),
)
_DENIED_V6 = (
    ("::/128", "the unspecified address", "RFC 4291, section 2.5.2"),
    ("::1/128", "loopback", "RFC 4291, section 2.5.3"),
    ("::/96", "an IPv4-compatible address", "RFC 4291, section 2.5.5.1"),
    ("64:ff9b:1::/48", "a network's own NAT64", "RFC 8215"),
    ("100::/64", "a network that discards", "RFC 6666"),
    ("100:0:0:1::/64", "a network of dummies", "RFC 9780"),
    ("2001::/32", "Teredo", "RFC 4380"),
    ("2001:2::/48", "a network for benchmarks", "RFC 5180"),
    ("2001::/23", "IETF protocol assignments", "RFC 2928"),
    ("2001:db8::/32", "documentation", "RFC 3849"),
    ("2002::/16", "6to4", "RFC 7526"),
    ("3fff::/20", "documentation", "RFC 9637"),
    ("fc00::/7", "a private network", "RFC 4193"),
    ("fe80::/10", "link-local", "RFC 4291, section 2.5.6"),
    ("fec0::/10", "site-local", "RFC 3879"),
    ("ff00::/8", "multicast", "RFC 4291, section 2.7"),
    # All that is not 2000::/3. The rows above that lie in here only have better names.
    ("::/3", "not assigned to anybody", "IANA, IPv6 address space"),
    ("4000::/2", "not assigned to anybody", "IANA, IPv6 address space"),
    ("8000::/1", "not assigned to anybody", "IANA, IPv6 address space"),
)


def _compiled(rows: Iterable[tuple[str, str, str]]) -> tuple[tuple[Network, int, int, str], ...]:
    """Rows as (network, its first address, its mask, the reason): a look-up is integer arithmetic."""
    networks = ((ip_network(text), f"{what} ({source})") for text, what, source in rows)
    return tuple((net, int(net.network_address), int(net.netmask), reason) for net, reason in networks)


_V4 = _compiled(_DENIED_V4)
_V6 = _compiled(_DENIED_V6)
_WIDEST = {4: 8, 6: 7}  # the widest private range of each family: 10.0.0.0/8 and fc00::/7

_MAPPED = IPv6Network("::ffff:0:0/96")  # RFC 4291, section 2.5.5.2
_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052, section 2.1
_COMPATIBLE = IPv6Network("::/96")
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")


def deny_reason(
    address: Address | str,
    allow: Sequence[Network] = (),
    *,
    own: Callable[[Address], bool] | None = None,
) -> str | None:
    """Why nothing may be sent to an address, as a phrase with its source; None when it may.

    `allow` holds the networks that an operator opened by name (see `parse_networks`); they win over everything else.
    `own` says whether an address belongs to this very machine: such an address is refused wherever it lies, because
    services of the machine listen there.

    Raises ValueError for text that is no address.
    """
    where = unwrapped(ip_address(address) if isinstance(address, str) else address)
    if any(_within(where, network) for network in allow):
        return None
    if isinstance(where, IPv6Address) and where in _NAT64:
        inner = deny_reason(IPv4Address(int(where) & 0xFFFF_FFFF), own=own)
        return None if inner is None else f"NAT64 (RFC 6052) of {inner}"
    if reason := _row(where):
        carried = carried_v4(where)
        return reason if carried is None else f"{reason}, of {carried}"
    if own is not None and own(where):
        return "an address of this machine itself"
    return None


def unwrapped(address: Address) -> Address:
    """The address that a system really dials: the IPv4 address of an IPv4-mapped one, without a scope."""
    if isinstance(address, IPv6Address):
        return address.ipv4_mapped or IPv6Address(int(address))
    return address


def carried_v4(address: Address) -> IPv4Address | None:
    """The IPv4 address inside an IPv4-mapped, IPv4-compatible, NAT64, 6to4 or Teredo address."""
    if not isinstance(address, IPv6Address):
        return None
    if any(address in network for network in (_MAPPED, _NAT64, _LOCAL_NAT64)):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    if address in _COMPATIBLE and int(address) > 0xFFFF:
        return IPv4Address(int(address))
    if address.teredo is not None:
        return address.teredo[1]
    return address.sixtofour


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """The networks that an operator opens, from text such as `10.20.0.0/16` or a single address.

    A network has to lie within one row of the table and be no wider than 10.0.0.0/8 or fc00::/7, so that a slip of a
    digit does not open everything. A single address may be any, because a machine's own public address is refused too.
    Raises ValueError with a line that says what was found and what is allowed.
    """
    return tuple(_parse_network(text) for text in texts)


def _parse_network(text: str) -> Network:
    try:
        network = ip_network(text.strip())
    except ValueError as error:
        raise ValueError(f"found {quoted(text)}, {error}; give a network such as 10.20.0.0/16") from None
    if isinstance(network, IPv6Network) and network.overlaps(_MAPPED):
        raise ValueError(f"found {quoted(text)}, which covers IPv4-mapped addresses; give the IPv4 network itself")
    rows = _V6 if isinstance(network, IPv6Network) else _V4
    first, last = int(network.network_address), int(network.broadcast_address)
    inside = any(first & mask == start == last & mask for _, start, mask, _ in rows)
    if first == last or (inside and network.prefixlen >= _WIDEST[network.version]):
        return network
    raise ValueError(
        f"found {quoted(text)}, which is not within one private range; give a network such as 10.20.0.0/16"
    )


def _row(address: Address) -> str | None:
    value = int(address)
    rows = _V6 if isinstance(address, IPv6Address) else _V4
    return next((reason for _, start, mask, reason in rows if value & mask == start), None)


def _within(address: Address, network: Network) -> bool:
    return address.version == network.version and int(address) & int(network.netmask) == int(network.network_address)
