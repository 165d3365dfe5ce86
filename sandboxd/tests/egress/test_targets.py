"""The grammar of targets, over the two kinds of request to the proxy; and the pure rules behind it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quickstarted_api.hosts import HostError, matches, parse_host
from quickstarted_api.v1 import sandbox_pb2 as pb
from sandboxd.egress.policy import Policy, Target, parse_authority, parse_name
from sandboxd.egress.refusal import Refusal, printable

from tests.support.gateway import connect_request, running
from tests.support.paths import status_of

CONNECT_TARGETS = {
    "H01 ssh": (b"registry.test:22", 403, "PORT_NOT_ALLOWED"),
    "H01 mail": (b"registry.test:25", 403, "PORT_NOT_ALLOWED"),
    "H01 another web port": (b"registry.test:8080", 403, "PORT_NOT_ALLOWED"),
    "H01 a tunnel to port 80": (b"registry.test:80", 403, "PORT_NOT_ALLOWED"),
    "H01 the highest port": (b"registry.test:65535", 403, "PORT_NOT_ALLOWED"),
    "H01 port 0": (b"registry.test:0", 400, "MALFORMED_TARGET"),
    "H01 beyond the highest port": (b"registry.test:65536", 400, "MALFORMED_TARGET"),
    "H01 443 twice": (b"registry.test:443443", 400, "MALFORMED_TARGET"),
    "H01 a sign": (b"registry.test:+443", 400, "MALFORMED_TARGET"),
    "H01 a leading zero": (b"registry.test:0443", 400, "MALFORMED_TARGET"),
    "H01 full-width digits": ("registry.test:４４３".encode(), 400, "MALFORMED_TARGET"),  # noqa: RUF001
    "H01 an empty port": (b"registry.test:", 400, "MALFORMED_TARGET"),
    "H01 no port": (b"registry.test", 400, "MALFORMED_TARGET"),
    "H01 two ports": (b"registry.test:443:443", 400, "MALFORMED_TARGET"),
    "H03 loopback": (b"127.0.0.1:443", 403, "SELF_CONNECTION"),
    "H03 one number": (b"2130706433:443", 403, "IP_LITERAL"),
    "H03 one hexadecimal number": (b"0x7f000001:443", 403, "IP_LITERAL"),
    "H03 octal": (b"0177.0.0.1:443", 403, "IP_LITERAL"),
    "H03 two parts": (b"127.1:443", 403, "IP_LITERAL"),
    "H03 two hexadecimal parts": (b"0x7f.1:443", 403, "IP_LITERAL"),
    "H03 zero": (b"0:443", 403, "IP_LITERAL"),
    "H03 two zeros": (b"00:443", 403, "IP_LITERAL"),
    "H03 three parts": (b"1.2.3:443", 403, "IP_LITERAL"),
    "H03 a hexadecimal number without digits": (b"registry.0x:443", 403, "IP_LITERAL"),
    "H03 a trailing dot": (b"10.0.0.1.:443", 403, "IP_LITERAL"),
    "H03 a name that ends in a number": (b"registry.test.1:443", 403, "IP_LITERAL"),
    "H03 a public address": (b"8.8.8.8:443", 403, "IP_LITERAL"),
    "D16 a DoH server's address": (b"1.1.1.1:443", 403, "IP_LITERAL"),
    "H03 an address of IPv6": (b"[2606:4700::1]:443", 403, "IP_LITERAL"),
    "H03 loopback of IPv6": (b"[::1]:443", 403, "SELF_CONNECTION"),
    "H03 mapped loopback": (b"[::ffff:127.0.0.1]:443", 403, "IP_LITERAL"),
    "H03 an address of IPv6 without brackets": (b"::1:443", 400, "MALFORMED_TARGET"),
    "H04 full-width digits": ("１２７.０.０.１:443".encode(), 400, "MALFORMED_TARGET"),  # noqa: RUF001
    "H04 ideographic full stops": ("127。0。0。1:443".encode(), 400, "MALFORMED_TARGET"),
    "H04 a circled letter": ("ⓛocalhost:443".encode(), 400, "MALFORMED_TARGET"),
    "H06 two trailing dots": (b"registry.test..:443", 400, "MALFORMED_TARGET"),
    "H11 NUL before an entry": (b"evil.test\0.registry.test:443", 400, "MALFORMED_TARGET"),
    "H11 NUL behind an entry": (b"registry.test\0evil.test:443", 400, "MALFORMED_TARGET"),
    "H12 a line break": (b"registry.test\r\nX: y:443", 400, "MALFORMED_REQUEST"),
    "H12 a tab": (b"registry.test\t:443", 400, "MALFORMED_TARGET"),
    "H12 a space": (b"registry.test :443", 400, "MALFORMED_TARGET"),
    "H12 an escaped line break": (b"registry.test%0d%0a:443", 400, "MALFORMED_TARGET"),
    "H12 an escaped NUL": (b"registry.test%00:443", 400, "MALFORMED_TARGET"),
    "a user": (b"registry.test@evil.test:443", 400, "MALFORMED_TARGET"),
    "a docs host as a user": (b"docs.test:443@registry.test:443", 400, "MALFORMED_TARGET"),
    "N07 the proxy itself": (b"127.0.0.1:3128", 403, "SELF_CONNECTION"),
    "N07 the proxy itself by name": (b"localhost:3128", 403, "SELF_CONNECTION"),
    "an underscore": (b"_registry.test:443", 400, "MALFORMED_TARGET"),
    "a label of 64": (b"a" * 64 + b".test:443", 400, "MALFORMED_TARGET"),
    "a name of 254": (b".".join([b"a" * 49] * 5) + b".test:443", 400, "MALFORMED_TARGET"),
    "an empty name": (b":443", 400, "MALFORMED_TARGET"),
    "a pattern": (b"*.registry.test:443", 400, "MALFORMED_TARGET"),
    "a URL": (b"https://registry.test/", 400, "MALFORMED_TARGET"),
}

URLS = {
    "H01 ssh": (b"http://registry.test:22/", 403, "PORT_NOT_ALLOWED"),
    "H01 plain HTTP to port 443": (b"http://registry.test:443/", 403, "PORT_NOT_ALLOWED"),
    "H01 an empty port": (b"http://registry.test:/", 400, "MALFORMED_TARGET"),
    "H01 a leading zero": (b"http://registry.test:080/", 400, "MALFORMED_TARGET"),
    "H03 loopback": (b"http://127.0.0.1/", 403, "SELF_CONNECTION"),
    "H03 one number": (b"http://2130706433/", 403, "IP_LITERAL"),
    "H03 hexadecimal": (b"http://0x7f.1/", 403, "IP_LITERAL"),
    "H04 full-width digits": ("http://１２７.０.０.１/".encode(), 400, "MALFORMED_TARGET"),  # noqa: RUF001
    "H11 NUL": (b"http://registry.test\0evil.test/", 400, "MALFORMED_TARGET"),
    "H12 an escaped line break": (b"http://registry.test%0d%0a/", 400, "MALFORMED_TARGET"),
    "N05 a docs host": (b"http://docs.test/", 403, "DOCS_HOST_REQUIRES_READ_DOCS"),
    "a user": (b"http://registry.test@evil.test/", 400, "MALFORMED_TARGET"),
    "a user before an entry": (b"http://docs.test@registry.test/", 400, "MALFORMED_TARGET"),
    "a backslash": (b"http://registry.test\\@docs.test/", 400, "MALFORMED_TARGET"),
    "N07 the proxy itself": (b"http://127.0.0.1:3128/", 403, "SELF_CONNECTION"),
    "N08 https": (b"https://registry.test/", 400, "SCHEME_NOT_ALLOWED"),
    "N09 ftp": (b"ftp://registry.test/", 400, "SCHEME_NOT_ALLOWED"),
    "N09 gopher": (b"gopher://registry.test/", 400, "SCHEME_NOT_ALLOWED"),
    "N09 file": (b"file:///etc/passwd", 400, "SCHEME_NOT_ALLOWED"),
    "N09 a websocket": (b"ws://registry.test/", 400, "SCHEME_NOT_ALLOWED"),
    "N09 no authority": (b"http:registry.test", 400, "MALFORMED_TARGET"),
    "a fragment": (b"http://registry.test/#a", 400, "MALFORMED_TARGET"),
    "an empty authority": (b"http:///", 400, "MALFORMED_TARGET"),
    "no scheme": (b"registry.test/", 400, "MALFORMED_TARGET"),
}


@pytest.mark.parametrize(("target", "status", "reason"), CONNECT_TARGETS.values(), ids=CONNECT_TARGETS)
async def test_a_target_of_connect_is_refused(target: bytes, status: int, reason: str) -> None:
    async with running() as rig:
        answer = await rig.ask("proxy", connect_request(target))
        assert status_of(answer) == status
        assert rig.reasons() == [reason]
        [event] = rig.events
        assert event.verdict == pb.REFUSED
        assert event.layer in (pb.CONNECT, pb.HTTP)
        assert event.target == printable(target.partition(b"\r\n")[0]) or reason == "MALFORMED_REQUEST"
        assert event.target.isascii()
        assert event.target.isprintable()
        assert (rig.resolved, rig.dialled) == ([], [])


@pytest.mark.parametrize(("url", "status", "reason"), URLS.values(), ids=URLS)
async def test_a_url_is_refused(url: bytes, status: int, reason: str) -> None:
    async with running() as rig:
        answer = await rig.ask("proxy", b"GET " + url + b" HTTP/1.1\r\nHost: registry.test\r\n\r\n")
        assert status_of(answer) == status
        assert rig.reasons() == [reason]
        assert rig.events[0].target == printable(url)
        assert (rig.resolved, rig.dialled) == ([], [])


@pytest.mark.parametrize(
    ("url", "line"),
    [
        pytest.param("http://registry.test", "GET / HTTP/1.1", id="an empty path is the root"),
        pytest.param("http://registry.test?q=1", "GET /?q=1 HTTP/1.1", id="a query without a path"),
        pytest.param("http://registry.test:80/a//b/../c", "GET /a//b/../c HTTP/1.1", id="a path is not rewritten"),
        pytest.param("HTTP://REGISTRY.TEST./a|b{c}", "GET /a|b{c} HTTP/1.1", id="what browsers leave bare in a path"),
        pytest.param("http://registry.test/http://docs.test/", "GET /http://docs.test/ HTTP/1.1", id="a URL in a path"),
        pytest.param("http://registry.test/@docs.test", "GET /@docs.test HTTP/1.1", id="an at sign in a path"),
    ],
)
async def test_a_url_goes_upstream_as_a_path_and_the_canonical_host(url: str, line: str) -> None:
    async with running() as rig:
        host = "Host: " + ("REGISTRY.test" if url.startswith("HTTP") else "registry.test")
        answer = await rig.ask("proxy", f"GET {url} HTTP/1.1\r\n{host}\r\nConnection: close\r\n\r\n".encode())
        assert status_of(answer) == 200
        assert rig.upstream.received == f"{line}\r\nHost: registry.test\r\n\r\n".encode()
        assert rig.events[0].path == line.split()[1]


async def test_h12_what_a_sandbox_sends_can_not_forge_a_line_of_a_log() -> None:
    async with running() as rig:
        await rig.ask("proxy", b"GET http://registry.test/\x1b]0;x\x07\x80\xff\\ HTTP/1.1\r\nHost: a\r\n\r\n")
        assert rig.events[0].target == r"http://registry.test/\x1b]0;x\x07\x80\xff\x5c"
        assert rig.events[0].detail.isprintable()


def test_an_escaped_target_is_cut_at_300_characters() -> None:
    assert len(printable(b"a" * 1000)) == 300
    assert len(printable(b"\0" * 1000)) == 300
    assert printable(b"a" * 300) == "a" * 300


HOSTS = st.one_of(
    st.text(alphabet="abAB01.-_:[]@%0x \t\0é１", max_size=30),  # noqa: RUF001
    st.from_regex(r"[a-z0-9-]{1,10}(\.[a-z0-9-]{1,10}){0,4}\.?", fullmatch=True),
)


@given(HOSTS)
def test_a_target_is_a_canonical_host_or_a_refusal(text: str) -> None:
    try:
        target = parse_authority(text, 443)
    except Refusal as refusal:
        told = (refusal.reason, refusal.detail.isascii(), refusal.detail.isprintable())
        assert told in [(reason, True, True) for reason in (pb.MALFORMED_TARGET, pb.IP_LITERAL, pb.SELF_CONNECTION)]
        return
    assert target.host == parse_host(target.host)
    assert 1 <= target.port <= 65535
    assert parse_authority(f"{target.host}:{target.port}") == target
    assert text.lower().startswith(target.host)


@given(st.text(max_size=60), st.integers())
def test_a_name_is_never_accepted_that_the_host_grammar_refuses(text: str, port: int) -> None:
    for read in (parse_name, lambda text: parse_authority(f"{text}:{port}").host):
        try:
            host = read(text)
        except Refusal:
            continue
        assert host == parse_host(text)


NAMES = st.sampled_from(["a.test", "b.a.test", "b.test", "xa.test", "test", "c.b.a.test"])


@given(NAMES, st.lists(NAMES), st.lists(NAMES), st.lists(NAMES))
def test_the_order_of_the_rules(host: str, explicit: list[str], docs: list[str], registry: list[str]) -> None:
    policy = Policy(tuple(explicit), tuple(docs), tuple(registry))
    in_explicit, in_docs, in_registry = (
        any(matches(host, entry) for entry in entries) for entries in (explicit, docs, registry)
    )
    try:
        reason = policy.judge(host)
    except Refusal as refusal:
        reason = refusal.reason
    if in_explicit:
        assert reason == (pb.EXPLICIT_DOCS_HOST if in_docs else pb.EXPLICIT_HOST)
    elif in_docs:
        assert reason == pb.DOCS_HOST_REQUIRES_READ_DOCS
    else:
        assert reason == (pb.REGISTRY_HOST if in_registry else pb.NOT_ALLOWLISTED)


@pytest.mark.parametrize(
    "entry", ["*", "*.com", "registry.test:443", "[::1]", "registry.test\nfoo", "a b", "10.0.0.0/8"]
)
def test_h14_a_policy_has_hostnames_only(entry: str) -> None:
    with pytest.raises(HostError):
        Policy(explicit=(entry,))


def test_a_port_is_judged_only_for_a_host_that_is_allowed() -> None:
    policy = Policy(docs=("docs.test",), registry=("registry.test",))
    reasons = []
    for host in ("docs.test", "evil.test", "registry.test"):
        with pytest.raises(Refusal) as refused:
            policy.judge_target(pb.CONNECT, Target(host, 22))
        reasons.append(refused.value.reason)
    assert reasons == [pb.DOCS_HOST_REQUIRES_READ_DOCS, pb.NOT_ALLOWLISTED, pb.PORT_NOT_ALLOWED]
