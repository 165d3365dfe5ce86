"""The ends of sandboxes and of daemons: whatever ends, and whenever, nothing of it is left, and nothing of others'."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sandboxd.backends.base import Backend, BackendError, BackendKind, Exited
from sandboxd.instances import Instance, instance

from .conftest import BACKENDS, Box, Make, request_of
from .test_contract_ends import marker

pytestmark = pytest.mark.asyncio(loop_scope="session")

ABANDONED = Path(__file__).with_name("abandoned.py")


def alive(mark: str) -> list[int]:
    """Processes of this host, in whatever namespace, that have the marker as an argument."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if mark.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def mounts(under: Path) -> list[str]:
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(under) in line]


def groups(name: str) -> list[Path]:
    """The control groups of a sandbox, by its id in their names."""
    return [path for path in Path("/sys/fs/cgroup").rglob("sandboxd-*") if name in path.name]


async def gone(mark: str) -> None:
    async with asyncio.timeout(30):
        while alive(mark):  # noqa: ASYNC110 processes of another parent have no event
            await asyncio.sleep(0.02)


@pytest_asyncio.fixture(loop_scope="session")
async def own(tmp_path: Path) -> AsyncIterator[Instance]:
    """A daemon's instance of the test's own."""
    with instance(tmp_path / "state") as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def own_backend(kind: BackendKind, own: Instance) -> AsyncIterator[Backend]:
    async with BACKENDS[kind](own) as backend:
        yield backend


async def test_destroying_leaves_nothing_and_may_be_repeated(own_backend: Backend, own: Instance) -> None:
    mark = marker()
    request = request_of()
    box = Box(own_backend, await own_backend.create(request), request)
    await box.start("sh", "-c", f"setsid sleep {mark} & mkdir -p a/b; echo x >a/b/c; chmod 0 a/b a; sleep {mark}; :")
    async with asyncio.timeout(30):
        while len(alive(mark)) < 2:  # noqa: ASYNC110 as above
            await asyncio.sleep(0.02)
    await asyncio.gather(box.sandbox.destroy(), box.sandbox.destroy())
    assert alive(mark) == []
    await box.sandbox.destroy()
    assert mounts(own.directory) == []
    left = own.directory / own_backend.kind
    assert [entry.name for entry in left.iterdir() if not entry.name.startswith(".")] == []
    assert groups(request.sandbox_id) == []


async def test_a_command_ends_with_its_sandbox(box: Box) -> None:
    running, _ = await box.start("sleep", "1001")
    await box.sandbox.destroy()
    async with asyncio.timeout(20):
        assert await running.wait() == Exited(137, signal=9)
    await running.kill()
    await running.signal(15, everything=True)
    with pytest.raises(BackendError) as caught:
        await box.run("true")
    assert caught.value.reason == "SANDBOX_LOST"


async def test_a_sandbox_that_was_destroyed_has_not_ended_by_itself(box: Box) -> None:
    ended = asyncio.ensure_future(box.sandbox.ended())
    await box.sandbox.destroy()
    done, _ = await asyncio.wait([ended], timeout=0.3)
    assert not done
    ended.cancel()


async def test_the_limits_of_a_sandbox_end_with_it(box: Box) -> None:
    async def all_hits() -> list[object]:
        return [hit async for hit in box.sandbox.limits_hit()]

    hits = asyncio.ensure_future(all_hits())
    await box.sandbox.destroy()
    async with asyncio.timeout(20):
        assert await hits == []


@pytest.mark.parametrize("cut", [0.0, 0.005, 0.02, 0.05, 0.1, 0.2])
async def test_a_creation_that_is_cancelled_leaves_nothing(own_backend: Backend, own: Instance, cut: float) -> None:
    request = request_of()
    making = asyncio.ensure_future(own_backend.create(request))
    await asyncio.wait([making], timeout=cut)
    making.cancel()
    for sandbox in await asyncio.gather(making, return_exceptions=True):
        if not isinstance(sandbox, BaseException):
            await sandbox.destroy()
    left = own.directory / own_backend.kind
    assert [entry.name for entry in (left.iterdir() if left.exists() else ()) if not entry.name.startswith(".")] == []
    assert groups(request.sandbox_id) == []


@pytest.mark.parametrize("cut", [0.0, 0.001, 0.01, 0.05])
async def test_a_start_that_is_cancelled_leaves_a_sandbox_that_works(box: Box, cut: float) -> None:
    starting = asyncio.ensure_future(box.start("sleep", "1001"))
    await asyncio.wait([starting], timeout=cut)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    assert await box.run("echo", "alive") == (Exited(0), "alive\n")


async def test_two_sandboxes_of_one_name_are_refused_and_the_first_stays(box: Box) -> None:
    with pytest.raises(BackendError):
        await box.backend.create(box.request)
    assert await box.run("echo", "there") == (Exited(0), "there\n")


async def test_many_sandboxes_at_once_are_strangers_to_each_other(make: Make) -> None:
    boxes = await asyncio.gather(*(make() for _ in range(6)))
    await asyncio.gather(*(box.sh(f"echo {i} >mine") for i, box in enumerate(boxes)))
    said = await asyncio.gather(*(box.sh("cat mine; ls -A") for box in boxes))
    assert [text for _, text in said] == [f"{i}\nmine\n" for i in range(6)]


def _spawned(kind: BackendKind, state: Path, mark: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(ABANDONED), str(kind), str(state), mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )


@contextlib.asynccontextmanager
async def abandoned(
    kind: BackendKind, state: Path, mark: str
) -> AsyncIterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A daemon's process with a sandbox in which processes of the marker run; what it leaves is removed at the end."""
    process = _spawned(kind, state, mark)
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()
        await gone(mark)
        with instance(state) as next_one:
            async with BACKENDS[kind](next_one) as backend:
                await backend.reap()


async def test_c05_a_daemon_that_is_killed_takes_its_processes_along(kind: BackendKind, tmp_path: Path) -> None:
    mark = marker()
    async with abandoned(kind, tmp_path, mark) as (process, _):
        assert len(alive(mark)) >= 2
        process.kill()
        await gone(mark)


async def test_c05_what_a_killed_daemon_left_is_removed_by_the_next_and_no_other(
    kind: BackendKind, tmp_path: Path
) -> None:
    dead_mark, living_mark = marker(), marker()
    async with (
        abandoned(kind, tmp_path, dead_mark) as (process, dead),
        abandoned(kind, tmp_path, living_mark) as (_, living),
    ):
        process.kill()
        process.wait()
        await gone(dead_mark)
        with instance(tmp_path) as third:
            async with BACKENDS[kind](third) as backend:
                # Where the sandbox went with its daemon, there may be nothing left to remove.
                assert set(await backend.reap()) <= {dead["sandbox"]}
                assert list(await backend.reap()) == []
            third.forget(dead["instance"])
        assert not (tmp_path / "instances" / dead["instance"]).exists()
        assert groups(dead["sandbox"]) == []
        assert len(alive(living_mark)) >= 2
        assert Path(living["directory"]).exists()


@pytest.mark.parametrize("after", [0.02, 0.1, 0.23, 0.41, 0.7])
async def test_c05_a_daemon_that_is_killed_at_any_moment_leaves_nothing(
    kind: BackendKind, tmp_path: Path, after: float
) -> None:
    async with abandoned(kind, tmp_path, "restless") as (process, told):
        await asyncio.sleep(after)
        process.kill()
        process.wait()
        async with asyncio.timeout(30):
            while _of(tmp_path):  # noqa: ASYNC110 processes of another parent have no event
                await asyncio.sleep(0.02)
        with instance(tmp_path) as third:
            async with BACKENDS[kind](third) as backend:
                await backend.reap()
            third.forget(told["instance"])
    assert not Path(told["directory"]).exists()
    assert groups(told["instance"]) == []
    assert mounts(tmp_path) == []


def _of(state: Path) -> list[str]:
    """Processes that have something to do with a state directory: by their arguments, their directory, their root."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if os.fsencode(state) in (entry / "cmdline").read_bytes() + (entry / "mountinfo").read_bytes():
                    found.append(entry.name)
    return found
