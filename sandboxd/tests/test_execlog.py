"""A log gives back what was written: from any offset, over any limit, whoever reads meanwhile."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sandboxd.backends.base import Stream
from sandboxd.execlog import CorruptError, Data, End, ExecLog, Gap, OffsetError

OUT, ERR = Stream.STDOUT, Stream.STDERR
WRITES = st.lists(st.tuples(st.sampled_from([OUT, ERR]), st.binary(min_size=1, max_size=40)), max_size=30)


def done(written: int, cut: int) -> str:
    return f"{written} written, {cut} cut"


def read_all(log: ExecLog[str], offset: int = 0) -> tuple[list[tuple[int, Stream, bytes]], list[Gap], str | None]:
    data, gaps = [], []
    with log.reader() as reader:
        while True:
            match reader.read(offset):
                case Data(start, stream, piece):
                    assert start == offset
                    assert piece
                    data.append((start, stream, piece))
                    offset += len(piece)
                case Gap(start, end) as gap:
                    assert start == offset < end
                    gaps.append(gap)
                    offset = end
                case End(exited):
                    return data, gaps, exited
                case None:
                    return data, gaps, None


def written(tmp_path: Path, writes: list[tuple[Stream, bytes]], limit: int) -> ExecLog[str]:
    name = f"log{len(list(tmp_path.iterdir()))}"
    log: ExecLog[str] = ExecLog(tmp_path / name, limit)
    for stream, data in writes:
        log.write(stream, data)
    log.finish(done)
    return log


@given(writes=WRITES, limit=st.integers(2, 300), start=st.integers(0, 1200))
def test_any_offset_gives_the_same_bytes_of_the_same_streams_around_the_gap(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[Stream, bytes]], limit: int, start: int
) -> None:
    async def check() -> None:
        log = written(tmp_path_factory.mktemp("log"), writes, limit)
        try:
            whole = b"".join(data for _, data in writes)
            streams = [stream for stream, data in writes for _ in data]
            if start > len(whole):
                with pytest.raises(OffsetError):
                    read_all(log, start)
                return
            data, gaps, exited = read_all(log, start)
            assert exited == f"{len(whole)} written, {max(0, len(whole) - limit)} cut"
            for offset, stream, piece in data:
                assert piece == whole[offset : offset + len(piece)]
                assert set(streams[offset : offset + len(piece)]) == {stream}
            cut = max(0, len(whole) - limit)
            assert log.cut == cut
            assert len(gaps) == (1 if cut and start < limit - limit // 2 + cut else 0)
            assert sum(len(piece) for *_, piece in data) + sum(g.end - g.start for g in gaps) == len(whole) - start
        finally:
            log.drop()

    asyncio.run(check())


async def follow(log: ExecLog[str], offset: int = 0) -> tuple[bytes, list[Gap]]:
    read, gaps = [], []
    with log.reader() as reader:
        async with asyncio.timeout(30):
            while True:
                match reader.read(offset):
                    case Data(_, _, data):
                        read.append(data)
                        offset += len(data)
                    case Gap(_, end) as gap:
                        gaps.append(gap)
                        offset = end
                    case None:
                        await log.reach(offset + 1, 5)
                    case End():
                        return b"".join(read), gaps


def in_thread(log: ExecLog[str], pieces: list[bytes]) -> threading.Thread:
    def write() -> None:
        for piece in pieces:
            log.write(OUT, piece)
        log.finish(done)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


async def test_a_follower_sees_everything_that_threads_write_while_it_reads(tmp_path: Path) -> None:
    log: ExecLog[str] = ExecLog(tmp_path / "log", 1 << 24)
    pieces = [b"%06d\n" % number for number in range(20_000)]
    thread = in_thread(log, pieces)
    assert await follow(log) == (b"".join(pieces), [])
    thread.join()


async def test_a_follower_waits_at_a_cut_for_the_end_and_gets_one_gap(tmp_path: Path) -> None:
    log: ExecLog[str] = ExecLog(tmp_path / "log", 1000)
    following = asyncio.create_task(follow(log))
    for number in range(100):
        log.write(OUT, b"%099d\n" % number)
        await asyncio.sleep(0)
    assert not following.done()
    with log.reader() as reader, log.reader(follow=False) as visitor:
        assert reader.read(700) is None
        assert visitor.read(700) == Gap(700, 9500)
        assert not await log.reach(9_000, 0.01)
    log.finish(done)
    read, gaps = await following
    assert len(gaps) == 1
    assert len(read) <= 1500
    assert read.endswith(b"%099d\n" % 99)


async def test_a_reader_that_is_overtaken_in_the_ring_gets_gaps_and_never_other_bytes(tmp_path: Path) -> None:
    log: ExecLog[str] = ExecLog(tmp_path / "log", 1 << 17)
    # Each piece says where it stands, so that a byte out of its place can't go unseen.
    pieces = [b"%015d\n" % (16 * number) * 64 for number in range(0, 1 << 20, 64)]
    thread = in_thread(log, pieces)
    offset = 0
    with log.reader(follow=False) as reader:
        async with asyncio.timeout(60):
            while not isinstance(record := reader.read(offset), End):
                match record:
                    case Data(_, _, data):
                        base = offset - offset % 1024
                        expected = b"%015d\n" % base * 64
                        upto = min(len(data), base + 1024 - offset)
                        assert data[:upto] == expected[offset - base :][:upto]
                        offset += upto
                    case Gap(_, end):
                        offset = end
                    case None:
                        await asyncio.sleep(0.001)
    thread.join()
    assert offset == 1 << 24


async def test_waiting_ends_after_its_time_when_nothing_comes(tmp_path: Path) -> None:
    log: ExecLog[str] = ExecLog(tmp_path / "log", 100)
    assert not await log.reach(1, 0.01)
    log.write(OUT, b"x")
    assert await log.reach(1, 0.01)
    assert not await log.reach(2, 0.01)
    log.finish(done)
    assert await log.reach(2, 0.01)


async def test_a_waiter_is_woken_when_there_is_as_much_as_it_waits_for(tmp_path: Path) -> None:
    log: ExecLog[str] = ExecLog(tmp_path / "log", 100)
    waiting = [asyncio.create_task(log.reach(offset, 10)) for offset in (1, 5, 9)]
    await asyncio.sleep(0)
    log.write(OUT, b"12345")
    done_, _ = await asyncio.wait(waiting[:2], timeout=5)
    assert len(done_) == 2
    assert not waiting[2].done()
    log.finish(done)
    assert await waiting[2]


async def test_the_first_cut_is_told_once(tmp_path: Path) -> None:
    cuts: list[int] = []
    log: ExecLog[str] = ExecLog(tmp_path / "log", 100, lambda: cuts.append(1))
    for _ in range(10):
        log.write(OUT, bytes(60))
    assert cuts == [1]


async def test_nothing_is_written_after_the_exit_record_and_the_first_one_stands(tmp_path: Path) -> None:
    log = written(tmp_path, [(OUT, b"a")], 100)
    log.write(OUT, b"b")
    log.finish(lambda _, __: "again")
    assert read_all(log) == ([(0, OUT, b"a")], [], "1 written, 0 cut")


async def test_streams_that_alternate_without_end_take_bounded_memory_and_lose_no_byte(tmp_path: Path) -> None:
    log: ExecLog[str] = ExecLog(tmp_path / "log", 1 << 20)
    for number in range(50_000):
        log.write(OUT if number % 2 else ERR, b"x")
    data, gaps, _ = read_all(log)
    assert sum(len(piece) for *_, piece in data) == 50_000
    assert not gaps
    assert len(log._runs._starts) <= 20_000


async def test_the_file_never_grows_past_the_limit(tmp_path: Path) -> None:
    log: ExecLog[str] = ExecLog(tmp_path / "log", 1000)
    for _ in range(100):
        log.write(OUT, bytes(997))
    assert log.path.stat().st_size <= 1000


async def test_a_complete_log_holds_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208
    logs = [ExecLog[str](tmp_path / f"log{number}", 1000) for number in range(20)]
    for log in logs:
        log.write(OUT, b"x")
        log.finish(done)
    assert len(os.listdir("/dev/fd")) == before  # noqa: PTH208
    assert all(read_all(log)[0] == [(0, OUT, b"x")] for log in logs)


async def test_what_was_dropped_is_a_gap_to_new_readers_and_still_there_for_old_ones(tmp_path: Path) -> None:
    log = written(tmp_path, [(OUT, b"abc")], 100)
    with log.reader() as reader:
        log.drop()
        assert reader.read(1) == Data(1, OUT, b"bc")
    assert read_all(log, 1) == ([], [Gap(1, 3)], "3 written, 0 cut")


@pytest.mark.parametrize("kept", [0, 700, 3000], ids=["from the first byte on", "in the head", "in the ring"])
async def test_a_disk_that_is_full_costs_output_and_nothing_else(tmp_path: Path, kept: int) -> None:
    cuts: list[int] = []
    log: ExecLog[str] = ExecLog(tmp_path / "log", 2000, lambda: cuts.append(1))
    log.write(OUT, bytes(kept))
    os.close(log._file)
    log._file = os.open("/dev/full", os.O_WRONLY)  # every write fails with ENOSPC
    for _ in range(3):
        log.write(ERR, b"x" * 100)
    log.finish(done)
    assert log.spoilt == "No space left on device"
    assert cuts == [1]
    data, gaps, exited = read_all(log)
    head = min(kept, 1000)
    assert sum(len(piece) for *_, piece in data) == head
    assert gaps == [Gap(head, kept + 300)]
    assert exited == f"{kept + 300} written, {kept + 300 - head} cut"


async def test_a_file_that_lost_bytes_is_told_as_that(tmp_path: Path) -> None:
    log = written(tmp_path, [(OUT, b"abcdef")], 100)
    os.truncate(log.path, 2)
    with pytest.raises(CorruptError, match="4 bytes early"):
        read_all(log)
