"""The fuzz targets hold for what they start from; `make fuzz` lets them find the rest."""

from __future__ import annotations

import importlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import pieces

TARGETS = ("http1", "framing", "client_hello", "dns", "target")


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_holds_for_its_seeds_and_all_that_they_begin_with(name: str) -> None:
    target = importlib.import_module(f"fuzz.{name}")
    for seed in target.SEEDS:
        for end in range(0, len(seed) + 1, 7):
            target.one(seed[:end])
        target.one(seed)


@given(st.binary(max_size=50), st.binary(max_size=4))
def test_pieces_are_the_whole(data: bytes, sizes: bytes) -> None:
    assert b"".join(pieces(data, sizes)) == data
