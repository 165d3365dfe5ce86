"""Commands over a real socket: started once, timed by the daemon, their output a log, every end with its cause."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable

import grpc
import pytest
from quickstarted_api.v1 import sandbox_pb2 as pb
from sandboxd.backends.base import BackendError, Exited, LimitHit, Stream

from sandboxd import commands
from tests.support.daemon import TOKEN, Daemon
from tests.support.refusals import events, reason, refused


async def test_a_commands_output_and_exit_are_a_log(daemon: Daemon) -> None:
    await daemon.create()
    await daemon.start("both")
    first, second, last = await daemon.log()
    assert (first.data.stream, first.data.data, first.data.offset) == (pb.STDOUT, b"out", 0)
    assert (second.data.stream, second.data.data, second.data.offset) == (pb.STDERR, b"err", 3)
    assert (last.exit.cause, last.exit.code, last.exit.output_bytes) == (pb.EXITED, 3, 6)


async def test_a_command_is_never_run_twice(daemon: Daemon) -> None:
    await daemon.create()
    for _ in range(3):
        await daemon.start("say", "once")
    assert len(daemon.made().commands) == 1
    assert await reason(daemon.start("say", "other")) == "ID_REUSED"


async def test_concurrent_starts_of_one_id_run_one_command(daemon: Daemon) -> None:
    await daemon.create()
    await asyncio.gather(*(daemon.start("say", "once") for _ in range(20)))
    assert len(daemon.made().commands) == 1


async def test_a_stream_that_is_cut_resumes_without_a_lost_or_a_doubled_byte(daemon: Daemon) -> None:
    await daemon.create()
    await daemon.start("flood", "3000000")
    digest, offset, cuts = hashlib.sha256(), 0, 0
    while True:
        call = daemon.execs.ReadLog(pb.ReadLogRequest(sandbox_id="s1", exec_id="e1", offset=offset, follow=True))
        async for record in call:
            if record.HasField("exit"):
                assert (offset, cuts) == (3_000_000, 9)
                assert digest.digest() == hashlib.sha256(bytes(3_000_000)).digest()
                return
            digest.update(record.data.data)
            offset += len(record.data.data)
            if offset > 300_000 * (cuts + 1):
                cuts += 1
                call.cancel()
                break


async def test_output_past_its_limit_has_a_gap_and_an_event(daemon: Daemon) -> None:
    await daemon.create()
    spec = pb.ExecSpec(argv=["flood", "500000"], output_limit=100_000)
    spec.timeout.FromSeconds(60)
    await daemon.execs.Start(pb.StartRequest(sandbox_id="s1", owner_token=TOKEN, exec_id="e1", spec=spec))
    records = await daemon.log()
    (gap,) = [record.gap for record in records if record.HasField("gap")]
    assert gap.to - getattr(gap, "from") == 400_000
    assert records[-1].exit.cut_bytes == 400_000
    limit = (await events(daemon, 2))[1].limit
    assert (limit.kind, limit.value) == (pb.LimitReached.OUTPUT, 100_000)


@pytest.mark.parametrize(("offset", "why"), [(4, "OFFSET_BEYOND_END"), (1 << 40, "OFFSET_BEYOND_END")])
async def test_an_offset_beyond_the_end_is_out_of_range(daemon: Daemon, offset: int, why: str) -> None:
    await daemon.create()
    await daemon.start("say", "abc")
    await daemon.log()
    assert await reason(daemon.log(offset)) == why
    assert [record.HasField("exit") for record in await daemon.log(3)] == [True]


async def test_without_following_a_read_ends_at_what_is_there(daemon: Daemon) -> None:
    await daemon.create()
    await daemon.start("wait")
    assert await daemon.log(follow=False) == []


async def test_a_program_that_is_not_there_is_an_exit_not_an_error(daemon: Daemon) -> None:
    await daemon.create()
    await daemon.start("missing")
    exited = (await daemon.log())[-1].exit
    assert (exited.cause, exited.code, exited.message) == (pb.START_FAILED, 127, "no such program: missing")


async def test_a_command_past_its_time_is_ended_and_says_so(daemon: Daemon) -> None:
    await daemon.create()
    await daemon.start("wait", seconds=0.05)
    exited = (await daemon.log())[-1].exit
    assert (exited.cause, exited.code) == (pb.TIMED_OUT, 137)
    limit = (await events(daemon, 2))[1]
    assert (limit.limit.kind, limit.limit.value, limit.exec_id) == (pb.LimitReached.TIME, 50, "e1")


async def test_a_command_that_can_not_be_ended_ends_the_sandbox(daemon: Daemon) -> None:
    await daemon.create()
    await daemon.start("stuck", seconds=0.05)
    sandbox = await daemon.until("s1", pb.LOST)
    assert "could not be ended" in sandbox.error.message
    assert daemon.made().destroyed == 1


async def test_a_signal_reaches_the_command_and_its_cause_is_told(daemon: Daemon) -> None:
    await daemon.create()
    await daemon.start("wait")
    asked = pb.SignalRequest(sandbox_id="s1", owner_token=TOKEN, exec_id="e1", signal=15)
    await daemon.execs.Signal(asked)
    exited = (await daemon.log())[-1].exit
    assert (exited.cause, exited.code, exited.signal) == (pb.SIGNALED_BY_CLIENT, 143, 15)
    assert (await daemon.execs.Signal(asked)).exit == exited


async def test_a_command_that_takes_a_signal_and_runs_into_its_timeout_timed_out(daemon: Daemon) -> None:
    await daemon.create()
    await daemon.start("deaf", seconds=0.2)
    await daemon.execs.Signal(pb.SignalRequest(sandbox_id="s1", owner_token=TOKEN, exec_id="e1", signal=15))
    assert (await daemon.log())[-1].exit.cause == pb.TIMED_OUT


async def test_a_signal_that_ends_nothing_is_no_cause(daemon: Daemon) -> None:
    await daemon.create()
    await daemon.start("deaf")
    await daemon.execs.Signal(pb.SignalRequest(sandbox_id="s1", owner_token=TOKEN, exec_id="e1", signal=10))
    daemon.made().commands[0].end(Exited(0))
    assert (await daemon.log())[-1].exit.cause == pb.EXITED


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "cause"),
    [(137, pb.OOM_KILLED), (0, pb.EXITED), (1, pb.EXITED)],
    ids=["killed", "it went well", "it failed by itself"],
)
async def test_a_memory_limit_is_a_commands_cause_only_when_it_was_killed(
    daemon: Daemon, code: int, cause: pb.ExitCause.ValueType
) -> None:
    await daemon.create()
    await daemon.start("wait")
    daemon.made().hits.put_nowait(LimitHit("memory", 1 << 30))
    told = await events(daemon, 2)
    assert (told[1].limit.kind, told[1].limit.value, told[1].exec_id) == (pb.LimitReached.MEMORY, 1 << 30, "e1")
    daemon.made().commands[0].end(Exited(code))
    assert (await daemon.log())[-1].exit.cause == cause


async def test_a_full_disk_ends_every_writer_and_the_sandbox_stays_usable(daemon: Daemon) -> None:
    await daemon.create()
    await daemon.start("exit", "0", exec_id="server")
    await daemon.start("wait")
    daemon.made().hits.put_nowait(LimitHit("disk", 1 << 30))
    exited = (await daemon.log())[-1].exit
    assert (exited.cause, exited.code) == (pb.DISK_LIMIT, 137)
    assert "1073741824 bytes" in exited.message
    assert [limit.limit.kind for limit in (await events(daemon, 2))[1:]] == [pb.LimitReached.DISK]
    await daemon.start("exit", "0", exec_id="e2")
    assert (await daemon.log(exec_id="e2"))[-1].exit.cause == pb.EXITED
    # What an earlier command left running may be what writes.
    assert [command.kills for command in daemon.made().commands] == [1, 1, 0]


async def test_past_so_many_commands_a_sandbox_takes_no_more(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "MAX_COMMANDS", 2)
    await daemon.create()
    for name in ("a", "b"):
        await daemon.start("exit", "0", exec_id=name)
    code, why, *_ = await refused(daemon.start("exit", "0", exec_id="c"))
    assert (code, why) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_PER_OWNER")
    assert (await daemon.start("exit", "0", exec_id="a")).exec_id == "a"


async def test_the_oldest_output_goes_when_a_sandbox_keeps_too_much(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "MAX_KEPT_BYTES", 250_000)
    await daemon.create()
    for name in ("a", "b", "c"):
        await daemon.start("flood", "100000", exec_id=name)
        await daemon.log(exec_id=name)
    first = await daemon.log(exec_id="a")
    assert [record.WhichOneof("record") for record in first] == ["gap", "exit"]
    assert first[0].gap.to == first[1].exit.output_bytes == 100_000
    assert sum(len(record.data.data) for record in await daemon.log(exec_id="b")) == 100_000


# --- a backend that fails ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (BackendError("BACKEND_DOWN", "the engine does not answer"), "could not be started: the engine does not"),
        (LookupError("a bug"), "an unexpected error of the daemon: LookupError"),
    ],
    ids=["an engine that is down", "a bug"],
)
async def test_a_command_that_a_backend_can_not_start_is_lost_with_its_sandbox(
    daemon: Daemon, error: Exception, message: str
) -> None:
    await daemon.create()

    async def broken(*_: object) -> None:
        raise error

    daemon.made().start = broken  # type: ignore[assignment, method-assign] # a backend in trouble
    await daemon.start("exit", "0")
    exited = (await daemon.log())[-1].exit
    assert exited.cause == pb.EXEC_SANDBOX_LOST
    assert message in exited.message
    assert (await daemon.until("s1", pb.LOST)).state == pb.LOST


async def test_a_backend_that_never_answers_a_start_costs_the_sandbox_not_the_daemon(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "START_SECONDS", 0.05)
    await daemon.create()

    async def silent(*_: object) -> None:
        await asyncio.Event().wait()

    daemon.made().start = silent  # type: ignore[assignment, method-assign] # a backend that hangs
    await daemon.start("exit", "0")
    assert (await daemon.log())[-1].exit.cause == pb.EXEC_SANDBOX_LOST
    assert (await daemon.until("s1", pb.LOST)).state == pb.LOST


async def test_a_disk_without_room_for_output_is_told_with_the_exit(daemon: Daemon) -> None:
    await daemon.create()
    await daemon.start("wait")
    log = daemon.registry.get("s1", "local").known_commands().get("e1").log
    os.close(log._file)
    log._file = os.open("/dev/full", os.O_WRONLY)
    running = daemon.made().commands[0]
    running.sink.write(Stream.STDOUT, b"lost")
    running.end(Exited(0))
    gap, exited = await daemon.log()
    assert (gap.gap.to, exited.exit.cut_bytes) == (4, 4)
    assert exited.exit.message == "its output could not be kept: No space left on device"


# --- bad requests -----------------------------------------------------------------------------------------------------


BAD_STARTS = [
    pytest.param({"argv": []}, "spec.argv", id="nothing to run"),
    pytest.param({"argv": ["x"] * 5000}, "spec.argv", id="too many words"),
    pytest.param({"argv": ["x" * 200_000]}, "spec.argv", id="K16 a huge word"),
    pytest.param({"argv": ["a\0b"]}, "spec.argv", id="K16 NUL in a word"),
    pytest.param({"argv": ["x"], "env": {"A=B": "1"}}, "spec.env", id="a variable with ="),
    pytest.param({"argv": ["x"], "env": {f"A{n}": "" for n in range(300)}}, "spec.env", id="too many variables"),
    pytest.param({"argv": ["x"], "stdin": bytes(70_000)}, "spec.stdin", id="too much input"),
    pytest.param({"argv": ["x"], "cwd": "a\0"}, "spec.cwd", id="NUL in the directory"),
]


@pytest.mark.parametrize(("fields", "field"), BAD_STARTS)
async def test_a_bad_start_names_its_field(daemon: Daemon, fields: dict[str, object], field: str) -> None:
    await daemon.create()
    spec = pb.ExecSpec(**fields)  # type: ignore[arg-type] # as each row says
    spec.timeout.FromSeconds(1)
    asked = pb.StartRequest(sandbox_id="s1", owner_token=TOKEN, exec_id="e1", spec=spec)
    code, why, metadata, _ = await refused(daemon.execs.Start(asked))
    assert (code, why, metadata["field"]) == (grpc.StatusCode.INVALID_ARGUMENT, "SPEC_INVALID", field)


async def test_a_timeout_is_required(daemon: Daemon) -> None:
    await daemon.create()
    assert (await refused(daemon.start("exit", "0", seconds=0)))[2]["field"] == "spec.timeout"


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda d: d.sandboxes.Get(pb.GetRequest(sandbox_id="no")), "SANDBOX_UNKNOWN"),
        (lambda d: d.execs.Get(pb.GetExecRequest(sandbox_id="s1", exec_id="no")), "EXEC_UNKNOWN"),
        (lambda d: d.start("exit", "0", name="no"), "SANDBOX_UNKNOWN"),
    ],
    ids=["a sandbox", "a command", "a command in no sandbox"],
)
async def test_what_is_not_there_is_not_found(
    daemon: Daemon, call: Callable[[Daemon], Awaitable[object]], why: str
) -> None:
    await daemon.create()
    code, told, *_ = await refused(call(daemon))
    assert (code, told) == (grpc.StatusCode.NOT_FOUND, why)
