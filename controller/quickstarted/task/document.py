"""From the text of a file to one YAML document whose every value knows where it stands.

The values are built here from the parser's events, in one pass and without recursion: PyYAML's own composer would take
the last of two equal keys, unfold aliases of aliases, and recurse as deep as a stranger's file asks. What a task file
has no use for is refused: several documents, tags, merge keys, keys that are not words. A key is its text, whatever
type YAML sees in it. Plain scalars have the types of YAML 1.1, as every Python user of YAML knows them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol, TypeAlias

import yaml
from quickstarted_api.hosts import quoted

from quickstarted.task.problems import Path, Problem, TaskError, field_name
from quickstarted.task.syntax import explain, unprintable

# The scanner in C is ten times faster than the one in Python and, but for tabs between words, reads the same language.
LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

MAX_DEPTH = 16  # a task file has four levels
MAX_VALUES = 10_000  # aliases count as what they stand for

_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)\Z", re.ASCII)
_MAX_DIGITS = 20  # more than any limit has; int() takes quadratic time
# https://yaml.org/type/: the types of YAML 1.1 that no field of a task has. The names complete "found 0x10, …".
_OTHER = re.compile(
    r"""(?P<a_boolean>yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)
    |(?P<an_octal_number>[-+]?0[0-7_]+)
    |(?P<a_hexadecimal_number>[-+]?0x[0-9a-fA-F_]+)
    |(?P<a_binary_number>[-+]?0b[0-1_]+)
    |(?P<a_number_to_the_base_60>[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?)
    |(?P<a_number_with_a_fraction>[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?
        |[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))
    |(?P<a_date>\d{4}-\d\d?-\d\d?(?:(?:[Tt]|[ \t]+)\d\d?:\d\d:\d\d(?:\.\d*)?(?:[ \t]*(?:Z|[-+]\d\d?(?::\d\d)?))?)?)
    """,
    re.ASCII | re.VERBOSE,
)
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_TYPED = frozenset(("", *"~nNyYtTfFoO-+.0123456789"))  # what a plain scalar begins with that may not be a string
# Double quotes have escapes for what no text can hold: a command with a NUL, a lone half of a surrogate pair.
_UNUSABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Other:
    """A plain scalar of a type that no field has: as what YAML reads it, and its text."""

    kind: str
    text: str


class Mark(Protocol):
    """A place in the text, counted from 0."""

    line: int
    column: int


Value: TypeAlias = "str | int | Other | list[Value] | dict[str, Value] | None"
# Of a mapping: the places of each key and its value. Of a list: the places of its items.
_Places: TypeAlias = "dict[str, tuple[Mark, Mark]] | list[Mark]"


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its value, the problems that did not hinder reading it, and where each part stands."""

    value: Value
    problems: list[Problem]
    _root: Mark
    _places: dict[int, _Places]

    def place(self, path: Path, *, of_key: bool = False) -> tuple[int, int]:
        """Line and column, from 1, of a value or of its key; for what is missing, of the mapping that lacks it."""
        mark: Mark = self._root
        value = self.value
        for step in path:
            places = self._places.get(id(value))
            if isinstance(value, dict) and isinstance(places, dict) and step in places:
                key_mark, value_mark = places[str(step)]
                mark = key_mark if of_key else value_mark
                value = value[str(step)]
            elif isinstance(value, list) and isinstance(places, list) and isinstance(step, int):
                mark, value = places[step], value[step]
            else:
                break
        return mark.line + 1, mark.column + 1


def parse(text: str, file: str, loader: Any = LOADER) -> Document:
    """Read one document. Raises TaskError when the text is not one; `file` names it in problems."""
    builder = _Builder(file)
    try:
        for event in _events(text, loader):
            _HANDLERS[type(event)](builder, event)
    except _NotYamlError as error:
        line, column, message = error.args
        raise TaskError([*builder.problems, Problem(file, line, column, "", message)]) from None
    if builder.root_mark is None:
        raise TaskError(
            [Problem(file, 1, 1, "", "is empty; a task file holds a mapping with name, goal, docs and success")]
        )
    return Document(builder.root, builder.problems, builder.root_mark, builder.places)


class _NotYamlError(Exception):
    """Line, column and message."""


def _events(text: str, loader: Any) -> Iterator[yaml.Event]:
    try:
        next_event = loader(text).get_event
        while (event := next_event()) is not None:
            yield event
    except (yaml.YAMLError, ValueError) as error:  # ValueError: the scanner in Python, of an escape beyond Unicode
        raise _NotYamlError(*explain(error, text)) from None


def resolve(text: str) -> Value:
    """The value of a plain scalar."""
    if text[:1] not in _TYPED:
        return text
    if text in _NULL:
        return None
    if _INTEGER.match(text):
        return int(text.replace("_", "")) if len(text) <= _MAX_DIGITS else Other("a number with too many digits", text)
    found = _OTHER.fullmatch(text)
    return text if found is None else Other(str(found.lastgroup).replace("_", " "), text)


@dataclass(slots=True)
class _Frame:
    """A collection that is being read."""

    container: Any  # what is being filled: a dict or a list, and as `places` one more of the same
    places: Any
    awaits_key: bool
    anchor: str | None
    first: int  # how many values there were before it
    key: str = ""  # of a mapping: the key that was read last
    key_mark: Any = None
    refused: bool = False  # the value of this key goes nowhere


@dataclass(slots=True)
class _Builder:
    """Takes the events one by one. What can be told and passed over becomes a problem; all else stops."""

    file: str
    root: Value = None
    root_mark: Mark | None = None
    problems: list[Problem] = field(default_factory=list)
    places: dict[int, _Places] = field(default_factory=dict)
    _open: list[_Frame] = field(default_factory=list)
    _top: _Frame | None = None
    _values: int = 0
    # What an alias stands for, and how many values that is; None while it is being read.
    _anchors: dict[str, tuple[Value, int] | None] = field(default_factory=dict)

    def document(self, event: Any) -> None:
        if self.root_mark is not None:
            self._stop(event.start_mark, "a second document begins here; a file holds one task")

    def scalar(self, event: Any) -> None:
        text, mark, top = event.value, event.start_mark, self._top
        plain = event.implicit[0]
        if event.tag is not None:
            self._problem(mark, f"found the tag {quoted(event.tag)}; tags have no use here, quotes make a string")
        elif not plain and event.style == '"' and (odd := _UNUSABLE.search(text)):
            self._problem(mark, unprintable(odd[0]))
        if top is not None and top.awaits_key:
            self._key(top, event, plain=plain)
            return
        value = resolve(text) if plain else text
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1)
        if plain and text == "" and top is not None and top.key_mark is not None:
            mark = top.key_mark  # nothing stands behind the colon
        self._add(value, mark)

    def start(self, event: Any) -> None:
        container: Any = {} if type(event) is yaml.MappingStartEvent else []
        top, mark = self._top, event.start_mark
        if top is not None and top.awaits_key:
            self._stop(mark, "found a list or mapping as a key; a value that begins with { or [ needs quotes")
        if event.tag is not None:
            self._problem(mark, f"found the tag {quoted(event.tag)}; tags have no use here")
        if len(self._open) == MAX_DEPTH:
            self._stop(mark, f"nested deeper than {MAX_DEPTH} levels")
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        frame = _Frame(container, type(container)(), container == {}, event.anchor, self._values)
        self.places[id(container)] = frame.places
        self._add(container, mark)
        self._open.append(frame)
        self._top = frame

    def end(self, _event: Any) -> None:
        frame = self._open.pop()
        self._top = self._open[-1] if self._open else None
        if frame.anchor is not None:
            self._anchors[frame.anchor] = (frame.container, self._values - frame.first)

    def alias(self, event: Any) -> None:
        mark, name = event.start_mark, quoted(f"*{event.anchor}")
        if self._top is not None and self._top.awaits_key:
            self._stop(mark, f"found the alias {name} as a key; a key is a word")
        if event.anchor not in self._anchors:
            self._stop(mark, f"found the alias {name} of nothing; a value that begins with * needs quotes")
        known = self._anchors[event.anchor]
        if known is None:
            self._stop(mark, f"found the alias {name} inside of what it stands for")
        self._add(known[0], mark, known[1])

    def ignore(self, _event: Any) -> None:
        """The bounds of the stream, and the end of the document."""

    def _key(self, top: _Frame, event: Any, *, plain: bool) -> None:
        key, mark = event.value, event.start_mark
        top.key, top.key_mark, top.awaits_key, top.refused = key, mark, False, False
        if key in top.places:
            self._problem(mark, f"given twice; line {top.places[key][0].line + 1} has it already")
            top.refused = True
        elif plain and key == "<<":
            self._problem(mark, "found a merge key; write out the keys that it stands for")
            top.refused = True
        if event.anchor is not None:
            self._anchors[event.anchor] = (key, 1)

    def _add(self, value: Value, mark: Mark, size: int = 1) -> None:
        self._values += size
        if self._values > MAX_VALUES:
            self._stop(mark, f"more than {MAX_VALUES:,} values, where an alias counts as all that it stands for")
        top = self._top
        if top is None:
            self.root, self.root_mark = value, mark
        elif top.key_mark is None:
            top.container.append(value)
            top.places.append(mark)
        else:
            if not top.refused:
                top.container[top.key] = value
                top.places[top.key] = (top.key_mark, mark)
            top.awaits_key = True

    def _path(self) -> list[str | int]:
        """Where the value stands that is being read."""
        path: list[str | int] = []
        for frame in self._open:
            if frame is self._top and frame.awaits_key:
                break
            path.append(frame.key if frame.key_mark is not None else len(frame.container) - (frame is not self._top))
        return path

    def _problem(self, mark: Mark, message: str) -> None:
        self.problems.append(Problem(self.file, mark.line + 1, mark.column + 1, field_name(self._path()), message))

    def _stop(self, mark: Mark, message: str) -> NoReturn:
        self._problem(mark, message)
        raise TaskError(self.problems)


_HANDLERS: dict[type[yaml.Event], Callable[[_Builder, Any], None]] = {
    yaml.StreamStartEvent: _Builder.ignore,
    yaml.DocumentStartEvent: _Builder.document,
    yaml.ScalarEvent: _Builder.scalar,
    yaml.MappingStartEvent: _Builder.start,
    yaml.SequenceStartEvent: _Builder.start,
    yaml.MappingEndEvent: _Builder.end,
    yaml.SequenceEndEvent: _Builder.end,
    yaml.AliasEvent: _Builder.alias,
    yaml.DocumentEndEvent: _Builder.ignore,
    yaml.StreamEndEvent: _Builder.ignore,
}
