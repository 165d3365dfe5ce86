"""Ending commands: what of them goes on and what does not, signals, and limits."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace

import pytest
from sandboxd.backends.base import BackendKind, Exited, LimitHit

from .conftest import LIMITS, Box, Make, enforced

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Starts what leaves its parent, its session and its group, and says when all of it runs.
ESCAPES = """
(setsid sleep {0} &)
setsid sh -c 'sleep {0} & (setsid sleep {0} &) ; sleep {0}; :' &
nohup sleep {0} >/dev/null 2>&1 &
python3 -c 'import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "{0}"])
    os._exit(0)
os.wait()'
sleep 0.2
echo started
sleep {0}; :
"""
ESCAPED = 7


def marker() -> str:
    """A number of seconds that no other process sleeps for."""
    return f"{3000 + secrets.randbelow(1000)}.{secrets.randbelow(10**9):09}"


async def settled(box: Box, mark: str, count: int) -> None:
    """Wait until so many processes have the marker; fails when it never is so."""
    async with asyncio.timeout(30):
        while await box.count(mark) != count:  # noqa: ASYNC110 what is in a sandbox has no event
            await asyncio.sleep(0.02)


async def test_k07_what_a_command_leaves_running_goes_on(box: Box) -> None:
    mark = marker()
    exited, _ = await box.sh(f"setsid nohup sleep {mark} >/dev/null 2>&1 & (sleep {mark} >/dev/null 2>&1 &); exit 3")
    assert exited == Exited(3)
    assert await box.count(mark) == 2
    assert await box.run("true") == (Exited(0), "")
    assert await box.count(mark) == 2


async def test_k07_a_server_of_one_command_answers_the_next(box: Box) -> None:
    serving, sink = await box.start("sh", "-c", "python3 -u -m http.server --bind 127.0.0.1 0 2>&1 & sleep 0.1; exit 0")
    await sink.printed(b"Serving HTTP")
    assert (await serving.wait()).code == 0
    port = sink.data.split(b" port ")[1].split()[0].decode()
    asking = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{port}/').status)"
    for _ in range(3):
        # The server prints a line for each request, long after its command has ended.
        assert (await box.python(asking))[1] == "200\n"
    await serving.kill()
    assert (await box.python(asking))[0].code != 0


async def test_k07_the_end_of_a_command_takes_all_that_it_started_and_nothing_else(box: Box) -> None:
    earlier, other, mark = marker(), marker(), marker()
    await box.sh(f"setsid sleep {earlier} >/dev/null 2>&1 &")
    running_beside, beside = await box.start("sh", "-c", f"sleep {other} & echo up; wait")
    await beside.printed(b"up")
    running, sink = await box.start("sh", "-c", ESCAPES.format(mark))
    await sink.printed(b"started")
    assert await box.count(mark) == ESCAPED
    async with asyncio.timeout(2):
        await running.kill()
    assert await box.count(mark) == 0
    assert await running.wait() == Exited(137, signal=9)
    assert (await box.count(earlier), await box.count(other)) == (1, 1)
    await running_beside.kill()
    assert await box.count(other) == 0


async def test_k08_a_command_that_spins_and_sleeps_is_gone_in_two_seconds(box: Box) -> None:
    mark = marker()
    running, sink = await box.start("sh", "-c", f"(while :; do :; done) & sleep {mark} & echo up; wait")
    await sink.printed(b"up")
    async with asyncio.timeout(2):
        await running.kill()
        assert (await running.wait()).signal == 9
    assert await box.count(mark) == 0


@enforced
async def test_what_forks_and_exits_for_ever_is_ended(box: Box) -> None:
    # No process of it lives longer than it takes to make the next.
    hop = "import os\nprint('up', flush=True)\nwhile True:\n  if os.fork(): os._exit(0)\n  os.setsid()"
    running, sink = await box.start("python3", "-c", hop)
    await sink.printed(b"up")
    await running.kill()
    before = await _youngest(box)
    await asyncio.sleep(0.2)
    # Only what counts itself is made meanwhile; what hops makes thousands.
    assert await _youngest(box) - before < 50


async def _youngest(box: Box) -> int:
    return int((await box.sh("echo $$"))[1])


async def test_a_finished_commands_survivors_can_still_be_ended(box: Box) -> None:
    mark = marker()
    running, _ = await box.start("sh", "-c", f"setsid sleep {mark} >/dev/null 2>&1 &")
    assert (await running.wait()).code == 0
    assert await box.count(mark) == 1
    await running.kill()
    assert await box.count(mark) == 0
    await running.kill()


async def test_a_command_that_kills_its_parents_is_ended_all_the_same(box: Box) -> None:
    mark = marker()
    text = f"""
import os, signal, subprocess, sys
for _ in range(2):
    parent = os.getppid()
    if parent > 1:
        try:
            os.kill(parent, signal.SIGKILL)
        except OSError:
            pass
        while os.getppid() == parent:
            pass
subprocess.Popen(["setsid", "sleep", "{mark}"])
print("up", flush=True)
subprocess.call(["sleep", "{mark}"])
"""
    if box.backend.kind is BackendKind.LOCAL:
        # One parent is its own; the next is the sandbox's, which is as mortal as everything there.
        text = text.replace("range(2)", "range(1)")
    running, sink = await box.start("python3", "-c", text)
    await sink.printed(b"up")
    await running.kill()
    assert await box.count(mark) == 0


async def test_a_command_that_stops_its_parents_is_ended_all_the_same(box: Box) -> None:
    mark = marker()
    # In a container the parent is outside and has no number; 0 would be the command's own group.
    stop = '[ "$PPID" = 0 ] || kill -STOP "$PPID"'
    running, sink = await box.start("sh", "-c", f"{stop}; setsid sleep {mark} & echo up; sleep {mark}; :")
    await sink.printed(b"up")
    await running.kill()
    assert (await running.wait()).signal == 9
    assert await box.count(mark) == 0


async def test_signals_reach_the_main_process_or_everything(box: Box) -> None:
    mark = marker()
    running, sink = await box.start(
        "sh", "-c", f"trap 'echo got; exit 5' USR1; (sleep {mark} &); echo up; while :; do sleep 0.05; done"
    )
    await sink.printed(b"up")
    await running.signal(10, everything=False)
    assert (await running.wait()).code == 5
    assert b"got" in sink.data
    assert await box.count(mark) == 1
    await running.signal(15, everything=True)
    await settled(box, mark, 0)
    await running.signal(15, everything=True)
    await running.signal(15, everything=False)


async def test_a_signal_right_after_the_start_is_not_lost(box: Box) -> None:
    running, _ = await box.start("sleep", "60")
    await running.signal(15, everything=False)
    async with asyncio.timeout(20):
        assert await running.wait() == Exited(143, signal=15)


async def test_output_comes_before_the_end_and_survivors_hold_it_up_for_a_second_only(box: Box) -> None:
    running, sink = await box.start("sh", "-c", "sleep 30 & echo done")
    async with asyncio.timeout(10):
        assert (await running.wait()).code == 0
    assert bytes(sink.data) == b"done\n"
    await running.kill()


async def test_waiting_may_be_given_up_and_taken_up_again(box: Box) -> None:
    running, _ = await box.start("sh", "-c", "sleep 0.3; exit 4")
    waiting = asyncio.ensure_future(running.wait())
    await asyncio.sleep(0.05)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert await running.wait() == await running.wait() == Exited(4)


@enforced
async def test_k10_a_fork_bomb_is_told_and_ended(make: Make) -> None:
    box = await make()
    running, _ = await box.start("bash", "-c", "f() { f | f & }; f; sleep 1000")
    async with asyncio.timeout(30):
        assert await anext(box.sandbox.limits_hit()) == LimitHit("pids", LIMITS.pids)
    async with asyncio.timeout(10):
        await running.kill()
    assert (await running.wait()).signal == 9
    assert await box.run("echo", "alive") == (Exited(0), "alive\n")


@enforced
async def test_k12_memory_that_runs_out_ends_the_command_and_is_told(make: Make) -> None:
    box = await make()
    hits = box.sandbox.limits_hit()
    exited, _ = await box.python("x = bytearray(800 << 20); print(len(x))")
    assert exited == Exited(137, signal=9, oom=True)
    async with asyncio.timeout(20):
        assert await anext(hits) == LimitHit("memory", LIMITS.memory_bytes)
    assert (await box.sh("kill -9 $$"))[0] == Exited(137, signal=9)


SMALL = replace(LIMITS, disk_bytes=12 << 20)
FILLS = {
    "files of the workspace": "for i in 1 2 3; do head -c 6000000 /dev/zero >f$i; done; sleep 60",
    "files of the home directory": "cd; for i in 1 2 3; do head -c 6000000 /dev/zero >f$i; done; sleep 60",
    "files that were removed": (
        "exec 3>f 4>g 5>h; rm f g h; for i in 3 4 5; do head -c 6000000 /dev/zero >&$i; done; sleep 60"
    ),
    # Docker's measure gives an entry a kilobyte.
    "files by the thousand": 'python3 -c \'for i in range(14000): open(f"f{i}", "w")\'; sleep 60',
    "a tree too deep for a path": (
        'python3 -c \'import os\nfor i in range(4000):\n  os.mkdir("d" * 9); os.chdir("d" * 9)\'; sleep 60'
    ),
}


@pytest.mark.parametrize("fill", FILLS.values(), ids=FILLS.keys())
async def test_k13_k14_the_disk_limit_is_told(make: Make, fill: str) -> None:
    box = await make(SMALL)
    running, _ = await box.start("sh", "-c", fill)
    async with asyncio.timeout(60):
        assert await anext(box.sandbox.limits_hit()) == LimitHit("disk", SMALL.disk_bytes)
    await running.kill()
    assert await box.run("echo", "alive") == (Exited(0), "alive\n")


async def test_k13_one_file_cannot_pass_the_disk_limit(box: Box) -> None:
    exited, _ = await box.sh("head -c 80000000 /dev/zero >f")
    assert exited.code in (153, 1)
    assert int((await box.sh("wc -c <f"))[1]) <= LIMITS.disk_bytes


async def test_k24_no_core_is_dumped(shared: Box) -> None:
    exited, said = await shared.sh("ulimit -Hc; ulimit -c unlimited 2>/dev/null || echo refused; kill -ABRT $$")
    assert exited.signal == 6
    assert said.split()[0] == "0"
