"""What the model is told: a page or a part of it under a short head, or why there is none. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from quickstarted.docs.page import Page
from quickstarted.docs.parts import Part, table_of_headings
from quickstarted.docs.problems import ReadError
from quickstarted.docs.url import without_fragment

_SHORT = 600

_NOTES = {
    "looks_like_not_found": "This looks like the site's page for what was not found, though its status is 200.",
    "looks_like_login": "This looks like a page to sign in, not like documentation.",
    "looks_like_consent": "This looks like a page that asks for consent (cookies), not like documentation.",
    "needs_javascript": "This page needs JavaScript: its server sends only the place where a script puts the text.",
    "empty": "This page has no text.",
}


@dataclass(frozen=True, slots=True)
class DocsAnswer:
    """`text` is for the model; `ok` when it is a page. `event` and `fields` are what was recorded."""

    text: str
    ok: bool
    event: str
    fields: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Section:
    """Where a fragment led: `found` is false when the page has no such place."""

    name: str
    found: bool


def page_text(
    page: Page, part: Part, *, url: str, asked: str, section: Section | None = None, notes: Sequence[str] = ()
) -> str:
    """The answer that gives `part` of a page; `asked` is the URL that was asked for, `url` where it led."""
    head = [f"Title: {page.title}"] if page.title else []
    led = without_fragment(asked) != without_fragment(url)
    head.append(f"URL: {without_fragment(url)}{f' (redirected from {without_fragment(asked)})' if led else ''}")
    head += [
        f"Note: {note}" for note in (*(_NOTES[flag] for flag in page.flags if flag in _NOTES), *page.notes, *notes)
    ]
    if section and not section.found:
        head.append(f"Note: the page has no place named #{section.name}.")
    elif section:
        head.append(f"Shown from #{section.name} on, which is at offset {part.start}.")
    head += _about_part(page, part, url)
    return "\n".join(head) + "\n\n---\n\n" + page.markdown[part.start : part.end]


def _about_part(page: Page, part: Part, url: str) -> list[str]:
    total = len(page.markdown)
    if part.start == 0 and part.end == total:
        return []
    bare = without_fragment(url)
    lines = [f"Part {part.number} of {part.count}: characters {part.start:,} to {part.end:,} of {total:,}."]
    if part.end < total:
        lines.append(f'Next part: read_docs with url "{bare}" and offset {part.end}.')
    if part.start > 0:
        lines.append(f'The page from its start: read_docs with url "{bare}".')
    if part.in_code:
        lines.append("Note: this part ends inside a code block, which goes on in the next one.")
    table = table_of_headings(page)
    if table:
        lines += ("", "Headings of the whole page:", table)
    return lines


def problem_text(error: ReadError, hosts: Sequence[str]) -> str:
    """The answer when there is no page: what happened, and what can be read."""
    advice = f" Pages of these hosts can be read: {', '.join(hosts)}." if error.blocked else ""
    return f"read_docs failed: {error.message}{advice}"


def status_message(url: str, status: int, text: str = "") -> str:
    """For an answer of a server that is no page; `text` is what it said."""
    try:
        phrase = f" {HTTPStatus(status).phrase}"
    except ValueError:
        phrase = ""
    words = " ".join(text.split())
    said = f' The server said: "{words[:_SHORT]}{"…" if len(words) > _SHORT else ""}"' if words else ""
    return f"HTTP {status}{phrase} for {without_fragment(url)}.{said}"
