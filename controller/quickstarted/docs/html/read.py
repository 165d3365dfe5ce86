"""Reads lexbor's tree into ours, once, from the body down: noise is not entered, code blocks are taken whole.

Places that may be the main content stay in the tree as `main` elements with the amount of text and code they hold, so
that `pick` can choose among them without another walk.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from selectolax.lexbor import LexborNode

from quickstarted.docs.html import admonitions, tabs
from quickstarted.docs.html.code import CODE_TAGS, code_text, is_code_table
from quickstarted.docs.html.language import language_of
from quickstarted.docs.html.names import NONE, names_of, words
from quickstarted.docs.html.noise import DROPPED_TAGS, is_hidden, is_noise
from quickstarted.docs.html.tree import (
    BLOCK_WRAPPERS,
    BLOCKS,
    BREAK,
    HEADINGS,
    INLINE,
    Anchor,
    Code,
    Element,
)

MAX_NESTING = 64  # of elements that mean something; deeper ones are read as wrappers
_MAX_TABLES = 4  # nested tables that are looked at for code

_CONTENT_NAMES = words(
    "theme-doc-markdown vp-doc sl-markdown-content markdown-body md-content__inner bd-article td-content "
    "rst-content markdown-section docs-content doc-content article-content post-content entry-content"
)
_CONTENT_IDS = words("content main-content main furo-main-content docs-content readme")
_CODE_BOXES = words("fragment code codeblock code-block source-code sourcecode cm-content view-lines")
_SIGNATURE_PARTS = words("sig-param property")  # Sphinx sets parts of a signature in italics, which only breaks it up
_WRAPPER_TABLES = words("table tr td th")
_LEAVES = CODE_TAGS | words("code div table img br hr wbr iframe frame a span")
# Elements that are nothing else when they have no attributes, and whether each is a block.
_PLAIN = {tag: tag in BLOCKS for tag in words("p li ul ol dl dt dd h1 h2 h3 h4 h5 h6 blockquote b strong i em a")}


@dataclass(slots=True, eq=False)
class Candidate:
    """A place that may be the main content, and how much it holds."""

    element: Element
    text: int
    code: int


@dataclass(slots=True, eq=False)
class _Frame:
    node: LexborNode
    element: Element  # where children go
    is_block: bool
    own: bool  # `element` belongs to this frame
    special: Candidate | tabs.Panel | tabs.Strip | None = None
    shown_hidden: bool = False


@dataclass(slots=True)
class Reading:
    """What a page held."""

    root: Element
    candidates: list[Candidate] = field(default_factory=list)
    navigation: list[LexborNode] = field(default_factory=list)
    text: int = 0
    code: int = 0


class Reader:
    """One page's walk."""

    def __init__(self, *, keep_noscript: bool = False) -> None:
        self._reading = Reading(Element("main"))
        self._frames: list[_Frame] = []
        self._sequence: list[tabs.Strip | tabs.Panel] = []
        self._panels: list[tabs.Panel] = []
        self._strips: list[tabs.Strip] = []
        self._keep_noscript = keep_noscript
        self._nesting = 0
        self._tables = 0
        self._hidden_shown = 0

    def read(self, body: LexborNode) -> Reading:
        self._frames.append(_Frame(body, self._reading.root, is_block=True, own=False))
        node = body.first_child
        while True:
            if node is None:
                frame = self._frames.pop()
                self._close(frame)
                if not self._frames:
                    break
                node = frame.node.next
                continue
            tag = node.tag
            if tag == "-text":
                self._text(node.text_content or "")
            elif tag is not None and tag[0] != "-" and self._open(node, tag):
                node = node.first_child
                continue
            node = node.next
        tabs.pair(self._sequence)
        return self._reading

    def _text(self, text: str) -> None:
        element = self._frames[-1].element
        target = element.children
        if text.isspace():
            if (target and target[-1] is not BREAK) or (not target and element.tag in INLINE):
                target.append(" ")
            return
        self._reading.text += len(text)
        target.append(text)

    def _open(self, node: LexborNode, tag: str) -> bool:
        """Begin an element; False when nothing below it is to be walked."""
        attrs = node.attributes
        is_block = _PLAIN.get(tag)
        if is_block is not None and self._nesting < MAX_NESTING and (not attrs or _is_plain_link(attrs)):
            target = self._frames[-1].element
            element = Element(tag, attrs, [], False)
            target.children.append(element)
            self._frames.append(_Frame(node, element, is_block, True, None, False))
            self._nesting += 1
            return True
        if not attrs:
            if tag in DROPPED_TAGS:
                return self._odd(node, tag, attrs)
            if tag in _LEAVES and self._leaf(node, tag, attrs, NONE):
                return False
            self._push(node, tag, attrs, NONE)
            return True
        names = names_of(attrs)
        if self._open_tabs(node, tag, attrs, names):
            return self._frames[-1].node is node
        if is_noise(tag, attrs):
            return self._odd(node, tag, attrs)
        shown = is_hidden(attrs)
        if (shown and not self._hidden_shown and node.css_first("pre") is None) or (tag == "td" and "icon" in names):
            return False
        self._anchor(tag, attrs)
        if (tag in _LEAVES or names) and self._leaf(node, tag, attrs, names):
            return False
        self._push(node, tag, attrs, names)
        if shown:
            self._frames[-1].shown_hidden = True
            self._hidden_shown += 1
        return True

    def _odd(self, node: LexborNode, tag: str, attrs: dict[str, str | None]) -> bool:
        """What is left out, but for a task's box, a `noscript` that is wanted, and the navigation's links."""
        target = self._frames[-1].element
        if tag == "input" and attrs.get("type") == "checkbox":
            target.children.append("[x] " if "checked" in attrs else "[ ] ")
        elif tag == "noscript" and self._keep_noscript:
            self._push(node, "div", {}, NONE)
            return True
        elif tag == "nav" or attrs.get("role") == "navigation":
            self._reading.navigation.append(node)
        elif tag == "footer" and target.tag == "blockquote":
            self._push(node, "div", {}, NONE)
            return True
        return False

    def _anchor(self, tag: str, attrs: dict[str, str | None]) -> None:
        name = attrs.get("id") or (attrs.get("name") if tag == "a" else None)
        if name:
            self._frames[-1].element.children.append(Anchor(name))

    def _open_tabs(self, node: LexborNode, tag: str, attrs: dict[str, str | None], names: frozenset[str]) -> bool:
        """Strips, tabs and panels. True when `node` was one of them and has been dealt with."""
        radio = self._strips[-1] if self._strips and self._strips[-1].radio else None
        if tabs.is_tab(tag, attrs) or (tag == "label" and radio is not None and "for" in attrs):
            strip = self._strips[-1] if self._strips else None
            if strip is None:
                strip = self._last_strip()
            if strip is not None:
                strip.tabs.append(tabs.tab_of(attrs, _label(node, attrs)))
                return True
        if tabs.is_panel(attrs, names, node.parent, radio):
            self._anchor(tag, attrs)
            self._push(node, "tab", {}, names)
            return True
        if tag != "nav" and (names & tabs.RADIO_SETS or tabs.is_strip(attrs, names)):
            around = self._panels[-1] if self._panels else None
            is_radio = bool(names & tabs.RADIO_SETS)
            strip = tabs.Strip(around, is_radio, "tabbed-alternate" in names)
            self._sequence.append(strip)
            self._strips.append(strip)
            self._push(node, "div", {}, names)
            self._frames[-1].special = strip
            return True
        return False

    def _last_strip(self) -> tabs.Strip | None:
        """A tab outside any strip starts one of its own, or joins the one before it."""
        around = self._panels[-1] if self._panels else None
        last = self._sequence[-1] if self._sequence else None
        if isinstance(last, tabs.Strip) and last.around is around:
            return last
        strip = tabs.Strip(around)
        self._sequence.append(strip)
        return strip

    def _leaf(self, node: LexborNode, tag: str, attrs: dict[str, str | None], names: frozenset[str]) -> bool:
        """Elements whose inside is not walked; True when `node` was one."""
        target = self._frames[-1].element
        if tag in CODE_TAGS or (tag == "code" and _is_block_of_code(node, attrs)):
            self._code(node, target)
        elif tag == "div" and names & _CODE_BOXES and node.css_first(_BLOCKS_INSIDE) is None:
            self._code(node, target, preformatted=node.css_first("br, div, p") is None)
        elif tag == "table" and self._tables < _MAX_TABLES and node.css_first("pre, .line, .blob-code, .hljs-ln-code"):
            if not is_code_table(node):
                return False
            self._code(node, target)
        elif tag in ("img", "br", "hr", "wbr"):
            if tag != "wbr":
                target.children.append(Element(tag, attrs))
                target.blocky = target.blocky or tag == "hr"
        elif tag in ("iframe", "frame"):
            if source := attrs.get("src"):
                title = attrs.get("title") or attrs.get("name") or source
                target.children += (BREAK, Element("a", {"href": source}, [title]), BREAK)
        else:
            return _is_permalink(node, tag, attrs) or (tag == "span" and names == {"lang"})
        return True

    def _code(self, node: LexborNode, target: Element, *, preformatted: bool = True) -> None:
        text, links = code_text(node, preformatted=preformatted)
        if not text:
            return
        self._reading.code += 1
        self._reading.text += len(text)
        target.children.append(Code(text, language_of(_around(node)), links))
        target.blocky = True

    def _push(self, node: LexborNode, tag: str, attrs: dict[str, str | None], names: frozenset[str]) -> None:
        target = self._frames[-1].element
        if names or target.tag == "admonition":
            tag, attrs = _boxed(tag, attrs, names, target)
        if (tag == "em" and names & _SIGNATURE_PARTS) or (tag == "a" and _leads_to_itself(attrs, names, target)):
            tag = "span"
        candidate = _is_candidate(tag, attrs, names)
        meaningful = tag in BLOCKS or tag in INLINE or candidate or tag == "admonition-title"
        is_block = tag in BLOCKS or tag in BLOCK_WRAPPERS or candidate
        if not meaningful or self._nesting >= MAX_NESTING:
            self._frames.append(_Frame(node, target, is_block, own=False))
            if is_block:
                _mark(target)
            return
        element = Element("main" if candidate else tag, attrs)
        if candidate:
            _mark(target)
        target.children.append(element)
        frame = _Frame(node, element, is_block, own=True)
        self._nesting += 1
        self._tables += tag == "table"
        if candidate:
            frame.special = Candidate(element, self._reading.text, self._reading.code)
        elif tag == "tab":
            around = self._panels[-1] if self._panels else None
            strip = next((strip for strip in reversed(self._strips) if strip.radio), None)
            source = node.attributes
            panel = tabs.Panel(element, around, source.get("id") or "", source.get("aria-labelledby") or "", strip)
            frame.special = panel
            self._panels.append(panel)
            self._sequence.append(panel)
        self._frames.append(frame)

    def _close(self, frame: _Frame) -> None:
        if frame.shown_hidden:
            self._hidden_shown -= 1
        if not self._frames:
            return
        target = self._frames[-1].element
        if not frame.own:
            if isinstance(frame.special, tabs.Strip):
                self._strips.pop()
            if frame.is_block:
                _mark(target)
            return
        self._nesting -= 1
        element = frame.element
        if element.blocky or frame.is_block:
            target.blocky = True
        if element.tag == "table":
            self._tables -= 1
        elif element.tag == "admonition":
            admonitions.finish(element)
        if isinstance(frame.special, tabs.Panel):
            self._panels.pop()
        elif isinstance(frame.special, Candidate):
            frame.special.text = self._reading.text - frame.special.text
            frame.special.code = self._reading.code - frame.special.code
            self._reading.candidates.append(frame.special)
            _mark(target)


_BLOCKS_INSIDE = "pre, table, ul, ol, h1, h2, h3, blockquote, dl"


def _boxed(
    tag: str, attrs: dict[str, str | None], names: frozenset[str], target: Element
) -> tuple[str, dict[str, str | None]]:
    """The tag and attributes of an element that is an admonition's box or, in one (`target`), its title or layout."""
    if kind := admonitions.admonition_kind(tag, names):
        return "admonition", {**attrs, "kind": kind}
    if target.tag == "admonition":
        if admonitions.is_title(names):
            return "admonition-title", attrs
        if tag in _WRAPPER_TABLES:
            return "div", attrs
    return tag, attrs


def _mark(target: Element) -> None:
    if not target.children or target.children[-1] is not BREAK:
        target.children.append(BREAK)
    target.blocky = True


def _label(node: LexborNode, attrs: dict[str, str | None]) -> str:
    """A tab's label; one that is only an icon of a font has its name elsewhere."""
    text = " ".join(node.text(separator=" ").split())[:100]
    if any(character.isalnum() for character in text):
        return text
    return attrs.get("data-title") or attrs.get("aria-label") or attrs.get("title") or text


def _is_candidate(tag: str, attrs: dict[str, str | None], names: frozenset[str]) -> bool:
    if tag in ("main", "article"):
        return True
    if not attrs or tag in HEADINGS:
        return False
    if tag not in ("div", "section"):
        return False
    return attrs.get("role") == "main" or bool(names & _CONTENT_NAMES) or attrs.get("id") in _CONTENT_IDS


def _is_plain_link(attrs: dict[str, str | None]) -> bool:
    href = attrs.get("href") if len(attrs) == 1 else None
    return bool(href) and not (href or "").startswith("#")


def _leads_to_itself(attrs: dict[str, str | None], names: frozenset[str], heading: Element) -> bool:
    """A heading that is a link to where it stands, or back to the table of contents."""
    if heading.tag not in HEADINGS:
        return False
    return "toc-backref" in names or attrs.get("href") == f"#{heading.get('id')}"


def _is_permalink(node: LexborNode, tag: str, attrs: dict[str, str | None]) -> bool:
    """A link to the place where it stands: a sign without a word in it."""
    if tag != "a" or not (attrs.get("href") or "").startswith("#"):
        return False
    text = node.text()[:50]
    return not any(character.isalnum() for character in text) and node.css_first("img") is None


def _is_block_of_code(node: LexborNode, attrs: dict[str, str | None]) -> bool:
    """`code` alone that a page shows as a block: with line breaks inside, or preformatted by its style."""
    style = (attrs.get("style") or "")[:500].replace(" ", "")
    return "white-space:pre" in style or node.css_first("br") is not None


def _around(node: LexborNode) -> list[dict[str, str | None]]:
    """The attributes that may tell a block's language: its own, its `pre` and `code`, then five elements around it."""
    found = [node.attributes]
    inner = node
    if node.tag == "table":
        blocks = node.css("pre")
        if blocks:
            inner = blocks[-1]
            found.append(inner.attributes)
    found += (code.attributes for code in inner.css("code")[:3])
    around = node.parent
    for _ in range(5):
        if around is None or around.tag in ("body", "html", "-document"):
            break
        found.append(around.attributes)
        around = around.parent
    return found
