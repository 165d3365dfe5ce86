"""YAML that task files may have, and all that they may not: one clear error with its place."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from quickstarted.task.document import MAX_DEPTH, MAX_VALUES, Other, parse
from quickstarted.task.problems import TaskError

# The scanner in Python is what an installation without libyaml has. The two agree on all that is tested here.
LOADERS = {"libyaml": yaml.CBaseLoader, "python": yaml.BaseLoader}


@pytest.fixture(params=list(LOADERS))
def loader(request: pytest.FixtureRequest) -> Any:
    return LOADERS[request.param]


def said(text: str, loader: Any = yaml.CBaseLoader) -> list[str]:
    """All problems of a text, as `line:column field: message`."""
    try:
        problems = parse(text, "f", loader).problems
    except TaskError as error:
        problems = list(error.problems)
    return [str(problem).removeprefix("f:") for problem in problems]


REFUSED = {
    "nothing": ("", "1:1: is empty"),
    "a comment alone": ("# soon\n", "1:1: is empty"),
    "line breaks alone": ("\n\n", "1:1: is empty"),
    "a tab as indentation": ("a:\n\tb: c\n", "2:1: found a tab; YAML is indented with spaces"),
    "a tab behind a value": ("a: x\n\tb: c\n", "2:1: found a tab"),
    "a tab in front of a script": ("a: |\n\tx\n", "2:1: found a tab"),
    "a key twice": ("a: 1\nb: 2\na: 3\n", "3:1 a: given twice; line 1 has it already"),
    "a key twice, deeper": ("a:\n  b: 1\n  b: 2\n", "3:3 a.b: given twice; line 2"),
    "a key twice in a list": ("a:\n- x: 1\n- y: 1\n  y: 2\n", "4:3 a[1].y: given twice; line 3"),
    "a key twice on one line": ("a: {b: 1, b: 2}\n", "1:11 a.b: given twice; line 1"),
    "a key twice, once in quotes": ("a: 1\n'a': 2\n", "2:1 a: given twice"),
    "a second document": ("a: 1\n---\nb: 2\n", "2:1: a second document begins here"),
    "an empty second document": ("a: 1\n---\n", "2:1: a second document begins here"),
    "text behind the document": ("a: 1\n...\nb: 2\n", "3:1: found text behind the end of the document"),
    "a merge key": ("a: &a {b: 1}\nc:\n  <<: *a\n", '3:3 c."<<": found a merge key'),
    "a tag": ("a: !!int 5\n", "1:4 a: found the tag"),
    "a tag that would run code": ("a: !!python/object/apply:os.system [x]\n", "1:4 a: found the tag"),
    "a tag with a handle of nobody": ("a: !e!b c\n", '1:4: found a "!" that means a tag'),
    "an exclamation mark": ("a: !b c\n", '1:4 a: found the tag "!b"'),
    "an alias of nothing": ("a: *b\n", '1:4 a: found the alias "*b" of nothing'),
    "a pattern without quotes": ("a:\n- *.example.org\n", '2:3: found a "*" that means an alias'),
    "an alias in what it stands for": ("a: &a\n- *a\n", '2:3 a[0]: found the alias "*a" inside of what it stands for'),
    "an alias as a key": ("a: &a b\n*a : c\n", '2:1: found the alias "*a" as a key'),
    "an anchor without a name": ("a: & b\n", '1:4: found a "&" that means an anchor'),
    "a list as a key": ("? [a]\n: b\n", "1:3: found a list or mapping as a key"),
    "a template": ("a: {{ b }}\n", "1:5 a: found a list or mapping as a key; a value that begins with { or ["),
    "a colon in a value": ("a: do it: now\n", '1:9: found a second ": " in one line'),
    "a key that is indented too far": ("a: 1\n  b: 2\n", "2:4: found a key inside of a value"),
    "a key that is indented between": ("a:\n    b: 1\n  c: 2\n", "3:3: found text that is no key of the mapping"),
    "a list behind keys": ("a: b\n- c\n", "2:1: found text that is no key of the mapping that begins in line 1"),
    "a key behind a list": ("- a\nb: c\n", "2:1: found text that is no item of the list that begins in line 1"),
    "a list beside its key": ("a: - b\n", '1:4: found "-" behind a key'),
    "a line without a colon": ("a: b\nc\nd: e\n", "2:1: found a line without a colon"),
    "an open bracket": ("a: [b, c\nd: e\n", '1:4: found "[", but not its "]"'),
    "an open bracket at the end": ("[", '1:2: found "[" or "{" that is not closed'),
    "an open brace": ("a: {b: c\nd: e\n", '1:4: found "{", but not its "}"'),
    "a bracket too many": ("a: ]\n", '1:4: found "]" where a value has to be'),
    "two commas": ("a: [b,,c]\n", '1:7: found "," where a value has to be'),
    "an open double quote": ('a: "b\nc: d\n', "1:4: found a quote that is not closed"),
    "an open single quote": ("a: 'b\nc: d\n", "1:4: found a quote that is not closed"),
    "text behind a quote": ('a: "b" c\n', "1:8: found text behind a closing quote"),
    "an unknown escape": (r'a: "\d"' + "\n", "found an unknown escape"),
    "an at sign": ("a: @b\n", '1:4: found "@", which can\'t begin a value'),
    "a backquote": ("a: `b`\n", '1:4: found "`", which can\'t begin a value'),
    "text behind a bar": ("a: |x\n b\n", '1:5: found text behind "|" or ">"'),
    "another YAML": ("%YAML 3.0\n---\na: b\n", "1:1: found an unknown version of YAML"),
    "an instruction twice": ("%YAML 1.1\n%YAML 1.1\n---\na: b\n", "2:1: found a line that begins with %"),
    "a NUL": ("a: b\nc: d\0\n", r'2:5: found the character "\x00"'),
    "an escape character": ("a: \x1b[31m\n", r'1:4: found the character "\x1b"'),
    "an escaped NUL": (r'a: "b\0"' + "\n", r'1:4 a: found the character "\x00"'),
    "an escaped escape character": (r'a: ["x", "\e"]' + "\n", r'1:10 a[1]: found the character "\x1b"'),
    "deep brackets": ("[" * 40, f"1:17 {'[0]' * MAX_DEPTH}: nested deeper than 16 levels"),
    "brackets deeper than libyaml goes": ("a: " + "[" * 5_000, "nested deeper"),
    "deep dashes": ("- " * 100_000 + "x", "nested deeper than 16 levels"),
    "deep keys": ("".join(" " * depth + "a:\n" for depth in range(300)), "17:17 "),
    "too many values": ("a: [" + "x, " * MAX_VALUES + "]", "a[9998]: more than 10,000 values"),
    "too many values by aliases": (
        "".join(f"k{n}: &k{n} [" + f"*k{n - 1}, " * 9 + "]\n" if n else "k0: &k0 [x]\n" for n in range(9)),
        "more than 10,000 values, where an alias counts as all that it stands for",
    ),
}


@pytest.mark.parametrize(("text", "says"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_task_gets_one_clear_error(text: str, says: str, loader: Any) -> None:
    problems = said(text, loader)
    assert len(problems) == 1
    assert says in problems[0]
    assert "\n" not in problems[0]


def test_what_can_be_passed_over_is_told_together_with_what_stops() -> None:
    assert said("a: 1\na: 2\nb: !x y\nc: ]\n") == [
        "2:1 a: given twice; line 1 has it already",
        '3:4 b: found the tag "!x"; tags have no use here, quotes make a string',
        '4:4: found "]" where a value has to be',
    ]


def test_an_escape_for_half_a_character_does_not_become_one(loader: Any) -> None:
    (problem,) = said(r'a: "\ud800"' + "\n", loader)
    assert "escape" in problem or r"\ud800" in problem


def test_an_escape_beyond_unicode_is_refused(loader: Any) -> None:
    (problem,) = said(r'a: "\U00110000"' + "\n", loader)
    assert "escape" in problem


PLAIN = {
    "a": "a",
    "yes please": "yes please",
    "0": 0,
    "20": 20,
    "-5": -5,
    "+7": 7,
    "20_000": 20_000,
    "20_": 20,
    "2__0": 20,
    "12345678901234567890": 12345678901234567890,
    "123456789012345678901": Other("a number with too many digits", "123456789012345678901"),
    "": None,
    "~": None,
    "null": None,
    "yes": Other("a boolean", "yes"),
    "No": Other("a boolean", "No"),
    "on": Other("a boolean", "on"),
    "true": Other("a boolean", "true"),
    "y": "y",
    "1.5": Other("a number with a fraction", "1.5"),
    ".5": Other("a number with a fraction", ".5"),
    "1.0e+3": Other("a number with a fraction", "1.0e+3"),
    ".inf": Other("a number with a fraction", ".inf"),
    "1e3": "1e3",
    "3.12.1": "3.12.1",
    "010": Other("an octal number", "010"),
    "0x1F": Other("a hexadecimal number", "0x1F"),
    "0b11": Other("a binary number", "0b11"),
    "1:30": Other("a number to the base 60", "1:30"),
    "2024-01-31": Other("a date", "2024-01-31"),
    "2024-01-31 10:00:00": Other("a date", "2024-01-31 10:00:00"),
    "2024": 2024,
    "=": "=",
    "'yes'": "yes",
    '"5"': "5",
    "'null'": "null",
    "|\n  5": "5\n",
}


@pytest.mark.parametrize(("text", "value"), PLAIN.items(), ids=[repr(text) for text in PLAIN])
def test_a_scalar_has_the_type_that_yaml_gives_it(text: str, value: Any, loader: Any) -> None:
    found = parse(f"a: {text}\n", "f", loader).value
    assert found == {"a": value}


@given(st.from_regex(r"[-+0-9._:eExXabnNfFoOyYtTslLrRuUiI~TZ ]{0,12}", fullmatch=True))
def test_types_are_those_of_yaml_1_1(text: str) -> None:
    try:
        (expected,) = yaml.safe_load(f"[{text!r}]") and yaml.safe_load(f"- {text}\n")
        found = parse(f"- {text}\n", "f").value
    except (yaml.YAMLError, ValueError, TaskError):  # not one scalar, or a date that no calendar has
        return
    assert isinstance(found, list)
    if isinstance(found[0], Other):
        assert isinstance(expected, bool | int | float | datetime.date)
    else:
        assert found == [expected]
        assert type(found[0]) is type(expected)


READ = {
    "carriage returns": ("a: |\r\n  x\r\n  y\r\nb: z\r\n", {"a": "x\ny\n", "b": "z"}),
    "keys of any type are their text": ("5: a\nyes: b\n~: c\n", {"5": "a", "yes": "b", "~": "c"}),
    "a document with its marks": ("---\na: b\n...\n", {"a": "b"}),
    "JSON": ('{"a": ["b", {"c": null}]}', {"a": ["b", {"c": None}]}),
    "aliases": ("a: &a [x]\nb: &b y\nc: [*a, *b]\n", {"a": ["x"], "b": "y", "c": [["x"], "y"]}),
    "a folded text": ("a: >\n  b\n  c\n", {"a": "b c\n"}),
    "a list at its key's column": ("a:\n- b\n-\n", {"a": ["b", None]}),
    "one scalar": ("hello", "hello"),
}


@pytest.mark.parametrize(("text", "value"), READ.values(), ids=READ)
def test_what_a_task_file_may_use(text: str, value: Any, loader: Any) -> None:
    document = parse(text, "f", loader)
    assert (document.value, document.problems) == (value, [])


PLACES = """\
name: x
docs:
  allow:
    - one
    - {two: 2}
  empty:
again: &again
  - deep: [1, 2]
alias: *again
"""


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ((), (1, 1)),
        (("name",), (1, 7)),
        (("docs",), (3, 3)),
        (("docs", "allow", 0), (4, 7)),
        (("docs", "allow", 1, "two"), (5, 13)),
        (("docs", "empty"), (6, 3)),
        (("docs", "missing"), (3, 3)),
        (("missing", "deeper"), (1, 1)),
        (("again", 0, "deep", 1), (8, 15)),
        (("alias",), (9, 8)),
        (("alias", 0, "deep", 1), (8, 15)),
    ],
)
def test_every_value_has_its_place(path: tuple[str | int, ...], place: tuple[int, int], loader: Any) -> None:
    assert parse(PLACES, "f", loader).place(path) == place


def test_a_key_has_its_place() -> None:
    assert parse(PLACES, "f").place(("docs", "allow"), of_key=True) == (3, 3)


FRAGMENTS = st.sampled_from(
    [*"a5\n[]{},'\"#!?%@\t\0é\u2028", "b: ", "- ", "  ", "yes", "&x ", "*x", "|\n", "<<: ", "\\0", "---\n", "...\n"]
)


@given(st.lists(FRAGMENTS, max_size=30).map("".join) | st.text(max_size=60), st.sampled_from(list(LOADERS.values())))
def test_any_text_is_a_document_or_a_problem_in_one_line(text: str, loader: Any) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:  # decoding a file yields no such text
        return
    for problem in said(text, loader):
        assert "\n" not in problem


VALUES = st.recursive(
    st.none()
    | st.integers(-(10**18), 10**18)
    | st.text(st.characters(codec="ascii", categories=["L", "N", "P", "Zs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES.filter(lambda value: value is not None), st.sampled_from(["block", "flow"]))
def test_what_yaml_writes_is_read_back(value: Any, style: str) -> None:
    text = yaml.safe_dump(value, default_flow_style=style == "flow")
    try:
        document = parse(text, "f")
    except TaskError as error:
        assert "nested deeper" in str(error)  # noqa: PT017 - nothing else may be wrong with it
        return
    assert document.value == value
