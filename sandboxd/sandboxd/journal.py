"""What exists, on disk: written before it is made, so that a daemon that was killed tells its successor what it had.

One SQLite file an instance, in WAL mode. Everything here blocks for about a millisecond and runs in one thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

FILE = "journal.sqlite"
BUSY_SECONDS = 5.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS sandbox (
    sandbox_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    caller TEXT NOT NULL,
    owner_hash BLOB NOT NULL,
    spec_hash BLOB NOT NULL,
    generation INTEGER NOT NULL,
    backend TEXT NOT NULL,
    state TEXT NOT NULL
) STRICT
"""

T = TypeVar("T")


_COLUMNS = "sandbox_id, run_id, caller, owner_hash, spec_hash, generation, backend, state"
_PUT = f"INSERT OR REPLACE INTO sandbox ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - ours
_GET = f"SELECT {_COLUMNS} FROM sandbox"  # noqa: S608 - ours


class JournalError(Exception):
    """It can't be written: the disk is full, or broken."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A sandbox as the journal knows it."""

    sandbox_id: str
    run_id: str
    caller: str
    owner_hash: bytes
    spec_hash: bytes
    generation: int
    backend: str
    state: str


class Journal:
    """The journal of this instance."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._connection: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Open, and make what is missing."""
        await self._run(self._open)

    async def put(self, entry: Entry) -> None:
        """Write an entry, in the place of an older one. Raises JournalError, as the others do."""
        values = (
            entry.sandbox_id,
            entry.run_id,
            entry.caller,
            entry.owner_hash,
            entry.spec_hash,
            entry.generation,
            entry.backend,
            entry.state,
        )
        await self._execute(_PUT, values)

    async def state(self, sandbox_id: str, state: str) -> None:
        """A sandbox came to another state."""
        await self._execute("UPDATE sandbox SET state = ? WHERE sandbox_id = ?", (state, sandbox_id))

    async def forget(self, sandbox_id: str) -> None:
        """A sandbox is out of its retention time."""
        await self._execute("DELETE FROM sandbox WHERE sandbox_id = ?", (sandbox_id,))

    async def close(self) -> None:
        """Close, after everything that was asked for is written."""
        await self._run(self._close)
        self._thread.shutdown()

    async def _execute(self, statement: str, values: Iterable[object]) -> None:
        def work() -> None:
            if self._connection is None:
                return
            try:
                self._connection.execute(statement, tuple(values))
            except sqlite3.Error as error:
                raise JournalError(str(error)) from error

        await self._run(work)

    def _open(self) -> None:
        self._connection = sqlite3.connect(
            self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(_SCHEMA)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _run(self, work: Callable[[], T]) -> T:
        # Not cancelled half-way: what was begun is finished by the thread whoever waits.
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))


def read(directory: Path) -> list[Entry]:
    """The entries that an instance left. An unreadable journal is an empty one: what it had is found by its labels."""
    path = directory / FILE
    if not path.exists():
        return []
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
            return [Entry(*row) for row in connection.execute(_GET)]
    except sqlite3.Error:
        return []
