"""The frames between a daemon and a supervisor: any bytes, in any pieces."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sandboxd.backends.process.channel import Channel, ChannelError
from sandboxd.inside import frames
from sandboxd.inside.frames import MAX_DESCRIPTORS, MAX_FRAME, Decoder, Frame, FrameError

FRAMES = st.builds(
    Frame,
    st.binary(min_size=1, max_size=1),
    st.integers(0, 2**64 - 1),
    st.lists(st.binary(max_size=50), max_size=6),
    st.integers(0, MAX_DESCRIPTORS),
)


@given(sent=st.lists(FRAMES, max_size=4), cuts=st.lists(st.integers(1, 40), max_size=20))
def test_frames_come_back_as_they_were_however_their_bytes_are_cut(sent: list[Frame], cuts: list[int]) -> None:
    data = b"".join(frame.encode() for frame in sent)
    decoder = Decoder()
    received = []
    for cut in [*cuts, len(data)]:
        received += decoder.feed(data[:cut])
        data = data[cut:]
    assert received == sent


@given(data=st.binary(max_size=300))
def test_any_bytes_are_frames_or_an_error(data: bytes) -> None:
    decoder = Decoder()
    try:
        received = decoder.feed(data)
    except FrameError:
        return
    rest = data[sum(len(frame.encode()) for frame in received) :]
    assert b"".join(frame.encode() for frame in received) + rest == data


@given(frame=FRAMES, at=st.integers(0, 400), value=st.integers(0, 255))
def test_one_wrong_byte_never_makes_more_fields_than_there_are_bytes(frame: Frame, at: int, value: int) -> None:
    data = bytearray(frame.encode())
    data[at % len(data)] = value
    try:
        for each in Decoder().feed(bytes(data)):
            assert sum(len(field) + 4 for field in each.fields) <= len(data)
            assert each.descriptors <= MAX_DESCRIPTORS
    except FrameError:
        pass


def test_a_frame_that_is_too_long_is_neither_made_nor_taken() -> None:
    with pytest.raises(FrameError):
        Frame(frames.START, 1, [bytes(MAX_FRAME)]).encode()
    with pytest.raises(FrameError):
        Decoder().feed((MAX_FRAME + 1).to_bytes(4, "big"))


class Pair:
    """A channel, and the other end in the test's hands."""

    def __init__(self) -> None:
        own, self.other = socket.socketpair()
        self.frames: list[Frame] = []
        self.ends: list[str] = []
        self.changed = asyncio.Event()
        self.channel = Channel(own, self._on_frame, self._on_end)

    def _on_frame(self, frame: Frame, descriptors: list[int]) -> None:
        for descriptor in descriptors:
            os.close(descriptor)
        self.frames.append(frame)
        self.changed.set()

    def _on_end(self, cause: str) -> None:
        self.ends.append(cause)
        self.changed.set()

    async def wait(self) -> None:
        async with asyncio.timeout(10):
            await self.changed.wait()


STRANGE = {
    "no frame at all": b"GET / HTTP/1.1\r\n\r\n",
    "descriptors that did not come": Frame(frames.ANSWER, 1, [], 2).encode(),
    "a frame that is too long": b"\xff\xff\xff\xff",
}


@pytest.mark.parametrize("data", STRANGE.values(), ids=STRANGE.keys())
async def test_a_supervisor_that_makes_no_sense_is_cut_off(data: bytes) -> None:
    pair = Pair()
    pair.other.sendall(data)
    await pair.wait()
    assert len(pair.ends) == 1
    with pytest.raises(ChannelError):
        pair.channel.send(Frame(frames.SEAL))
    assert pair.other.recv(1) == b""


async def test_the_other_ends_number_is_the_kernels_word() -> None:
    pair = Pair()
    pair.other.sendall(Frame(frames.READY).encode())
    await pair.wait()
    assert pair.channel.peer == os.getpid()
    pair.channel.close()


async def test_descriptors_that_were_not_sent_are_closed_with_the_channel() -> None:
    pair = Pair()
    reading, writing = os.pipe()
    # More than the socket takes, so that this frame waits with its descriptor.
    for _ in range(3):
        pair.channel.send(Frame(frames.START, 1, [bytes(1 << 20)]))
    pair.channel.send(Frame(frames.START, 2, [], 1), [writing])
    pair.channel.close()
    assert os.read(reading, 1) == b""
    os.close(reading)


async def test_a_supervisor_that_stops_reading_is_not_waited_for() -> None:
    pair = Pair()
    for _ in range(17):
        pair.channel.send(Frame(frames.START, 1, [bytes(1 << 20)]))
    with pytest.raises(ChannelError):
        pair.channel.send(Frame(frames.SEAL))
    pair.channel.close()


async def test_what_waits_is_sent_when_the_other_end_reads_again() -> None:
    pair = Pair()
    sent = [Frame(frames.START, number, [bytes([number]) * 300_000]) for number in range(1, 6)]
    for frame in sent:
        pair.channel.send(frame)
    decoder = Decoder()
    received: list[Frame] = []
    pair.other.setblocking(False)
    async with asyncio.timeout(10):
        while len(received) < len(sent):
            received += decoder.feed(await asyncio.get_running_loop().sock_recv(pair.other, 1 << 16))
    assert received == sent
    pair.channel.close()
