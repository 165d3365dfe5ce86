"""A daemon knows itself over restarts, and the dead from the living, however they died."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sandboxd.instances import StateError, default_state_dir, instance

from sandboxd import journal

HOLD = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from sandboxd.instances import instance
with instance(Path(sys.argv[1])) as own:
    print(own.instance_id, flush=True)
    sys.stdin.read()
"""


def another(state: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(state)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_the_node_stays_and_the_instance_changes(tmp_path: Path) -> None:
    with instance(tmp_path) as first:
        pass
    with instance(tmp_path) as second:
        pass
    assert first.node_id == second.node_id
    assert first.instance_id != second.instance_id


def test_an_instance_that_lives_is_not_dead_and_one_that_was_killed_is(tmp_path: Path) -> None:
    process, name = another(tmp_path)
    try:
        with instance(tmp_path) as own:
            assert own.is_alive(name)
            assert own.dead() == []
            own.forget(name)
            assert (tmp_path / "instances" / name).exists()
            process.send_signal(signal.SIGKILL)
            process.wait(10)
            assert not own.is_alive(name)
            assert own.dead() == [name]
            own.forget(name)
            assert not (tmp_path / "instances" / name).exists()
    finally:
        process.kill()
        process.communicate(timeout=10)


def test_a_regular_end_leaves_nothing(tmp_path: Path) -> None:
    with instance(tmp_path) as own:
        assert own.is_alive(own.instance_id)
        assert own.directory.stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "instances").iterdir()) == []


def test_a_state_directory_that_is_a_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match="--state-dir"), instance(tmp_path / "file"):
        pass


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"HOME": "/h"}, "/h/.local/state/sandboxd"),
        ({"HOME": "/h", "XDG_STATE_HOME": "/x"}, "/x/sandboxd"),
        ({"HOME": "/h", "STATE_DIRECTORY": "/var/lib/sandboxd"}, "/var/lib/sandboxd"),
        ({"STATE_DIRECTORY": "/a", "SANDBOXD_STATE_DIR": "/b"}, "/b"),
    ],
    ids=["home", "XDG", "systemd", "its own variable"],
)
def test_where_the_state_is(environ: dict[str, str], path: str) -> None:
    assert default_state_dir(environ) == Path(path)


ENTRY = journal.Entry("s1", "run", "local", b"o" * 32, b"h" * 32, 1, "docker", "CREATING")


async def test_a_journal_tells_what_there_was(tmp_path: Path) -> None:
    written = journal.Journal(tmp_path)
    await written.open()
    await written.put(ENTRY)
    await written.state("s1", "READY")
    await written.close()
    (read,) = journal.read(tmp_path)
    assert (read.sandbox_id, read.state, read.owner_hash) == ("s1", "READY", b"o" * 32)


WRITE = """
import asyncio, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from sandboxd import journal
async def main():
    written = journal.Journal(Path(sys.argv[1]))
    await written.open()
    for number in range(100_000):
        await written.put(journal.Entry(f"s{number}", "r", "local", b"o", b"h", 1, "docker", "CREATING"))
        print(number, flush=True)
asyncio.run(main())
"""


def test_a_journal_has_everything_that_was_written_before_a_kill(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE, str(tmp_path)], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdout is not None
    told = [int(process.stdout.readline()) for _ in range(50)]
    process.kill()
    rest, _ = process.communicate(timeout=10)
    told += [int(line) for line in rest.splitlines() if line.isdigit()]
    names = {entry.sandbox_id for entry in journal.read(tmp_path)}
    assert {f"s{number}" for number in told[:-1]} <= names


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + bytes(100)])
def test_a_journal_that_can_not_be_read_is_an_empty_one(tmp_path: Path, content: bytes) -> None:
    (tmp_path / journal.FILE).write_bytes(content)
    assert journal.read(tmp_path) == []


def test_an_instance_that_is_being_born_is_not_taken_for_dead(tmp_path: Path) -> None:
    with instance(tmp_path) as own, ThreadPoolExecutor(1) as pool:
        newborn = tmp_path / "instances" / "newborn"
        with (tmp_path / "births").open("w") as births:
            fcntl.flock(births, fcntl.LOCK_EX)
            newborn.mkdir()  # and it has no lock yet
            dead = pool.submit(own.dead)
            with pytest.raises(TimeoutError):
                dead.result(0.05)
            lock = (newborn / "lock").open("w")
            fcntl.flock(lock, fcntl.LOCK_EX)
        assert dead.result(10) == []
        lock.close()


def test_a_state_directory_that_others_may_write_in_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(StateError, match="others may write"), instance(shared):
        pass


async def test_a_journal_that_can_not_be_written_says_so(tmp_path: Path) -> None:
    written = journal.Journal(tmp_path)
    await written.open()
    assert written._connection is not None
    written._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(journal.JournalError):
        await written.put(ENTRY)
    await written.close()
