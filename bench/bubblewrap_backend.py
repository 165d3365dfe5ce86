"""The bubblewrap backend over bubblewrap itself, given the same arguments."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from quickstarted_api.v1 import sandbox_pb2 as pb
from sandboxd.backends.bubblewrap import host
from sandboxd.backends.bubblewrap.arguments import Sandbox, arguments
from sandboxd.backends.bubblewrap.program import find

from bench.cold import program
from bench.daemon import daemon
from bench.measure import Work


def command_line(home: Path) -> list[str]:
    """bubblewrap with the arguments of a sandbox whose directories are beneath `home`."""
    path = os.environ["PATH"]
    directories = [home / name for name in ("workspace", "home", "tmp", "inside")]
    for directory in directories:
        directory.mkdir()
    workspace, own_home, tmp, inside = directories
    sandbox = Sandbox(workspace, own_home, tmp, inside, {}, ())
    return [find(path).path, *arguments(host.view(path, as_other=False), sandbox), "true"]


@contextlib.asynccontextmanager
async def command() -> AsyncIterator[Work]:
    """`true` from its start to its exit record, over a new bubblewrap that runs `true`."""
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        bare = program(*command_line(Path(home)))
        async with daemon() as client, client.sandbox(pb.BUBBLEWRAP) as sandbox:

            async def candidate() -> None:
                await client.run(sandbox, "true")

            yield Work(bare, candidate)
