"""Coverage-guided fuzzing of the gateway's parsers, with atheris. `python -m fuzz` runs all of them; see `__main__`.

A target is a module with `SEEDS`, inputs to start from, and `one(data)`, which raises for an input that breaks a
promise: a parser raises nothing but a Refusal, any split of the bytes gives the same result, and what is accepted is
what the strict grammar says, as far as a second reader can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def pieces(data: bytes, sizes: bytes) -> list[bytes]:
    """Some bytes cut into pieces, whose sizes come from other bytes, over and over."""
    if not any(sizes):
        return [data]
    found = []
    position = turn = 0
    while position < len(data):
        size = sizes[turn % len(sizes)]
        found.append(data[position : position + size])
        position += size
        turn += 1
    return found


def same_however_split(data: bytes, read: Callable[[Sequence[bytes]], object]) -> object:
    """What `read` makes of all but the first bytes of some data, which say how it is split."""
    sizes, data = data[:3], data[3:]
    whole = read([data])
    split = read(pieces(data, sizes))
    if whole != split:
        raise AssertionError(f"whole: {whole!r}, split by {list(sizes)}: {split!r}")
    return whole
