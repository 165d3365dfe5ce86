"""Starting commands: what they get, what they print, and how they end."""

from __future__ import annotations

import asyncio
import hashlib
import time
from pathlib import PurePosixPath

import pytest
from sandboxd.backends.base import BackendKind, Exited, Stream

from .conftest import Box, Sink

pytestmark = pytest.mark.asyncio(loop_scope="session")

# What the image or the host adds to no sandbox's environment; those that differ by backend.
PLACES = {"PATH", "HOME", "TMPDIR"}


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["nothing-of-that-name"], 127, "no such program"),
        (["/nowhere/tool"], 127, "no such program"),
        ([""], 127, "no such program"),
        (["/usr"], 126, "not a program"),
        (["/etc/passwd"], 126, "not a program"),
    ],
    ids=[
        "a name that is not in PATH",
        "a path where nothing is",
        "no name",
        "a directory",
        "a file that is no program",
    ],
)
async def test_what_cannot_be_started_is_an_exit_with_its_reason(
    shared: Box, argv: list[str], code: int, words: str
) -> None:
    exited, said = await shared.run(*argv)
    assert (exited.code, exited.signal, said) == (code, 0, "")
    assert words in exited.start_error


@pytest.mark.parametrize("cwd", ["nowhere", "/nowhere", "/etc/passwd"])
async def test_a_directory_that_is_none_is_an_exit_with_its_reason(shared: Box, cwd: str) -> None:
    exited, said = await shared.run("true", cwd=cwd)
    assert (exited.code, said) == (126, "")
    assert cwd in exited.start_error


@pytest.mark.parametrize(
    "argv",
    [["echo", "x" * (200 << 10)], ["true", *["x" * 1000] * 3000], ["true", "a\0b"], ["tr\0ue"]],
    ids=["one huge argument", "3 MB of arguments", "NUL in an argument", "NUL in the program"],
)
async def test_k16_a_command_that_no_kernel_takes_is_an_exit_with_its_reason(shared: Box, argv: list[str]) -> None:
    exited, said = await shared.run(*argv)
    assert exited.code in (126, 127)
    assert exited.start_error
    assert said == ""
    assert await shared.run("echo", "alive") == (Exited(0), "alive\n")


@pytest.mark.parametrize("code", [0, 1, 2, 126, 127, 255])
async def test_a_commands_own_code_is_its_code(shared: Box, code: int) -> None:
    assert await shared.sh(f"exit {code}") == (Exited(code), "")


@pytest.mark.parametrize("number", [1, 2, 9, 11, 15])
async def test_a_signal_is_told_from_a_code(shared: Box, number: int) -> None:
    assert (await shared.sh(f"kill -{number} $$"))[0] == Exited(128 + number, signal=number)


async def test_both_streams_come_in_the_order_in_which_they_were_written(shared: Box) -> None:
    _, said = await shared.sh("for i in 1 2 3 4 5 6 7 8 9; do echo out$i; echo err$i >&2; done")
    assert said.split() == [f"{stream}{i}" for i in range(1, 10) for stream in ("out", "err")]


async def test_every_byte_comes_through(shared: Box) -> None:
    running, sink = await shared.start("python3", "-c", "import sys; sys.stdout.buffer.write(bytes(range(256)) * 4096)")
    assert (await running.wait()).code == 0
    assert bytes(sink.data) == bytes(range(256)) * 4096


async def test_a_slow_sink_gets_everything_and_its_neighbour_does_not_wait(shared: Box) -> None:
    class Slow(Sink):
        def write(self, stream: Stream, data: bytes | memoryview) -> None:
            time.sleep(0.005)
            super().write(stream, data)

    text = "import sys\nfor i in range(200): sys.stdout.buffer.write(bytes([i]) * 65536)"
    running, slow = await shared.start("python3", "-c", text, sink=Slow())
    assert await shared.run("echo", "quick") == (Exited(0), "quick\n")
    async with asyncio.timeout(60):
        # A pipe's worth may still be on its way when the command has ended.
        assert (await running.wait()).code == 0
    expected = b"".join(bytes([i]) * 65536 for i in range(200))
    assert hashlib.sha256(slow.data).hexdigest() == hashlib.sha256(expected).hexdigest()


async def test_input_is_given_and_ends(shared: Box) -> None:
    assert (await shared.run("wc", "-c", stdin=b"\0x" * 32768))[1].split() == ["65536"]


async def test_without_input_there_is_its_end_at_once(shared: Box) -> None:
    assert await shared.run("cat") == (Exited(0), "")


async def test_there_is_no_terminal(shared: Box) -> None:
    _, said = await shared.sh("for i in 0 1 2; do test -t $i && echo terminal; done; (: </dev/tty) 2>&1 || true")
    assert "terminal" not in said
    assert "/dev/tty" in said


async def test_streams_can_be_opened_by_name(shared: Box) -> None:
    _, said = await shared.run("sh", "-c", "echo a >/dev/stdout; echo b >/dev/stderr; cat /dev/stdin", stdin=b"c\n")
    assert said == "a\nb\nc\n"


async def test_nothing_else_is_open(shared: Box) -> None:
    _, said = await shared.python("import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])")
    assert said == "[0, 1, 2]\n"


async def test_the_environment_is_what_was_built_and_no_more(shared: Box) -> None:
    _, said = await shared.run("env", environment={"MORE": "a=b\nc"})
    found = dict(line.partition("=")[::2] for line in said.replace("\nc\n", "\0c\n").splitlines())
    expected = {**shared.request.environment, "MORE": "a=b\0c"}
    assert found.keys() == expected.keys()
    assert {name: value for name, value in found.items() if name not in PLACES} == {
        name: value for name, value in expected.items() if name not in PLACES
    }


async def test_the_daemons_own_variables_are_not_there(shared: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-in-the-daemon")
    assert "sk-in-the-daemon" not in (await shared.run("env"))[1]


async def test_commands_begin_in_the_workspace(shared: Box) -> None:
    assert (await shared.run("pwd"))[1] == f"{shared.sandbox.workspace}\n"


async def test_a_directory_is_found_from_the_workspace_or_from_the_root(box: Box) -> None:
    await box.sh("mkdir -p a/b")
    assert (await box.run("pwd", cwd="a/b"))[1] == f"{box.sandbox.workspace}/a/b\n"
    assert (await box.run("pwd", cwd="/usr"))[1] == "/usr\n"


async def test_the_workspace_is_empty_and_home_and_tmp_are_elsewhere(box: Box) -> None:
    assert (await box.sh("ls -A"))[1] == ""
    _, said = await box.sh('echo "$HOME"; echo "$TMPDIR"; echo x >"$HOME/x" && echo x >"$TMPDIR/x" && echo written')
    home, tmp, written = said.split()
    assert written == "written"
    workspace = PurePosixPath(box.sandbox.workspace)
    assert not any(PurePosixPath(path).is_relative_to(workspace) for path in (home, tmp))


async def test_the_shell_is_the_best_there_is(shared: Box) -> None:
    assert PurePosixPath(shared.sandbox.shell).name == "bash"
    assert (await shared.run(shared.sandbox.shell, "-c", "echo $BASH_VERSION"))[1].strip()


async def test_commands_run_side_by_side(shared: Box) -> None:
    ends = await asyncio.gather(*(shared.sh(f"sleep 0.2; echo {i}; exit {i}") for i in range(12)))
    assert [(exited.code, said) for exited, said in ends] == [(i, f"{i}\n") for i in range(12)]


async def test_a_command_meets_its_own_signals_as_the_system_has_them(shared: Box) -> None:
    text = "import signal; print([s.name for s in signal.Signals if signal.getsignal(s) is signal.SIG_IGN])"
    # What Python itself ignores at its start is not counted.
    assert (await shared.python(text))[1] in ("['SIGPIPE', 'SIGXFSZ']\n", "['SIGPIPE', 'SIGXFZ', 'SIGXFSZ']\n")
    _, said = await shared.sh("grep -E '^Sig(Ign|Blk)' /proc/self/status")
    # 32 and 33 are the C library's own: no program can set them, so what the test runner was born with shows.
    own = ~(1 << 31 | 1 << 32)
    assert [int(line.split()[1], 16) & own for line in said.splitlines()] == [0, 0]


async def test_a_pseudo_terminal_can_be_made(shared: Box) -> None:
    text = "import os, pty; a, b = pty.openpty(); os.write(b, b'hello'); print(os.read(a, 5).decode())"
    assert (await shared.python(text))[1] == "hello\n"


async def test_only_a_backend_of_images_has_one(shared: Box) -> None:
    assert bool(shared.sandbox.image) is shared.backend.uses_image
    assert bool(shared.sandbox.image_digest) is shared.backend.uses_image


async def test_the_probe_says_that_it_can_be_used(shared: Box, kind: BackendKind) -> None:
    answer = await shared.backend.probe()
    assert answer.available, answer
    assert shared.backend.kind is kind
