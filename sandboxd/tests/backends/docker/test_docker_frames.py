"""The two framings: the engine's, and the relay's."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sandboxd.backends.docker.frames import Demultiplexer, FrameError
from sandboxd.egress.plant import mux

pieces = st.lists(st.integers(1, 40), max_size=40)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """`data` in pieces of these sizes, and what is left."""
    found = []
    for size in sizes:
        found.append(data[:size])
        data = data[size:]
    return [*found, data]


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=60))), pieces)
def test_any_split_of_an_engines_stream_gives_the_same_payload(sent: list[tuple[int, bytes]], sizes: list[int]) -> None:
    data = b"".join(struct.pack(">BxxxL", stream, len(payload)) + payload for stream, payload in sent)
    frames = Demultiplexer()
    got = [(stream, bytes(payload)) for piece in cut(data, sizes) for stream, payload in frames.feed(piece)]
    for stream in (1, 2):
        assert b"".join(p for s, p in got if s == stream) == b"".join(p for s, p in sent if s == stream)


@given(st.binary(min_size=8, max_size=200))
def test_no_other_bytes_are_taken_for_an_engines_stream(data: bytes) -> None:
    frames = Demultiplexer()
    if data[0] > 2 or any(data[1:4]):
        with pytest.raises(FrameError):
            list(frames.feed(data))
    else:
        total = 0
        with contextlib.suppress(FrameError):
            total = sum(len(payload) for _, payload in frames.feed(data))
        assert total <= len(data) - 8


frames = st.lists(st.tuples(st.integers(1, 10), st.integers(0, 2**32 - 1), st.binary(max_size=60)), max_size=10)


@given(frames, pieces)
def test_any_split_of_a_relays_stream_gives_the_same_frames(
    sent: list[tuple[int, int, bytes]], sizes: list[int]
) -> None:
    unframer = mux.Unframer()
    data = b"".join(mux.frame(*one) for one in sent)
    assert [frame for piece in cut(data, sizes) for frame in unframer.feed(piece)] == sent


@given(st.binary(max_size=300))
def test_other_bytes_are_refused_or_wait_for_more(data: bytes) -> None:
    try:
        got = list(mux.Unframer().feed(data))
    except mux.MuxError:
        return
    assert sum(mux.HEADER.size + len(payload) for _, _, payload in got) <= len(data)


@pytest.mark.parametrize(("kind", "length"), [(0, 0), (11, 0), (255, 0), (3, mux.MAX_PAYLOAD + 1), (3, 2**32 - 1)])
def test_a_frame_of_another_kind_or_size_is_refused(kind: int, length: int) -> None:
    with pytest.raises(mux.MuxError):
        list(mux.Unframer().feed(mux.HEADER.pack(kind, 1, length)))
