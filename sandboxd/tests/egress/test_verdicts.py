"""One verdict on every path: each row runs over CONNECT, absolute-URI, captured 80 and 443, and DNS.

Refused means: no upstream connection, no upstream query, one event with the reason and the target.
"""

from __future__ import annotations

import pytest
from quickstarted_api.addresses import parse_networks
from quickstarted_api.v1 import sandbox_pb2 as pb
from sandboxd.egress.policy import Policy

from tests.support.gateway import PUBLIC, Rig, running
from tests.support.paths import PATHS, Path

EVERY_PATH = [pytest.param(path, id=path.name) for path in PATHS]
DIALLING = [pytest.param(path, id=path.name) for path in PATHS if path.dials]

ALLOWED = {
    "H07 upper case is the same name": ("REGISTRY.Test", "registry.test", "REGISTRY_HOST"),
    "H06 one trailing dot is the same name": ("registry.test.", "registry.test", "REGISTRY_HOST"),
    "D02 a name below an entry": ("cdn.registry.test", "cdn.registry.test", "REGISTRY_HOST"),
    "H14 an explicit host": ("files.test", "files.test", "EXPLICIT_HOST"),
}

REFUSED = {
    "N01 a docs host": ("docs.test", "DOCS_HOST_REQUIRES_READ_DOCS"),
    "N01 a name below a docs host": ("api.docs.test", "DOCS_HOST_REQUIRES_READ_DOCS"),
    "a host that nobody named": ("evil.test", "NOT_ALLOWLISTED"),
    "H10 an entry as a prefix": ("registry.test.evil.test", "NOT_ALLOWLISTED"),
    "H10 an entry as a suffix without a dot": ("evilregistry.test", "NOT_ALLOWLISTED"),
    "H10 one letter more": ("xregistry.test", "NOT_ALLOWLISTED"),
    "H10 a longer label": ("registry.test-evil.test", "NOT_ALLOWLISTED"),
    "H10 the parent of an entry": ("test", "NOT_ALLOWLISTED"),
    "D06 a name that discovers resolvers": ("resolver.arpa", "NOT_ALLOWLISTED"),
    "D06 a name that turns DoH off": ("use-application-dns.net", "NOT_ALLOWLISTED"),
    "D06 a proxy discovery": ("wpad", "NOT_ALLOWLISTED"),
    "D06 a cloud's metadata": ("metadata.google.internal", "NOT_ALLOWLISTED"),
    "D06 the engine's host": ("host.docker.internal", "NOT_ALLOWLISTED"),
    "D13 a single label": ("registry", "NOT_ALLOWLISTED"),
    "D16 a DoH host": ("dns.google", "NOT_ALLOWLISTED"),
}


@pytest.mark.parametrize("path", EVERY_PATH)
@pytest.mark.parametrize(("host", "canonical", "reason"), ALLOWED.values(), ids=ALLOWED)
async def test_allowed(path: Path, host: str, canonical: str, reason: str) -> None:
    async with running() as rig:
        outcome = await path.ask(rig, host)
        assert outcome.through, outcome.answer
        [event] = rig.decisions()
        assert (event.layer, event.verdict, event.host) == (path.layer, pb.ALLOWED, canonical)
        assert pb.EgressReason.Name(event.reason) == reason
        if path.dials:
            assert rig.resolved == [canonical]
            assert [address for address, _ in rig.dialled] == [PUBLIC]
            [end] = await rig.closed()
            assert (end.host, end.address) == (canonical, PUBLIC)
            assert end.bytes_up > 0
            assert end.bytes_down > 0
            if path.layer in (pb.HTTP, pb.TRANSPARENT_HTTP):
                assert b"Host: " + canonical.encode() + b"\r\n" in rig.upstream.received
        else:
            assert (rig.resolved, rig.dialled) == ([], [])


@pytest.mark.parametrize("path", EVERY_PATH)
@pytest.mark.parametrize(("host", "reason"), REFUSED.values(), ids=REFUSED)
async def test_refused(path: Path, host: str, reason: str) -> None:
    async with running() as rig:
        outcome = await path.ask(rig, host)
        assert not outcome.through
        if path.status:
            assert outcome.status == 403
            assert f"X-Sandboxd-Reason: {reason.lower()}\r\n".encode() in outcome.answer
        assert rig.reasons() == [reason]
        [event] = rig.events
        assert (event.layer, event.verdict, event.host) == (path.layer, pb.REFUSED, host)
        assert event.target
        assert (rig.resolved, rig.dialled, rig.upstream.connections) == ([], [], [])


@pytest.mark.parametrize("path", EVERY_PATH)
async def test_h15_a_docs_host_is_judged_by_its_name_not_by_an_address_that_it_shares(path: Path) -> None:
    async with running() as rig:
        rig.answers.update({"docs.test": (PUBLIC,), "registry.test": (PUBLIC,)})
        assert (await path.ask(rig, "registry.test")).through
        rig.events.clear()
        assert not (await path.ask(rig, "docs.test")).through
        assert "DOCS_HOST_REQUIRES_READ_DOCS" in rig.reasons()
        assert "docs.test" not in rig.resolved


@pytest.mark.parametrize("path", EVERY_PATH)
@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        pytest.param(
            Policy(docs=("registry.test",), registry=("registry.test",)),
            "DOCS_HOST_REQUIRES_READ_DOCS",
            id="H14 the docs rule wins over a default registry",
        ),
        pytest.param(
            Policy(explicit=("registry.test",), docs=("registry.test",)),
            "EXPLICIT_DOCS_HOST",
            id="H14 a host that the task names under network wins over the docs rule",
        ),
    ],
)
async def test_a_host_on_two_lists(path: Path, policy: Policy, reason: str) -> None:
    async with running(policy=policy) as rig:
        outcome = await path.ask(rig, "registry.test")
        assert outcome.through is (reason == "EXPLICIT_DOCS_HOST")
        assert rig.reasons() == [reason]


DENIED_ADDRESSES = [
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "192.0.0.192",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "168.63.129.16",
    "::",
    "::1",
    "::ffff:10.0.0.1",
    "::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b:1::a00:1",
    "2002:a00:1::",
    "2001:0::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "100::1",
    "2001:db8::1",
]


@pytest.mark.parametrize("path", DIALLING)
@pytest.mark.parametrize("address", DENIED_ADDRESSES, ids=[f"R01 {address}" for address in DENIED_ADDRESSES])
async def test_an_allowed_name_with_an_address_that_is_not_public_is_refused(path: Path, address: str) -> None:
    async with running() as rig:
        rig.answers["registry.test"] = (address,)
        await _refused_address(path, rig)


@pytest.mark.parametrize("path", DIALLING)
async def test_r01_one_bad_address_among_good_ones_refuses_the_name(path: Path) -> None:
    async with running() as rig:
        rig.answers["registry.test"] = (PUBLIC, "10.0.0.1")
        await _refused_address(path, rig)


@pytest.mark.parametrize("path", DIALLING)
async def test_r01_an_address_of_this_machine_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandboxd.egress.upstream.is_own", lambda address: str(address) == "198.51.100.9")
    async with running() as rig:
        rig.answers["registry.test"] = ("198.51.100.9",)
        await _refused_address(path, rig)


async def _refused_address(path: Path, rig: Rig) -> None:
    outcome = await path.ask(rig, "registry.test")
    assert not outcome.through
    if path.status:
        assert outcome.status == 403
        assert b"X-Sandboxd-Reason: private_address\r\n" in outcome.answer
    [event] = rig.events
    assert (event.verdict, event.reason, event.host) == (pb.REFUSED, pb.PRIVATE_ADDRESS, "registry.test")
    assert rig.resolved == ["registry.test"]
    assert (rig.dialled, rig.upstream.connections) == ([], [])


@pytest.mark.parametrize("path", DIALLING)
@pytest.mark.parametrize("address", ["192.0.2.10", "198.51.100.10", "203.0.113.10", "64:ff9b::808:808", "2606:4700::1"])
async def test_r06_a_name_with_a_public_or_a_laboratory_address_is_dialled_there(path: Path, address: str) -> None:
    async with running() as rig:
        rig.answers["registry.test"] = (address,)
        assert (await path.ask(rig, "registry.test")).through
        assert [found for found, _ in rig.dialled] == [address]
        assert rig.resolved == ["registry.test"]


@pytest.mark.parametrize("path", DIALLING)
async def test_r06_an_operator_opens_a_private_network(path: Path) -> None:
    async with running(allow_private=parse_networks(["10.20.0.0/16"])) as rig:
        rig.answers["registry.test"] = ("10.20.0.1",)
        assert (await path.ask(rig, "registry.test")).through
        rig.answers["registry.test"] = ("10.21.0.1",)
        assert not (await path.ask(rig, "registry.test")).through


@pytest.mark.parametrize("path", DIALLING)
@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(OSError(-2, "Name or service not known"), id="R04 no such name"),
        pytest.param(TimeoutError(), id="R04 no answer"),
        pytest.param((), id="R04 an answer without addresses"),
    ],
)
async def test_a_name_that_does_not_resolve_fails_closed(path: Path, failure: Exception | tuple[str, ...]) -> None:
    async with running() as rig:
        rig.answers["registry.test"] = failure
        outcome = await path.ask(rig, "registry.test")
        assert not outcome.through
        if path.status:
            assert outcome.status == 502
        assert rig.reasons() == ["DNS_FAILURE"]
        assert rig.events[0].verdict == pb.ERROR
        assert rig.dialled == []


@pytest.mark.parametrize("path", DIALLING)
async def test_d12_what_a_name_is_an_alias_of_does_not_matter(path: Path) -> None:
    """The name that was asked for is judged, and the addresses; a CNAME between them is not even seen."""
    async with running() as rig:
        rig.answers["registry.test"] = ("10.0.0.1",)
        assert not (await path.ask(rig, "registry.test")).through
        assert rig.reasons() == ["PRIVATE_ADDRESS"]


@pytest.mark.parametrize("path", DIALLING)
async def test_d02_only_so_many_new_names_below_an_entry_are_resolved(path: Path) -> None:
    async with running() as rig:
        names = [f"secret{i}.registry.test" for i in range(14)]
        outcomes = [(await path.ask(rig, name)).through for name in names]
        assert outcomes == [True] * 12 + [False] * 2
        assert rig.resolved == names[:12]
        assert rig.reasons() == ["REGISTRY_HOST"] * 12 + ["TOO_MANY_NAMES"] * 2
        assert (await path.ask(rig, names[0])).through, "a name that was resolved before costs nothing"
        assert (await path.ask(rig, "registry.test")).through, "nor does an entry's own name"
        assert (await path.ask(rig, "files.test")).through
