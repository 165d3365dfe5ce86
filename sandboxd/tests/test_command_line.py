"""`sandboxd` as an operator runs it: usage errors in a line, sockets that nobody else can use, a clean end."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from quickstarted_api.v1 import sandbox_pb2 as pb
from quickstarted_api.v1 import sandbox_pb2_grpc as rpc


def environ(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **more}


def sandboxd(*args: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sandboxd", *args]
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        env=environ(**more),
        check=False,
    )


@pytest.mark.parametrize(
    ("args", "says"),
    [
        pytest.param([], "required: COMMAND", id="no command"),
        pytest.param(["serve", "--slots", "0"], "found '0'; allowed is 1 or more", id="no slots"),
        pytest.param(["serve", "--allow-private", "10.0.0.1/8"], "found '10.0.0.1/8'", id="a network with host bits"),
        pytest.param(["serve", "--ca-bundle", "/no/such"], "/no/such can't be read", id="a bundle that is not there"),
        pytest.param(["serve", "--plant", "by hand"], "found 'by hand'; allowed", id="an unknown way to plant"),
        pytest.param(["serve", "--cpus", "nan"], "found 'nan'; allowed is more than 0", id="no number of cores"),
        pytest.param(["serve", "--unix", "tcp://0.0.0.0:7443"], "plain TCP least", id="plain TCP"),
        pytest.param(["serve", "--exit-with-stdin"], "has to be a pipe", id="standard input that is a file"),
        pytest.param(["serve", "--unix", "/tmp/" + "x" * 120], "103 bytes", id="a long path"),
        pytest.param(["serve", "--state-dir", "/proc/none"], "--state-dir", id="a state directory that can't be"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_3(tmp_path: Path, args: list[str], says: str) -> None:
    given = [*args] if "--state-dir" in args or args[:1] != ["serve"] else [*args, "--state-dir", str(tmp_path / "st")]
    ended = sandboxd(*given, SANDBOXD_UNIX=str(tmp_path / "s"))
    assert ended.returncode == 3
    assert says in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == ""


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("SANDBOXD_SLOTS", "many", "--slots: found 'many'"),
        ("SANDBOXD_PLANT", "by hand", "--plant: found 'by hand'"),
        ("SANDBOXD_LOG_LEVEL", "loud", "--log-level: found 'loud'"),
        ("SANDBOXD_ALLOW_PRIVATE", "10.0.0.1/8", "--allow-private: found '10.0.0.1/8'"),
    ],
)
def test_a_variable_is_held_to_the_same_rules_as_its_flag(tmp_path: Path, name: str, value: str, says: str) -> None:
    ended = sandboxd("serve", "--state-dir", str(tmp_path), **{name: value})
    assert (ended.returncode, says in ended.stderr, ended.stderr.count("\n")) == (3, True, 1)


def test_the_version() -> None:
    assert sandboxd("--version").stdout == "sandboxd 0.1.0\n"


class Running:
    def __init__(self, home: Path, *args: str) -> None:
        self.socket, self.state = home / "s.sock", home / "state"
        command = [sys.executable, "-m", "sandboxd", "serve", "--unix", str(self.socket)]
        command += ["--state-dir", str(self.state), "--exit-with-stdin", *args]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environ())
        self.channel = grpc.insecure_channel(f"unix:{self.socket}")
        asked = health_pb2.HealthCheckRequest()
        health = health_pb2_grpc.HealthStub(self.channel)
        health.Check(asked, timeout=30, wait_for_ready=True)  # type: ignore[attr-defined] # made at run time

    def end(self) -> int:
        self.channel.close()
        self.process.communicate(timeout=60)
        return self.process.returncode


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    started = Running(tmp_path)
    yield started
    started.process.kill()
    started.end()


def test_the_socket_is_its_owners_alone_and_goes_with_the_daemon(running: Running) -> None:
    assert stat.S_IMODE(running.socket.stat().st_mode) == 0o600
    assert running.process.stdin is not None
    running.process.stdin.close()
    running.process.stdin = None
    assert running.end() == 0
    assert not running.socket.exists()
    assert list((running.state / "instances").iterdir()) == []


def test_a_second_daemon_on_the_same_socket_is_refused(running: Running) -> None:
    ended = sandboxd("serve", "--unix", str(running.socket), "--state-dir", str(running.state))
    assert (ended.returncode, "another daemon is listening" in ended.stderr) == (3, True)
    rpc.RunnerServiceStub(running.channel).GetInfo(pb.GetInfoRequest(), timeout=30)


def test_sigterm_ends_an_idle_daemon(running: Running) -> None:
    running.process.terminate()
    assert running.end() == 0


def test_the_daemon_hides_its_memory_and_environment_from_others_of_its_user() -> None:
    code = "import ctypes; from sandboxd.__main__ import _hide; _hide(); print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert ended.stdout == "0\n"


def test_a_socket_that_a_killed_daemon_left_is_taken_over(tmp_path: Path) -> None:
    first = Running(tmp_path)
    first.process.kill()
    first.end()
    assert first.socket.exists()
    second = Running(tmp_path)
    second.process.terminate()
    assert second.end() == 0


def test_a_file_in_the_sockets_place_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "s.sock").write_text("precious")
    ended = sandboxd("serve", "--unix", str(tmp_path / "s.sock"), "--state-dir", str(tmp_path / "state"))
    assert (ended.returncode, "is no socket" in ended.stderr) == (3, True)
    assert (tmp_path / "s.sock").read_text() == "precious"


def test_a_directory_where_others_may_write_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    ended = sandboxd("serve", "--unix", str(shared / "s"), "--state-dir", str(tmp_path / "state"))
    assert (ended.returncode, "others may write" in ended.stderr) == (3, True)
