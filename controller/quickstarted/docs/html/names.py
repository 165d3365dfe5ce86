"""Words: lists of them in our files, and class names of a page as a set."""

from __future__ import annotations

import re
from functools import lru_cache

# What a CSS module appends to a name: `tableOfContents_bqdL`, `code-module__x7aB`.
_MODULE_HASH = re.compile(r"_+[a-z0-9-]{3,8}$")
_LONGEST = 2000
NONE: frozenset[str] = frozenset()


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def names_of(attrs: dict[str, str | None]) -> frozenset[str]:
    """The class names of an element in lower case, each also without a CSS module's hash."""
    value = attrs.get("class") if attrs else None
    return _split(value) if value and len(value) <= _LONGEST else NONE


@lru_cache(maxsize=4096)
def _split(value: str) -> frozenset[str]:
    names = value.lower().split()
    return frozenset((*names, *(_MODULE_HASH.sub("", name) for name in names)))
