"""The grammar of a ClientHello."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quickstarted_api.v1 import sandbox_pb2 as pb
from sandboxd.egress.client_hello import MAX_CLIENT_HELLO, ClientHelloReader
from sandboxd.egress.refusal import Refusal

from tests.support.gateway import client_hello
from tests.support.splits import byte_by_byte, cut_at
from tests.support.tls_message import extension, hello_body, record, server_name, whole

REAL = client_hello("registry.test")
MINE = whole(server_name(b"registry.test"))


def read(pieces: list[bytes]) -> object:
    """The server name, the reason of a refusal, or None while it is not complete."""
    reader = ClientHelloReader()
    try:
        for piece in pieces:
            if (hello := reader.feed(piece)) is not None:
                return hello.server_name
    except Refusal as refusal:
        return refusal.reason if refusal.detail.isascii() and refusal.detail.isprintable() else refusal.detail
    assert reader.received == b"".join(pieces)
    return None


def records(message: bytes, size: int) -> bytes:
    return b"".join(record(message[i : i + size]) for i in range(0, len(message), size))


ACCEPTED = {
    "OpenSSL's": REAL,
    "one of this test's": MINE,
    "T04 two records": records(REAL[5:], len(REAL) // 2),
    "T04 a byte a record": records(MINE[5:], 1),
    "T04 an extension of 16 KiB of padding": whole(server_name(b"registry.test"), extension(21, bytes(16000))),
    "T04 the size of an ML-KEM key share": whole(extension(51, bytes(1300)), server_name(b"registry.test")),
    "T04 the largest that is allowed": records(
        hello_body(server_name(b"registry.test"), extension(21, bytes(60000))), 1 << 14
    ),
    "data behind it": MINE + record(b"early", kind=23),
    "a record of version 3.0": record(MINE[5:], version=b"\x03\x00"),
}

REFUSED = {
    "T02 no server name": (client_hello(None), pb.TLS_NAME_MISSING),
    "T02 no extensions at all": (record(hello_body(extensions=False)), pb.TLS_NAME_MISSING),
    "T02 a name of another type": (whole(extension(0, b"\0\4\1\0\1a")), pb.TLS_NAME_MISSING),
    "T06 SSH": (b"SSH-2.0-x\r\n", pb.NON_TLS_ON_443),
    "T06 HTTP": (b"GET / HTTP/1.1\r\n\r\n", pb.NON_TLS_ON_443),
    "N12 another proxy request": (b"CONNECT docs.test:443 HTTP/1.1\r\n\r\n", pb.NON_TLS_ON_443),
    "T06 SSLv2": (b"\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10", pb.NON_TLS_ON_443),
    "T06 an alert": (b"\x15\x03\x01\x00\x02\x02\x28", pb.NON_TLS_ON_443),
    "T06 random bytes": (b"\xa7\x91\x00\x13\x37", pb.NON_TLS_ON_443),
    "T06 a record of version 2.0": (b"\x16\x02\x00", pb.NON_TLS_ON_443),
    "T06 a record of version 3.5": (b"\x16\x03\x05", pb.NON_TLS_ON_443),
    "T06 an empty record": (b"\x16\x03\x01\x00\x00", pb.NON_TLS_ON_443),
    "T06 a record over 16 KiB": (b"\x16\x03\x01\x40\x01", pb.NON_TLS_ON_443),
    "T06 a ServerHello": (record(b"\2" + MINE[6:]), pb.NON_TLS_ON_443),
    "T06 another record in the middle": (record(MINE[5:30]) + record(b"\2\x28", kind=21), pb.NON_TLS_ON_443),
    "a second message in its record": (record(MINE[5:] + b"\1\0\0\0"), pb.NON_TLS_ON_443),
    "a second hello in its record": (record(MINE[5:] + MINE[5:]), pb.NON_TLS_ON_443),
    "a version that is not 3": (record(b"\1\0\0\x26\2\0" + bytes(36)), pb.NON_TLS_ON_443),
    "a session id of 33 bytes": (record(hello_body(server_name(b"a"), session=bytes(33))), pb.NON_TLS_ON_443),
    "an odd number of cipher bytes": (
        record(hello_body(server_name(b"a"), ciphers=b"\x13\x01\x13")),
        pb.NON_TLS_ON_443,
    ),
    "no ciphers": (record(hello_body(server_name(b"a"), ciphers=b"")), pb.NON_TLS_ON_443),
    "no compression": (record(hello_body(server_name(b"a"), compression=b"")), pb.NON_TLS_ON_443),
    "bytes behind the extensions": (record(hello_body(server_name(b"a"), behind=b"x")), pb.NON_TLS_ON_443),
    "an extension that ends early": (whole(b"\0\0\0\x10ab"), pb.NON_TLS_ON_443),
    "two server names in two extensions": (
        whole(server_name(b"registry.test"), server_name(b"docs.test")),
        pb.NON_TLS_ON_443,
    ),
    "two server names in one extension": (whole(server_name(b"registry.test", b"docs.test")), pb.NON_TLS_ON_443),
    "an empty server name": (whole(server_name(b"")), pb.NON_TLS_ON_443),
    "an empty list of names": (whole(extension(0, b"\0\0")), pb.NON_TLS_ON_443),
    "an empty extension": (whole(extension(0, b"")), pb.NON_TLS_ON_443),
    "bytes behind the list of names": (whole(extension(0, server_name(b"a")[4:] + b"x")), pb.NON_TLS_ON_443),
    "an encrypted ClientHello": (
        whole(server_name(b"registry.test"), extension(0xFE0D, b"\0" * 20)),
        pb.TLS_NAME_HIDDEN,
    ),
    "its predecessor": (whole(server_name(b"a.test"), extension(0xFFCE, bytes(20))), pb.TLS_NAME_HIDDEN),
    "T04 a message beyond 64 KiB": (b"\x16\x03\x01\x40\x00\x01\x01\x00\x00", pb.CLIENT_HELLO_TOO_LARGE),
    "T04 records beyond 64 KiB": (
        records(hello_body(server_name(b"a"), extension(21, bytes(20000))), 1),
        pb.CLIENT_HELLO_TOO_LARGE,
    ),
}


@pytest.mark.parametrize("data", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(data: bytes) -> None:
    assert read([data]) == "registry.test"
    assert read(byte_by_byte(data)) == "registry.test"


@pytest.mark.parametrize(("data", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused(data: bytes, reason: int) -> None:
    assert read([data]) == reason
    assert read(byte_by_byte(data)) == reason


@pytest.mark.parametrize("name", [b"REGISTRY.test.", b"registry.test\0.evil", b"\xff", b"127.0.0.1", b"a" * 300])
def test_a_server_name_is_reported_as_it_was_sent(name: bytes) -> None:
    assert read([whole(server_name(name))]) == name.decode("latin-1")


def test_a_hello_that_is_not_complete_is_waited_for() -> None:
    for end in range(len(REAL)):
        assert read([REAL[:end]]) is None


def test_tiny_segments_cost_no_more_than_their_number() -> None:
    """What was read before is not read again: 64 KiB a byte at a time would else take minutes."""
    reader = ClientHelloReader()
    message = hello_body(server_name(b"a"), extension(21, bytes(MAX_CLIENT_HELLO // 6 - 200)))
    for byte in records(message, 1):
        found = reader.feed(bytes([byte]))
    assert found is not None


@given(
    st.one_of(st.binary(max_size=100), st.integers(0, len(REAL)).map(lambda end: REAL[:end])),
    st.lists(st.integers(0, 600)),
)
def test_any_split_of_the_bytes_gives_the_same_events(data: bytes, cuts: list[int]) -> None:
    assert read(cut_at(data, cuts)) == read([data])
    assert read(byte_by_byte(data)) == read([data])


@given(st.integers(0, len(REAL) - 1), st.integers(0, 255), st.integers(1, 600))
def test_a_damaged_hello_never_names_another_host_silently(position: int, value: int, size: int) -> None:
    """One byte changed: the same name, a name of which one letter differs, or a refusal."""
    data = REAL[:position] + bytes([value]) + REAL[position + 1 :]
    name = read([data[i : i + size] for i in range(0, len(data), size)])
    if isinstance(name, str):
        assert len(name) == len("registry.test")
        assert sum(a != b for a, b in zip(name, "registry.test", strict=True)) <= 1


@given(st.binary(max_size=300))
def test_only_a_handshake_record_can_begin_one(data: bytes) -> None:
    found = read([b"\x16\x03\x01" + data])
    assert found is None or isinstance(found, int | str)
    if data and data[0] != 0x16:
        assert read([data]) == pb.NON_TLS_ON_443
