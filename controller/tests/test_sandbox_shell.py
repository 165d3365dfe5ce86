"""A session behaves like a reader's terminal, in bash and in plain sh, whatever a command does to its shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quickstarted.sandbox.shell import MAX_COMMAND_BYTES, CommandError, clean_argv, session_argv


class Session:
    """Commands of one session, run on this machine as a sandbox would run them."""

    def __init__(self, shell: str, home: Path) -> None:
        self.shell = shell
        self.workspace = home / "workspace"
        self.tmp = home / "tmp"
        for directory in (self.workspace, self.tmp):
            directory.mkdir(parents=True)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TMPDIR": str(self.tmp),
            "LANG": "C.UTF-8",
            "HTTP_PROXY": "http://127.0.0.1:3128",
        }

    def run(self, command: str, exports: dict[str, str] | None = None) -> tuple[int, str]:
        return self._run(session_argv(self.shell, command, exports))

    def check(self, script: str) -> tuple[int, str]:
        return self._run(clean_argv(self.shell, script))

    def _run(self, argv: list[str]) -> tuple[int, str]:
        done = subprocess.run(
            argv,
            cwd=self.workspace,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
        )
        return done.returncode, done.stdout.decode("utf-8", "surrogateescape")


def _shell(name: str) -> str:
    path = shutil.which(name)
    assert path, f"{name} is needed to test the session's shell"
    return path


@pytest.fixture(params=["bash", "dash"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    return Session(_shell(request.param), tmp_path / "home")


# (what is true, the session's commands, the last command's exit code and output)
STEPS: list[tuple[str, list[str], int, str]] = [
    ("a directory carries over", ["mkdir app && cd app", "basename $PWD; basename $(pwd)"], 0, "app\napp\n"),
    (
        "cd - goes back to where the last command was",
        ["mkdir a b; cd a; cd ../b", "cd - >/dev/null; basename $PWD"],
        0,
        "a\n",
    ),
    ("an exported variable carries over", ["export GREETING='hello world'", 'echo "$GREETING"'], 0, "hello world\n"),
    ("a variable that was not exported does not", ["X=1", 'echo "${X-unset}"'], 0, "unset\n"),
    ("an assignment to an exported variable carries over", ["export X=1", "X=2", 'echo "$X"'], 0, "2\n"),
    (
        "PATH carries over",
        [
            "mkdir bin; printf '#!/bin/sh\\necho mine\\n' >bin/tool; chmod +x bin/tool; export PATH=$PWD/bin:$PATH",
            "tool",
        ],
        0,
        "mine\n",
    ),
    ("an unset variable stays unset", ["unset HTTP_PROXY", 'echo "${HTTP_PROXY-gone}"'], 0, "gone\n"),
    ("an emptied variable stays empty", ["export HTTP_PROXY=", 'echo "${HTTP_PROXY-gone}."'], 0, ".\n"),
    (
        "a profile that is sourced takes effect",
        ["echo 'export TOOL_HOME=/opt/tool' >env; . ./env", "echo $TOOL_HOME"],
        0,
        "/opt/tool\n",
    ),
    (
        "set -e ends only its own command",
        ["set -e; mkdir a; cd a; export X=1; false; cd ..", 'false; basename $PWD; echo "$X"'],
        0,
        "a\n1\n",
    ),
    ("exit keeps what came before it", ["mkdir a; cd a; export X=1; exit 3", 'basename $PWD; echo "$X"'], 0, "a\n1\n"),
    (
        "exit in a subshell changes nothing",
        ["mkdir a; (cd a; export X=1; exit 3)", 'basename $PWD; echo "${X-unset}"'],
        0,
        "workspace\nunset\n",
    ),
    ("a syntax error keeps the session", ["mkdir a; cd a", "if then fi (", "basename $PWD"], 0, "a\n"),
    ("an unclosed quote keeps the session", ["mkdir a; cd a", "echo 'oops", "basename $PWD"], 0, "a\n"),
    ("an unfinished heredoc keeps the session", ["mkdir a; cd a", "cat <<EOF\nhello", "basename $PWD"], 0, "a\n"),
    ("exec of a program keeps the session before it", ["mkdir a; cd a", "exec true", "basename $PWD"], 0, "a\n"),
    ("closed streams do not matter", ["mkdir a; cd a; exec >&- 2>&-", "basename $PWD"], 0, "a\n"),
    ("redirected streams do not matter", ["mkdir a; cd a; exec >log 2>&1; echo x", "cat log"], 0, "x\n"),
    ("a trap of the command's own does not matter", ["trap 'echo bye' EXIT; mkdir a; cd a", "basename $PWD"], 0, "a\n"),
    ("a removed trap does not matter", ["trap - EXIT; mkdir a; cd a", "basename $PWD"], 0, "a\n"),
    (
        "an early exit under an own trap keeps the session before",
        ["mkdir a; cd a", "trap : EXIT; cd ..; exit", "basename $PWD"],
        0,
        "a\n",
    ),
    ("set -u does not matter", ["set -u; mkdir a; cd a", 'basename "$PWD$NOTHING"'], 0, "a\n"),
    ("set -a does not leak our own variables", ["set -a; X=1", "env | grep -c __qs"], 1, "0\n"),
    ("set -C does not matter", ["set -C; mkdir a; cd a", "set -C; cd ..", "basename $PWD"], 0, "workspace\n"),
    ("set -f does not matter", ["set -f; mkdir a; cd a", "basename $PWD"], 0, "a\n"),
    ("IFS does not matter", ["export IFS=/; mkdir a; cd a", 'unset IFS; basename "$PWD"'], 0, "a\n"),
    (
        "a broken PATH carries over, and can be repaired",
        ["mkdir a; cd a; export PATH=/nowhere", "ls", "PATH=/usr/bin:/bin", "basename $PWD"],
        0,
        "a\n",
    ),
    ("umask does not lock the session out", ["umask 0777; export X=1", 'echo "$X"'], 0, "1\n"),
    (
        "a changed TMPDIR carries over",
        ["mkdir t; export TMPDIR=$PWD/t", "basename $TMPDIR; export X=1", 'echo "$X"'],
        0,
        "1\n",
    ),
    ("a readonly variable does not matter", ["export X=1; readonly X", 'echo "$X"; cd /', "echo $PWD"], 0, "/\n"),
    ("a directory with odd characters", ['mkdir "a \'b" "*"; cd "a \'b"', 'basename "$PWD"'], 0, "a 'b\n"),
    (
        "a directory whose name ends with a newline",
        ['d=$(printf \'a\\nx\'); d=${d%x}; mkdir "$d"; cd "$d"; touch here', "ls"],
        0,
        "here\n",
    ),
    ("a directory that begins with a dash", ["mkdir ./-P; cd ./-P", "basename -- $PWD"], 0, "-P\n"),
    (
        "a directory behind a link keeps its name",
        ["mkdir real; ln -s real link; cd link", "basename $PWD"],
        0,
        "link\n",
    ),
    (
        "the session's file may be destroyed",
        [
            "mkdir a; cd a; export X=1",
            'echo "\'broken" >$TMPDIR/.quickstarted-session; cd ..; kill -9 $$',
            "basename $PWD",
        ],
        0,
        "workspace\n",
    ),
    (
        "a truncated session file is not read",
        ["export X=1", "f=$TMPDIR/.quickstarted-session; sed '$d' $f >f; cat f >$f; kill -9 $$", 'echo "${X-unset}"'],
        0,
        "unset\n",
    ),
    (
        "the session's directory may be destroyed",
        ["export X=1", "rm -rf $TMPDIR", 'echo "${X-unset}"; mkdir $TMPDIR'],
        0,
        "unset\n",
    ),
    ("a killed command keeps the session before it", ["mkdir a; cd a", "cd ..; kill -9 $$", "basename $PWD"], 0, "a\n"),
    ("background commands do not matter", ["mkdir a; cd a; sleep 0 & wait", "basename $PWD"], 0, "a\n"),
    ("a command of nothing but a comment", ["mkdir a; cd a", "# nothing", "basename $PWD"], 0, "a\n"),
    ("an empty command", ["mkdir a; cd a", "", "basename $PWD"], 0, "a\n"),
    ("return at the top keeps the session", ["mkdir a; cd a; return 0 2>/dev/null", "basename $PWD"], 0, "a\n"),
    (
        "several lines with a heredoc",
        ["cat >f <<'EOF'\n$HOME `x`\nEOF\nexport X=$(cat f)", 'echo "$X"'],
        0,
        "$HOME `x`\n",
    ),
    ("functions named like ours can't be seen in the environment", ["export X=1", "env | grep -c __qs"], 1, "0\n"),
]


@pytest.mark.parametrize(("commands", "code", "output"), [row[1:] for row in STEPS], ids=[row[0] for row in STEPS])
def test_session(session: Session, commands: list[str], code: int, output: str) -> None:
    for command in commands[:-1]:
        session.run(command)
    assert session.run(commands[-1]) == (code, output)


# (what is true, the command, its exit code)
CODES = [
    ("success", "true", 0),
    ("failure", "false", 1),
    ("a chosen code", "exit 42", 42),
    ("the last command's code", "true; sh -c 'exit 7'", 7),
    ("set -e ends with the failing code", "set -e; sh -c 'exit 9'; true", 9),
    ("an unknown program", "no-such-program-here", 127),
    ("a syntax error", "if (", 2),
    ("a signal", "kill -9 $$", -9),
    ("an own trap decides", "trap 'exit 5' EXIT; true", 5),
    ("a subshell's code", "(exit 6)", 6),
    ("exec", "exec sh -c 'exit 8'", 8),
    ("set -u", "set -u; echo $NOTHING", None),
]


@pytest.mark.parametrize(("command", "code"), [row[1:] for row in CODES], ids=[row[0] for row in CODES])
def test_the_exit_code_is_the_commands_own(session: Session, command: str, code: int | None) -> None:
    for _ in range(2):  # without and with a state to restore
        found, _ = session.run(command)
        assert found == code if code is not None else found in (1, 2, 127)


# (what is true, the command, all that it prints)
PRINTS = [
    ("a trap of the command's own runs once", "trap 'echo bye' EXIT; echo hi", "hi\nbye\n"),
    ("no positional parameters", 'echo "$#:$*"', "0:\n"),
    ("set -x shows the command alone", "set -x; : x", "+ : x\n"),
    ("set -x and an exit show the command alone", "set -x; exit 0", "+ exit 0\n"),
    ("nothing of ours is printed", "", ""),
]


@pytest.mark.parametrize(("command", "output"), [row[1:] for row in PRINTS], ids=[row[0] for row in PRINTS])
def test_a_command_prints_what_it_prints(session: Session, command: str, output: str) -> None:
    for _ in range(2):
        found = session.run(command)[1]
        assert found.replace("++ ", "+ ") == output  # bash counts the level of eval


def test_a_message_of_the_shell_counts_lines_of_the_command(session: Session) -> None:
    assert "1" in session.run("nosuchtool")[1].split("nosuchtool")[0]


def test_a_directory_that_is_gone_is_told(session: Session) -> None:
    session.run("mkdir a; cd a; rmdir ../a")
    code, output = session.run("pwd")
    assert code == 0
    home = session.workspace
    assert output == f"quickstarted: {home}/a is gone; this command starts in {home}\n{home}\n"


def test_a_full_disk_keeps_the_state_before(session: Session) -> None:
    session.run("mkdir a; cd a; export X=1")
    # No file of the shell may grow: as when the disk is full.
    session.run("ulimit -f 0; trap '' XFSZ; cd ..; export X=2")
    assert session.run('basename $PWD; echo "$X"') == (0, "a\n1\n")


def test_exports_are_set_after_the_sessions_own_and_stay(session: Session) -> None:
    session.run("export PORT=1")
    assert session.run('echo "$PORT"', {"PORT": "2 '\"$x"}) == (0, "2 '\"$x\n")
    assert session.run('echo "$PORT"') == (0, "2 '\"$x\n")


def test_the_success_script_does_not_see_the_session(session: Session) -> None:
    session.run("mkdir a; cd a; export X=1 PATH=/nowhere; alias ls=false; unset HTTP_PROXY")
    code, output = session.check('basename "$PWD"; echo "${X-unset} $HTTP_PROXY $#"')
    assert (code, output) == (0, "workspace\nunset http://127.0.0.1:3128 0\n")


def test_the_success_script_reads_no_start_up_file(session: Session) -> None:
    session.run("for f in .bashrc .profile .bash_profile .shrc; do echo 'echo hacked; exit 0' >$HOME/$f; done")
    assert session.check("exit 3") == (3, "")


def test_the_success_script_does_not_change_the_session(session: Session) -> None:
    session.run("mkdir a; cd a; export X=1")
    session.check("cd /; export X=2")
    assert session.run('basename "$PWD"; echo "$X"') == (0, "a\n1\n")


BAD = [
    ("a NUL", "echo \0"),
    ("half a surrogate pair", "echo \ud800"),
    ("more than an argument may hold", "#" * (MAX_COMMAND_BYTES + 1)),
]


@pytest.mark.parametrize("command", [row[1] for row in BAD], ids=[row[0] for row in BAD])
def test_text_that_no_shell_takes_is_refused(command: str) -> None:
    with pytest.raises(CommandError, match="the command"):
        session_argv("/bin/sh", command)
    with pytest.raises(CommandError):
        clean_argv("/bin/sh", command)


def test_the_longest_command_runs(session: Session) -> None:
    assert session.run("echo ok #" + "x" * (MAX_COMMAND_BYTES - 9)) == (0, "ok\n")


values = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)


@pytest.mark.parametrize("name", ["bash", "dash"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=values)
def test_any_value_of_a_variable_survives(name: str, tmp_path: Path, value: str) -> None:
    home = tmp_path / "home"
    shutil.rmtree(home, ignore_errors=True)
    session = Session(_shell(name), home)
    session.run(":", {"VALUE": value})
    session.run(":")
    code, output = session.run(f"{sys.executable} -Sc 'import os; print(ascii(os.environ[\"VALUE\"]))'")
    assert (code, output) == (0, ascii(value) + "\n")
