"""Archives are read as the formats say, whoever wrote them, and everything else is refused with its reason."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sandboxd.tar import Kind, TarError, members

NAMES = st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1, max_size=120)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


def written(files: list[tuple[str, bytes]], form: int) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as made:
        for name, contents in files:
            info = tarfile.TarInfo(name)
            info.size = len(contents)
            made.addfile(info, io.BytesIO(contents))
    return out.getvalue()


def read(stream: bytes) -> list[tuple[bytes, Kind, bytes]]:
    found = []
    for member, contents in members(io.BytesIO(stream)):
        data = b""
        while piece := contents.read(7):
            data += piece
        found.append((member.name, member.kind, data))
    return found


@given(
    files=st.lists(st.tuples(PATHS, st.binary(max_size=1500)), max_size=5),
    form=st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]),
)
def test_what_other_writers_write_is_read(files: list[tuple[str, bytes]], form: int) -> None:
    assert read(written(files, form)) == [(name.encode(), Kind.FILE, contents) for name, contents in files]


@given(files=st.lists(st.tuples(PATHS, st.binary(max_size=700)), min_size=1, max_size=3), cut=st.integers(1, 30_000))
def test_an_archive_that_is_cut_anywhere_is_never_taken_for_a_whole_one(
    files: list[tuple[str, bytes]], cut: int
) -> None:
    whole = written(files, tarfile.PAX_FORMAT)
    with tarfile.open(fileobj=io.BytesIO(whole)) as made:
        last = made.getmembers()[-1]
    end = last.offset_data - (-last.size // 512) * 512 + 1024  # with the end mark; the rest is padding
    with pytest.raises(TarError):
        read(whole[: end - min(cut, end)])
    assert read(whole[:end]) == read(whole)


@given(place=st.integers(0, 511).filter(lambda place: not 148 <= place < 156), value=st.integers(1, 255))
def test_a_header_that_was_changed_in_any_byte_is_refused(place: int, value: int) -> None:
    stream = bytearray(written([("a", b"1"), ("b", b"2")], tarfile.USTAR_FORMAT))
    stream[1024 + place] ^= value
    with pytest.raises(TarError, match="checksum"):
        read(bytes(stream))


@given(st.binary(max_size=4000))
def test_any_bytes_are_read_or_refused_and_nothing_else(data: bytes) -> None:
    try:
        read(data)
    except TarError:
        return


def header(size: bytes = b"00000000000\0", kind: bytes = b"0", name: bytes = b"a") -> bytes:
    block = bytearray(512)
    block[: len(name)] = name
    block[100:108], block[124:136], block[156:157], block[257:265] = b"0000644\0", size, kind, b"ustar\00000"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def extended(text: bytes, kind: bytes = b"x", size: int | None = None) -> bytes:
    return header(b"%011o\0" % (len(text) if size is None else size), kind) + text.ljust(512, b"\0")


END = bytes(1024)
BAD = [
    pytest.param(lambda: b"", "without its end mark", id="nothing"),
    pytest.param(header, "without its end mark", id="no end mark"),
    pytest.param(lambda: header() + bytes(512), "half of its end mark", id="half an end mark"),
    pytest.param(lambda: bytes(512) + header() + END, "half of its end mark", id="a header behind half an end mark"),
    pytest.param(lambda: END + header(), "behind its end mark", id="a second archive"),
    pytest.param(lambda: header(b"\xff" * 12) + END, "size is negative", id="a negative size"),
    pytest.param(lambda: header(b"\x80" + b"\xff" * 11) + END, "before the end of a file", id="a size of 2**88"),
    pytest.param(lambda: header(b"0000000000z\0") + END, "size is no number", id="a size with a letter"),
    pytest.param(lambda: header(b"-0000000001\0") + END, "size is no number", id="a size with a sign"),
    pytest.param(lambda: header(b"00000000010\0", b"5") + END, "a directory with a size", id="a directory with a size"),
    pytest.param(lambda: header(b"00000000010\0", b"1") + END, "a hard link with a size", id="a link with a size"),
    pytest.param(lambda: extended(b"", size=2 << 20), "2097152 bytes", id="an extended header of 2 MiB"),
    pytest.param(lambda: extended(b"9 path=b\n") + END, "after an extended header", id="nothing after an extension"),
    pytest.param(lambda: extended(b"8 path=b\n") + header() + END, "can't be read", id="a record's wrong length"),
    pytest.param(lambda: extended(b"99 path=b\n") + header() + END, "can't be read", id="a record past the end"),
    pytest.param(lambda: extended(b"8 pathb\n") + header() + END, "can't be read", id="a record without ="),
    pytest.param(lambda: extended(b"9 size=x\n") + header() + END, "no number", id="a pax size that is no number"),
    pytest.param(lambda: extended(b"11 size=-1\n") + header() + END, "no number", id="a negative pax size"),
    pytest.param(lambda: extended(b"9 path=b\n" * 2) + header() + END, "two values", id="one key twice"),
    pytest.param(lambda: extended(b"9 path=b\n") * 2 + header() + END, "two extended", id="two names for one member"),
    pytest.param(lambda: extended(b"9 path=b\n", b"g") + header() + END, "global", id="one name for all members"),
]


@pytest.mark.parametrize(("make", "says"), BAD)
def test_what_is_not_clear_is_refused(make: Callable[[], bytes], says: str) -> None:
    with pytest.raises(TarError, match=says):
        read(make())


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"24 GNU.sparse.realsize=1\n", Kind.SPARSE),
        (b"21 comment=nothing at\n", Kind.FILE),
    ],
    ids=["a sparse file in disguise", "a comment"],
)
def test_extended_headers_that_matter(text: bytes, kind: Kind) -> None:
    text = b"%d%s" % (len(text), text[2:])
    assert read(extended(text) + header() + END) == [(b"a", kind, b"")]


def test_a_file_whose_name_ends_with_a_slash_is_a_directory_as_it_always_was() -> None:
    assert read(header(name=b"a/") + END) == [(b"a/", Kind.DIRECTORY, b"")]
