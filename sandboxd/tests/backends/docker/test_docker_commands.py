"""Commands and limits, as far as they are docker's own; `tests/contract` has what every backend does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from sandboxd.backends.base import Exited, LimitHit
from sandboxd.backends.docker.cgroup import CommandGroups
from sandboxd.instances import Instance

from tests.support.engine import Engine
from tests.support.images import SH_ONLY_IMAGE

from .conftest import Box, Make, Sink, backend_of

# Starts what leaves its parent, its session and its group, and says when all of it runs.
ESCAPES = """
(setsid sleep 1001 &)
setsid sh -c 'sleep 1002 & (setsid sleep 1003 &) ; sleep 1004' &
nohup sleep 1005 >/dev/null 2>&1 &
sleep 0.2
echo started
sleep 1006
"""
FULL_HOUSE = """
import os, time
try:
    while os.fork():
        pass
except OSError:
    pass
time.sleep(1000)
"""
SLEEPERS = "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done 2>/dev/null | grep -c '^sleep 1' || true"


async def until(found: Callable[[], Awaitable[bool]]) -> None:
    """Ask again and again until it is so; fails when it never is."""
    async with asyncio.timeout(30):
        while not await found():  # noqa: ASYNC110 what is asked is in a sandbox and has no event
            await asyncio.sleep(0.02)


async def printed(sink: Sink, word: bytes) -> None:
    """Wait until a command has printed a word."""

    async def found() -> bool:
        return word in sink.data

    await until(found)


async def test_what_a_command_leaves_running_can_go_on_printing(box: Box) -> None:
    await box.sh("(i=0; while :; do i=$((i+1)); echo line $i || exit; echo $i >/tmp/n; sleep 0.02; done) & exit 0")

    async def found() -> bool:  # longer than the engine keeps a command's streams after its end
        return int((await box.sh("cat /tmp/n"))[1] or 0) >= 150

    await until(found)


@pytest.mark.parametrize("second", [True, False], ids=["version 2", "version 1, by freezing"])
async def test_either_kind_of_control_group_ends_a_fork_bomb(box: Box, second: bool) -> None:
    groups = box.sandbox.groups
    key = "" if second else "freezer"
    box.sandbox.use_groups(CommandGroups(groups[key], box.sandbox.pid, second=second))
    running, _ = await box.start("sh", "-c", "f() { f | f & }; f; sleep 1000")
    hits = box.sandbox.limits_hit()
    async with asyncio.timeout(30):
        assert await anext(hits) == LimitHit("pids", 200)
    await running.kill()
    assert (await running.wait()).signal == 9
    assert await box.run("echo", "alive") == (Exited(0), "alive\n")
    assert (await box.sh("ls -d /proc/[0-9]* | wc -l"))[1].strip() in {"4", "5", "6"}


async def test_killing_every_process_from_inside_ends_no_sandbox(box: Box) -> None:
    await box.sh("kill -9 -1; kill -TERM 1; kill -KILL 1; kill -HUP 1")
    assert (await box.run("echo", "alive"))[1] == "alive\n"


@pytest.mark.parametrize("image", ["python:3.12-slim", SH_ONLY_IMAGE])
async def test_orphans_are_reaped(make: Make, image: str) -> None:
    box = await make(image)
    await box.sh("for i in 1 2 3 4 5 6 7 8 9; do (sleep 0.05 &); done; true")

    async def found() -> bool:
        return (await box.sh("cat /proc/[0-9]*/stat | grep -c ') Z ' || true"))[1].strip() == "0"

    await until(found)


@pytest.mark.parametrize("way", ["direct", "helper", "relay"])
async def test_memory_that_runs_out_is_told_as_that(make: Make, own: Instance, engine: Engine, way: str) -> None:
    box = await make(of=backend_of(own, engine.host, way))
    exited, _ = await box.python("x = bytearray(800 << 20)")
    assert exited == Exited(137, signal=9, oom=True)
    async with asyncio.timeout(20):
        assert await anext(box.sandbox.limits_hit()) == LimitHit("memory", 512 << 20)
    assert (await box.sh("kill -9 $$"))[0] == Exited(137, signal=9)


@pytest.mark.parametrize("way", ["helper", "relay"])
async def test_processes_that_run_out_are_told_wherever_the_engine_is(
    make: Make, own: Instance, engine: Engine, way: str
) -> None:
    box = await make(of=backend_of(own, engine.host, way))
    # As many as there may be, and standing still: an engine elsewhere is only asked now and then.
    await box.start("python3", "-c", FULL_HOUSE)
    async with asyncio.timeout(30):
        assert await anext(box.sandbox.limits_hit()) == LimitHit("pids", 200)


@pytest.mark.parametrize("way", ["direct", "relay"])
async def test_a_full_root_file_system_is_told(make: Make, own: Instance, engine: Engine, way: str) -> None:
    box = await make(of=backend_of(own, engine.host, way))
    await box.sh("for i in 1 2 3; do head -c 30000000 /dev/zero >/opt/f$i; done")
    async with asyncio.timeout(30):
        assert await anext(box.sandbox.limits_hit()) == LimitHit("disk", 64 << 20)


async def test_a_command_is_ended_from_inside_where_control_groups_are_out_of_reach(
    engine: Engine, own: Instance, make: Make
) -> None:
    box = await make(of=backend_of(own, engine.host, "helper"))
    await box.sh("setsid sleep 1099 >/dev/null 2>&1 &")
    other, other_sink = await box.start("sh", "-c", "sleep 1098 & echo up; wait")
    await printed(other_sink, b"up")
    running, sink = await box.start("sh", "-c", ESCAPES)
    await printed(sink, b"started")
    await running.kill()
    assert (await running.wait()).signal == 9
    assert (await box.sh(SLEEPERS))[1].strip() == "2"
    await other.kill()
