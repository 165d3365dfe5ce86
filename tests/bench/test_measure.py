"""How a bar is judged. What the bars measure is measured by `make bench`, not here."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest

from bench.bars import BARS
from bench.measure import Bar, Pair, Work, judge, measure


@contextlib.asynccontextmanager
async def nothing() -> AsyncIterator[Work]:
    async def none() -> None:
        pass

    yield Work(none, none)


def bar(limit: float, *, rate: bool = False, rounds: int = 3) -> Bar:
    return Bar("name", "promise", limit, nothing, rounds, rate)


PAIRS = [Pair(1.0, 1.2), Pair(2.0, 2.0), Pair(10.0, 40.0), Pair(1.0, 1.4), Pair(3.0, 3.9)]


@pytest.mark.parametrize(
    ("judged", "ratio", "met"),
    [
        pytest.param(bar(1.3), 1.3, True, id="a time at its limit is met, whatever one outlier took"),
        pytest.param(bar(1.29), 1.3, False, id="a time beyond its limit is missed"),
        pytest.param(bar(1 / 1.3, rate=True), 1 / 1.3, True, id="a rate at its limit is met"),
        pytest.param(bar(0.8, rate=True), 1 / 1.3, False, id="a rate below its limit is missed"),
    ],
)
def test_the_median_of_the_pairs_ratios_decides(judged: Bar, ratio: float, met: bool) -> None:
    result = judge(judged, PAIRS)
    assert result.ratio == pytest.approx(ratio)
    assert result.met is met
    assert result.low <= result.ratio <= result.high


async def test_both_are_measured_in_turns_and_each_comes_first_in_every_other_pair() -> None:
    order: list[str] = []

    @contextlib.asynccontextmanager
    async def noted() -> AsyncIterator[Work]:
        async def reference() -> float:
            order.append("r")
            return 2.0

        async def candidate() -> float:
            order.append("c")
            return 3.0

        yield Work(reference, candidate)
        order.append("closed")

    result = await measure(Bar("name", "promise", 1.5, noted, 4))
    assert order == ["r", "c", *"rc", *"cr", *"rc", *"cr", "closed"]
    assert (result.ratio, result.met) == (1.5, True)


def test_each_bar_has_a_name_of_its_own() -> None:
    assert len({each.name for each in BARS}) == len(BARS)
