"""Bodies: where one ends, and what is refused."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quickstarted_api.v1 import sandbox_pb2 as pb
from sandboxd.egress.framing import (
    LAST_CHUNK,
    MAX_CHUNK_LINE,
    MAX_TRAILERS,
    ChunkedBody,
    OpenBody,
    SizedBody,
    chunk,
    reader,
)
from sandboxd.egress.http1 import Framing
from sandboxd.egress.refusal import Refusal

from tests.support.splits import byte_by_byte, cut_at


def read(body: ChunkedBody | SizedBody | OpenBody, pieces: list[bytes]) -> tuple[bytes, bytes]:
    """Payload, and what is left over."""
    payload = b""
    for index, piece in enumerate(pieces):
        parts, rest = body.feed(memoryview(piece))
        payload += b"".join(parts)
        if body.complete:
            return payload, bytes(rest) + b"".join(pieces[index + 1 :])
        assert not rest
    return payload, b""


@pytest.mark.parametrize(
    ("data", "payload", "rest"),
    [
        pytest.param(b"4\r\nabcd\r\n0\r\n\r\n", b"abcd", b"", id="one chunk"),
        pytest.param(
            b"4\r\nabcd\r\n2\r\nef\r\n0\r\n\r\nGET /", b"abcdef", b"GET /", id="what follows is not of the body"
        ),
        pytest.param(b"4;x=y\r\nabcd\r\n0;z\r\n\r\n", b"abcd", b"", id="S08 an extension is dropped"),
        pytest.param(b"0004\r\nabcd\r\n000\r\n\r\n", b"abcd", b"", id="leading zeros"),
        pytest.param(b"A\r\n0123456789\r\n0\r\n\r\n", b"0123456789", b"", id="hexadecimal in capitals"),
        pytest.param(b"4\r\na\r\nb\r\n0\r\n\r\n", b"a\r\nb", b"", id="a line break in the data"),
        pytest.param(b"0\r\nHost: evil.test\r\nX: y\r\n\r\nGET", b"", b"GET", id="S08 trailers are dropped"),
    ],
)
def test_chunks(data: bytes, payload: bytes, rest: bytes) -> None:
    body = ChunkedBody()
    assert read(body, [data]) == (payload, rest)
    assert body.complete


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"0x4\r\nabcd\r\n", id="S08 a prefix"),
        pytest.param(b"FFFFFFFFFFFFFFFFF\r\n", id="S08 a size beyond 64 bits"),
        pytest.param(b"FFFFFFFFFFFFFFFF\r\n", id="S08 a size of 64 bits"),
        pytest.param(b"4\r\nabcdX\r\n", id="S08 no CRLF behind the data"),
        pytest.param(b"4\r\nabcd\n0\r\n\r\n", id="S08 LF behind the data"),
        pytest.param(b"4\nabcd\r\n", id="S08 LF behind a size"),
        pytest.param(b"4\r\r\nabcd\r\n", id="S08 CR CR LF"),
        pytest.param(b"4 \r\nabcd\r\n", id="S08 a space behind a size"),
        pytest.param(b" 4\r\nabcd\r\n", id="S08 a space before a size"),
        pytest.param(b"+4\r\nabcd\r\n", id="S08 a sign"),
        pytest.param(b"\r\nabcd\r\n", id="S08 no size"),
        pytest.param(b"4_0\r\nabcd\r\n", id="S08 an underscore"),
        pytest.param(b"4;x\0\r\nabcd\r\n", id="S08 NUL in an extension"),
        pytest.param(b"4;x\rGET\r\nabcd\r\n", id="S08 CR in an extension"),
        pytest.param(b"4;" + b"x" * MAX_CHUNK_LINE + b"\r\n", id="S08 an extension without end"),
        pytest.param(b"0\r\nHost : evil.test\r\n\r\n", id="S08 a trailer with a space before its colon"),
        pytest.param(b"0\r\n folded\r\n\r\n", id="S08 a folded trailer"),
        pytest.param(b"0\r\nnothing\r\n\r\n", id="S08 a trailer without a colon"),
        pytest.param(b"0\r\n" + b"X: y\r\n" * (MAX_TRAILERS // 6 + 1), id="S08 trailers without end"),
    ],
)
def test_chunks_that_are_refused(data: bytes) -> None:
    for pieces in ([data], byte_by_byte(data)):
        with pytest.raises(Refusal) as refused:
            read(ChunkedBody(), pieces)
        assert refused.value.reason == pb.MALFORMED_REQUEST


def test_a_body_of_known_length_ends_there() -> None:
    body = SizedBody(5)
    assert read(body, [b"ab", b"cde", b"GET /"]) == (b"abcde", b"GET /")
    assert body.complete
    assert body.wants == 0


def test_a_connection_that_ends_early_leaves_a_body_incomplete() -> None:
    sized, chunked, opened = SizedBody(5), ChunkedBody(), OpenBody()
    read(sized, [b"abcd"])
    read(chunked, [b"4\r\nabcd\r\n0\r\n"])
    read(opened, [b"abcd"])
    assert (sized.end(), chunked.end(), opened.end()) == (False, False, True)


def test_the_reader_of_a_framing() -> None:
    kinds = [type(reader(framing, 5)) for framing in (Framing.LENGTH, Framing.CHUNKED, Framing.UNTIL_CLOSE)]
    assert kinds == [SizedBody, ChunkedBody, OpenBody]
    assert reader(Framing.NONE, 0).complete


PARTS = st.sampled_from([b"0", b"4", b"a", b"\r\n", b"\r\n\r\n", b"\n", b"\r", b";x=y", b"abcd", b"X: y", b" ", b"\0"])
CHUNKS = st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.sampled_from([b"", b";x", b';x="y"'])), max_size=5)


def outcome(pieces: list[bytes]) -> object:
    body = ChunkedBody()
    try:
        payload, rest = read(body, pieces)
    except Refusal as refusal:
        return refusal.reason
    return payload, rest, body.complete


@given(st.one_of(st.binary(max_size=80), st.lists(PARTS, max_size=14).map(b"".join)), st.lists(st.integers(0, 80)))
def test_any_split_of_the_bytes_gives_the_same_events(data: bytes, cuts: list[int]) -> None:
    assert outcome(cut_at(data, cuts)) == outcome([data])
    assert outcome(byte_by_byte(data)) == outcome([data])


@given(CHUNKS, st.lists(st.integers(0, 200)), st.binary(max_size=10))
def test_what_is_written_in_chunks_is_read_back(
    chunks: list[tuple[bytes, bytes]], cuts: list[int], rest: bytes
) -> None:
    data = b"".join(chunk(len(part))[:-2] + extension + b"\r\n" + part + b"\r\n" for part, extension in chunks)
    data += LAST_CHUNK + rest
    assert read(ChunkedBody(), cut_at(data, cuts)) == (b"".join(part for part, _ in chunks), rest)


@given(st.one_of(st.binary(max_size=80), st.lists(PARTS, max_size=14).map(b"".join)))
def test_what_is_accepted_h11_reads_in_the_same_way(data: bytes) -> None:
    body = ChunkedBody()
    try:
        payload, _ = read(body, [data])
    except Refusal:
        return
    theirs = h11.Connection(h11.SERVER)
    theirs.receive_data(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + data)
    assert isinstance(theirs.next_event(), h11.Request)
    read_by_them = b""
    try:
        while isinstance(event := theirs.next_event(), h11.Data):
            read_by_them += event.data
    except h11.RemoteProtocolError:
        assert not body.complete, "h11 may refuse a line before its end, where we do at its end"
        return
    assert read_by_them == payload
    assert isinstance(event, h11.EndOfMessage) is body.complete
