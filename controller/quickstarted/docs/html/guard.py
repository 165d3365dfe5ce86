"""Defuses markup that makes an HTML5 parser slow or large, before it is parsed.

The tree construction of the HTML standard is quadratic in three inputs: the depth of open elements, the attributes of
one tag, and formatting elements that stay open (each is opened again in every later paragraph). A cheap look decides
whether a page can be such a one; only then are its tags read one by one and the excess left out. What this look misses
is stopped by the limits of the process that converts.
"""

from __future__ import annotations

import re

from quickstarted.docs.html.names import words

MAX_DEPTH = 512  # where Chrome and Safari stop nesting too
MAX_WRAPPERS = 256  # depth from which elements that mean nothing are left out: what means something may follow
MAX_FORMATTING = 64
MAX_ATTRIBUTES = 128
LONG_TAG = 8192

_CHUNK = 8192
_SUSPICIOUS_DEPTH = 1000

_WRAPPERS = words("div span section article main font center header address fieldset form")
_VOID = words("area base br col embed hr img input link meta param source track wbr")
_FORMATTING = words("b big code em font i s small strike strong tt u")
# Their start tag ends an open one of the same kind, so they never pile up by themselves.
_SELF_LIMITING = words("a button colgroup dd dt li nobr optgroup option p rp rt tbody td tfoot th thead tr")

_TOKEN = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(?P<raw>script|style|textarea|title|xmp|iframe|noembed|noframes)\b[^>]*+>.*?(?:</(?P=raw)\b|\Z)"
    r"|<(?P<close>/)?(?P<name>[a-z][^\s/>]*+)(?P<rest>(?:[^>\"']++|\"[^\"]*+\"|'[^']*+')*+)>?",
    re.IGNORECASE | re.DOTALL,
)
_ATTRIBUTE = re.compile(r"""[\s/]+[^\s=>/]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>]*))?""")


def defuse(html: str) -> str:
    """`html` with elements beyond the limits left out; the very same string when it is an ordinary page."""
    return _trim(html) if _suspicious(html) else html


def _suspicious(html: str) -> bool:
    """Whether a tag may be very long, or elements may stay open by the thousand. It counts, so it may be wrong."""
    depth = 0
    for start in range(0, len(html), _CHUNK):
        chunk = html[start : start + _CHUNK]
        if len(chunk) == _CHUNK and (">" not in chunk or "<" not in chunk):
            return True
        depth += chunk.count("<") - 2 * chunk.count("</")
        if depth > _SUSPICIOUS_DEPTH:
            return True
    return False


def _trim(html: str) -> str:
    """Every tag judged in order of the text. Only tags are left out, never text."""
    judge = _Judge()
    kept: list[str] = []
    position = 0
    for token in _TOKEN.finditer(html):
        if token["name"] is None:
            continue
        instead = judge.instead_of(token)
        if instead is not None:
            kept += (html[position : token.start()], instead)
            position = token.end()
    kept.append(html[position:])
    return "".join(kept)


class _Judge:
    """Counts what is open, as far as a count needs to know."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}
        self._left_out: dict[str, int] = {}
        self._depth = 0
        self._formatting = 0

    def instead_of(self, token: re.Match[str]) -> str | None:
        """What stands for the tag: None for itself, "" when it is left out."""
        name = token["name"].lower()
        if token["close"]:
            return self._close(name)
        if name not in _VOID and name not in _SELF_LIMITING and not self._opens(name):
            return ""
        return _shortened(token) if len(token["rest"]) > LONG_TAG else None

    def _opens(self, name: str) -> bool:
        limit = MAX_WRAPPERS if name in _WRAPPERS else MAX_DEPTH
        if self._depth >= limit or (name in _FORMATTING and self._formatting >= MAX_FORMATTING):
            self._left_out[name] = self._left_out.get(name, 0) + 1
            return False
        self._open[name] = self._open.get(name, 0) + 1
        self._depth += 1
        self._formatting += name in _FORMATTING
        return True

    def _close(self, name: str) -> str | None:
        if self._left_out.get(name):
            self._left_out[name] -= 1
            return ""
        if self._open.get(name):
            self._open[name] -= 1
            self._depth -= 1
            self._formatting -= name in _FORMATTING
        return None


def _shortened(token: re.Match[str]) -> str:
    attributes: list[str] = []
    for attribute in _ATTRIBUTE.finditer(token["rest"]):
        attributes.append(attribute[0])
        if len(attributes) == MAX_ATTRIBUTES:
            break
    return f"<{token['name']}{''.join(attributes)}>"
