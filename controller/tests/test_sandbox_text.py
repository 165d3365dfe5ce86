"""A command's bytes become text: nothing lost but what is said to be, whatever the chunks."""

from __future__ import annotations

import itertools
import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quickstarted.sandbox.text import Collector, one_line, printable

NOTICE = re.compile(r"\n?\[\.\.\. ([\d,]+) characters cut \.\.\.\]\n")


def collect(chunks: list[tuple[int, bytes]], max_chars: int) -> tuple[str, int, bool]:
    collector = Collector(max_chars)
    for stream, data in chunks:
        collector.feed(stream, data)
    text = collector.finish()
    return text.text, text.chars, text.truncated


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@given(text=st.text(), cuts=st.lists(st.integers(0, 1000)))
def test_any_split_of_the_bytes_gives_the_same_text(text: str, cuts: list[int]) -> None:
    data = text.encode("utf-8", "surrogatepass")
    whole = collect([(1, data)], 10_000)
    assert collect([(1, part) for part in split(data, cuts)], 10_000) == whole


@given(out=st.text(st.characters(codec="utf-8")), err=st.text(st.characters(codec="utf-8")))
def test_a_character_split_in_one_stream_survives_what_the_other_wrote(out: str, err: str) -> None:
    both = [out.encode(), err.encode()]
    chunks = [(stream, data[i : i + 1]) for i in range(max(map(len, both))) for stream, data in enumerate(both)]
    text, chars, truncated = collect(chunks, 10_000)
    assert sorted(text) == sorted(out + err)
    assert (chars, truncated) == (len(out) + len(err), False)


@given(data=st.binary(), cuts=st.lists(st.integers(0, 1000)))
def test_invalid_utf8_is_replaced_and_never_fatal(data: bytes, cuts: list[int]) -> None:
    text, _, _ = collect([(1, part) for part in split(data, cuts)], 10_000)
    assert text == data.decode("utf-8", "replace")


@given(size=st.integers(0, 5000), limit=st.integers(1, 3000), cuts=st.lists(st.integers(0, 5000), max_size=20))
def test_head_and_tail_are_kept_and_the_cut_is_counted(size: int, limit: int, cuts: list[int]) -> None:
    written = "".join(chr(0x4E00 + i % 5000) for i in range(size))
    parts = split(written.encode(), cuts)
    text, chars, truncated = collect([(1, part) for part in parts], limit)
    assert chars == size
    assert truncated is (size > limit)
    if not truncated:
        assert text == written
        return
    notice = NOTICE.search(text)
    assert notice is not None
    head, tail = text[: notice.start()], text[notice.end() :]
    assert written.startswith(head)
    assert written.endswith(tail)
    assert len(head) + len(tail) + int(notice[1].replace(",", "")) == size
    assert abs(len(head) - len(tail)) <= 1
    assert len(head) + len(tail) <= limit
    if limit >= 1000:
        assert len(text) <= limit


def test_a_gap_stands_between_head_and_tail_and_its_bytes_are_told() -> None:
    collector = Collector(2000)
    collector.feed(1, b"begin\n")
    collector.gap(5_000_000)
    collector.feed(1, b"end\n")
    text = collector.finish()
    assert text.text == "begin\n[... 5,000,000 bytes cut ...]\nend\n"
    assert text.chars == 5_000_010
    assert text.truncated


def test_a_gap_in_long_output_keeps_the_end() -> None:
    collector = Collector(2000)
    collector.feed(1, b"a" * 50_000)
    collector.gap(10)
    collector.feed(1, b"b" * 50_000 + b"the end")
    text = collector.finish().text
    assert text.startswith("aaa")
    assert text.endswith("bthe end")
    assert "98,107 characters and 10 bytes cut" in text
    assert len(text) <= 2000


def test_a_character_cut_by_a_gap_is_replaced() -> None:
    collector = Collector(2000)
    collector.feed(1, "é".encode()[:1])
    collector.gap(7)
    collector.feed(1, b"x")
    assert collector.finish().text.startswith("\ufffd")


def test_the_notice_begins_a_line() -> None:
    text, _, _ = collect([(1, b"x" * 3000)], 1000)
    assert re.search(r"x\n\[\.\.\. [\d,]+ characters cut \.\.\.\]\nx", text)


def test_memory_is_bounded_however_much_is_written() -> None:
    tracemalloc.start()
    collector = Collector(20_000)
    for _ in range(3000):
        collector.feed(1, b"0123456789abcdef" * 1024)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert collector.finish().chars == 3000 * 16 * 1024
    assert peak < 1_000_000


def test_many_tiny_chunks_are_kept_in_order() -> None:
    text, _, _ = collect([(1, str(i % 10).encode()) for i in range(30_000)], 1000)
    assert text.startswith("0123456789")
    assert text.endswith("0123456789")


PRINTABLE = [
    ("plain text stays", "a b\tc\nd", "a b\tc\nd"),
    ("colours go", "\x1b[1;31mred\x1b[0m", "red"),
    ("a window title goes", "\x1b]0;owned\x07x", "x"),
    ("a title ended by ST goes", "\x1b]0;owned\x1b\\x", "x"),
    ("an unfinished title takes what follows of its line", "\x1b]0;owned", ""),
    ("a device string goes", "\x1bP1$r\x1b\\x", "x"),
    ("a clear screen goes", "\x1b[2J\x1b[Hx", "x"),
    ("a lone escape goes", "a\x1b", "a"),
    ("a C1 control is replaced", "a\x9b31mb", "a\ufffd31mb"),
    ("a backspace is replaced", "a\bb", "a\ufffdb"),
    ("a NUL is replaced", "a\0b", "a\ufffdb"),
    ("a bidirectional override is replaced", "a\u202eb", "a\ufffdb"),
    ("a line separator is replaced", "a\u2028b", "a\ufffdb"),
    ("a lone surrogate is replaced", "a\ud800b", "a\ufffdb"),
    ("a progress bar shows its last state", "10%\r50%\r100%\ndone", "100%\ndone"),
    ("a progress bar at the end of its line", "10%\r100%\r\ndone", "100%\ndone"),
    ("accents and wide characters stay", "é 漢 🎉", "é 漢 🎉"),
]


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in PRINTABLE], ids=[row[0] for row in PRINTABLE])
def test_printable(text: str, expected: str) -> None:
    assert printable(text) == expected


@given(st.text())
def test_printable_text_holds_no_control(text: str) -> None:
    shown = printable(text)
    assert all(one in "\n\t" or one.isprintable() or one.isspace() or ord(one) > 0x9F for one in shown)
    assert "\x1b" not in shown
    assert "\r" not in shown


@given(st.text(), st.integers(1, 50))
def test_one_line_is_one_line_of_at_most_the_width(text: str, width: int) -> None:
    line = one_line(text, width)
    assert len(line) <= width
    assert "\n" not in line
