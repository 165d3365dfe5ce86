"""A code block's text as its author wrote it, whatever a highlighter made of it.

Highlighters wrap each line in a `span` or `div`, with or without a newline, end lines with `<br>`, put numbers in
front or beside, indent with no-break spaces, and hang buttons and tooltips in between. The one rule that sorts them
out: a line element that doesn't end in a newline owes one, and it is paid by the next newline, `<br>` or line element,
whichever comes first.
"""

from __future__ import annotations

import re

from selectolax.lexbor import LexborNode

from quickstarted.docs.html.names import names_of, words

CODE_TAGS = words("pre listing xmp plaintext")

_SKIPPED_TAGS = words("button script style svg template input select clipboard-copy")
_SKIPPED_NAMES = words(
    # line numbers
    "linenos lineno linenumber line-number line-numbers ln lnt gutter gutters blob-num rouge-gutter lnlinks linenodiv "
    "react-syntax-highlighter-line-number codelinenumber line-numbers-rows line-numbers-wrapper hljs-ln-numbers "
    "codemirror-linenumber code-line-number codemirror-gutter cm-gutters lines-num line-num linenum prism-line-number "
    # what hangs in between
    "headerlink copybtn copy-button sr-only visually-hidden twoslash-popup-container twoslash-hover-popup tooltip "
    "conum code-toolbar toolbar"
)
_LINE_NAMES = words(
    "line token-line ec-line code-line cl highlight-line codeline view-line cm-line codemirror-line "
    "gatsby-highlight-code-line react-code-line react-code-text hljs-ln-line row-line code-block-line"
)
_BLOCK_TAGS = words("div p li tr ol ul pre table tbody figure")
_TABLE_PARTS = words("table tbody thead tr colgroup")
_UNSELECTABLE = re.compile(r"user-select\s*:\s*none")
_DISPLAY_BLOCK = re.compile(r"display\s*:\s*(?:block|flex|table-row)")
_BLANK_LINE = re.compile(r"\A(?:[^\S\n]*\n)+")
_LOOKED_AT = 50  # cells of a table
_PLACEHOLDERS = (" ", "\u00a0", "\u200b", "\ufeff")


class _Lines:
    """Collects text and pays the newlines that line elements owe."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.tail = ""  # the last character
        self._owed = False

    def text(self, text: str) -> None:
        if not text:
            return
        if self._owed:
            self._owed = False
            if not text.startswith("\n"):
                self.parts.append("\n")
        self.parts.append(text)
        self.tail = text[-1]

    def newline(self) -> None:
        self._owed = False
        self.parts.append("\n")
        self.tail = "\n"

    def start_line(self) -> int:
        if self._owed or self.tail not in ("", "\n"):
            self.newline()
        return len(self.parts)

    def end_line(self, start: int) -> None:
        if len(self.parts) == start + 1 and self.parts[start] in _PLACEHOLDERS:
            self.parts.pop()  # it only gives an empty line its height
        self._owed = self._owed or len(self.parts) == start or self.tail != "\n"

    @property
    def at_line_start(self) -> bool:
        return self._owed or self.tail in ("", "\n")


def code_text(root: LexborNode, *, preformatted: bool = True) -> tuple[str, list[tuple[str, str]]]:
    """The text of the block below `root`, and (text, href) of links in it.

    `preformatted` is False for a block made without `pre`: white space between its line elements is then only the
    page's own layout.
    """
    lines = _Lines()
    links: list[tuple[str, str]] = []
    stack: list[tuple[LexborNode, int]] = []  # open elements; where its line began, or -1
    node = root.first_child
    while True:
        if node is None:
            if not stack:
                break
            element, start = stack.pop()
            if start >= 0:
                lines.end_line(start)
            node = element.next
            continue
        tag = node.tag or ""
        if tag == "-text":
            _take_text(lines, node, preformatted)
        elif tag == "br":
            lines.newline()
        elif not tag.startswith("-"):
            attrs = node.attributes
            if not _is_skipped(node, tag, attrs):
                if tag == "a" and attrs.get("href"):
                    links.append((node.text()[:200].strip(), attrs["href"] or ""))
                start = lines.start_line() if _is_line(tag, attrs, lines) else -1
                stack.append((node, start))
                node = node.first_child
                continue
        node = node.next
    return _tidy("".join(lines.parts)), [(text, href) for text, href in links if text]


def _take_text(lines: _Lines, node: LexborNode, preformatted: bool) -> None:
    text = node.text_content or ""
    if not text.strip() and "\u00a0" not in text:
        parent = node.parent
        if parent is not None and parent.tag in _TABLE_PARTS:
            return
        if not preformatted and lines.at_line_start and "\n" in text:
            return
    lines.text(text.replace("\r\n", "\n").replace("\r", "\n"))


def _is_skipped(node: LexborNode, tag: str, attrs: dict[str, str | None]) -> bool:
    if tag in _SKIPPED_TAGS:
        return True
    if attrs and _SKIPPED_NAMES & names_of(attrs):
        return True
    if tag in ("td", "th"):
        return node.next is not None and _is_numbers(node)
    style = attrs.get("style") or ""
    unselectable = attrs.get("unselectable") == "on" or attrs.get("aria-hidden") == "true"
    if unselectable or (style and _UNSELECTABLE.search(style[:500])):
        return not any(character.isalpha() for character in node.text()[:200])
    if "float" in style and tag == "code":
        return _is_numbers(node)
    return tag == "b" and _follows_callout(node)


def _follows_callout(node: LexborNode) -> bool:
    """Asciidoctor writes a callout's number twice, the second time as `<b>(1)</b>`."""
    before = node.prev
    return before is not None and before.tag == "i" and "conum" in (before.attributes.get("class") or "")


def _is_numbers(node: LexborNode) -> bool:
    return all(word.rstrip(".:").isdigit() for word in node.text()[:100_000].split())


def _is_line(tag: str, attrs: dict[str, str | None], lines: _Lines) -> bool:
    if tag in _BLOCK_TAGS:
        return True
    if not attrs:
        return False
    if "data-line" in attrs or _LINE_NAMES & names_of(attrs):
        return lines.at_line_start
    style = attrs.get("style")
    return style is not None and bool(_DISPLAY_BLOCK.search(style[:500].lower())) and lines.at_line_start


def _tidy(text: str) -> str:
    return _BLANK_LINE.sub("", text.replace("\u00a0", " ")).rstrip()


def is_code_table(table: LexborNode) -> bool:
    """Whether a table is a highlighter's way to put line numbers beside code."""
    names = names_of(table.attributes)
    if names & {"highlighttable", "codehilitetable", "lntable", "rouge-table", "hljs-ln", "js-file-line-container"}:
        return True
    if table.css_first("th") is not None:
        return False
    code: list[LexborNode] = []
    rest: list[LexborNode] = []
    for cell in table.css("td")[:_LOOKED_AT]:
        (rest if cell.css_first("pre, .container") is None else code).append(cell)
    if len(code) == 2 and not rest and _is_numbers(code[0]) and code[0].text().strip():
        return True
    return bool(code) and bool(rest) and all(_is_numbers(cell) for cell in rest)
