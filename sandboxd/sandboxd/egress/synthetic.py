"""The addresses that stand for names in one sandbox.

An allowed name gets an address of the planted pool when it is first asked for, and keeps it as long as the sandbox
lives. A connection to that address is a connection to the name: see `gateway`.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

# Names below an entry that get an address. The names that a package manager uses number in the tens; a name can carry
# data, and each costs memory.
MAX_NAMES = 4096


class SyntheticNames:
    """A one-to-one map between names and addresses of a pool."""

    def __init__(self, pool: str, limit: int = MAX_NAMES) -> None:
        """`pool` is an IPv4 network as CIDR, of 16 addresses at least."""
        network = IPv4Network(pool)
        self._first = int(network.network_address) + 1
        self._limit = min(limit, network.num_addresses - 2)
        self._addresses: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def address_of(self, name: str) -> str | None:
        """The address that stands for a canonical name; None when there are too many names."""
        found = self._addresses.get(name)
        if found is not None or len(self._addresses) >= self._limit:
            return found
        address = str(IPv4Address(self._first + len(self._addresses)))
        self._addresses[name] = address
        self._names[address] = name
        return address

    def name_of(self, address: str) -> str | None:
        """The name that an address stands for."""
        return self._names.get(address)
