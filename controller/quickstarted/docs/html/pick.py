"""Chooses the main content among the places that may be it."""

from __future__ import annotations

from quickstarted.docs.html.read import Candidate, Reading
from quickstarted.docs.html.tree import Element

_ENOUGH_TEXT = 0.7  # of what the widest candidate holds: below it, the page's text is spread over several


def main_content(reading: Reading) -> Element:
    """The tightest candidate with nearly all text and all code of the widest one; else the body.

    A widest candidate that misses code or most of the text of the page is not the main content either: markup that was
    meant for something else, such as an `article` around a news item.
    """
    candidates = [candidate for candidate in reading.candidates if candidate.text > 0]
    if not candidates:
        return reading.root
    widest = max(candidates, key=_holds)
    if widest.code < reading.code or widest.text < 0.3 * reading.text:
        return reading.root
    enough = [
        candidate
        for candidate in candidates
        if candidate.code >= widest.code and candidate.text >= _ENOUGH_TEXT * widest.text
    ]
    return min(enough, key=_holds).element


def _holds(candidate: Candidate) -> int:
    return candidate.text
