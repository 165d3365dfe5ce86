"""Files from disk become tasks or problems."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quickstarted.task.load import MAX_BYTES, load_suite, load_task
from quickstarted.task.model import Budgets, Docs, Network, Success, Task
from quickstarted.task.problems import Problem, Severity, TaskError

MINIMAL = b"name: t\ngoal: do it\ndocs:\n  entrypoint: https://docs.test/start\nsuccess:\n  script: test -f x\n"
FULL = """\
name: full
goal: >
  Do this
  and that.
docs:
  path:
    - https://Docs.test
    - https://guide.docs.test:8443/a#b
  allow: [More.test., more.test]
network:
  allow: [Files.test, files.test]
  only: [Registry.test]
setup:
  - python3 -m venv .venv
success:
  script: |
    set -e
    test -f x
budgets:
  max_turns: 3
  max_seconds: 1_000
  max_tokens: 0
replay:
  - |
    cat > x <<'EOF'
    a
    EOF
image: node:22-slim
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "task.yaml"


def refusal(path: Path | str) -> list[str]:
    """What is wrong, without the file's name."""
    with pytest.raises(TaskError) as error:
        load_task(str(path))
    assert {problem.file for problem in error.value.problems} == {str(path)}
    return [str(problem).removeprefix(str(path)) for problem in error.value.problems]


def test_a_task_has_every_default_filled_in(file: Path) -> None:
    file.write_bytes(MINIMAL)
    assert load_task(str(file)) == Task(
        name="t",
        goal="do it",
        docs=Docs(("https://docs.test/start",)),
        success=Success("test -f x"),
        setup=(),
        replay=(),
        network=Network((), None),
        budgets=Budgets(20, 900, 300, 20_000, 0),
        image=None,
        source=str(file),
    )


def test_a_task_has_all_its_fields_in_canonical_form(file: Path) -> None:
    file.write_text(FULL)
    task = load_task(str(file))
    assert task == Task(
        name="full",
        goal="Do this and that.",
        docs=Docs(("https://docs.test/", "https://guide.docs.test:8443/a#b"), ("more.test",)),
        success=Success("set -e\ntest -f x\n"),
        setup=("python3 -m venv .venv",),
        replay=("cat > x <<'EOF'\na\nEOF\n",),
        network=Network(("files.test",), ("registry.test",)),
        budgets=Budgets(max_turns=3, max_seconds=1_000),
        image="node:22-slim",
        source=str(file),
    )
    assert task.docs.hosts == ("docs.test", "guide.docs.test", "more.test")
    assert task.network.explicit == ("files.test", "registry.test")


@pytest.mark.parametrize(
    "data",
    [b"\xef\xbb\xbf" + MINIMAL, MINIMAL.replace(b"\n", b"\r\n"), MINIMAL.replace(b"\n", b"\r"), MINIMAL.rstrip()],
    ids=["a byte order mark", "CRLF", "CR", "no line break at the end"],
)
def test_how_an_editor_saves_makes_no_difference(file: Path, data: bytes) -> None:
    file.write_bytes(MINIMAL)
    plain = load_task(str(file))
    file.write_bytes(data)
    assert load_task(str(file)) == plain


NOT_TEXT = {
    "Latin-1": (MINIMAL.replace(b"do it", b"d\xf6 it"), ":2:8: found the byte 0xf6, which is not UTF-8"),
    "UTF-16": (MINIMAL.decode().encode("utf-16"), ":1:1: found the byte 0xff, which is not UTF-8"),
    "a mark, then Latin-1": (b"\xef\xbb\xbfn\xe4me: x", ":1:2: found the byte 0xe4"),
    "half a character at the end": (MINIMAL + b"\xc3", ":7:1: found the byte 0xc3"),
    "half of a surrogate pair": (b"name: \xed\xa0\x80", ":1:7: found the byte 0xed"),
    "an executable": (b"\x7fELF\x02\x01\x01\x00", r':1:1: found the character "\x7f"'),
}


@pytest.mark.parametrize(("data", "says"), NOT_TEXT.values(), ids=NOT_TEXT)
def test_what_is_not_text_is_told_with_its_place(file: Path, data: bytes, says: str) -> None:
    file.write_bytes(data)
    (problem,) = refusal(file)
    assert problem.startswith(says)


def test_a_directory(tmp_path: Path) -> None:
    assert refusal(tmp_path) == [": is a directory"]


def test_a_pipe_is_not_waited_for(file: Path) -> None:
    os.mkfifo(file)
    assert refusal(file) == [": is no regular file"]


def test_a_device() -> None:
    assert refusal("/dev/zero") == [": is no regular file"]


def test_a_missing_file(file: Path) -> None:
    assert refusal(file) == [": can't be read: no such file or directory"]


def test_a_link_to_itself(file: Path) -> None:
    file.symlink_to(file)
    assert refusal(file) == [": can't be read: too many levels of symbolic links"]


def test_a_file_that_can_be_opened_but_not_read() -> None:
    (problem,) = refusal("/proc/self/mem")
    assert problem.startswith(": can't be read: ")


def test_a_name_with_a_nul() -> None:
    (problem,) = refusal("a\0b")
    assert "can't be read" in problem


def test_a_large_file_is_refused_before_it_is_read(file: Path) -> None:
    with file.open("wb") as sparse:
        sparse.truncate(50_000_000)
    assert refusal(file) == [": has 50,000,000 bytes; a task file has at most 1,048,576"]


def test_the_largest_file_is_read(file: Path) -> None:
    file.write_bytes(MINIMAL + b"#" * (MAX_BYTES - len(MINIMAL)))
    assert load_task(str(file)).name == "t"
    file.write_bytes(MINIMAL + b"#" * (MAX_BYTES - len(MINIMAL) + 1))
    assert refusal(file) == [": has 1,048,577 bytes; a task file has at most 1,048,576"]


def test_a_file_that_hides_its_size_is_read_to_its_end() -> None:
    problems = refusal("/proc/self/status")  # a size of 0, and YAML but for its tabs
    assert "tab" in problems[0] or "missing" in "".join(problems)


MANY = """\
name: my task
gaol: x
docs:
  entrypont: https://docs.test
  allow:
    - "*.docs.test"
    - 7
success:
  scirpt: x
budgets: {max_turns: yes, max_second: 3}
replay: echo
"""


def test_all_problems_of_a_file_are_told_in_its_order(file: Path) -> None:
    file.write_text(MANY)
    assert [problem.partition(";")[0] for problem in refusal(file)] == [
        ":1:1 goal: missing",
        ':1:7 name: found "my task"',
        ":2:1 gaol: unknown key, which is ignored",
        ":4:3 docs.entrypoint: missing",
        ":4:3 docs.entrypont: unknown key, which is ignored",
        ':6:7 docs.allow[0]: found "*.docs.test", which is a pattern',
        ":7:7 docs.allow[1]: found 7, a number",
        ":9:3 success.scirpt: unknown key",
        ":9:3 success.script: missing",
        ":10:22 budgets.max_turns: found yes, which YAML reads as a boolean",
        ":10:27 budgets.max_second: unknown key",
        ':11:9 replay: found "echo", a string',
    ]


def test_problems_of_yaml_and_of_the_schema_are_told_together(file: Path) -> None:
    file.write_bytes(MINIMAL + b"name: other\nimage: [x]\nsetup: !x y\n")
    assert [problem.partition(";")[0] for problem in refusal(file)] == [
        ":7:1 name: given twice",
        ":8:8 image: found a list",
        ':9:8 setup: found the tag "!x"',
        ':9:8 setup: found "y", a string',
    ]


def test_a_problem_behind_an_alias_is_told_where_the_value_is_written(file: Path) -> None:
    file.write_bytes(MINIMAL + b"setup: &bad [5]\nreplay: *bad\n")
    assert [problem.partition(";")[0] for problem in refusal(file)] == [
        ":7:14 setup[0]: found 5, a number",
        ":7:14 replay[0]: found 5, a number",
    ]


def suite_of(directory: Path, **names: str) -> list[str]:
    for file, name in names.items():
        (directory / f"{file}.yaml").write_bytes(MINIMAL.replace(b"name: t", f"name: {name}".encode()))
    return [str(directory / f"{file}.yaml") for file in names]


def test_all_files_of_a_suite_are_read(tmp_path: Path) -> None:
    files = suite_of(tmp_path, a="one", b="'no name'", c="three", d="[]")
    suite = load_suite([str(tmp_path)])
    assert suite.files == tuple(files)
    assert [task.name for task in suite.tasks] == ["one", "three"]
    assert [problem.file for problem in suite.errors] == [files[1], files[3]]


def test_two_tasks_of_one_name_are_an_error_that_names_both(tmp_path: Path) -> None:
    files = suite_of(tmp_path, a="same", b="same", c="same")
    suite = load_suite(files)
    assert [task.source for task in suite.tasks] == files[:1]
    message = f'found "same", the name of {files[0]}:1:7 too; results are stored by name, so give each task its own'
    assert suite.problems == tuple(Problem(file, 1, 7, "name", message) for file in files[1:])


def test_a_name_that_was_given_in_another_case_too_is_still_given_twice(tmp_path: Path) -> None:
    suite = load_suite(suite_of(tmp_path, a="same", b="Same", c="Same"))
    assert [problem.severity for problem in suite.problems] == [Severity.WARNING, Severity.ERROR]
    assert f"the name of {tmp_path}/b.yaml:1:7 too" in suite.errors[0].message


def test_names_that_differ_in_case_alone_are_a_warning(tmp_path: Path) -> None:
    files = suite_of(tmp_path, a="same", b="Same")
    suite = load_suite(files)
    assert len(suite.tasks) == 2
    assert suite.errors == ()
    (warning,) = suite.problems
    assert (warning.file, warning.severity) == (files[1], Severity.WARNING)
    assert "in case alone" in warning.message


VALID = FULL.encode()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A valid file with a few bytes replaced, removed or added."""
    data = bytearray(VALID)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 12)))
        data[start:end] = draw(
            st.binary(max_size=4) | st.sampled_from([b"\n", b": ", b"- ", b"[", b"{", b"\t", b"&a ", b"*a"])
        )
    return bytes(data)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=damaged() | st.binary(max_size=200))
def test_any_bytes_are_a_task_or_problems(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    try:
        task = load_task(str(file))
    except TaskError as error:
        problems = error.problems
    else:
        problems = load_suite([str(file)]).problems
        assert task.name
    for problem in problems:
        assert "\n" not in str(problem)
        assert problem.line <= data.count(b"\n") + data.count(b"\r") + data.decode(errors="replace").count("\u2028") + 2


PATTERNS = [
    "[",
    "- ",
    "? ",
    "{a: ",
    "&a ",
    "a: b\n",
    "'",
    "a ",
    "!",
    "\n",
    "'a': [",
    "*a ",
    "%",
    "\t",
    "<<: a\n",
    "a: |\n",
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", PATTERNS, ids=repr)
@pytest.mark.parametrize("head", ["", "a: [", "a: '", "a: |\n "])
def test_the_worst_file_of_the_largest_size_comes_to_an_end(file: Path, head: str, pattern: str) -> None:
    file.write_text((head + pattern * (MAX_BYTES // len(pattern)))[:MAX_BYTES])
    assert refusal(file)
