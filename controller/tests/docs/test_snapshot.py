"""What is kept on disk, and what is believed of it."""

from __future__ import annotations

import gzip
import json
import multiprocessing
from pathlib import Path

import pytest
from quickstarted.docs.fetch import Response
from quickstarted.docs.problems import Problem, ReadError
from quickstarted.docs.snapshot import Snapshot, content_hash

URL = "https://docs.test/a?b=c"


def response(body: bytes = b"<p>x", url: str = URL, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    return Response(url, 200, (("Content-Type", "text/html"), *headers), body, body)


def test_what_was_read_comes_back_byte_for_byte_with_its_headers(tmp_path: Path) -> None:
    body = b"\x00\xff<p>\r\n"
    packed = gzip.compress(body)
    kept = Response(URL, 203, (("Content-Encoding", "gzip"), ("X", "1"), ("X", "2")), packed, body)
    Snapshot(tmp_path).store(kept)
    stored = Snapshot(tmp_path).load(f"{URL}#fragment")
    assert stored is not None
    assert stored.response == kept
    assert stored.fetched_at.endswith("+00:00")


def test_a_page_that_was_not_read_is_not_there(tmp_path: Path) -> None:
    assert Snapshot(tmp_path / "new").load(URL) is None


def test_equal_bodies_are_kept_once_and_named_by_their_hash(tmp_path: Path) -> None:
    snapshot = Snapshot(tmp_path)
    snapshot.store(response())
    snapshot.store(response(url="https://docs.test/b"))
    objects = [path for path in (tmp_path / "objects").rglob("*") if path.is_file()]
    assert [f"sha256:{path.parent.name}{path.name}" for path in objects] == [content_hash(b"<p>x")]
    assert objects[0].read_bytes() == b"<p>x"


def test_the_last_reading_counts(tmp_path: Path) -> None:
    snapshot = Snapshot(tmp_path)
    snapshot.store(response(b"old"))
    snapshot.store(response(b"new"))
    stored = snapshot.load(URL)
    assert stored is not None
    assert stored.response.body == b"new"


def test_validators_are_what_the_server_gave(tmp_path: Path) -> None:
    snapshot = Snapshot(tmp_path)
    snapshot.store(response(headers=(("ETag", '"v1"'), ("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT"))))
    stored = snapshot.load(URL)
    assert stored is not None
    assert stored.validators == {"if-none-match": '"v1"', "if-modified-since": "Mon, 01 Jan 2024 00:00:00 GMT"}


def page_file(directory: Path) -> Path:
    return next((directory / "pages").iterdir())


def body_file(directory: Path) -> Path:
    return next(path for path in (directory / "objects").rglob("*") if path.is_file())


def _edit(directory: Path, **fields: object) -> None:
    entry = json.loads(page_file(directory).read_text())
    page_file(directory).write_text(json.dumps({**entry, **fields}))


def _make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE = [
    ("a body that was changed", lambda d: body_file(d).write_bytes(b"other")),
    ("a body that is gone", lambda d: body_file(d).unlink()),
    ("half a record", lambda d: page_file(d).write_text('{"version": 1')),
    ("a record that is no object", lambda d: page_file(d).write_text("[]")),
    ("a record that is no text", lambda d: page_file(d).write_bytes(b"\xff")),
    ("a record of another page", lambda d: _edit(d, url="https://docs.test/z")),
    ("a record of another version", lambda d: _edit(d, version=99)),
    ("a body outside", lambda d: _edit(d, body="../../../../etc/passwd")),
    ("no status", lambda d: _edit(d, status=None)),
    ("headers that are none", lambda d: _edit(d, headers=[["a"]])),
    ("a record that is a directory", lambda d: _make_directory(page_file(d))),
]


@pytest.mark.parametrize("damage", [row[1] for row in DAMAGE], ids=[row[0] for row in DAMAGE])
def test_what_was_damaged_is_not_believed(tmp_path: Path, damage: object) -> None:
    Snapshot(tmp_path).store(response())
    damage(tmp_path)  # type: ignore[operator]  # a function of the table
    with pytest.raises(ReadError) as caught:
        Snapshot(tmp_path).load(URL)
    assert caught.value.problem is Problem.SNAPSHOT


def _write_often(directory: str, letter: str) -> None:
    snapshot = Snapshot(Path(directory))
    for _ in range(60):
        snapshot.store(response(letter.encode() * 50_000))


def test_processes_that_write_the_same_snapshot_never_show_half_a_page(tmp_path: Path) -> None:
    Snapshot(tmp_path).store(response(b"a" * 50_000))
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_often, args=(str(tmp_path), letter)) for letter in "ab"]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        stored = Snapshot(tmp_path).load(URL)
        assert stored is not None
        seen.add(stored.response.body[:1] * len(stored.response.body) == stored.response.body)
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert seen == {True}
    assert list(tmp_path.rglob(".new-*")) == []
