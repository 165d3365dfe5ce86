"""Content encodings, undone within limits."""

from __future__ import annotations

import contextlib
import gzip
import zlib

import brotli  # type: ignore[import-untyped]  # it has no type information
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from quickstarted.docs.inflate import inflate
from quickstarted.docs.problems import Problem, ReadError

TEXT = b"<p>documentation</p>\n" * 500
MB = 1024 * 1024


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


ENCODED = [
    ("none", TEXT, None),
    ("identity", TEXT, "identity"),
    ("gzip", gzip.compress(TEXT), "gzip"),
    ("gzip in capitals", gzip.compress(TEXT), "GZIP"),
    ("gzip of two members", gzip.compress(TEXT[:99]) + gzip.compress(TEXT[99:]), "gzip"),
    ("gzip with something after it", gzip.compress(TEXT) + b"\0\0", "x-gzip"),
    ("deflate", zlib.compress(TEXT), "deflate"),
    ("raw deflate", raw_deflate(TEXT), "deflate"),
    ("brotli", brotli.compress(TEXT), "br"),
    ("zstd", zstandard.compress(TEXT), "zstd"),
    ("zstd of two frames", zstandard.compress(TEXT[:99]) + zstandard.compress(TEXT[99:]), "zstd"),
    ("twice", gzip.compress(brotli.compress(TEXT)), "br, gzip"),
]


@pytest.mark.parametrize(("body", "header"), [row[1:] for row in ENCODED], ids=[row[0] for row in ENCODED])
def test_encodings(body: bytes, header: str | None) -> None:
    assert inflate(body, header) == TEXT


REFUSED = [
    ("a large gzip", gzip.compress(bytes(range(256)) * 100_000), "gzip", Problem.TOO_LARGE),
    ("a bomb of gzip", gzip.compress(bytes(10 * MB)), "gzip", Problem.TOO_LARGE),
    ("a bomb of brotli", brotli.compress(bytes(100 * MB)), "br", Problem.TOO_LARGE),
    ("a bomb of zstd", zstandard.compress(bytes(100 * MB)), "zstd", Problem.TOO_LARGE),
    ("a bomb in a bomb", gzip.compress(gzip.compress(bytes(100 * MB))), "gzip, gzip", Problem.TOO_LARGE),
    ("cut gzip", gzip.compress(TEXT)[:-20], "gzip", Problem.BAD_ENCODING),
    ("cut brotli", brotli.compress(TEXT)[:-5], "br", Problem.BAD_ENCODING),
    ("cut zstd", zstandard.compress(TEXT)[:-5], "zstd", Problem.BAD_ENCODING),
    ("no gzip", b"<p>hello", "gzip", Problem.BAD_ENCODING),
    ("no brotli", b"<p>hello", "br", Problem.BAD_ENCODING),
    ("no zstd", b"<p>hello", "zstd", Problem.BAD_ENCODING),
    ("an unknown encoding", TEXT, "compress", Problem.BAD_ENCODING),
    ("three layers", TEXT, "gzip, gzip, gzip", Problem.BAD_ENCODING),
]


@pytest.mark.parametrize(("body", "header", "problem"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_refused(body: bytes, header: str, problem: Problem) -> None:
    with pytest.raises(ReadError) as caught:
        inflate(body, header)
    assert caught.value.problem is problem


def test_a_window_that_needs_much_memory_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    body = zstandard.ZstdCompressor(compression_params=parameters).compress(TEXT * 2000)
    with pytest.raises(ReadError, match="too much memory"):
        inflate(body, "zstd")


def test_an_empty_body_needs_no_decoder() -> None:
    assert inflate(b"", "br") == b""


@given(st.binary(max_size=200), st.sampled_from(["gzip", "deflate", "br", "zstd"]))
def test_any_bytes_are_inflated_or_refused(body: bytes, header: str) -> None:
    with contextlib.suppress(ReadError):
        assert isinstance(inflate(body, header), bytes)
