"""The fake daemon as a process, for what an embedded daemon does: `fake_sandboxd_main.py MODE serve --unix PATH …`.

MODE is `well`, `deaf` (never serves), `broken` (says why and exits) or `stubborn` (does not leave when it is told).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

ROOT = str(Path(__file__).parents[2])
sys.path.insert(0, ROOT)

from tests.support.fake_sandboxd import FakeDaemon  # noqa: E402 - the path comes first


def main() -> None:
    mode, *arguments = sys.argv[1:]
    print(json.dumps({"pid": os.getpid(), "environment": dict(os.environ), "arguments": arguments}), file=sys.stderr)
    sys.stderr.flush()
    if mode == "broken":
        sys.exit("fake: no such luck")
    if mode == "deaf":
        sys.stdin.read()
        return
    asyncio.run(serve(Path(arguments[arguments.index("--unix") + 1])))
    if mode == "stubborn":
        time.sleep(3600)


async def serve(path: Path) -> None:
    daemon = FakeDaemon()
    async with daemon.serve(path):
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    main()
