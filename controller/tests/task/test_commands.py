"""What a shell script calls, as a warning may rely on it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quickstarted.task.commands import called

CALLS = {
    "a command": "npm test",
    "a second command": "cd app; npm test",
    "behind and": "cd app && npm test",
    "behind or": "test -d app || npm init",
    "in a pipe": "echo x | npm test",
    "in the background": "npm start &",
    "behind the background": "sleep 1 & npm test",
    "on a second line": "set -e\n  npm test\n",
    "on a continued line": "set -e; \\\n  npm test",
    "in a subshell": "(cd app; npm test)",
    "in a group": "{ npm test; }",
    "in a substitution": "said=$(npm test)",
    "in quotes in a substitution": 'echo "it says $(npm test 2>&1)"',
    "in backquotes": 'said="`npm test`"',
    "in a condition": "if npm test; then echo; fi",
    "behind then": "if true; then npm test; fi",
    "negated": "if ! npm test; then exit 1; fi",
    "in a loop": "while ! npm test; do sleep 1; done",
    "behind do": "for x in 1 2; do npm test; done",
    "in a function": "check() { npm test; }\ncheck",
    "in a case": "case $x in\n  a) npm test;;\nesac",
    "behind a case": "case $x in a|b) true;; esac; npm test",
    "behind a case in a substitution": "y=$(case $x in a) true;; esac; npm test)",
    "in a subshell of a case": "case $x in (a) (npm test);; esac",
    "with a variable in front": "CI=1 NODE_ENV='a b' npm test",
    "in quotes": '"npm" test',
    "behind a comment": "# not npm\nnpm test",
    "behind a word with a hash": "echo a#b; npm test",
    "behind a here-document": "cat <<EOF\nx\nEOF\nnpm test",
    "on a here-document's line": "cat > x <<'EOF' && npm test\nx\nEOF\n",
    "fed by a here-document": "npm test <<-EOF\n\tx\n\tEOF\n",
    "behind a here-string": "cat <<< x; npm test",
    "behind a redirection": "> log npm test",
    "behind a redirected error": "2>&1 npm test",
    "with both outputs in a file": "cd x &> log; npm test",
    "by timeout": "timeout 60 npm test",
    "by timeout with a signal": "timeout -s KILL -k 5 60 npm test",
    "by env": "env -i CI=1 npm test",
    "by exec": "exec npm test",
    "by command": "command npm test",
    "by xargs": "echo test | xargs -n 1 npm",
    "by time and nohup": "time nohup npm test",
    "by a shell": "bash -c 'cd app && npm test'",
    "by a shell with more options": 'sh -ec "npm test"',
    "by eval": "eval npm test",
    "at the end": "trap 'npm stop' EXIT",
    "behind an arithmetic": "x=$((1 + (2))); npm test",
    "behind an expansion": 'echo "${x:-(}"; npm test',
    "behind a process": "npm test < <(echo x)",
    "in a process": "cat <(npm test)",
}

CALLS_NOT = {
    "an argument": "echo npm test",
    "text in single quotes": "echo 'run; npm test'",
    "text in double quotes": 'echo "run; npm test"',
    "an escaped substitution": 'echo "\\$(npm test)"',
    "a comment": "true # npm test",
    "a file": "cat npm",
    "a file that is written": "echo x > npm",
    "a path": "./npm test",
    "a part of a word": "npm-check; my_npm",
    "a look-up": "command -v npm",
    "a package": "apt-get install -y nodejs npm",
    "a here-document": "cat > run.sh <<'EOF'\nnpm test\nEOF\n",
    "a here-document with tabs": "cat <<-EOF\n\tnpm test\n\tEOF\n",
    "two here-documents": "cat <<A <<B\nnpm a\nA\nnpm b\nB\n",
    "a here-document without an end": "cat <<EOF\nnpm test\n",
    "a pattern of case": "case $x in\n  npm) true;;\n  npm|yarn) true;;\nesac",
    "a pattern of case on its line": "case $x in npm|yarn) true;; esac",
    "a pattern of case in parentheses": "case $x in (npm) true;; (yarn|npm) true;; esac",
    "a pattern of case in a substitution": "y=$(case $x in npm) true;; npm|yarn) true;; esac)",
    "the words of a loop": "for tool in npm yarn; do which $tool; done",
    "the name of a function": "npm() { echo x; }",
    "a variable": "npm=1; npm+=2",
    "an expansion": "echo ${npm}",
    "a dynamic name": '"$npm" test',
    "the limit of timeout": "timeout npm true",
    "nothing": "",
}


@pytest.mark.parametrize("script", CALLS.values(), ids=CALLS)
def test_a_call_is_seen(script: str) -> None:
    assert "npm" in set(called(script))


@pytest.mark.parametrize("script", CALLS_NOT.values(), ids=CALLS_NOT)
def test_a_mention_is_no_call(script: str) -> None:
    assert "npm" not in set(called(script))


def test_scripts_in_scripts_end() -> None:
    nested = "npm test"
    for _ in range(20):
        nested = f"eval {nested}"
    assert "npm" not in set(called(nested))


PIECES = st.sampled_from(
    [*" \n;&|(){}<>$`'\"\\#=", "npm", "$(", "$((", "${", "<<EOF\n", "EOF\n", "case x in ", "sh -c ", "if "]
)


@given(st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=80))
def test_any_text_is_read_to_its_end(script: str) -> None:
    assert all(isinstance(name, str) for name in called(script))


def test_much_text_is_read_in_linear_time() -> None:
    for piece in ("$(", '"$(', "`", "(", "<<a ", "eval ", "\\", "'", "a\n", "<<a\n", "sh -c '"):
        list(called(piece * 20_000))
