"""What was read, on disk, byte for byte with its headers: bodies by their hash, and a record for each URL.

    objects/ab/cdef…      a body as it came over the wire, named by its SHA-256
    pages/<hash>.json     one URL: status, headers, the body's hash, when it was fetched; named by the URL's SHA-256

Files are written beside their place and moved there, so that a reader, or another process that writes the same
snapshot, never sees half of one. What is read is checked against its hash.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from quickstarted.docs.fetch import Response
from quickstarted.docs.inflate import inflate
from quickstarted.docs.problems import Problem, ReadError
from quickstarted.docs.url import without_fragment

VERSION = 1


@dataclass(frozen=True, slots=True)
class Stored:
    """A response from the snapshot. `fetched_at` is in ISO 8601."""

    response: Response
    fetched_at: str

    @property
    def validators(self) -> dict[str, str]:
        """The headers of a conditional request (RFC 9110, section 13.1)."""
        pairs = (("if-none-match", "etag"), ("if-modified-since", "last-modified"))
        return {name: value for name, source in pairs if (value := self.response.header(source))}


def content_hash(body: bytes) -> str:
    """The hash of a body without content encodings, as events record it."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


class Snapshot:
    """A directory of what was read. Its methods block; they are called in threads."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def load(self, url: str) -> Stored | None:
        """What the snapshot has for a URL. Raises ReadError (snapshot_corrupt) when it can't be trusted."""
        try:
            text = self._page(url).read_text("utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise self._corrupt(url, str(error)) from error
        try:
            entry = json.loads(text)
            if entry["version"] != VERSION or entry["url"] != without_fragment(url):
                raise self._corrupt(url, "its record is of another version or page")
            headers = tuple((str(name), str(value)) for name, value in entry["headers"])
            status, digest, fetched_at = int(entry["status"]), str(entry["body"]), str(entry["fetched_at"])
            raw = self._object(digest).read_bytes()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._corrupt(url, f"{type(error).__name__}: {error}") from error
        if hashlib.sha256(raw).hexdigest() != digest:
            raise self._corrupt(url, "its body is not what was stored")
        encoding = next((value for name, value in headers if name.lower() == "content-encoding"), None)
        return Stored(Response(entry["url"], status, headers, raw, inflate(raw, encoding)), fetched_at)

    def store(self, response: Response) -> None:
        """Keep a response; the one before for its URL is replaced. Raises OSError."""
        digest = hashlib.sha256(response.raw).hexdigest()
        path = self._object(digest)
        if not path.exists():
            _write(path, response.raw)
        entry = {
            "version": VERSION,
            "url": without_fragment(response.url),
            "status": response.status,
            "headers": response.headers,
            "body": digest,
            "content_hash": content_hash(response.body),
            "fetched_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        _write(self._page(response.url), json.dumps(entry, indent=1).encode())

    def _page(self, url: str) -> Path:
        return self.directory / "pages" / f"{hashlib.sha256(without_fragment(url).encode()).hexdigest()}.json"

    def _object(self, digest: str) -> Path:
        if len(digest) != 64 or not all(character in "0123456789abcdef" for character in digest):
            raise ValueError(f"not a hash: {digest[:80]!r}")
        return self.directory / "objects" / digest[:2] / digest[2:]

    def _corrupt(self, url: str, why: str) -> ReadError:
        return ReadError(Problem.SNAPSHOT, f"The snapshot's copy of {url} can't be used: {why}.")


def _write(path: Path, data: bytes) -> None:
    """`data` at `path`, whole or not at all, also after a crash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
