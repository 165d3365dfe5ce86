"""The fake daemon as a process, for what an embedded daemon does: `fake_sandboxd_main.py MODE serve --unix PATH …`.

MODE is `well`, `deaf` (never serves), `broken` (says why and exits), `stubborn` (does not leave when it is told) or
`host`: commands really run, on this machine and in no sandbox, for tests of the command line.
"""

# ruff: noqa: N802 - the names of the contract's methods

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from quickstarted_api.v1 import sandbox_pb2 as pb

ROOT = str(Path(__file__).parents[2])
sys.path.insert(0, ROOT)

from tests.support.fake_sandboxd import FakeDaemon, data, ended, ready  # noqa: E402 - the path comes first


def main() -> None:
    mode, *arguments = sys.argv[1:]
    print(json.dumps({"pid": os.getpid(), "environment": dict(os.environ), "arguments": arguments}), file=sys.stderr)
    sys.stderr.flush()
    if mode == "broken":
        sys.exit("fake: no such luck")
    if mode == "deaf":
        sys.stdin.read()
        return
    daemon = HostDaemon() if mode == "host" else FakeDaemon()
    asyncio.run(serve(daemon, Path(arguments[arguments.index("--unix") + 1])))
    if mode == "stubborn":
        time.sleep(3600)


class HostDaemon(FakeDaemon):
    """Runs commands, each sandbox's in a directory of its own that goes with it."""

    def __init__(self) -> None:
        super().__init__()
        self._homes: dict[str, tempfile.TemporaryDirectory[str]] = {}
        self._done: dict[str, asyncio.Task[list[pb.LogRecord]]] = {}
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self.info.auto_backend = pb.LOCAL
        self.info.backends.add(kind=pb.LOCAL, available=True, enforced=False)
        self.info.backends.add(kind=pb.DOCKER, enforced=True, why="no engine answers", remedy="start one")

    async def Watch(self, request: pb.WatchRequest, context: Any) -> AsyncIterator[pb.Sandbox]:
        home = self._homes[request.sandbox_id] = tempfile.TemporaryDirectory()
        yield ready(backend=pb.LOCAL, enforced=False, image="", image_digest="", workspace=home.name, shell="/bin/bash")

    async def Start(self, request: pb.StartRequest, context: Any) -> pb.Exec:
        key = f"{request.sandbox_id} {request.exec_id}"
        home = self._homes[request.sandbox_id].name
        process = self._running[key] = await asyncio.create_subprocess_exec(
            *request.spec.argv,
            cwd=home,
            env={"PATH": os.environ["PATH"], "HOME": home, "TMPDIR": home},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        self._done[key] = asyncio.create_task(self._run(process, request.spec.timeout.ToTimedelta().total_seconds()))
        return pb.Exec(sandbox_id=request.sandbox_id, exec_id=request.exec_id, running=True)

    async def _run(self, process: asyncio.subprocess.Process, seconds: float) -> list[pb.LogRecord]:
        try:
            async with asyncio.timeout(seconds):
                output, _ = await process.communicate()
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            return [ended(124, pb.TIMED_OUT)]
        return [*([data(0, output)] if output else []), ended(process.returncode or 0)]

    async def ReadLog(self, request: pb.ReadLogRequest, context: Any) -> AsyncIterator[pb.LogRecord]:
        for record in await self._done[f"{request.sandbox_id} {request.exec_id}"]:
            yield record

    async def Signal(self, request: pb.SignalRequest, context: Any) -> pb.Exec:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._running[f"{request.sandbox_id} {request.exec_id}"].pid, request.signal)
        return pb.Exec(sandbox_id=request.sandbox_id, exec_id=request.exec_id)

    async def Destroy(self, request: pb.DestroyRequest, context: Any) -> pb.Sandbox:
        home = self._homes.pop(request.sandbox_id, None)
        if home is not None:
            home.cleanup()
        return await super().Destroy(request, context)


async def serve(daemon: FakeDaemon, path: Path) -> None:
    async with daemon.serve(path):
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    main()
