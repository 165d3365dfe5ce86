"""Admonitions: a note, a tip, a warning, with its kind and title, whatever box a generator draws around it."""

from __future__ import annotations

import re

from quickstarted.docs.html.names import words
from quickstarted.docs.html.tree import BREAK, Element, Node, plain_text

_KINDS = {
    "note": "Note",
    "info": "Info",
    "tip": "Tip",
    "hint": "Hint",
    "success": "Success",
    "important": "Important",
    "warning": "Warning",
    "caution": "Caution",
    "attention": "Attention",
    "danger": "Danger",
    "error": "Error",
    "failure": "Failure",
    "bug": "Bug",
    "example": "Example",
    "question": "Question",
    "seealso": "See also",
    "todo": "To do",
    "abstract": "Abstract",
    "summary": "Summary",
    "quote": "Quote",
    "deprecated": "Deprecated",
}
_BOXES = words(
    "admonition theme-admonition custom-block starlight-aside alert markdown-alert admonitionblock callout "
    "bd-callout notice hint-block"
)
_TITLES = words(
    "admonition-title custom-block-title starlight-aside__title markdown-alert-title alert-heading callout-title "
    "admonition-heading admonitionheading notice-title"
)
_WORD = re.compile(r"[a-z]+")


def admonition_kind(tag: str, names: frozenset[str]) -> str:
    """The kind of an admonition's box, "" when the element is none. A kind as a bare class counts on `aside` too."""
    boxed = bool(names & _BOXES)
    if not boxed and tag != "aside":
        return ""
    for name in sorted(names, key=lambda name: (name.startswith("alert"), name)):
        for kind in reversed(_WORD.findall(name)):
            if kind in _KINDS and (boxed or name == kind):
                return str(kind)
    return "note" if names & {"admonition", "admonitionblock", "callout", "markdown-alert", "alert"} else ""


def is_title(names: frozenset[str]) -> bool:
    return bool(names & _TITLES)


def finish(element: Element) -> None:
    """Takes the title out of a box that has been read and puts `title` into its attributes."""
    kind = _KINDS[element.get("kind")]
    title = ""
    for index, child in enumerate(element.children[:12]):
        if isinstance(child, Element) and child.tag == "admonition-title":
            title = plain_text(child, 200)
            del element.children[index]
            break
    title = title or element.get("aria-label")
    element.attrs["title"] = kind if title.strip(" :!").lower() in ("", kind.lower()) else f"{kind}: {title}"
    element.children = _without_outer_breaks(element.children)


def _without_outer_breaks(children: list[Node]) -> list[Node]:
    while children and children[0] is BREAK:
        children = children[1:]
    return children
