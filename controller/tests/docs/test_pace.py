"""One request at a time per host, and a second between."""

from __future__ import annotations

import asyncio

from quickstarted.docs.pace import Pacer


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds
        await asyncio.sleep(0)


def pacer(time: Time, between: float = 1.0) -> Pacer:
    return Pacer(between, clock=time.clock, sleep=time.sleep)


async def test_there_is_a_second_between_the_end_of_one_and_the_start_of_the_next() -> None:
    time = Time()
    turns = pacer(time)
    async with turns.turn("docs.test"):
        time.now += 5.0
    async with turns.turn("docs.test"):
        pass
    time.now += 0.25
    async with turns.turn("docs.test"):
        pass
    assert time.slept == [1.0, 0.75]


async def test_hosts_do_not_wait_for_each_other() -> None:
    time = Time()
    turns = pacer(time)
    async with turns.turn("docs.test"), turns.turn("other.test"):
        pass
    assert time.slept == []


async def test_one_at_a_time_in_the_order_of_asking() -> None:
    time = Time()
    turns = pacer(time, 0.0)
    order: list[str] = []

    async def ask(name: str) -> None:
        async with turns.turn("docs.test"):
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} ends")

    await asyncio.gather(ask("a"), ask("b"), ask("c"))
    assert order == ["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]


async def test_a_failed_request_counts() -> None:
    time = Time()
    turns = pacer(time)
    try:
        async with turns.turn("docs.test"):
            raise ValueError
    except ValueError:
        pass
    async with turns.turn("docs.test"):
        pass
    assert time.slept == [1.0]


async def test_one_that_gives_up_while_it_waits_leaves_its_turn_to_the_next() -> None:
    time = Time()
    turns = pacer(time, 0.0)
    async with turns.turn("docs.test"):
        waiting = asyncio.create_task(_take(turns))
        await asyncio.sleep(0)
        waiting.cancel()
    await asyncio.wait_for(_take(turns), 5)


async def _take(turns: Pacer) -> None:
    async with turns.turn("docs.test"):
        pass


async def test_a_host_that_asks_for_time_is_given_it_by_everybody() -> None:
    time = Time()
    turns = pacer(time)
    async with turns.turn("docs.test"):
        turns.hold("docs.test", 30.0)
    async with turns.turn("docs.test"):
        pass
    assert time.slept == [30.0]
