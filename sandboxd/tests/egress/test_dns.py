"""The grammar of DNS messages."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quickstarted_api.v1 import sandbox_pb2 as pb
from sandboxd.egress.dns import MAX_QUERY, UDP_PAYLOAD, Code, Faulty, Query, Unanswerable, parse_query, respond
from sandboxd.egress.refusal import Refusal

from tests.support.dns_message import AAAA, A, name, opt, option, question, read

LABELS = (b"registry", b"test")
GOOD = question(LABELS)

FAULTY = {
    "two questions": (question(LABELS, counts=(2, 0, 0, 0), more=name(LABELS) + b"\0\1\0\1"), Code.FORMERR),
    "no question": (question(LABELS, counts=(0, 0, 0, 0)), Code.FORMERR),
    "an answer in the query": (question(LABELS, counts=(1, 1, 0, 0)), Code.FORMERR),
    "an authority in the query": (question(LABELS, counts=(1, 0, 1, 0)), Code.FORMERR),
    "two additional records": (question(LABELS, counts=(1, 0, 0, 2), more=opt() + opt()), Code.FORMERR),
    "an additional record that is no OPT": (
        question(LABELS, counts=(1, 0, 0, 1), more=b"\0\0\1\0\1\0\0\0\0\0\0"),
        Code.FORMERR,
    ),
    "an OPT with an owner": (question(LABELS, counts=(1, 0, 0, 1), more=b"\1a" + opt()), Code.FORMERR),
    "a truncated query": (question(LABELS, flags=0x0300), Code.FORMERR),
    "an update": (question(LABELS, flags=0x2900), Code.NOTIMP),
    "an inverse query": (question(LABELS, flags=0x0900), Code.NOTIMP),
    "class CHAOS": (question((b"version", b"bind"), 16, qclass=3), Code.REFUSED),
    "class ANY": (question(LABELS, qclass=255), Code.REFUSED),
    "a compressed name": (GOOD[:12] + b"\xc0\x0c" + b"\0\1\0\1", Code.FORMERR),
    "a name that points to itself": (GOOD[:12] + b"\3foo\xc0\x0c" + b"\0\1\0\1", Code.FORMERR),
    "a label type of 0x40": (GOOD[:12] + b"\x41" + b"a" * 65 + b"\0\0\1\0\1", Code.FORMERR),
    "a name of 256 bytes": (question([b"a" * 63] * 3 + [b"a" * 62]), Code.FORMERR),
    "a name that does not end": (GOOD[:12] + b"\3foo", Code.FORMERR),
    "a label that does not end": (GOOD[:12] + b"\x20foo", Code.FORMERR),
    "no type": (GOOD[:-4], Code.FORMERR),
    "half a class": (GOOD[:-1], Code.FORMERR),
    "bytes behind the question": (GOOD + b"x", Code.FORMERR),
    "D10 an OPT that ends early": (question(LABELS, counts=(1, 0, 0, 1), more=opt()[:-3]), Code.FORMERR),
    "D10 bytes behind the OPT": (question(LABELS, counts=(1, 0, 0, 1), more=opt() + b"x"), Code.FORMERR),
    "D07 a message over 4 KiB": (
        question(LABELS, counts=(1, 0, 0, 1), more=opt(options=option(12, bytes(MAX_QUERY)))),
        Code.FORMERR,
    ),
}


@pytest.mark.parametrize(("message", "code"), FAULTY.values(), ids=FAULTY)
def test_a_faulty_query_is_answered_with_a_code_and_nothing_else(message: bytes, code: Code) -> None:
    with pytest.raises(Faulty) as refused:
        parse_query(message)
    response = read(refused.value.response)
    assert (response.code, response.ident, response.question) == (code, 0x1234, b"")
    assert refused.value.reason == pb.MALFORMED_DNS


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(GOOD[:11], id="less than a header"),
        pytest.param(question(LABELS, flags=0x8100), id="a response"),
        pytest.param(question(LABELS, flags=0x8100, counts=(0, 0, 0, 0)), id="a response without a question"),
    ],
)
def test_what_gets_no_answer(message: bytes) -> None:
    with pytest.raises(Unanswerable):
        parse_query(message)


def test_a_query() -> None:
    query = parse_query(
        question((b"Registry", b"TEST"), AAAA, counts=(1, 0, 0, 1), more=opt(options=option(10, b"12345678")))
    )
    assert (query.labels, query.name, query.qtype, query.type_name) == (
        (b"Registry", b"TEST"),
        "registry.test",
        28,
        "AAAA",
    )
    assert query.edns == 0
    assert parse_query(question((), 2)).name == ""
    assert parse_query(question(LABELS, 65280)).type_name == "TYPE65280"


@pytest.mark.parametrize("label", [b"a.b", b"a\0b", b"\xe4", b"a b", b"a/b", b"*", b"a\\b"])
def test_a_label_with_other_bytes_has_no_name_as_text(label: bytes) -> None:
    query = parse_query(question((label, b"registry", b"test")))
    assert query.name is None
    assert str(query).isprintable()


@pytest.mark.parametrize(
    ("more", "size"),
    [
        pytest.param(opt(), UDP_PAYLOAD, id="D10 a usual OPT"),
        pytest.param(opt(size=65535), UDP_PAYLOAD, id="D10 a payload of 65535"),
        pytest.param(opt(size=0), UDP_PAYLOAD, id="D10 a payload of 0"),
        pytest.param(opt(flags=0x8000), UDP_PAYLOAD, id="D10 the DO bit"),
        pytest.param(opt(options=option(65001, b"x")), UDP_PAYLOAD, id="D10 an unknown option"),
        pytest.param(opt(options=option(10, b"12345678")), UDP_PAYLOAD, id="D10 a cookie"),
        pytest.param(opt(options=option(12, bytes(400))), UDP_PAYLOAD, id="D10 padding"),
        pytest.param(opt(options=option(8, b"\0\1\x18\0\x0a\0\0")), UDP_PAYLOAD, id="D10 a client's subnet"),
        pytest.param(b"", None, id="D10 no OPT"),
    ],
)
def test_options_are_ignored(more: bytes, size: int | None) -> None:
    message = question(LABELS, counts=(1, 0, 0, 1 if more else 0), more=more)
    response = read(respond(parse_query(message), Code.NOERROR, (b"\xc6\x12\0\1",)))
    assert response.opt == (None if size is None else (size, 0))
    assert response.answers == [(A, 1, b"\xc6\x12\0\1")]


def test_d10_another_version_of_edns_is_bad() -> None:
    query = parse_query(question(LABELS, counts=(1, 0, 0, 1), more=opt(version=1)))
    response = read(respond(query, Code.NOERROR, (b"\xc6\x12\0\1",)))
    assert (response.code, response.answers) == (Code.BADVERS, [])


def test_a_response_repeats_the_question_byte_for_byte() -> None:
    message = question((b"ReGiStRy", b"tEsT"), ident=0xBEEF)
    response = read(respond(parse_query(message), Code.NXDOMAIN))
    assert (response.ident, response.question, response.code) == (0xBEEF, message[12:], Code.NXDOMAIN)
    assert response.flags & 0x8180 == 0x8180


@pytest.mark.parametrize("code", [Code.NOERROR, Code.NXDOMAIN])
def test_d04_nothing_has_an_authority_so_that_it_stays_nothing_for_a_second(code: Code) -> None:
    response = read(respond(parse_query(GOOD), code))
    [(kind, ttl, content)] = response.authorities
    assert (kind, ttl) == (6, 1)
    assert struct.unpack("!5I", content[2:])[-1] == 1


LABEL = st.binary(min_size=1, max_size=63)
QUERIES = st.builds(
    question,
    st.lists(LABEL, max_size=3),
    st.integers(0, 65535),
    qclass=st.sampled_from([1, 1, 1, 3]),
    flags=st.sampled_from([0x0100, 0x0000, 0x8000, 0x0110, 0x2000]),
    counts=st.sampled_from([(1, 0, 0, 0), (1, 0, 0, 1), (2, 0, 0, 0)]),
    more=st.sampled_from([b"", opt(), opt(version=1), opt(options=option(10, b"12345678")), b"x"]),
)


@given(st.one_of(st.binary(max_size=120), QUERIES, QUERIES.map(lambda message: message[:-2])))
def test_a_message_is_a_query_or_a_refusal_and_no_response_is_much_longer(message: bytes) -> None:
    try:
        query = parse_query(message)
    except Refusal:
        return
    again = name(query.labels) + struct.pack("!2H", query.qtype, 1)
    assert query.question == again == message[12 : 12 + len(again)]
    assert query.name is None or query.name.isascii()
    for response in (
        respond(query, Code.NXDOMAIN),
        respond(query, Code.NOERROR),
        respond(query, Code.NOERROR, (b"abcd",)),
    ):
        assert len(response) <= len(message) + 50
        assert read(response).question == query.question


@given(st.lists(st.from_regex(rb"[A-Za-z0-9_-]{1,20}", fullmatch=True), min_size=1, max_size=4))
def test_a_name_as_text_is_its_labels(labels: list[bytes]) -> None:
    query = parse_query(question(labels))
    assert isinstance(query, Query)
    assert query.name == b".".join(labels).decode().lower()
