"""A whole daemon as a process: what it runs ends with it, however it ends, and what is beside it goes on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from quickstarted_api.v1 import sandbox_pb2 as pb
from quickstarted_api.v1 import sandbox_pb2_grpc as rpc

TOKEN = b"a token of 32 bytes for this test"
DEADLINE = 30.0


class Daemon:
    """A daemon of its own process and socket, which ends with its standard input."""

    def __init__(self, home: Path, name: str = "s", *args: str) -> None:
        self.socket = home / f"{name}.sock"
        self.log = home / f"{name}.log"
        command = [sys.executable, "-m", "sandboxd", "serve", "--unix", str(self.socket), "--exit-with-stdin"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--state-dir", str(home / "state"), *args],
                stdin=subprocess.PIPE,
                stderr=log,
                env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
            )
        self.channel = grpc.insecure_channel(f"unix:{self.socket}")
        self.sandboxes = rpc.SandboxServiceStub(self.channel)
        self.execs = rpc.ExecServiceStub(self.channel)
        self.runner = rpc.RunnerServiceStub(self.channel)
        assert self.health(wait=True) == health_pb2.HealthCheckResponse.SERVING

    def health(self, *, wait: bool = False, service: str = "") -> int:
        stub = health_pb2_grpc.HealthStub(self.channel)
        asked = health_pb2.HealthCheckRequest(service=service)
        status: int = stub.Check(asked, timeout=DEADLINE, wait_for_ready=wait).status  # type: ignore[attr-defined]
        return status

    def create(self, name: str = "s1") -> None:
        spec = pb.SandboxSpec(backend=pb.LOCAL, allow_unenforced=True)
        self.sandboxes.Create(pb.CreateRequest(sandbox_id=name, run_id="r", owner_token=TOKEN, spec=spec))
        for state in self.sandboxes.Watch(pb.WatchRequest(sandbox_id=name), timeout=DEADLINE):
            if state.state == pb.READY:
                return
            assert state.state == pb.CREATING, state.error.message

    def start(self, script: str, exec_id: str = "e1", seconds: float = 60, name: str = "s1", limit: int = 0) -> None:
        spec = pb.ExecSpec(argv=["sh", "-c", script], output_limit=limit)
        spec.timeout.FromNanoseconds(int(1e9 * seconds))
        self.execs.Start(pb.StartRequest(sandbox_id=name, owner_token=TOKEN, exec_id=exec_id, spec=spec))

    def follow(self, exec_id: str = "e1", name: str = "s1") -> Iterator[pb.LogRecord]:
        asked = pb.ReadLogRequest(sandbox_id=name, exec_id=exec_id, follow=True)
        return self.execs.ReadLog(asked, timeout=120)

    def run(self, script: str, exec_id: str = "e1", seconds: float = 60, name: str = "s1") -> tuple[bytes, pb.Exit]:
        self.start(script, exec_id, seconds, name)
        *parts, last = self.follow(exec_id, name)
        return b"".join(part.data.data for part in parts), last.exit

    def end(self) -> int:
        self.channel.close()
        self.process.communicate(timeout=90)
        return self.process.returncode


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    started = Daemon(tmp_path)
    yield started
    started.process.kill()
    started.end()


@pytest.fixture
def marker() -> str:
    """A number of seconds that nothing else sleeps."""
    return f"8{int.from_bytes(os.urandom(4), 'big')}"


def sleepers(marker: str) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "cmdline").read_bytes() == b"sleep\0" + marker.encode() + b"\0":
                found.append(int(entry.name))
    return found


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_a_command_runs_in_an_environment_made_from_empty(daemon: Daemon) -> None:
    daemon.create()
    output, ended = daemon.run("env; echo out; echo err >&2; exit 3")
    names = {line.partition(b"=")[0] for line in output.splitlines() if b"=" in line}
    assert {b"PATH", b"HOME", b"TMPDIR", b"LANG", b"TERM", b"NO_COLOR"} <= names
    assert b"/nonexistent" not in output
    assert output.endswith(b"out\nerr\n")
    assert (ended.cause, ended.code) == (pb.EXITED, 3)


def test_at_its_timeout_everything_that_a_command_started_is_gone(daemon: Daemon, marker: str) -> None:
    daemon.create()
    script = f"(setsid sleep {marker} &) ; sleep {marker}"
    _, ended = daemon.run(script, seconds=0.5)
    assert ended.cause == pb.TIMED_OUT
    assert sleepers(marker) == []
    assert daemon.run("echo still here", "e2")[0] == b"still here\n"


@pytest.mark.parametrize("end", ["its parent is gone", "SIGKILL", "a second SIGTERM"])
def test_nothing_outlives_the_daemon(daemon: Daemon, marker: str, end: str) -> None:
    daemon.create()
    daemon.start(f"(setsid sleep {marker} &) ; sleep {marker}")
    until(lambda: len(sleepers(marker)) == 2, "the command did not start")
    records = daemon.follow()
    if end == "SIGKILL":
        daemon.process.kill()
    elif end == "a second SIGTERM":
        daemon.process.send_signal(signal.SIGTERM)
        until(lambda: b"stopping" in daemon.log.read_bytes(), "it does not stop")
        assert len(sleepers(marker)) == 2
        daemon.process.send_signal(signal.SIGTERM)
    else:
        assert daemon.process.stdin is not None
        daemon.process.stdin.close()
        daemon.process.stdin = None
    if end != "SIGKILL":
        # Who follows gets the end before the server goes.
        assert [record.exit.cause for record in records] == [pb.SANDBOX_DESTROYED]
    assert daemon.end() == (-signal.SIGKILL if end == "SIGKILL" else 0)
    until(lambda: not sleepers(marker), "processes are left")
    assert end == "SIGKILL" or not list((daemon.socket.parent / "state" / "instances").iterdir())


def test_what_a_killed_daemon_left_is_gone_after_the_next_start_and_is_told_as_lost(
    daemon: Daemon, tmp_path: Path
) -> None:
    daemon.create()
    daemon.process.kill()
    daemon.process.wait(30)
    (dead,) = (tmp_path / "state" / "instances").iterdir()
    second = Daemon(tmp_path, "second")
    try:
        with pytest.raises(grpc.RpcError) as caught:
            second.sandboxes.Get(pb.GetRequest(sandbox_id="s1"))
        assert "killed" in (caught.value.details() or "")
        until(lambda: not dead.exists(), "the dead instance's directory is left")
    finally:
        second.process.terminate()
        assert second.end() == 0


def test_two_daemons_side_by_side_leave_each_other_alone(daemon: Daemon, tmp_path: Path) -> None:
    second = Daemon(tmp_path, "second")
    daemon.create()
    second.create()
    assert daemon.run("echo one > f; cat f")[0] == b"one\n"
    assert second.run("cat f; echo two > f; cat f")[0].endswith(b"two\n")
    second.process.terminate()
    second.sandboxes.Destroy(pb.DestroyRequest(sandbox_id="s1", owner_token=TOKEN, wait=True))
    assert second.end() == 0
    assert daemon.run("cat f", "e2")[0] == b"one\n"


def test_sigterm_lets_what_runs_end_and_takes_no_more(daemon: Daemon) -> None:
    daemon.create()
    daemon.start("read line < go; echo $line")  # fails at once unless the pipe is there
    daemon.run("mkfifo pipe", "e2")
    daemon.start("cat pipe", "e3")
    daemon.process.terminate()
    until(lambda: daemon.health() == health_pb2.HealthCheckResponse.NOT_SERVING, "it goes on serving")
    with pytest.raises(grpc.RpcError) as caught:
        daemon.create("s2")
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    daemon.run("echo finished > pipe", "e4")
    assert b"".join(record.data.data for record in daemon.follow("e3")) == b"finished\n"
    daemon.sandboxes.Destroy(pb.DestroyRequest(sandbox_id="s1", owner_token=TOKEN, wait=True))
    assert daemon.end() == 0


def test_draining_ends_after_its_time(tmp_path: Path, marker: str) -> None:
    daemon = Daemon(tmp_path, "s", "--drain-seconds", "1")
    daemon.create()
    daemon.start(f"sleep {marker}")
    daemon.process.terminate()
    assert daemon.end() == 0
    assert sleepers(marker) == []


def test_each_service_has_its_health_and_a_drained_daemon_says_so(daemon: Daemon) -> None:
    services = [service.full_name for service in pb.DESCRIPTOR.services_by_name.values()]
    assert {daemon.health(service=name) for name in services} == {health_pb2.HealthCheckResponse.SERVING}
    daemon.runner.Drain(pb.DrainRequest())
    until(lambda: daemon.health() == health_pb2.HealthCheckResponse.NOT_SERVING, "it goes on serving")


def memory(pid: int) -> int:
    """Bytes of a process that are its own and in memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:"))


@pytest.mark.timeout(300)
def test_a_flood_that_nobody_reads_fast_neither_blocks_the_command_nor_fills_memory(daemon: Daemon) -> None:
    daemon.create()
    daemon.run("head -c 50000000 /dev/zero")
    before = memory(daemon.process.pid)
    daemon.start("head -c 2000000000 /dev/zero", "e2", limit=100_000_000)
    slow = daemon.follow("e2")
    assert next(slow).data.data  # and then it reads nothing for as long as the command writes
    until(lambda: not daemon.execs.Get(pb.GetExecRequest(sandbox_id="s1", exec_id="e2")).running, "it is blocked")
    assert memory(daemon.process.pid) - before < 30 << 20
    *_, gap, last = [record for record in slow if not record.HasField("data")]
    assert last.exit.output_bytes == 2_000_000_000
    assert gap.gap.to == 2_000_000_000 - 50_000_000
    assert last.exit.cut_bytes == 1_900_000_000


def test_the_log_has_a_line_for_each_call_with_its_code_and_no_body(daemon: Daemon) -> None:
    daemon.create()
    daemon.run("echo a-secret-of-the-command")
    with pytest.raises(grpc.RpcError):
        daemon.execs.Get(pb.GetExecRequest(sandbox_id="s1", exec_id="nothing"))
    lines = [json.loads(line) for line in daemon.log.read_text().splitlines()]
    calls = [line for line in lines if line["event"] == "call"]
    assert {"Create", "Watch", "Start", "ReadLog"} <= {line["method"] for line in calls}
    (refused,) = [line for line in calls if "reason" in line]
    assert (refused["code"], refused["reason"], refused["exec_id"]) == ("NOT_FOUND", "EXEC_UNKNOWN", "nothing")
    assert all({"method", "code", "ms", "bytes"} <= line.keys() for line in calls)
    assert "a-secret-of-the-command" not in daemon.log.read_text()
    assert TOKEN.decode() not in daemon.log.read_text()
