"""Ends: of a sandbox, of its container behind our back, of the daemon, of the engine. Nothing of ours is left."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from sandboxd.backends.base import BackendError, Exited
from sandboxd.backends.docker import spec
from sandboxd.instances import Instance, instance

from tests.support import engine as test_engine
from tests.support import images
from tests.support.engine import Engine
from tests.support.images import PYTHON_IMAGE

from .conftest import Make, backend_of

ABANDONED = Path(__file__).with_name("abandoned.py")


def containers(api: docker.APIClient, instance_id: str) -> list[str]:
    """The containers of an instance, those that ended included."""
    label = f"{spec.INSTANCE_LABEL}={instance_id}"
    return [found["Id"] for found in api.containers(all=True, filters={"label": label})]


async def gone(api: docker.APIClient, instance_id: str) -> None:
    """Wait until an instance has no container any more; fails when it keeps one."""
    async with asyncio.timeout(30):
        while containers(api, instance_id):  # noqa: ASYNC110 the engine removes it by itself
            await asyncio.sleep(0.05)


async def test_destroying_leaves_nothing_and_may_be_repeated(make: Make, api: docker.APIClient, own: Instance) -> None:
    box = await make()
    await box.start("sh", "-c", "setsid sleep 1001 & sleep 1002")
    groups = box.sandbox.groups.values()
    assert any(group.glob("command-*") for group in groups)
    await box.sandbox.destroy()
    await box.sandbox.destroy()
    assert [group for group in groups if group.exists()] == []
    assert containers(api, own.instance_id) == []
    assert list((own.directory / "docker").iterdir()) == []
    assert not Path(f"/proc/{box.sandbox.pid}").exists()


async def test_a_container_that_is_removed_under_us_is_told(make: Make, api: docker.APIClient) -> None:
    box = await make()
    running, _ = await box.start("sleep", "1001")
    ended = asyncio.create_task(box.sandbox.ended())
    api.remove_container(box.sandbox.container_id, force=True)
    async with asyncio.timeout(30):
        assert "container" in await ended
        assert (await running.wait()).code == 137
    with pytest.raises(BackendError) as caught:
        await box.run("true")
    assert caught.value.reason == "SANDBOX_LOST"


@pytest.mark.parametrize("plant", ["helper", "relay"])
async def test_a_daemon_that_is_killed_takes_its_containers_along(
    engine: Engine, api: docker.APIClient, tmp_path: Path, plant: str
) -> None:
    with _abandoned(engine, tmp_path, plant) as (process, instance_id):
        assert containers(api, instance_id)
        process.kill()
        await gone(api, instance_id)


async def test_what_a_killed_daemon_left_is_removed_by_the_next_and_no_other(
    engine: Engine, api: docker.APIClient, tmp_path: Path, own: Instance, make: Make
) -> None:
    with (
        _abandoned(engine, tmp_path, "direct") as (process, dead),
        _abandoned(engine, tmp_path, "direct") as (_, alive),
    ):
        process.kill()
        process.wait()
        await gone(api, dead)
        # As if its first process had not ended: a container that only the labels tie to the dead daemon.
        labels = {**_labels(api, alive), spec.INSTANCE_LABEL: dead, spec.SANDBOX_LABEL: "orphan"}
        orphan = api.create_container(PYTHON_IMAGE, ["sleep", "60"], labels=labels)["Id"]
        elsewhere = api.create_container(
            PYTHON_IMAGE, ["sleep", "60"], labels={**labels, spec.STATE_LABEL: "another"}, name=None
        )["Id"]
        try:
            with instance(tmp_path) as third:
                backend = backend_of(third, engine.host)
                assert await backend.reap() == ["orphan"]
                assert await backend.reap() == []
                await backend.close()
            with pytest.raises(docker.errors.NotFound):
                api.inspect_container(orphan)
            assert containers(api, alive)
            assert api.inspect_container(elsewhere)
        finally:
            for left in (orphan, elsewhere):
                with contextlib.suppress(docker.errors.NotFound):
                    api.remove_container(left, force=True)


def _labels(api: docker.APIClient, instance_id: str) -> dict[str, str]:
    found = api.inspect_container(containers(api, instance_id)[0])["Config"]["Labels"]
    return {name: value for name, value in found.items() if name.startswith("sandboxd.")}


@contextlib.contextmanager
def _abandoned(engine: Engine, state: Path, plant: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, str(ABANDONED), engine.host, str(state), plant]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().split()[0]
        finally:
            process.kill()


async def test_an_engine_that_is_not_there_is_told_with_a_remedy(own: Instance, tmp_path: Path) -> None:
    backend = backend_of(own, f"unix://{tmp_path}/no.sock")
    found = await backend.probe()
    assert not found.available
    assert "no.sock" in found.why
    assert "DOCKER_HOST" in found.remedy
    with pytest.raises(BackendError) as caught:
        await backend.reap()
    assert caught.value.reason == "BACKEND_DOWN"
    await backend.close()


@pytest.mark.timeout(180)
async def test_an_engine_that_is_killed_takes_no_daemon_along(own: Instance, make: Make) -> None:
    engine = test_engine.start(dies_with_us=True)
    assert engine.home is not None
    try:
        with contextlib.closing(test_engine.connect(engine.host)) as api:
            images.ensure(api, [images.SH_ONLY_IMAGE])
        backend = backend_of(own, engine.host)
        box = await make(images.SH_ONLY_IMAGE, of=backend)
        running, _ = await box.start("sleep", "1001")
        ended = asyncio.create_task(box.sandbox.ended())
        test_engine.crash(engine.home)
        async with asyncio.timeout(60):
            assert "engine" in await ended
        with pytest.raises(BackendError):
            await running.wait()
        assert not (await backend.probe()).available
        test_engine.resume(engine)
        assert (await backend.probe()).available
        await box.sandbox.destroy()
        with contextlib.closing(test_engine.connect(engine.host)) as api:
            assert containers(api, own.instance_id) == []
        again = await make(images.SH_ONLY_IMAGE, of=backend)
        assert await again.run("echo", "again") == (Exited(0), "again\n")
        await again.sandbox.destroy()
    finally:
        test_engine.stop(engine.home)
