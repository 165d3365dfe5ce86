"""How the command chooses what to do, what it imports for that, and how it ends."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from quickstarted import __version__
from quickstarted.cli import main as command
from quickstarted.cli.main import main

COMMAND = str(Path(sys.executable).with_name("quickstarted"))
TASK = "name: t\ngoal: do it\ndocs:\n  entrypoint: https://docs.test/\nsuccess:\n  script: test -f x\n"


@pytest.fixture
def task(tmp_path: Path) -> str:
    file = tmp_path / "t.yaml"
    file.write_text(TASK)
    return str(file)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException | int], int]:
    """Runs the command with a subcommand that ends in a certain way, and returns the exit code."""

    def call(how: BaseException | int) -> int:
        def run(_: argparse.Namespace) -> int:
            if isinstance(how, int):
                return how
            raise how

        module = types.ModuleType("quickstarted.cli.probe")
        vars(module).update(HELP="end", add_arguments=lambda parser: None, run=run)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(command.COMMANDS, "probe", 2)
        return main(["probe"])

    return call


@pytest.mark.parametrize("code", [0, 1, 2, 3, 130])
def test_the_exit_code_is_the_subcommand_s(ends: Callable[[BaseException | int], int], code: int) -> None:
    assert ends(code) == code


def test_an_interrupt_ends_with_130(
    ends: Callable[[BaseException | int], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == "quickstarted: interrupted\n"


def test_what_should_not_happen_is_one_line(
    ends: Callable[[BaseException | int], int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(command.DEBUG, raising=False)
    assert ends(RuntimeError("no such\n  luck")) == 2
    told = "unexpected RuntimeError: no such luck (QUICKSTARTED_DEBUG=1 shows where it comes from)"
    assert capsys.readouterr().err == f"quickstarted: {told}\n"


def test_the_trace_is_there_for_who_wants_it(
    ends: Callable[[BaseException | int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(command.DEBUG, "1")
    with pytest.raises(RuntimeError, match="luck"):
        ends(RuntimeError("no such luck"))


USAGE = {
    "no command": ([], "the following arguments are required: COMMAND"),
    "a typo": (["vaildate"], "there is no command 'vaildate'; did you mean validate?"),
    "a command of somebody else": (
        ["push"],
        f"there is no command 'push'; the commands are {', '.join(command.COMMANDS)}.",
    ),
    "an unknown option": (["validate", "--fast"], "quickstarted validate: unknown arguments: --fast"),
    "an unknown option in front": (["--fast", "validate"], "unknown arguments: --fast"),
    "an abbreviated option": (["--vers"], "COMMAND"),
}


@pytest.mark.parametrize(("argv", "says"), USAGE.values(), ids=USAGE)
def test_wrong_usage_ends_with_3(argv: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 3
    out, err = capsys.readouterr()
    assert (out, err[:12]) == ("", "quickstarted")
    assert says in err
    assert "Traceback" not in err


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for name in command.COMMANDS:
        module = importlib.import_module(f"quickstarted.cli.{name}")
        assert module.HELP in " ".join(out.split())
        assert main([name, "--help"]) == 0


def test_help_in_front_of_a_command_is_help_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help", "validate"]) == 0
    assert "\n    run " in capsys.readouterr().out


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"quickstarted {__version__}\n"


HEAVY = ("grpc", "docker", "anthropic", "openai", "httpx", "google", "structlog", "selectolax", "sandboxd")


@pytest.mark.parametrize(
    "argv", [["--help"], ["--version"], ["validate", "--help"], ["validate", "TASK"]], ids=" ".join
)
def test_looking_imports_nothing_heavy(argv: list[str], task: str) -> None:
    argv = [task if word == "TASK" else word for word in argv]
    code = f"""
import sys
from quickstarted.cli.main import main
code = main({argv!r})
heavy = sorted(name for name in sys.modules if name.partition(".")[0] in {HEAVY!r})
sys.exit(repr(heavy) if heavy else code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_validating_needs_no_event_loop_either(task: str) -> None:
    code = "import sys; from quickstarted.cli.main import main; main(sys.argv[1:]); sys.exit('asyncio' in sys.modules)"
    argv = [sys.executable, "-c", code, "validate", task]
    assert subprocess.run(argv, stdout=subprocess.DEVNULL, timeout=60).returncode == 0


def test_a_reader_that_goes_away_ends_it_quietly(task: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run([COMMAND, "validate", task], stdout=pipe, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_full_disk_is_told(task: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([COMMAND, "validate", task], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr


def test_closed_streams_are_no_error(task: str) -> None:
    for redirection in (">&-", ">&- 2>&-"):
        done = subprocess.run(["sh", "-c", f'"$0" validate "$1" {redirection}', COMMAND, task], timeout=60)
        assert done.returncode == 0


def test_the_name_of_a_file_need_not_be_text(tmp_path: Path) -> None:
    file = os.fsencode(tmp_path) + b"/\xe9.yaml"
    Path(os.fsdecode(file)).write_text(TASK)
    done = subprocess.run([os.fsencode(COMMAND), b"validate", file], capture_output=True, timeout=60)
    assert done.returncode == 0
    assert rb"\xe9.yaml (t, agent-only)" in done.stdout


def test_a_locale_without_letters_is_enough(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(TASK.replace("name: t", "name: é"))
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([COMMAND, "validate", str(file)], capture_output=True, timeout=60, env=environment)
    assert done.returncode == 1
    assert rb'found "\xe9"' in done.stdout
    assert done.stderr == b""


def test_ctrl_c_during_the_work_ends_with_130() -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    script = f"""
import sys, types
from quickstarted.cli import main
module = types.ModuleType("quickstarted.cli.probe")
def run(args):
    {code}
    raise AssertionError("the signal came too late")
vars(module).update(HELP="", add_arguments=lambda parser: None, run=run)
sys.modules[module.__name__] = module
main.COMMANDS["probe"] = 2
sys.exit(main.main(["probe"]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, "quickstarted: interrupted\n")
