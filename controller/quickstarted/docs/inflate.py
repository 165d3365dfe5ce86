"""Content-Encoding undone within limits: a small body must not become a large one. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import brotli  # type: ignore[import-untyped]  # it has no type information
import zstandard

from quickstarted.docs.problems import Problem, ReadError

MAX_BYTES = 20 * 1024 * 1024
# Deflate reaches 1,032:1 on one repeated byte; generated pages and lists stay below 60:1.
MAX_RATIO = 250
_RATIO_FROM = 1024 * 1024  # a smaller body is no bomb, whatever its ratio
_MAX_LAYERS = 2
_STEP = 256 * 1024
_ZSTD_STEP = 512  # of input; a block of four bytes gives at most 128 KiB (RFC 8878, section 3.1.1.2)
_ZSTD_WINDOW = 8 * 1024 * 1024  # RFC 9659: what a decoder for HTTP must and may require

ACCEPTED = "gzip, deflate, br, zstd"


def inflate(body: bytes, header: str | None, *, limit: int = MAX_BYTES) -> bytes:
    """`body` without its encodings. Raises ReadError (too_large, bad_encoding)."""
    layers = [name.strip().lower() for name in (header or "").split(",") if name.strip()]
    layers = [name for name in layers if name != "identity"] if body else []
    if len(layers) > _MAX_LAYERS:
        raise ReadError(Problem.BAD_ENCODING, f"The page is encoded {len(layers)} times ({header}).")
    for name in reversed(layers):
        decoder = _DECODERS.get(name)
        if decoder is None:
            raise ReadError(Problem.BAD_ENCODING, f"The page has the content encoding {name!r}, which can't be read.")
        body = _bounded(body, decoder, name, limit)
    return body


def _bounded(body: bytes, decoder: Callable[[bytes], Iterator[bytes]], name: str, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    try:
        for part in decoder(body):
            size += len(part)
            if size > limit:
                raise ReadError(Problem.TOO_LARGE, f"The page is over {limit // 1_048_576} MB once decompressed.")
            if size > _RATIO_FROM and size > MAX_RATIO * len(body):
                message = f"The page's {len(body):,} compressed bytes are over {MAX_RATIO} times as many: refused."
                raise ReadError(Problem.TOO_LARGE, message)
            parts.append(part)
    except (zlib.error, brotli.error, zstandard.ZstdError, EOFError) as error:
        raise ReadError(Problem.BAD_ENCODING, f"The page's {name} data is broken: {error}.") from error
    return b"".join(parts)


def _zlib(window: int) -> Callable[[bytes], Iterator[bytes]]:
    def decode(body: bytes) -> Iterator[bytes]:
        data = body
        while data:
            decoder = zlib.decompressobj(window)
            while not decoder.eof:
                part = decoder.decompress(data, _STEP)
                data = decoder.unconsumed_tail
                if not part and not data and not decoder.eof:
                    raise EOFError("it ends in the middle")
                yield part
            data = decoder.unused_data  # another member (RFC 1952, section 2.2)
            if data and not data.startswith(b"\x1f\x8b"):
                return

    return decode


def _deflate(body: bytes) -> Iterator[bytes]:
    """RFC 9110 says zlib's format; some servers send the raw one."""
    try:
        zlib.decompressobj().decompress(body, 1)
    except zlib.error:
        return _zlib(-15)(body)
    return _zlib(15)(body)


def _brotli(body: bytes) -> Iterator[bytes]:
    decoder = brotli.Decompressor()
    yield decoder.process(body, output_buffer_limit=_STEP)
    while not decoder.is_finished():
        part = decoder.process(b"", output_buffer_limit=_STEP)
        if not part and not decoder.is_finished():
            raise EOFError("it ends in the middle")
        yield part


def _zstd(body: bytes) -> Iterator[bytes]:
    frames = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    decoder = frames.decompressobj()
    data = memoryview(body)
    while data:
        step, data = data[:_ZSTD_STEP], data[_ZSTD_STEP:]
        yield decoder.decompress(step)
        while decoder.eof and (rest := decoder.unused_data):  # another frame (RFC 8878, section 3)
            decoder = frames.decompressobj()
            yield decoder.decompress(rest)
    if not decoder.eof:
        raise EOFError("it ends in the middle")


_DECODERS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "gzip": _zlib(31),
    "x-gzip": _zlib(31),
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
