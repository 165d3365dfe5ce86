"""A container's disk limit is told each time that something writes past it, and never to what cleans up."""

from __future__ import annotations

import asyncio

import pytest
from sandboxd.backends.base import LimitHit, Limits
from sandboxd.backends.docker.cgroup import Counters
from sandboxd.backends.docker.watch import Watch


@pytest.mark.parametrize(
    ("sizes", "hits"),
    [
        ([50, 100], 0),
        ([50, 101, 101], 1),
        ([101, 150], 2),
        ([300, 200, 150, 100], 1),
        ([300, 200, 201], 2),
        ([300, 0, 101], 2),
    ],
    ids=["within", "once past it", "a second writer", "cleaning up", "cleaning up and writing on", "past it twice"],
)
async def test_past_the_limit_each_growth_is_a_hit(sizes: list[int], hits: int) -> None:
    now = 0

    async def measured(enough: int) -> int:
        return min(now, enough + 1)  # it stops counting when it has seen enough

    async def count() -> Counters:
        return Counters(0, 0)

    watch = Watch(Limits(disk_bytes=100), count, measured)
    for now in sizes:  # noqa: B007 - `measured` reads it
        await watch.look_at_disk()
    await watch.stop()
    told = []
    async with asyncio.timeout(5):
        while (hit := await watch.next()) is not None:
            told.append(hit)
    assert told == [LimitHit("disk", 100)] * hits
