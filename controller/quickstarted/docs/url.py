"""A URL as a model writes it, made into the one that is asked for. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote, urljoin, urlsplit

from quickstarted_api.hosts import HostError, first_match, parse_host, quoted

from quickstarted.docs.problems import Problem, ReadError

MAX_URL = 8000  # what servers accept: RFC 9110, section 4.1, asks for that much

_MARKDOWN_LINK = re.compile(r"^!?\[[^\]]*\]\(\s*<?([^\s>]+)>?[^)]*\)$")
_PAIRS = {"<": ">", '"': '"', "'": "'", "`": "`", "(": ")", "[": "]", "\u201c": "\u201d", "\u2018": "\u2019", "*": "*"}
_TRAILING = ".,;:!?'\"`>*\u201d\u2019\u2026"
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
_HOST_PORT = re.compile(r"^([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*)(?::(\d{1,5}))?(?=[/?#]|$)")
# RFC 3986, section 2: what may stand in a URL as it is; "%" because escapes are kept.
_KEPT = "!#$%&'()*+,/:;=?@[]~-._"


def resolve(text: str, *, base: str, hosts: Sequence[str]) -> str:
    """The absolute URL that a model meant by `text`: what surrounds it is dropped, then it is as for `absolute`.

    `hosts` are the documentation hosts: what begins with one of them, or a host below it, is no relative path; it gets
    the scheme of `base`. Raises ReadError.
    """
    bare = _bare(text)
    if not bare:
        raise ReadError(Problem.MALFORMED_URL, "read_docs needs a URL; it was given none.")
    return absolute(bare, base=base, hosts=hosts)


def absolute(bare: str, *, base: str, hosts: Sequence[str] = ()) -> str:
    """The canonical form of a URL, relative to `base` where it is relative. The fragment is kept.

    The canonical form of what it returns is that itself. Raises ReadError (malformed_url, scheme_not_allowed,
    userinfo_in_url).
    """
    if len(bare) > MAX_URL:
        raise ReadError(Problem.MALFORMED_URL, f"The URL has {len(bare)} characters; {MAX_URL} are allowed.")
    if any(ord(character) < 32 or ord(character) == 127 for character in bare):
        raise ReadError(Problem.MALFORMED_URL, f"The URL {quoted(bare)} has a control character in it.")
    try:
        parts = urlsplit(_joined(bare, base, hosts))
        host, port = parts.hostname or "", parts.port  # .port raises for what is no port
    except ValueError as error:
        raise ReadError(Problem.MALFORMED_URL, f"{quoted(bare)} is not a URL: {error}.") from None
    if parts.scheme.lower() not in ("http", "https"):
        raise ReadError(Problem.SCHEME, f"{quoted(bare)} is not an http or https URL; only those can be read.")
    if "@" in parts.netloc:
        raise ReadError(Problem.USERINFO, f"{quoted(bare)} has a user or password in it, which is not allowed.")
    try:
        name = parse_host(host)
    except HostError as error:
        raise ReadError(
            Problem.MALFORMED_URL, f"The URL {quoted(bare)} can't be read: for its host, {error}."
        ) from None
    authority = name if port is None or port == _default_port(parts.scheme) else f"{name}:{port}"
    path = _dotless(quote(parts.path or "/", safe=_KEPT))
    query = f"?{quote(parts.query, safe=_KEPT)}" if parts.query else ""
    fragment = f"#{quote(parts.fragment, safe=_KEPT)}" if parts.fragment else ""
    return f"{parts.scheme.lower()}://{authority}{path}{query}{fragment}"


def without_fragment(url: str) -> str:
    return url.partition("#")[0]


def fragment_of(url: str) -> str:
    return url.partition("#")[2]


def port_of(url: str) -> int:
    """The port that a URL from `resolve` leads to."""
    parts = urlsplit(url)
    return parts.port or _default_port(parts.scheme)


def _default_port(scheme: str) -> int:
    return 443 if scheme.lower() == "https" else 80


def _bare(text: str) -> str:
    """`text` without white space, brackets, quotation marks and punctuation around it."""
    bare = text.strip()
    if match := _MARKDOWN_LINK.match(bare):
        bare = match[1]
    before = None
    while bare and bare != before:
        before = bare
        if _PAIRS.get(bare[0]) == bare[-1] and len(bare) > 1:
            bare = bare[1:-1].strip()
        elif bare[0] in _PAIRS:
            bare = bare[1:].strip()
        else:
            bare = bare.rstrip(_TRAILING)
            for opening, closing in (("(", ")"), ("[", "]")):
                if bare.endswith(closing) and bare.count(closing) > bare.count(opening):
                    bare = bare[:-1]
    return bare


def _joined(bare: str, base: str, hosts: Sequence[str]) -> str:
    bare = bare.replace("\\", "/") if _SCHEME.match(bare) or bare.startswith("\\") else bare
    match = _HOST_PORT.match(bare)
    if match and first_match(match[1].lower(), hosts):
        scheme = urlsplit(base).scheme or "https"
        return f"{scheme}://{bare}"
    if _SCHEME.match(bare):
        return bare
    return urljoin(base, bare)


def _dotless(path: str) -> str:
    """`path` without `.` and `..` segments (RFC 3986, section 5.2.4)."""
    if "/." not in path:
        return path
    kept: list[str] = []
    segments = path.split("/")[1:]
    for index, segment in enumerate(segments):
        is_dots = segment in (".", "..")
        if segment == ".." and kept:
            kept.pop()
        if not is_dots:
            kept.append(segment)
        elif index == len(segments) - 1:
            kept.append("")
    return "/" + "/".join(kept)
