"""Events: the first of equal decisions at once, the others counted, nothing lost without a word."""

from __future__ import annotations

import asyncio

import pytest
from quickstarted_api.v1 import sandbox_pb2 as pb
from sandboxd.events import EventLog


def decision(host: str = "evil.test", **fields: object) -> pb.EgressDecision:
    return pb.EgressDecision(layer=pb.CONNECT, verdict=pb.REFUSED, host=host, **fields)  # type: ignore[arg-type]


def kept(log: EventLog) -> list[tuple[int, str, int]]:
    return [(event.seq, event.egress.host, event.egress.count) for event in log._kept]


async def test_the_first_of_equal_decisions_is_told_at_once_and_the_others_are_one_event() -> None:
    log = EventLog(list)
    for _ in range(5):
        log.egress(decision())
    assert kept(log) == [(1, "evil.test", 1)]
    log.flush()
    assert kept(log) == [(1, "evil.test", 1), (2, "evil.test", 4)]
    log.flush()
    assert log.last_seq == 2


async def test_counted_decisions_are_told_when_their_second_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandboxd.events.WINDOW_SECONDS", 0.01)
    log = EventLog(list)
    log.egress(decision())
    log.egress(decision())
    stream = log.stream(1)
    async with asyncio.timeout(5):
        assert (await anext(stream)).egress.count == 1


async def test_decisions_that_differ_are_events_of_their_own() -> None:
    log = EventLog(list)
    for given in (decision("a.test"), decision("b.test"), decision("a.test", port=80), decision("a.test", path="/x")):
        log.egress(given)
    assert log.last_seq == 4


async def test_the_end_of_a_passage_is_never_counted_together() -> None:
    log = EventLog(list)
    for _ in range(3):
        log.egress(decision(closed=True, bytes_down=5))
    assert log.last_seq == 3


@pytest.mark.parametrize(("running", "exec_id"), [([], ""), (["e1"], "e1"), (["e1", "e2"], "")])
async def test_an_event_is_attributed_when_one_command_runs(running: list[str], exec_id: str) -> None:
    log = EventLog(lambda: running)
    log.egress(decision())
    assert log._kept[0].exec_id == exec_id


async def test_what_falls_out_of_the_ring_is_one_event_that_says_how_many() -> None:
    log = EventLog(list, kept=3)
    for number in range(10):
        log.egress(decision(f"h{number}.test"))
    log.close()
    told = [event async for event in log.stream(2)]
    assert (told[0].seq, told[0].dropped.count) == (7, 5)
    assert [event.seq for event in told[1:]] == [8, 9, 10]


async def test_a_stream_waits_for_more_and_ends_with_the_log() -> None:
    log = EventLog(list)
    told: list[int] = []

    async def listen() -> None:
        async for event in log.stream(0):
            told.append(event.seq)  # noqa: PERF401 - one by one, as they come

    listening = asyncio.create_task(listen())
    for number in range(3):
        await asyncio.sleep(0)
        log.egress(decision(f"h{number}.test"))
    log.close()
    async with asyncio.timeout(5):
        await listening
    assert told == [1, 2, 3]


async def test_a_flood_of_different_decisions_takes_bounded_memory() -> None:
    log = EventLog(list)
    for number in range(20_000):
        log.egress(decision(f"h{number}.test"))
    assert len(log._kept) == 10_000
    assert len(log._counted) <= 1_000
