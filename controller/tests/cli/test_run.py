"""`quickstarted run` as a user types it, on a daemon that really runs commands and encloses nothing."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.desk import QUICKSTARTED, Desk, until

FAKE = Path(__file__).parents[3] / "tests" / "support" / "fake_sandboxd_main.py"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where a daemon listens."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "d.sock"
        daemon = subprocess.Popen(
            [sys.executable, FAKE, "host", "serve", "--unix", path], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        while not path.exists():
            assert daemon.poll() is None
            time.sleep(0.02)
        yield f"unix:{path}"
        daemon.communicate()


@pytest.fixture
def desk(tmp_path: Path, address: str) -> Desk:
    return Desk(tmp_path, {"SANDBOXD": address})


def test_a_pass(desk: Desk) -> None:
    task = desk.task("demo", replay=["mkdir app; cd app", "touch made"], check="test -e app/made")
    done = desk.run(task)
    assert done.returncode == 0
    assert done.stdout.startswith("[PASS] demo (replay)\n  classification: passed\n  turns: 2, duration: ")
    assert "backend: local UNENFORCED\n" in done.stdout
    assert "docs pages read: 0\n" in done.stdout
    assert "demo: started on local" in done.stderr
    assert "demo: the success check ended: exit 0" in done.stderr
    (found,) = desk.results()["tasks"]
    assert (found["task"], found["source"], found["pass_rate"]) == ("demo", "demo.yaml", 1.0)
    assert desk.trace("demo")[-1]["classification"] == "passed"


def test_a_gap_shows_the_command_and_what_the_check_saw(desk: Desk) -> None:
    task = desk.task("demo", replay=["echo trying", "exit 7"], check="echo 'no app here'; exit 3")
    done = desk.run(task)
    assert done.returncode == 1
    assert "[GAP] demo (replay)\n  classification: docs_gap: a documented command failed" in done.stdout
    assert "stopped: command_failed (exit code 7)\n    $ exit 7\n" in done.stdout
    assert "success check exit code: 3\n    | no app here\n" in done.stdout
    assert "trace: results/demo/attempt-1/trace.jsonl" in done.stdout


def test_a_check_that_prints_nothing_is_told_so(desk: Desk) -> None:
    done = desk.run(desk.task("demo", replay=["true"], check="false"))
    assert "it printed nothing" in done.stdout


def test_a_task_without_commands_is_skipped_and_shows_nothing(desk: Desk) -> None:
    done = desk.run(desk.task("demo"))
    assert done.returncode == 2
    assert "[SKIP] demo (replay)\n  classification: skipped\n" in done.stdout


def test_setup_that_fails_is_inconclusive(desk: Desk) -> None:
    done = desk.run(desk.task("demo", setup=["exit 9"], replay=["true"]))
    assert done.returncode == 2
    assert "[INCONCLUSIVE] demo (replay)\n  classification: harness_error: setup failed\n" in done.stdout
    assert "stopped: setup_failed (exit code 9)\n    $ exit 9\n" in done.stdout
    assert "setup: exit 9 (exit 9" in done.stderr


def test_inconclusive_can_be_strict(desk: Desk) -> None:
    assert desk.run(desk.task("demo", setup=["false"], replay=["true"]), "--strict-inconclusive").returncode == 1


def test_verbose_shows_commands_and_quiet_shows_none(desk: Desk) -> None:
    task = desk.task("demo", replay=["echo hello"])
    verbose = desk.run(task, "--verbose")
    assert "demo: $ echo hello\n" in verbose.stderr
    assert "demo:   exit 0" in verbose.stderr
    quiet = desk.run(task, "--quiet")
    assert quiet.stderr == ""
    assert quiet.stdout == "[PASS] demo (replay)\n1 task: 1 passed\nresults: results/results.json\n"


def test_repeats_are_counted_and_each_has_a_trace(desk: Desk) -> None:
    done = desk.run(desk.task("demo", replay=["true"]), "--repeat", "3", "--workers", "2")
    assert done.returncode == 0
    assert "[PASS] demo (replay): 3 of 3 passed (95% interval 0.44 to 1.00)\n" in done.stdout
    assert "demo#3: " in done.stderr
    assert len({desk.trace("demo", number)[0]["run_id"] for number in (1, 2, 3)}) == 1
    assert [one["attempt"] for one in desk.results()["tasks"][0]["runs"]] == [1, 2, 3]


def test_a_second_run_replaces_the_attempts_of_its_tasks_and_of_no_other(desk: Desk) -> None:
    one, other = desk.task("one", replay=["true"]), desk.task("other", replay=["true"])
    desk.run(one, other, "--repeat", "2")
    keep = desk.directory / "results" / "one" / "notes.txt"
    keep.write_text("mine")
    desk.run(one)
    assert sorted(path.name for path in keep.parent.iterdir()) == ["attempt-1", "notes.txt"]
    assert (desk.directory / "results" / "other" / "attempt-2").is_dir()


def test_junit(desk: Desk) -> None:
    desk.run(desk.task("demo", replay=["true"]), "--junit", "out/junit.xml")
    assert '<testcase classname="quickstarted.replay" name="demo #1"' in (desk.directory / "out/junit.xml").read_text()


def test_an_image_that_is_ignored_is_told(desk: Desk) -> None:
    done = desk.run(desk.task("demo", replay=["true"], image="node:22-slim"))
    assert "the image node:22-slim is ignored there" in done.stderr
    assert "the image node:22-slim was ignored: local runs on the host's own system" in done.stdout
    assert desk.run(desk.task("bare", replay=["true"])).stderr.count("ignored") == 0


def test_the_image_of_the_task_goes_before_the_flag(desk: Desk) -> None:
    own, bare = desk.task("own", replay=["true"], image="node:22-slim"), desk.task("bare", replay=["true"])
    desk.run(own, bare, "--image", "debian:12")
    assert (desk.trace("own")[0]["image"], desk.trace("bare")[0]["image"]) == ("node:22-slim", "debian:12")
    desk.run(bare)
    assert desk.trace("bare")[0]["image"] == "python:3.12-slim"


def test_what_a_command_prints_can_t_speak_to_the_terminal(desk: Desk) -> None:
    evil = r"printf '\033]0;owned\007\033[2J\033[31mred\033[0m\n'; false"
    done = desk.run(desk.task("demo", replay=["true"], check=evil))
    assert "\x1b" not in done.stdout + done.stderr
    assert "    | red\n" in done.stdout


USAGE = [
    ("a number that is none", ["--repeat", "0"], "no whole number above 0"),
    ("a backend that is none", ["--backend", "kvm"], "invalid choice"),
    ("an agent that is none", ["--agent", "human"], "the agents are replay"),
    ("an agent without its key", ["--agent", "claude"], "QUICKSTARTED_ANTHROPIC_API_KEY"),
    ("local without consent", ["--backend", "local"], "--allow-unenforced"),
    ("an address that is none", ["--sandboxd", "http://runner"], "expected unix:/path"),
    ("two addresses", ["--sandboxd", "unix:/a.sock,unix:/b.sock"], "more than one"),
    ("an empty image", ["--image", ""], "--image is empty"),
    ("loud and quiet", ["--verbose", "--quiet"], "not allowed with"),
    ("a flag that is none", ["--speed", "9"], "unknown arguments: --speed"),
]


@pytest.mark.parametrize(("arguments", "says"), [row[1:] for row in USAGE], ids=[row[0] for row in USAGE])
def test_wrong_usage_is_3_and_one_clear_message(desk: Desk, arguments: list[str], says: str) -> None:
    done = desk.run(desk.task("demo", replay=["true"]), *arguments)
    assert done.returncode == 3
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (desk.directory / "results").exists()


def test_invalid_tasks_are_all_told_and_nothing_runs(desk: Desk) -> None:
    good = desk.task("good", replay=["true"])
    bad, worse = desk.task("bad", budgets={"max_turn": 3}), desk.task("worse", setup="not a list")
    done = desk.run(good, bad, worse)
    assert done.returncode == 3
    assert "max_turn" in done.stderr
    assert "setup" in done.stderr
    assert not (desk.directory / "results").exists()


@pytest.mark.parametrize("name", ["results.json", "errors.log", "sandboxd.log", "Results.JSON"])
def test_a_task_that_is_named_like_a_file_of_results_is_refused(desk: Desk, name: str) -> None:
    done = desk.run(desk.task(name, replay=["true"]))
    assert done.returncode == 3
    assert "can't be named" in done.stderr


def test_no_tasks_is_3(desk: Desk) -> None:
    done = desk.run("nowhere/*.yaml")
    assert done.returncode == 3
    assert "nowhere/*.yaml" in done.stderr


def test_a_runner_that_is_not_there_is_2_and_one_message(desk: Desk) -> None:
    done = desk.run(desk.task("demo", replay=["true"]), "--sandboxd", f"unix:{desk.directory}/no.sock")
    assert done.returncode == 2
    assert "there is no socket" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_backend_that_is_not_there_is_2_with_the_remedy(desk: Desk) -> None:
    done = desk.run(desk.task("demo", replay=["true"]), "--backend", "docker")
    assert done.returncode == 2
    assert "docker: no engine answers; start one" in done.stderr


def test_results_that_can_t_be_written_are_2_and_one_message(desk: Desk) -> None:
    (desk.directory / "file").write_text("")
    done = desk.run(desk.task("demo", replay=["true"]), "--out", "file/results")
    assert done.returncode == 2
    assert "can't write" in done.stderr
    assert "Traceback" not in done.stderr


SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", SIGNALS, ids=[one.name for one in SIGNALS])
def test_an_interruption_ends_the_command_and_keeps_what_finished(desk: Desk, number: signal.Signals) -> None:
    mark = desk.directory / "still-running"
    first = desk.task("first", replay=["true"])
    slow = desk.task("slow", replay=[f"trap '' INT TERM; while sleep 0.1; do touch {mark}; done"])
    process = desk.start(first, slow, "--verbose")
    until(process, "slow: $ ")
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "[PASS] first" in stdout
    assert "1 task before it was interrupted: 1 passed" in stdout
    assert "interrupted: ending what runs" in stderr
    results = desk.results()
    assert (results["interrupted"], [task["task"] for task in results["tasks"]]) == (True, ["first"])
    assert desk.trace("slow")[-1]["stop_reason"] == "interrupted"
    mark.unlink(missing_ok=True)
    time.sleep(0.3)
    assert not mark.exists()


def test_a_hang_up_does_not_end_a_run_under_nohup(desk: Desk) -> None:
    task = desk.task("demo", replay=["sleep 0.5"])
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = desk.start(task, "--verbose")
    finally:
        signal.signal(signal.SIGHUP, before)
    until(process, "demo: $ ")
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_run_that_is_killed_leaves_what_finished(desk: Desk) -> None:
    first, slow = desk.task("first", replay=["true"]), desk.task("slow", replay=["exec sleep 5"])
    process = desk.start(first, slow, "--verbose")
    until(process, "slow: $ ")
    process.kill()
    process.communicate()
    results = desk.results()
    assert (results["interrupted"], [task["task"] for task in results["tasks"]]) == (True, ["first"])
    assert desk.trace("slow")[-1]["event"] == "tool_call"


def test_two_runs_do_not_share_a_directory(desk: Desk) -> None:
    slow = desk.start(desk.task("slow", replay=["exec sleep 30"]), "--verbose")
    until(slow, "slow: $ ")
    done = desk.run(desk.task("demo", replay=["true"]))
    assert done.returncode == 3
    assert "another run writes to results" in done.stderr
    assert desk.run("demo.yaml", "--out", "elsewhere").returncode == 0
    slow.send_signal(signal.SIGINT)
    slow.communicate(timeout=60)


def test_a_reader_that_went_away_does_not_end_the_run(desk: Desk) -> None:
    process = desk.start(desk.task("demo", replay=["true"]), "--repeat", "3")
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    process.stderr.close()
    assert process.wait(timeout=60) == 0
    assert desk.results()["tasks"][0]["passes"] == 3


def test_a_stdout_that_takes_nothing_is_told_and_does_not_change_the_verdict(desk: Desk) -> None:
    task = desk.task("demo", replay=["true"])
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*QUICKSTARTED, "run", task],
            cwd=desk.directory,
            env=desk.environment(),
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 0
    assert b"can't write to stdout: No space left" in done.stderr


def on_a_terminal(desk: Desk, *arguments: str, **environment: str) -> str:
    """What a command shows on a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*QUICKSTARTED, "run", *arguments],
        cwd=desk.directory,
        env=desk.environment() | environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    process.wait(timeout=60)
    return shown.decode()


def test_colour_is_for_terminals_that_want_it(desk: Desk) -> None:
    task = desk.task("demo", replay=["true"])
    assert "\x1b[32m[PASS]\x1b[0m demo" in on_a_terminal(desk, task)
    assert "\x1b" not in on_a_terminal(desk, task, NO_COLOR="1")
    assert "\x1b" not in on_a_terminal(desk, task, TERM="dumb")
    assert "\x1b" not in desk.run(task).stdout


def test_a_terminal_without_unicode_gets_its_lines(desk: Desk) -> None:
    done = desk.run(desk.task("demo", replay=["true"], check="echo 'é 漢'; false"), LC_ALL="C", PYTHONUTF8="0")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_progress_lines_begin_with_the_seconds(desk: Desk) -> None:
    done = desk.run(desk.task("demo", replay=["true"]))
    assert all(re.match(r"\[ *\d+s\] demo: \S", line) for line in done.stderr.splitlines())


HEAVY = ("grpc", "google.protobuf", "docker", "anthropic", "httpx", "voluptuous", "asyncio")


def test_help_imports_nothing_that_costs_time() -> None:
    code = (
        "import sys\nfrom quickstarted.cli.main import main\n"
        "try: main(['run', '--help'])\nexcept SystemExit: pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == "[]"
    assert "exit codes:" in done.stdout
