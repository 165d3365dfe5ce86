"""The client against a daemon that breaks: nothing lost, nothing twice, nothing that hangs."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import grpc
import pytest
from quickstarted.sandbox import calls, remote
from quickstarted.sandbox.base import CommandResult, SandboxError
from quickstarted.sandbox.client import Runner, Wanted
from quickstarted.sandbox.connect import from_path
from quickstarted.sandbox.remote import RemoteSandbox
from quickstarted_api.v1 import sandbox_pb2 as pb

from tests.support import fake_sandboxd as fake
from tests.support.fake_sandboxd import FakeDaemon, Fault

TEXT = "".join(f"line {i} é\n" for i in range(200))


@pytest.fixture
def socket() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:  # pytest's own paths are too long for a socket
        yield Path(directory) / "d.sock"


@pytest.fixture
async def daemon(socket: Path) -> AsyncIterator[FakeDaemon]:
    daemon = FakeDaemon()
    async with daemon.serve(socket):
        yield daemon


@pytest.fixture
async def runner(daemon: FakeDaemon, socket: Path) -> AsyncIterator[Runner]:
    async with await Runner.open(from_path(socket), run_id="run") as runner:
        yield runner


@pytest.fixture
async def sandbox(runner: Runner) -> AsyncIterator[RemoteSandbox]:
    sandbox = await runner.create(wanted())
    yield sandbox
    await sandbox.close()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "FIRST_BACKOFF", 0.005)
    monkeypatch.setattr(calls, "LAST_BACKOFF", 0.02)


def wanted(sandbox_id: str = "s") -> Wanted:
    return Wanted(sandbox_id, pb.SandboxSpec(backend=pb.DOCKER), lifetime=100)


async def run(sandbox: RemoteSandbox, command: str = "cmd") -> CommandResult:
    return await sandbox.run(command, seconds=60, max_chars=20_000)


async def test_facts_are_what_the_runner_honours(sandbox: RemoteSandbox) -> None:
    facts = sandbox.facts
    assert (facts.backend, facts.enforced, facts.image_digest) == ("docker", True, "sha256:0123")
    assert facts.runner.startswith("unix:")


async def test_output_and_exit_code(daemon: FakeDaemon, sandbox: RemoteSandbox) -> None:
    daemon.on_start = lambda _: fake.printing(TEXT.encode(), code=3)
    seen: list[str] = []
    result = await sandbox.run("cmd", seconds=60, max_chars=20_000, on_output=seen.append)
    assert (result.output, result.exit_code, result.cause, result.seconds) == (TEXT, 3, "EXITED", 0.5)
    assert "".join(seen) == TEXT
    assert not result.ok


CUTS = [
    ("nothing breaks", []),
    ("the stream breaks before the first byte", [Fault(after=0)]),
    ("the stream breaks between two bytes of a character", [Fault(after=1)]),
    ("the stream breaks three times", [Fault(after=1), Fault(after=2), Fault(after=50)]),
    ("the stream breaks before the exit record", [Fault(after=len(fake.printing(TEXT.encode())) - 1)]),
    ("the stream is cancelled by the runner", [Fault(grpc.StatusCode.CANCELLED, after=3)]),
    ("the runner is starting again", [Fault(reason="STARTING", after=3)]),
]


@pytest.mark.parametrize("faults", [row[1] for row in CUTS], ids=[row[0] for row in CUTS])
async def test_output_is_whole_and_no_byte_comes_twice_when(
    daemon: FakeDaemon, sandbox: RemoteSandbox, faults: list[Fault]
) -> None:
    daemon.on_start = lambda _: fake.printing(TEXT.encode())
    daemon.faults["ReadLog"] = [Fault(one.code, one.reason, after=one.after) for one in faults]
    assert (await run(sandbox)).output == TEXT
    assert len(daemon.calls["ReadLog"]) == len(faults) + 1
    assert len(daemon.calls["Start"]) == 1


async def test_bytes_that_the_runner_cut_are_told(daemon: FakeDaemon, sandbox: RemoteSandbox) -> None:
    daemon.on_start = lambda _: [fake.data(0, b"head\n"), fake.gap(5, 1005), fake.data(1005, b"tail\n"), fake.ended()]
    result = await run(sandbox)
    assert result.output == "head\n[... 1,000 bytes cut ...]\ntail\n"
    assert (result.truncated, result.output_chars) == (True, 1010)


async def test_bytes_that_never_came_are_told(daemon: FakeDaemon, sandbox: RemoteSandbox) -> None:
    daemon.on_start = lambda _: [fake.data(0, b"head\n"), fake.data(25, b"tail\n"), fake.ended()]
    assert "20 bytes cut" in (await run(sandbox)).output


async def test_bytes_that_come_twice_are_dropped(daemon: FakeDaemon, sandbox: RemoteSandbox) -> None:
    daemon.on_start = lambda _: [fake.data(0, b"abc"), fake.data(0, b"ab"), fake.data(1, b"bcde"), fake.ended()]
    result = await run(sandbox)
    assert (result.output, result.truncated) == ("abcde", False)


async def test_a_silent_stream_is_opened_anew(
    daemon: FakeDaemon, sandbox: RemoteSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "SILENCE_SECONDS", 0.05)
    daemon.on_start = lambda _: [fake.data(0, b"x")]
    command = asyncio.create_task(run(sandbox))
    while len(daemon.calls["ReadLog"]) < 3:  # noqa: ASYNC110 - the fake has no event for it; the deadline is pytest's
        await asyncio.sleep(0.01)
    daemon.hanging.set()
    assert (await command).output == "x"


async def test_a_start_that_was_not_answered_is_sent_again_with_its_id(
    daemon: FakeDaemon, sandbox: RemoteSandbox
) -> None:
    daemon.on_start = lambda _: fake.printing(b"once")
    daemon.faults["Start"] = [Fault(times=2)]
    assert (await run(sandbox)).output == "once"
    assert {request.exec_id for request in daemon.calls["Start"]} == {"exec-1"}


async def test_a_command_that_passed_its_limit_has_code_124(daemon: FakeDaemon, sandbox: RemoteSandbox) -> None:
    daemon.on_start = lambda _: [fake.ended(137, pb.TIMED_OUT)]
    result = await run(sandbox)
    assert (result.exit_code, result.cause, result.ok) == (124, "TIMED_OUT", False)


async def test_the_limits_of_a_command_reach_the_runner(daemon: FakeDaemon, sandbox: RemoteSandbox) -> None:
    await sandbox.run("cmd", seconds=12.5, max_chars=50_000)
    spec = daemon.calls["Start"][0].spec
    assert spec.timeout.ToTimedelta().total_seconds() == 12.5
    assert spec.output_limit == 200_000
    assert spec.argv[0] == "/bin/bash"


async def test_text_that_no_shell_takes_is_a_result(daemon: FakeDaemon, sandbox: RemoteSandbox) -> None:
    result = await run(sandbox, "echo \0")
    assert (result.exit_code, result.cause) == (126, "START_FAILED")
    assert "NUL" in result.output
    assert not daemon.calls["Start"]


GONE = [
    (pb.EXEC_LEASE_EXPIRED, "LEASE_EXPIRED"),
    (pb.SANDBOX_DESTROYED, "SANDBOX_LOST"),
    (pb.EXEC_SANDBOX_LOST, "SANDBOX_LOST"),
]


@pytest.mark.parametrize(("cause", "reason"), GONE, ids=[pb.ExitCause.Name(row[0]) for row in GONE])
async def test_a_command_whose_sandbox_went_away_is_an_error(
    daemon: FakeDaemon, sandbox: RemoteSandbox, cause: pb.ExitCause.ValueType, reason: str
) -> None:
    daemon.on_start = lambda _: [fake.ended(137, cause)]
    with pytest.raises(SandboxError) as caught:
        await run(sandbox)
    assert caught.value.reason == reason


async def test_an_error_with_a_reason_ends_a_command_at_once(daemon: FakeDaemon, sandbox: RemoteSandbox) -> None:
    daemon.faults["ReadLog"] = [Fault(grpc.StatusCode.DATA_LOSS, "LOG_CORRUPT", "bad record")]
    with pytest.raises(SandboxError, match="bad record") as caught:
        await run(sandbox)
    assert caught.value.reason == "LOG_CORRUPT"
    assert len(daemon.calls["ReadLog"]) == 1


async def test_cancelling_a_command_ends_everything_that_it_started(daemon: FakeDaemon, sandbox: RemoteSandbox) -> None:
    daemon.on_start = lambda _: [fake.data(0, b"x")]
    printed = asyncio.Event()
    command = asyncio.create_task(sandbox.run("cmd", seconds=60, max_chars=1000, on_output=lambda _: printed.set()))
    await printed.wait()
    command.cancel()
    with pytest.raises(asyncio.CancelledError):
        await command
    (request,) = daemon.calls["Signal"]
    assert (request.exec_id, request.signal, request.everything) == ("exec-1", 9, True)


async def test_events_come_in_order_and_once_whatever_breaks(daemon: FakeDaemon, sandbox: RemoteSandbox) -> None:
    hosts = [f"h{i}.test" for i in range(20)]
    daemon.faults["Stream"] = [Fault(after=0), Fault(after=3), Fault(after=5)]
    await daemon.emit(*(fake.egress(host, pb.ALLOWED, pb.REGISTRY_HOST) for host in hosts))
    async with aclosing(sandbox.events()) as events:
        seen = [(await anext(events)).egress.host for _ in hosts]
    assert seen == hosts
    assert [request.after_seq for request in daemon.calls["Stream"]] == [0, 0, 3, 8]


async def test_events_that_come_twice_are_dropped(
    daemon: FakeDaemon, sandbox: RemoteSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    from_the_first = daemon._events_after
    monkeypatch.setattr(daemon, "_events_after", lambda _: from_the_first(0))
    daemon.faults["Stream"] = [Fault(after=2)]
    await daemon.emit(*(fake.egress(f"{i}.test", pb.ALLOWED, pb.REGISTRY_HOST) for i in range(4)))
    async with aclosing(sandbox.events()) as events:
        assert [(await anext(events)).seq for _ in range(4)] == [1, 2, 3, 4]


async def test_settling_waits_until_the_consumer_had_every_event(daemon: FakeDaemon, sandbox: RemoteSandbox) -> None:
    seen: list[str] = []

    async def consume() -> None:
        async for event in sandbox.events():
            await asyncio.sleep(0.01)
            seen.append(event.egress.host)

    consumer = asyncio.create_task(consume())
    await daemon.emit(*(fake.egress(f"{i}.test", pb.ALLOWED, pb.REGISTRY_HOST) for i in range(5)))
    await sandbox.settle_events()
    assert len(seen) == 5
    await sandbox.close()
    await consumer


async def test_settling_without_events_that_come_is_an_error(
    daemon: FakeDaemon, sandbox: RemoteSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "SETTLE_SECONDS", 0.05)
    await daemon.emit(fake.egress("a.test", pb.ALLOWED, pb.REGISTRY_HOST))
    with pytest.raises(SandboxError, match="events"):
        await sandbox.settle_events()


async def test_the_events_end_with_the_sandbox(daemon: FakeDaemon, sandbox: RemoteSandbox) -> None:
    await daemon.emit(fake.egress("a.test", pb.ALLOWED, pb.REGISTRY_HOST))
    await sandbox.close()
    assert [event.egress.host async for event in sandbox.events()] == ["a.test"]


async def test_closing_twice_destroys_once_and_waits(daemon: FakeDaemon, runner: Runner) -> None:
    sandbox = await runner.create(wanted())
    await sandbox.close()
    await sandbox.close()
    (request,) = daemon.calls["Destroy"]
    assert request.wait
    assert len(request.owner_token) >= 16


@pytest.mark.parametrize("reason", ["SANDBOX_UNKNOWN", "LEASE_EXPIRED", "SANDBOX_LOST"])
async def test_closing_what_is_gone_is_no_error(daemon: FakeDaemon, runner: Runner, reason: str) -> None:
    sandbox = await runner.create(wanted())
    daemon.faults["Destroy"] = [Fault(grpc.StatusCode.NOT_FOUND, reason)]
    await sandbox.close()


async def test_cancelling_a_close_still_destroys(daemon: FakeDaemon, runner: Runner) -> None:
    sandbox = await runner.create(wanted())
    daemon.faults["Destroy"] = [Fault(times=3)]
    closing = asyncio.create_task(sandbox.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert len(daemon.calls["Destroy"]) == 4


async def test_a_full_runner_is_waited_for_and_said_once(daemon: FakeDaemon, runner: Runner) -> None:
    daemon.faults["Create"] = [
        Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, "NO_SLOT", "2 of 2 slots are in use", retry_after=0.01, times=3)
    ]
    told: list[str] = []
    sandbox = await runner.create(wanted(), told.append)
    assert told == ["2 of 2 slots are in use"]
    assert len(daemon.calls["Create"]) == 4
    await sandbox.close()


REFUSALS = [
    (grpc.StatusCode.FAILED_PRECONDITION, "BACKEND_UNSUPPORTED"),
    (grpc.StatusCode.FAILED_PRECONDITION, "ISOLATION_UNAVAILABLE"),
    (grpc.StatusCode.INVALID_ARGUMENT, "SPEC_INVALID"),
]


@pytest.mark.parametrize(("code", "reason"), REFUSALS, ids=[row[1] for row in REFUSALS])
async def test_a_refused_create_is_an_error_with_its_reason(
    daemon: FakeDaemon, runner: Runner, code: grpc.StatusCode, reason: str
) -> None:
    daemon.faults["Create"] = [Fault(code, reason, "no", {"remedy": "do this"})]
    with pytest.raises(SandboxError, match="no") as caught:
        await runner.create(wanted())
    assert (caught.value.reason, caught.value.metadata) == (reason, {"remedy": "do this"})
    assert len(daemon.calls["Create"]) == 1


async def test_a_sandbox_that_fails_while_it_is_made_tells_why(daemon: FakeDaemon, runner: Runner) -> None:
    failure = pb.Failure(reason=pb.IMAGE_UNAVAILABLE, message="no such image", metadata={"image": "x"})
    daemon.states = [pb.Sandbox(state=pb.CREATING), pb.Sandbox(state=pb.FAILED, error=failure)]
    with pytest.raises(SandboxError, match="no such image") as caught:
        await runner.create(wanted())
    assert caught.value.reason == "IMAGE_UNAVAILABLE"
    assert daemon.calls["Destroy"]


async def test_a_watch_that_breaks_goes_on(daemon: FakeDaemon, runner: Runner) -> None:
    daemon.states = [pb.Sandbox(state=pb.CREATING), fake.ready()]
    daemon.faults["Watch"] = [Fault(after=1)]
    sandbox = await runner.create(wanted())
    assert len(daemon.calls["Watch"]) == 2
    await sandbox.close()


async def test_cancelling_a_create_destroys_what_was_made(daemon: FakeDaemon, runner: Runner) -> None:
    daemon.states = [pb.Sandbox(state=pb.CREATING)]
    creating = asyncio.create_task(runner.create(wanted()))
    while not daemon.calls["Watch"]:  # noqa: ASYNC110 - the fake has no event for it; the deadline is pytest's
        await asyncio.sleep(0.01)
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    assert [request.sandbox_id for request in daemon.calls["Destroy"]] == ["s"]


async def test_leases_are_renewed_in_one_batch(daemon: FakeDaemon, socket: Path) -> None:
    async with await Runner.open(from_path(socket), run_id="run", lease_seconds=0.06) as runner:
        sandboxes = [await runner.create(wanted(f"s{i}")) for i in range(3)]
        start = len(daemon.calls["RenewLeases"])
        while len(daemon.calls["RenewLeases"]) < start + 2:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        for sandbox in sandboxes:
            await sandbox.close()
    assert set(daemon.calls["RenewLeases"][-1].sandbox_ids) == {"s0", "s1", "s2"}


async def test_a_fenced_owner_loses_its_sandbox_and_no_other(daemon: FakeDaemon, socket: Path) -> None:
    stale = pb.Failure(reason=pb.STALE_OWNER, message="another controller has it")
    daemon.renewal = lambda sandbox_id: stale if sandbox_id == "s1" else None
    daemon.on_start = lambda _: []
    async with await Runner.open(from_path(socket), run_id="run", lease_seconds=0.06) as runner:
        kept, fenced = await runner.create(wanted("s0")), await runner.create(wanted("s1"))
        while fenced.link.lost is None:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        assert fenced.link.lost.reason == "STALE_OWNER"
        assert kept.link.lost is None
        daemon.faults["ReadLog"] = [Fault()]
        with pytest.raises(SandboxError, match="another controller"):
            await run(fenced)
        await kept.close()


async def test_leases_outlive_an_outage_that_is_shorter_than_they_are(daemon: FakeDaemon, socket: Path) -> None:
    async with await Runner.open(from_path(socket), run_id="run", lease_seconds=30) as runner:
        sandbox = await runner.create(wanted())
        runner.lease_seconds = 0.03  # renew fast, judge by the real lease
        sandbox.renewed += 30
        daemon.faults["RenewLeases"] = [Fault(times=2)]
        runner._keeper and runner._keeper.cancel()
        runner._keeper = None
        runner._lease(sandbox)
        while len(daemon.calls["RenewLeases"]) < 4:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        assert sandbox.link.lost is None
        await sandbox.close()


async def test_a_runner_that_is_gone_ends_everything_at_once(daemon: FakeDaemon, runner: Runner) -> None:
    sandbox = await runner.create(wanted())
    daemon.on_start = lambda _: [fake.data(0, b"x")]
    command = asyncio.create_task(run(sandbox))
    while not daemon.calls["ReadLog"]:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.01)
    runner.lose(SandboxError("SANDBOX_LOST", "sandboxd died"))
    await daemon.stop()
    with pytest.raises(SandboxError, match="sandboxd died"):
        await command
    with pytest.raises(SandboxError, match="sandboxd died"):
        await sandbox.close()


async def test_versions_that_do_not_meet_are_one_line_with_both(daemon: FakeDaemon, socket: Path) -> None:
    daemon.info.api_min, daemon.info.api_max, daemon.info.software_version = 7, 9, "4.2"
    with pytest.raises(SandboxError, match=r"4\.2.*7 to 9.*1 to 1") as caught:
        await Runner.open(from_path(socket), run_id="run")
    assert caught.value.reason == "API_RANGE"


async def test_nobody_at_the_address_is_an_error_in_time(socket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "TRIES_SECONDS", 0.1)
    socket.touch()
    with pytest.raises(SandboxError, match="does not answer") as caught:
        await Runner.open(from_path(socket), run_id="run")
    assert caught.value.reason == "SANDBOX_LOST"


async def test_no_socket_at_the_address_is_an_error_at_once(socket: Path) -> None:
    with pytest.raises(SandboxError, match="there is no socket") as caught:
        await Runner.open(from_path(socket), run_id="run")
    assert caught.value.reason == "BACKEND_DOWN"
