"""A program that an ordinary user runs: makes a sandbox, tries what a task needs, and prints what it saw as JSON.

It is started with nothing but copies of the packages that it imports, by a user whose number has no name.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from sandboxd.backends.base import ExecRequest, Limits, SandboxRequest, Stream
from sandboxd.backends.bubblewrap import BubblewrapBackend
from sandboxd.environment import build
from sandboxd.instances import instance

PROGRAM = """
import os, socket
print(os.getuid(), os.stat("/workspace").st_uid)
socket.create_server(("0.0.0.0", 80))
try:
    open("/etc/private-of-this-test").close()
    print("read")
except OSError as error:
    print(type(error).__name__)
os.mkdir("shut"); open("shut/f", "w").close(); os.chmod("shut", 0)
"""


class Sink:
    def __init__(self) -> None:
        self.data = b""

    def write(self, stream: Stream, data: bytes | memoryview) -> None:
        self.data += bytes(data)


async def main(state: Path) -> None:
    with instance(state) as own:
        backend = BubblewrapBackend(state=own.state, instance_id=own.instance_id, path=os.environ["PATH"])
        answer = await backend.probe()
        found: dict[str, object] = {"available": answer.available, "why": answer.why, "uid": os.getuid()}
        if answer.available:
            limits = Limits(memory_bytes=256 << 20, pids=100, disk_bytes=64 << 20)
            sandbox = await backend.create(SandboxRequest("s", "", limits, build(path="")))
            planted = await sandbox.plant()
            found["redirected"] = planted is not None and planted.redirected
            sink = Sink()
            running = await sandbox.start(ExecRequest("1", ["/usr/bin/python3", "-c", PROGRAM]), sink)
            found["exited"] = (await running.wait()).code
            found["said"] = sink.data.decode()
            bomb = await sandbox.start(ExecRequest("2", ["bash", "-c", "f() { f | f & }; f; sleep 100"]), Sink())
            found["first limit"] = (await anext(sandbox.limits_hit())).kind
            await bomb.kill()
            eats = "x = []\nwhile True: x.append(bytearray(10 << 20))"
            memory = await sandbox.start(ExecRequest("3", ["/usr/bin/python3", "-c", eats]), Sink())
            ended = await memory.wait()
            found["memory"] = [ended.code, ended.oom]
            await sandbox.destroy()
            found["left"] = [entry.name for entry in (own.directory / "bubblewrap").iterdir() if entry.name != ".files"]
        await backend.close()
        print(json.dumps(found))


async def bounded() -> None:
    async with asyncio.timeout(60):
        await main(Path(sys.argv[1]))


asyncio.run(bounded())
