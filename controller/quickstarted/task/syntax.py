"""What to say of text that is not YAML.

PyYAML's two scanners tell what the grammar expected, each in its own words and without types to tell errors apart by.
Here those words become what the author of a task has to change. A description that is not known is passed on as it is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import yaml
from quickstarted_api.hosts import quoted

# YAML 1.1, section 5.1: everything but the characters that a document may hold.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LINE_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")


class _Cause(NamedTuple):
    """When PyYAML's message holds these words, this is what to say. The first that fits is taken.

    In `says`, CHAR is the character at the place of the error and LINE the line where the construct begins.
    """

    problem: str
    says: str
    context: str = ""
    before: str = ""  # a pattern of the line's text in front of the error
    at_start: bool = False  # point at the beginning of the construct, not at where reading it failed
    at_end: bool = False  # only where nothing follows in the text

    def fits(self, error: yaml.MarkedYAMLError, before: str, after: str) -> bool:
        """Whether this is the cause of an error between two parts of the text."""
        return (
            self.problem in (error.problem or "")
            and self.context in (error.context or "")
            and re.search(self.before, before) is not None
            and not (self.at_end and after.strip())
        )


_TAB = "found a tab; YAML is indented with spaces"
_CAUSES = (
    _Cause("tab character", _TAB),
    _Cause("cannot start any token", "found CHAR, which can't begin a value; put the value in quotes"),
    _Cause("", 'found a "*" that means an alias; put the value in quotes', context="an alias", at_start=True),
    _Cause("", 'found a "&" that means an anchor; put the value in quotes', context="an anchor", at_start=True),
    _Cause("mapping values are not", 'found a second ": " in one line; put the value in quotes', before=": "),
    _Cause("mapping values are not", "found a key inside of a value; all keys of a mapping stand in one column"),
    _Cause("", 'found a line without a colon; the form is "key: value"', context="simple key", at_start=True),
    _Cause("sequence entries are not", 'found "-" behind a key; a list begins on a line of its own'),
    _Cause(
        "expected ','", 'found "[", but not its "]", or no comma between items', context="flow sequence", at_start=True
    ),
    _Cause(
        "expected ','", 'found "{", but not its "}", or no comma between keys', context="flow mapping", at_start=True
    ),
    _Cause("end of stream", "found a quote that is not closed", context="quoted scalar", at_start=True),
    _Cause("document", "found a quote that is not closed", context="quoted scalar", at_start=True),
    _Cause("", "found an unknown escape; write the backslash twice or use single quotes", context="quoted scalar"),
    _Cause("", 'found text behind "|" or ">"; it begins on the next line', context="block scalar"),
    _Cause("", "found text behind a closing quote; put the whole value in quotes", "block mapping", r"[\"']\s*\Z"),
    _Cause(
        "",
        "found text that is no key of the mapping that begins in line LINE; all its keys stand in one column",
        "block mapping",
    ),
    _Cause(
        "",
        "found text that is no item of the list that begins in line LINE; all its dashes stand in one column",
        "block collection",
    ),
    _Cause("node content", 'found "[" or "{" that is not closed', context="flow node", at_end=True),
    _Cause("node content", "found CHAR where a value has to be"),
    _Cause("nesting", "nested deeper than anything in a task file"),
    _Cause("directive", "found a line that begins with %, which is an instruction to the parser; leave it out"),
    _Cause("incompatible", "found an unknown version of YAML; leave out the line that begins with %YAML"),
    _Cause("<document start>", "found text behind the end of the document; a file holds one task"),
    _Cause("tag", 'found a "!" that means a tag; put the value in quotes'),
)


def explain(error: Exception, text: str) -> tuple[int, int, str]:
    """Line and column, counted from 1, and a sentence that says what to change."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return _unreadable(text)
    mark, start = error.problem_mark, error.context_mark or error.problem_mark
    lines = _LINE_BREAK.split(text)
    row, column = mark.line, mark.column
    if row >= len(lines):  # libyaml ends every text with a line break
        row, column = len(lines) - 1, len(lines[-1])
    char, before = lines[row][column : column + 1], lines[row][:column]
    if char == "\t":
        return row + 1, column + 1, _TAB
    for cause in _CAUSES:
        if cause.fits(error, before, text[mark.index :]):
            shown = quoted(char) if char else "the end of the line"
            says = cause.says.replace("CHAR", shown).replace("LINE", str(start.line + 1))
            return (start.line + 1, start.column + 1, says) if cause.at_start else (row + 1, column + 1, says)
    return row + 1, column + 1, f"found what is no YAML: {error.problem}"


def position(before: str) -> tuple[int, int]:
    """Line and column, counted from 1, of what follows this text."""
    lines = _LINE_BREAK.split(before)
    return len(lines), len(lines[-1]) + 1


def unprintable(char: str) -> str:
    """The message about a character that neither a file nor a value may hold."""
    return f"found the character {quoted(char)}; of those that don't show, tabs and line breaks are allowed"


def _unreadable(text: str) -> tuple[int, int, str]:
    """For errors that come without a mark."""
    if (odd := _FORBIDDEN.search(text)) is None:
        return 1, 1, "found an escape in double quotes that stands for no character"
    return *position(text[: odd.start()]), unprintable(odd[0])
