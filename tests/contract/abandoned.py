"""A program that makes one sandbox, starts processes in it and says so; then it waits to be killed."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from sandboxd.backends.base import BackendKind
from sandboxd.instances import instance

from tests.contract.conftest import BACKENDS, Box, request_of


async def main(kind: BackendKind, state: Path, mark: str) -> None:
    with instance(state) as own:
        async with BACKENDS[kind](own) as backend:
            request = request_of()
            box = Box(backend, await backend.create(request), request)
            _, sink = await box.start("sh", "-c", f"setsid sleep {mark} & setsid sleep {mark} & echo up; wait")
            await sink.printed(b"up")
            while await box.count(mark) < 2:  # noqa: ASYNC110 what is in a sandbox has no event
                await asyncio.sleep(0.02)
            directory = own.directory
            said = {"instance": own.instance_id, "sandbox": request.sandbox_id, "directory": str(directory)}
            print(json.dumps(said), flush=True)
            await asyncio.Event().wait()


asyncio.run(main(BackendKind(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
