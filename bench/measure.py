"""A bar, its samples and its verdict. Nothing here knows what is measured.

A sample is a pair of durations taken one right after the other, which of the two comes first changing from sample to
sample. The ratio of a bar is the median of its pairs' ratios; its spread is their middle half.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

Seconds = float


@dataclass(frozen=True, slots=True)
class Pair:
    """What the same work took: without our code, and with it."""

    reference: Seconds
    candidate: Seconds


@dataclass(frozen=True, slots=True)
class Work:
    """Two ways of doing the same, each as a coroutine that is timed from outside.

    A way that knows better when its clock starts and stops returns the seconds itself.
    """

    reference: Callable[[], Awaitable[Seconds | None]]
    candidate: Callable[[], Awaitable[Seconds | None]]


@dataclass(frozen=True, slots=True)
class Bar:
    """A promise. `limit` bounds the candidate's time over the reference's, or its rate when `rate` is set.

    A bar over something else than time says what its numbers are in `unit`.
    """

    name: str
    promise: str
    limit: float
    prepare: Callable[[], AbstractAsyncContextManager[Work]]
    rounds: int = 15
    rate: bool = False
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured for a bar."""

    ratio: float
    low: float
    high: float
    reference: Seconds
    candidate: Seconds
    met: bool


async def measure(bar: Bar) -> Result:
    """Do both kinds of work in turns, and judge. One round before the first sample warms caches and connections."""
    async with bar.prepare() as work:
        await _timed(work.reference)
        await _timed(work.candidate)
        pairs = [await _pair(work, first_reference=number % 2 == 0) for number in range(bar.rounds)]
    return judge(bar, pairs)


def judge(bar: Bar, pairs: Iterable[Pair]) -> Result:
    """The verdict over the samples."""
    pairs = list(pairs)
    ratios = [pair.reference / pair.candidate if bar.rate else pair.candidate / pair.reference for pair in pairs]
    ratio = statistics.median(ratios)
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Result(
        ratio=ratio,
        low=low,
        high=high,
        reference=statistics.median(pair.reference for pair in pairs),
        candidate=statistics.median(pair.candidate for pair in pairs),
        met=ratio >= bar.limit if bar.rate else ratio <= bar.limit,
    )


async def _pair(work: Work, *, first_reference: bool) -> Pair:
    if first_reference:
        reference = await _timed(work.reference)
        return Pair(reference, await _timed(work.candidate))
    candidate = await _timed(work.candidate)
    return Pair(await _timed(work.reference), candidate)


async def _timed(do: Callable[[], Awaitable[Seconds | None]]) -> Seconds:
    start = time.perf_counter()
    seconds = await do()
    return time.perf_counter() - start if seconds is None else seconds
