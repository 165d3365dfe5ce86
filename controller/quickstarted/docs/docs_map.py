"""`--docs-map HOST=URL|DIR`: a documentation host's pages come from a directory of built HTML, or from a preview.

URLs, the allowlist and what is recorded stay those of the host; only where the bytes come from changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from urllib.parse import quote, unquote_to_bytes, urlsplit

from quickstarted_api.hosts import HostError, parse_host

from quickstarted.docs.fetch import Response
from quickstarted.docs.inflate import MAX_BYTES
from quickstarted.docs.problems import Problem, ReadError
from quickstarted.docs.url import absolute, port_of

_TYPES = {
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "application/xhtml+xml",
    ".md": "text/markdown; charset=utf-8",
    ".markdown": "text/markdown; charset=utf-8",
    ".txt": "text/plain",
    ".rst": "text/x-rst",
    ".json": "application/json",
    ".xml": "application/xml",
    ".pdf": "application/pdf",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}


class DocsMapError(ValueError):
    """What `--docs-map` was given can't be used; the message is one line."""


@dataclass(frozen=True, slots=True)
class Directory:
    """Built HTML. `root` has no symbolic links in it."""

    root: Path

    def __str__(self) -> str:
        return str(self.root)


@dataclass(frozen=True, slots=True)
class Preview:
    """A preview build; `base` has no slash at its end."""

    base: str

    def __str__(self) -> str:
        return self.base

    def target(self, url: str) -> str:
        """Where `url` of the mapped host is, in the preview. A path that has the preview's own in front keeps it."""
        parts = urlsplit(url)
        base = urlsplit(self.base)
        path = parts.path if f"{parts.path}/".startswith(f"{base.path}/") else f"{base.path}{parts.path}"
        return f"{base.scheme}://{base.netloc}{path}{f'?{parts.query}' if parts.query else ''}"


@dataclass(frozen=True, slots=True)
class DocsMap:
    """Hosts and where their pages come from."""

    targets: dict[str, Directory | Preview] = field(default_factory=dict)

    @classmethod
    def parse(cls, texts: Iterable[str]) -> DocsMap:
        """From `HOST=URL` and `HOST=DIR`. Raises DocsMapError."""
        targets: dict[str, Directory | Preview] = {}
        for text in texts:
            name, equals, where = text.partition("=")
            if not equals or not where:
                raise DocsMapError(f"found {text!r}; give HOST=URL or HOST=DIR")
            try:
                host = parse_host(name)
            except HostError as error:
                raise DocsMapError(str(error)) from None
            if host in targets:
                raise DocsMapError(f"{host} is mapped twice")
            targets[host] = _preview(where) if where.startswith(("http://", "https://")) else _directory(where)
        return cls(targets)

    def target(self, url: str) -> Directory | Preview | None:
        """Where the pages of a URL's host come from; None for the host itself. A host is mapped without subdomains."""
        return self.targets.get(urlsplit(url).hostname or "")

    def public(self, url: str) -> str:
        """A URL inside a preview as its host's; any other URL as it is."""
        for host, target in self.targets.items():
            if isinstance(target, Preview) and url.startswith(target.base):
                rest = url[len(target.base) :]
                if rest[:1] in ("", "/", "?", "#"):
                    return f"https://{host}{rest if rest.startswith('/') else f'/{rest}'}"
        return url

    @property
    def exempt(self) -> frozenset[tuple[str, int]]:
        """(host, port) of the previews: an operator named them, so they may be anywhere."""
        previews = (target.base for target in self.targets.values() if isinstance(target, Preview))
        return frozenset((urlsplit(base).hostname or "", port_of(base)) for base in previews)

    def as_record(self) -> dict[str, str]:
        """For results.json."""
        return {host: str(target) for host, target in self.targets.items()}


def _preview(where: str) -> Preview:
    try:
        url = where if _is_local(where) else absolute(where, base="")
    except ReadError as error:
        raise DocsMapError(error.message) from None
    return Preview(url.partition("#")[0].rstrip("/"))


def _is_local(where: str) -> bool:
    """A preview may be at an address, which a documentation page may not."""
    try:
        parts = urlsplit(where)
        return bool(parts.hostname) and "@" not in parts.netloc and (parts.port or 1) > 0
    except ValueError:
        return False


def _directory(where: str) -> Directory:
    root = Path(where).expanduser()
    if not root.is_dir():
        raise DocsMapError(f"{where} is not a directory")
    return Directory(root.resolve())


def serve(directory: Directory, url: str) -> Response:
    """The answer of a static file server for `url`: `index.html` for a directory, a page without its `.html`, 404 for
    what isn't there or is outside. Raises ReadError for a file that can't be read. It blocks."""
    path = urlsplit(url).path
    segments = [unquote_to_bytes(segment).decode("utf-8", "surrogateescape") for segment in path.split("/")[1:]]
    if any("/" in segment or "\0" in segment or segment == ".." for segment in segments):
        return _answer(url, 404, "text/plain", b"Not found: the path leads outside.")
    wanted = directory.root.joinpath(*(segment for segment in segments if segment not in ("", ".")))
    try:
        found = _find(directory.root, wanted, is_directory=path.endswith("/"))
        if found is None:
            return _answer(url, 404, "text/plain", b"Not found.")
        # Links in a page are relative to where it is: a directory has a slash at its end, a file has none.
        if found.is_dir():
            return _answer(url, 301, "text/plain", b"", ("location", f"{quote(path, safe='/%')}/"))
        if path.endswith("/") and found.name != "index.html":
            return _answer(url, 301, "text/plain", b"", ("location", f"{quote(path.rstrip('/'), safe='/%')}.html"))
        body = _read(found)
    except OSError as error:
        raise ReadError(Problem.CONNECT, f"{url} is mapped to a file that can't be read: {error.strerror}.") from error
    return _answer(url, 200, _TYPES.get(found.suffix.lower(), "application/octet-stream"), body)


def _find(root: Path, wanted: Path, *, is_directory: bool) -> Path | None:
    """The file for a path; its directory when the path lacks a slash at its end; None when there is nothing."""
    candidates = [wanted / "index.html"] if is_directory else [wanted, wanted.with_name(f"{wanted.name}.html")]
    if is_directory and wanted != root:
        candidates.append(wanted.with_name(f"{wanted.name}.html"))
    for candidate in candidates:
        try:
            real = candidate.resolve(strict=True)
        except (OSError, RuntimeError):  # not there; a loop of links
            continue
        if not real.is_relative_to(root):
            continue
        mode = real.stat().st_mode
        if S_ISREG(mode):
            return real
        if S_ISDIR(mode) and not is_directory and (real / "index.html").is_file():
            return real
    return None


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        body = file.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        raise ReadError(Problem.TOO_LARGE, f"{path.name} is over {MAX_BYTES // 1_048_576} MB.")
    return body


def _answer(url: str, status: int, media_type: str, body: bytes, *headers: tuple[str, str]) -> Response:
    return Response(url, status, (("content-type", media_type), *headers), body, body)
