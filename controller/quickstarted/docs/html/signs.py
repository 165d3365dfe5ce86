"""Signs on a page that it isn't what was asked for, though the server said 200. They are told, never acted upon."""

from __future__ import annotations

import re
from enum import StrEnum

from selectolax.lexbor import LexborHTMLParser

_SHORT = 1500  # characters of content below which a page can be such a page


class Sign(StrEnum):
    """`flags` of a page, in its event and in the answer."""

    NOT_FOUND = "looks_like_not_found"
    LOGIN = "looks_like_login"
    CONSENT = "looks_like_consent"
    NEEDS_JAVASCRIPT = "needs_javascript"
    EMPTY = "empty"


_NOT_FOUND = re.compile(
    r"^\W*(?:(?:error\W*)?404\b|(?:page|file|document)\s+(?:could\s+)?not\s+(?:be\s+)?found|not\s+found\W*$"
    r"|(?:this|the)\s+page\s+(?:can(?:no|')t\s+be\s+found|(?:does\s*n.t|does\s+not)\s+exist))|\b404\W*$|page not found",
    re.IGNORECASE,
)
_LOGIN = re.compile(r"\b(?:sign|log)[\s-]?(?:in|on)\b", re.IGNORECASE)
_CONSENT = re.compile(
    r"\bcookies?\b.*\b(?:consent|accept|settings|preferences|policy)\b|\bbefore you continue\b|"
    r"\b(?:your )?(?:privacy|cookie) (?:choices|consent)\b",
    re.IGNORECASE,
)
_SHELL_TEXT = re.compile(
    r"(?:enable|requires?|needs?|turn on|without)\s+javascript|javascript\s+(?:is|to be)\s+"
    r"(?:required|disabled|enabled)|^\W*loading\W*$",
    re.IGNORECASE,
)
_SHELL_ROOTS = "#root, #app, #__next, #___gatsby, #__nuxt, app-root, #svelte, #main-app"


def signs_of(tree: LexborHTMLParser, *, title: str, heading: str, text: str) -> list[Sign]:
    """`text` is the converted content; `heading` its first one."""
    if is_shell(tree, text):
        return [Sign.NEEDS_JAVASCRIPT]
    if not text.strip():
        return [Sign.EMPTY]
    if len(text) > _SHORT:
        return []
    found: list[Sign] = []
    names = (title, heading)
    if any(_NOT_FOUND.search(name) for name in names if name):
        found.append(Sign.NOT_FOUND)
    if tree.css_first('input[type="password"]') is not None and any(_LOGIN.search(name) for name in (*names, text)):
        found.append(Sign.LOGIN)
    if any(_CONSENT.search(name) for name in names if name):
        found.append(Sign.CONSENT)
    return found


def is_shell(tree: LexborHTMLParser, text: str) -> bool:
    """Whether the page is only the place where a script would put one."""
    words = text.strip()
    if len(words) > 300 or tree.css_first("script") is None:
        return False
    if _SHELL_TEXT.search(words):
        return True
    root = tree.css_first(_SHELL_ROOTS)
    return root is not None and len(root.text().strip()) < 50 and len(words) < 50
