"""Bytes as they may arrive."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def cut_at(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """The pieces of some bytes, cut at positions that are within them."""
    return [data[start:end] for start, end in pairwise([0, *sorted(min(cut, len(data)) for cut in cuts), len(data)])]


def byte_by_byte(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]
