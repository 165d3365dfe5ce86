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
from sandboxd.execlog import Data, End, ExecLog, Gap, OffsetError

OUT, ERR = Stream.STDOUT, Stream.STDERR
WRITES = st.lists(st.tuples(st.sampled_from([OUT, ERR]), st.binary(min_size=1, max_size=40)), max_size=30)


def read_all(log: ExecLog[str], offset: int = 0) -> tuple[list[tuple[int, Stream, bytes]], list[Gap], str | None]:
    data, gaps = [], []
    while True:
        match log.read(offset):
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
    log.finish("done")
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
                    log.read(start)
                return
            data, gaps, exited = read_all(log, start)
            assert exited == "done"
            for offset, stream, piece in data:
                assert piece == whole[offset : offset + len(piece)]
                assert set(streams[offset : offset + len(piece)]) == {stream}
            cut = max(0, len(whole) - limit)
            assert log.cut == cut
            assert len(gaps) == (1 if cut and start < limit - limit // 2 + cut else 0)
            assert sum(len(piece) for *_, piece in data) + sum(g.end - g.start for g in gaps) == len(whole) - start
        finally:
            log.close()

    asyncio.run(check())


async def test_a_follower_sees_everything_that_threads_write_while_it_reads(tmp_path: Path) -> None:
    log: ExecLog[str] = ExecLog(tmp_path / "log", 1 << 24)
    pieces = [b"%06d\n" % number for number in range(20_000)]

    def write() -> None:
        for piece in pieces:
            log.write(OUT, piece)
        log.finish("done")

    thread = threading.Thread(target=write)
    thread.start()
    read, offset = [], 0
    async with asyncio.timeout(30):
        while True:
            match log.read(offset):
                case Data(_, _, data):
                    read.append(data)
                    offset += len(data)
                case None:
                    await log.changed(offset, 5)
                case End():
                    break
    thread.join()
    assert b"".join(read) == b"".join(pieces)


async def test_waiting_ends_after_its_time_when_nothing_comes(tmp_path: Path) -> None:
    log: ExecLog[str] = ExecLog(tmp_path / "log", 100)
    assert not await log.changed(0, 0.01)
    log.write(OUT, b"x")
    assert await log.changed(0, 0.01)
    assert not await log.changed(1, 0.01)


async def test_the_first_cut_is_told_once(tmp_path: Path) -> None:
    cuts: list[int] = []
    log: ExecLog[str] = ExecLog(tmp_path / "log", 100, lambda: cuts.append(1))
    for _ in range(10):
        log.write(OUT, bytes(60))
    assert cuts == [1]


async def test_nothing_is_written_after_the_exit_record_and_the_first_one_stands(tmp_path: Path) -> None:
    log = written(tmp_path, [(OUT, b"a")], 100)
    log.write(OUT, b"b")
    log.finish("again")
    assert read_all(log) == ([(0, OUT, b"a")], [], "done")


async def test_streams_that_alternate_without_end_take_bounded_memory_and_lose_no_byte(tmp_path: Path) -> None:
    log: ExecLog[str] = ExecLog(tmp_path / "log", 1 << 20)
    for number in range(50_000):
        log.write(OUT if number % 2 else ERR, b"x")
    data, gaps, _ = read_all(log)
    assert sum(len(piece) for *_, piece in data) == 50_000
    assert not gaps
    assert len(log._runs._starts) <= 20_000


async def test_the_file_has_no_name_and_never_grows_past_the_limit(tmp_path: Path) -> None:
    log: ExecLog[str] = ExecLog(tmp_path / "log", 1000)
    for _ in range(100):
        log.write(OUT, bytes(997))
    assert os.listdir(tmp_path) == []  # noqa: PTH208
    assert os.fstat(log._file).st_size <= 1000
