"""A program that a test kills: a daemon's process with a sandbox in it, or one that is always busy with some.

`abandoned.py KIND STATE MARKER` makes one sandbox in which processes of the marker run, says so and waits.
`abandoned.py KIND STATE restless` says that it is there, and then makes, plants, uses and destroys sandboxes for ever.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from pathlib import Path

from sandboxd.backends.base import Backend, BackendKind
from sandboxd.instances import Instance, instance

from tests.contract.conftest import BACKENDS, Box, request_of


async def main(kind: BackendKind, state: Path, mark: str) -> None:
    with instance(state) as own:
        async with BACKENDS[kind](own) as backend:
            if mark == "restless":
                tell(own)
                await asyncio.gather(*(restless(backend, turn) for turn in range(3)))
            else:
                await one(backend, own, mark)


async def one(backend: Backend, own: Instance, mark: str) -> None:
    request = request_of()
    box = Box(backend, await backend.create(request), request)
    _, sink = await box.start("sh", "-c", f"setsid sleep {mark} & setsid sleep {mark} & echo up; wait")
    await sink.printed(b"up")
    while await box.count(mark) < 2:  # noqa: ASYNC110 what is in a sandbox has no event
        await asyncio.sleep(0.02)
    tell(own, sandbox=request.sandbox_id)
    await asyncio.Event().wait()


async def restless(backend: Backend, turn: int) -> None:
    for number in itertools.count(turn):
        request = request_of()
        box = Box(backend, await backend.create(request), request)
        if number % 3:
            await box.sandbox.plant()
        await box.start("sh", "-c", "setsid sleep 1000 & sleep 1000")
        await box.sandbox.destroy()


def tell(own: Instance, **more: str) -> None:
    print(json.dumps({"instance": own.instance_id, "directory": str(own.directory), **more}), flush=True)


asyncio.run(main(BackendKind(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
