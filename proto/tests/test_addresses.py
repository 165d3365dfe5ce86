"""The table of addresses that nothing may be sent to."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quickstarted_api.addresses import Address, deny_reason, parse_networks

DENIED = {
    "127.0.0.1": "loopback",
    "127.9.9.9": "loopback",
    "0.0.0.0": "this host",
    "0.1.2.3": "this host",
    "10.0.0.0": "private",
    "10.255.255.255": "private",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.168.0.1": "private",
    "100.64.0.1": "carrier",
    "100.100.100.200": "carrier",
    "100.127.255.255": "carrier",
    "169.254.169.254": "link-local",
    "169.254.170.2": "link-local",
    "192.0.0.192": "IETF protocol assignments",
    "192.88.99.1": "6to4",
    "198.18.0.1": "benchmarks",
    "198.19.255.255": "benchmarks",
    "224.0.0.1": "multicast",
    "239.255.255.255": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "broadcast",
    "168.63.129.16": "host service",
    "::": "unspecified",
    "::1": "loopback",
    "::2": "IPv4-compatible",
    "::ffff:10.0.0.1": "private",
    "::ffff:127.0.0.1": "loopback",
    "::ffff:169.254.169.254": "link-local",
    "::7f00:1": "of 127.0.0.1",
    "::8.8.8.8": "of 8.8.8.8",
    "64:ff9b::a00:1": "NAT64 (RFC 6052) of a private network",
    "64:ff9b::127.0.0.1": "NAT64 (RFC 6052) of loopback",
    "64:ff9b:1::a00:1": "of 10.0.0.1",
    "64:ff9b:1::808:808": "of 8.8.8.8",
    "2002:a00:1::": "6to4 (RFC 7526), of 10.0.0.1",
    "2002:808:808::1": "6to4 (RFC 7526), of 8.8.8.8",
    "2001::1": "Teredo",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2": "of 192.0.2.45",
    "2001:2::1": "benchmarks",
    "2001:20::1": "IETF protocol assignments",
    "2001:db8::1": "documentation",
    "3fff::1": "documentation",
    "100::1": "discards",
    "100:0:0:1::1": "dummies",
    "fc00::1": "private",
    "fd00:ec2::254": "private",
    "fe80::1": "link-local",
    "fe80::1%lo": "link-local",
    "fec0::1": "site-local",
    "ff02::1": "multicast",
    "5f00::1": "not assigned",
    "4000::1": "not assigned",
    "e000::1": "not assigned",
}

REACHABLE = (
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.1",
    "168.63.129.15",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.1",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2001:200::1",
    "2003::1",
    "2606:4700::1111",
    "2a00:1450::1",
    # Documentation ranges of IPv4: laboratories map their package mirrors there.
    "192.0.2.1",
    "198.51.100.255",
    "203.0.113.7",
)


@pytest.mark.parametrize(("address", "reason"), DENIED.items(), ids=DENIED)
def test_denied(address: str, reason: str) -> None:
    assert reason in (deny_reason(address) or "")


@pytest.mark.parametrize("address", REACHABLE)
def test_reachable(address: str) -> None:
    assert deny_reason(address) is None


def test_every_reason_names_its_source() -> None:
    assert [found for found in map(deny_reason, DENIED) if "(" not in (found or "")] == []


@pytest.mark.parametrize(
    ("opened", "address", "denied"),
    [
        pytest.param("10.20.0.0/16", "10.20.3.4", False, id="an address within the opened network is allowed"),
        pytest.param("10.20.0.0/16", "10.21.3.4", True, id="its neighbour is not"),
        pytest.param("10.20.0.0/16", "::ffff:10.20.3.4", False, id="an IPv4-mapped address is the IPv4 address"),
        pytest.param("10.20.0.0/16", "64:ff9b::10.20.3.4", True, id="NAT64 leads to another network of that number"),
        pytest.param("10.20.0.0/16", "2002:a14:304::", True, id="6to4 is not opened by what it carries"),
        pytest.param("127.0.0.0/8", "127.0.0.1", False, id="loopback may be opened by name"),
        pytest.param("127.0.0.0/8", "::1", True, id="which is not loopback of the other family"),
        pytest.param("fd00:1::/32", "fd00:1::7", False, id="a private network of IPv6"),
        pytest.param("fe80::/10", "fe80::1%lo", False, id="a scope does not matter"),
    ],
)
def test_an_operator_opens_named_networks(opened: str, address: str, denied: bool) -> None:
    assert (deny_reason(address, parse_networks([opened])) is not None) is denied


def test_an_address_of_this_machine_is_denied_wherever_it_lies() -> None:
    def own(address: Address) -> bool:
        return str(address) in {"8.8.8.8", "2606:4700::1111"}

    for address in ("8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::808:808", "2606:4700::1111"):
        assert "this machine itself" in (deny_reason(address, own=own) or "")
    assert deny_reason("8.8.4.4", own=own) is None


def test_an_operator_may_name_an_address_of_this_machine() -> None:
    assert deny_reason("8.8.8.8", parse_networks(["8.8.8.8"]), own=lambda address: True) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("0.0.0.0/0", "not within one private range", id="everything"),
        pytest.param("::/0", "covers IPv4-mapped", id="everything of IPv6"),
        pytest.param("::/3", "covers IPv4-mapped", id="a range that holds the mapped addresses"),
        pytest.param("8000::/1", "not within one private range", id="half of everything"),
        pytest.param("1.0.0.0/8", "not within one private range", id="a slip of a digit"),
        pytest.param("172.0.0.0/10", "not within one private range", id="wider than the private range"),
        pytest.param("10.0.0.1/8", "has host bits set", id="an address in a network's clothes"),
        pytest.param("::ffff:10.0.0.0/104", "give the IPv4 network itself", id="a mapped network"),
        pytest.param("registry.test", "give a network such as", id="a name"),
        pytest.param("", "give a network such as", id="nothing"),
    ],
)
def test_networks_that_an_operator_can_not_open(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_networks([text])


def test_text_that_is_no_address_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"registry\.test"):
        deny_reason("registry.test")


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_text_and_value_are_judged_alike_and_a_mapped_address_as_its_own(address: Address) -> None:
    assert deny_reason(address) == deny_reason(str(address))
    if isinstance(address, IPv4Address):
        assert deny_reason(address) == deny_reason(IPv6Address(f"::ffff:{address}"))


@given(st.ip_addresses(v=6))
def test_nothing_outside_the_assigned_range_is_reachable(address: IPv6Address) -> None:
    nat64 = address in IPv6Network("64:ff9b::/96")
    if address.ipv4_mapped is None and not nat64 and int(address) >> 125 != 0b001:
        assert deny_reason(address) is not None
