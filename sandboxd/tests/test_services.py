"""The contract's behaviours over a real socket: every call by id, every refusal with its reason."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator

import grpc
import pytest
from quickstarted_api.v1 import sandbox_pb2 as pb
from sandboxd.backends.base import Availability

from tests.support.daemon import TOKEN, Daemon
from tests.support.refusals import events, reason, refused

OTHER = b"another token of 32 bytes, really"


# --- creating ---------------------------------------------------------------------------------------------------------


async def test_a_sandbox_becomes_ready_and_tells_what_is_honoured(daemon: Daemon) -> None:
    sandbox = await daemon.create(labels={"task": "t"})
    assert sandbox.state == pb.READY
    assert (sandbox.backend, sandbox.enforced, sandbox.workspace) == (pb.BUBBLEWRAP, True, "/workspace")
    assert sandbox.resources.memory_bytes > 0
    assert sandbox.labels == {"task": "t"}
    assert sandbox.generation == 1
    assert {"create", "plant", "self_test"} <= set(sandbox.timings)


async def test_the_same_id_and_spec_is_the_same_sandbox_and_another_spec_is_refused(daemon: Daemon) -> None:
    await daemon.create()
    await daemon.create()
    assert len(daemon.backend.made) == 1
    code, why, *_ = await refused(daemon.create(image="other", ready=False))
    assert (code, why) == (grpc.StatusCode.ALREADY_EXISTS, "ID_REUSED")


async def test_another_owners_repeat_is_not_answered_with_the_sandbox(daemon: Daemon) -> None:
    await daemon.create()
    asked = pb.CreateRequest(sandbox_id="s1", run_id="run", owner_token=OTHER, spec=pb.SandboxSpec())
    assert await reason(daemon.sandboxes.Create(asked)) == "NOT_OWNER"


async def test_past_the_slots_a_create_is_refused_with_the_time_to_wait(daemon: Daemon) -> None:
    for name in ("s1", "s2", "s3"):
        await daemon.create(name)
    code, why, _, wait = await refused(daemon.create("s4"))
    assert (code, why, wait) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "NO_SLOT", 1.0)
    await daemon.sandboxes.Destroy(pb.DestroyRequest(sandbox_id="s1", owner_token=TOKEN, wait=True))
    assert (await daemon.create("s4")).state == pb.READY


async def test_concurrent_creates_of_one_id_make_one_sandbox(daemon: Daemon) -> None:
    await asyncio.gather(*(daemon.create() for _ in range(20)))
    assert len(daemon.backend.made) == 1


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        pytest.param({"image": "none"}, "IMAGE_UNAVAILABLE", id="an image that is not there"),
        pytest.param({"image": "leaky"}, "ISOLATION_UNAVAILABLE", id="a sandbox that is not closed"),
    ],
)
async def test_what_can_not_be_made_fails_with_its_reason_and_leaves_nothing(
    daemon: Daemon, spec: dict[str, str], why: str
) -> None:
    await daemon.create(ready=False, **spec)
    sandbox = await daemon.until("s1", pb.FAILED)
    assert (sandbox.state, pb.Reason.Name(sandbox.error.reason)) == (pb.FAILED, why)
    assert all(made.destroyed for made in daemon.backend.made)
    assert await reason(daemon.start("exit", "0")) == why


async def test_the_local_backend_needs_a_persons_consent(daemon: Daemon) -> None:
    code, why, metadata, _ = await refused(daemon.create(backend=pb.LOCAL, ready=False))
    assert (code, why) == (grpc.StatusCode.FAILED_PRECONDITION, "ISOLATION_UNAVAILABLE")
    assert "--allow-unenforced" in metadata["remedy"]
    sandbox = await daemon.create(backend=pb.LOCAL, allow_unenforced=True)
    assert (sandbox.backend, sandbox.enforced) == (pb.LOCAL, False)


async def test_auto_never_means_an_unenforced_backend(daemon: Daemon) -> None:
    daemon.backend.available = Availability(False, "no user namespaces", "allow them")
    _, why, metadata, _ = await refused(daemon.create(allow_unenforced=True, ready=False))
    assert why == "BACKEND_UNSUPPORTED"
    assert metadata == {"why": "bubblewrap: no user namespaces", "remedy": "allow them"}


async def test_a_backend_that_this_host_has_not_is_refused_not_replaced(daemon: Daemon) -> None:
    assert await reason(daemon.create(backend=pb.DOCKER, ready=False)) == "BACKEND_UNSUPPORTED"


BAD_CREATES = [
    pytest.param({"sandbox_id": "../x"}, "sandbox_id", id="an id that is a path"),
    pytest.param({"sandbox_id": ""}, "sandbox_id", id="no id"),
    pytest.param({"sandbox_id": "x" * 101}, "sandbox_id", id="a long id"),
    pytest.param({"run_id": "a b"}, "run_id", id="a run with a space"),
    pytest.param({"owner_token": b"short"}, "owner_token", id="a token that can be guessed"),
    pytest.param({"spec": pb.SandboxSpec(image="a b")}, "spec.image", id="an image with a space"),
    pytest.param(
        {"spec": pb.SandboxSpec(network=pb.NetworkPolicy(docs_hosts=["*.test"]))},
        "spec.network.docs_hosts[0]",
        id="a host that is a pattern",
    ),
    pytest.param(
        {"spec": pb.SandboxSpec(network=pb.NetworkPolicy(registry_hosts=["ok.test", "UPPER.test"]))},
        "spec.network.registry_hosts[1]",
        id="a host that is not canonical",
    ),
]


@pytest.mark.parametrize(("fields", "field"), BAD_CREATES)
async def test_a_bad_create_names_its_field(daemon: Daemon, fields: dict[str, object], field: str) -> None:
    good: dict[str, object] = {"sandbox_id": "s1", "run_id": "run", "owner_token": TOKEN, "spec": pb.SandboxSpec()}
    asked = pb.CreateRequest(**(good | fields))  # type: ignore[arg-type] # as each row says
    code, why, metadata, _ = await refused(daemon.sandboxes.Create(asked))
    assert (code, why, metadata["field"]) == (grpc.StatusCode.INVALID_ARGUMENT, "SPEC_INVALID", field)


async def test_a_feature_that_is_not_known_is_unimplemented(daemon: Daemon) -> None:
    code, why, *_ = await refused(daemon.create(required_features=["teleport"], ready=False))
    assert (code, why) == (grpc.StatusCode.UNIMPLEMENTED, "FEATURE_UNKNOWN")
    assert await reason(daemon.create(backend=99, ready=False)) == "FEATURE_UNKNOWN"


# --- ends -------------------------------------------------------------------------------------------------------------


async def destroy(daemon: Daemon, name: str = "s1", token: bytes = TOKEN) -> pb.Sandbox:
    return await daemon.sandboxes.Destroy(pb.DestroyRequest(sandbox_id=name, owner_token=token, wait=True))


async def test_destroy_is_idempotent_and_ends_what_runs(daemon: Daemon) -> None:
    await daemon.create()
    await daemon.start("wait")
    assert (await destroy(daemon)).state == pb.DESTROYED
    assert (await destroy(daemon)).state == pb.DESTROYED
    assert daemon.made().destroyed == 1
    exited = (await daemon.log())[-1].exit
    assert exited.cause == pb.SANDBOX_DESTROYED


async def test_a_destroy_before_its_create_leaves_a_tombstone(daemon: Daemon) -> None:
    await destroy(daemon, "late")
    code, why, *_ = await refused(daemon.create("late", ready=False))
    assert (code, why) == (grpc.StatusCode.ABORTED, "TOMBSTONED")


async def test_a_destroy_while_it_is_being_made_stops_the_making(daemon: Daemon) -> None:
    await daemon.create(image="slow", ready=False)
    await asyncio.sleep(0)
    assert (await destroy(daemon)).state == pb.DESTROYED
    assert daemon.backend.cancelled == 1
    assert daemon.backend.made == []


async def test_only_the_owner_may_end_it(daemon: Daemon) -> None:
    await daemon.create()
    code, why, *_ = await refused(destroy(daemon, token=OTHER))
    assert (code, why) == (grpc.StatusCode.PERMISSION_DENIED, "NOT_OWNER")


async def test_a_lease_that_is_not_renewed_ends_the_sandbox(daemon: Daemon) -> None:
    await daemon.create()
    await daemon.start("wait")
    daemon.clock.now += 59
    daemon.registry.sweep()
    asked = pb.RenewLeasesRequest(sandbox_ids=["s1", "nobody"], owner_token=TOKEN)
    told = await daemon.sandboxes.RenewLeases(asked)
    assert [pb.Reason.Name(each.error.reason) for each in told.results] == ["REASON_UNSPECIFIED", "SANDBOX_UNKNOWN"]
    daemon.clock.now += 59
    daemon.registry.sweep()
    assert (await daemon.sandboxes.Get(pb.GetRequest(sandbox_id="s1"))).state == pb.READY
    daemon.clock.now += 1
    daemon.registry.sweep()
    assert (await daemon.until("s1", pb.EXPIRED)).state == pb.EXPIRED
    assert daemon.made().destroyed == 1
    assert (await daemon.log())[-1].exit.cause == pb.EXEC_LEASE_EXPIRED
    assert await reason(daemon.start("exit", "0", exec_id="e2")) == "LEASE_EXPIRED"
    (result,) = (await daemon.sandboxes.RenewLeases(asked)).results[:1]
    assert pb.Reason.Name(result.error.reason) == "LEASE_EXPIRED"


async def test_the_hard_lifetime_ends_it_whatever_is_renewed(daemon: Daemon) -> None:
    asked = pb.CreateRequest(sandbox_id="s1", run_id="run", owner_token=TOKEN, spec=pb.SandboxSpec())
    asked.hard_lifetime.FromSeconds(100)
    await daemon.sandboxes.Create(asked)
    await daemon.until("s1", pb.READY)
    for _ in range(10):
        daemon.clock.now += 10
        await daemon.sandboxes.RenewLeases(pb.RenewLeasesRequest(sandbox_ids=["s1"], owner_token=TOKEN))
        daemon.registry.sweep()
    assert (await daemon.until("s1", pb.EXPIRED)).error.message == "the lease is over: its hard lifetime ended"


async def test_a_sandbox_that_goes_away_by_itself_is_lost_with_its_cause(daemon: Daemon) -> None:
    await daemon.create()
    await daemon.start("wait")
    daemon.made().gone.set_result("the engine died")
    sandbox = await daemon.until("s1", pb.LOST)
    assert sandbox.error.metadata["cause"] == "the engine died"
    assert (await daemon.log())[-1].exit.cause == pb.EXEC_SANDBOX_LOST


async def test_a_run_that_is_adopted_fences_its_old_owner(daemon: Daemon) -> None:
    await daemon.create()
    asked = pb.AdoptRequest(run_id="run", owner_token=TOKEN, new_owner_token=OTHER)
    (adopted,) = (await daemon.sandboxes.Adopt(asked)).sandboxes
    assert adopted.generation == 2
    (result,) = (
        await daemon.sandboxes.RenewLeases(pb.RenewLeasesRequest(sandbox_ids=["s1"], owner_token=TOKEN))
    ).results
    assert pb.Reason.Name(result.error.reason) == "STALE_OWNER"
    assert (await destroy(daemon, token=OTHER)).state == pb.DESTROYED


async def test_adopting_with_a_wrong_token_changes_nothing(daemon: Daemon) -> None:
    await daemon.create()
    asked = pb.AdoptRequest(run_id="run", owner_token=OTHER, new_owner_token=OTHER)
    assert await reason(daemon.sandboxes.Adopt(asked)) == "NOT_OWNER"
    assert (await destroy(daemon)).state == pb.DESTROYED


async def test_what_has_ended_is_told_for_a_while_and_then_forgotten(daemon: Daemon) -> None:
    await daemon.create()
    await destroy(daemon)
    assert [each.sandbox_id for each in (await daemon.sandboxes.List(pb.ListRequest(ended=True))).sandboxes] == ["s1"]
    assert not (await daemon.sandboxes.List(pb.ListRequest())).sandboxes
    daemon.clock.now = daemon.registry._sandboxes["s1"].ended_at + 600  # type: ignore[operator] # it has ended
    daemon.registry.sweep()
    assert await reason(daemon.sandboxes.Get(pb.GetRequest(sandbox_id="s1"))) == "SANDBOX_UNKNOWN"


async def test_draining_takes_no_more_and_lets_the_rest_go_on(daemon: Daemon) -> None:
    await daemon.create()
    assert (await daemon.runner.Drain(pb.DrainRequest())).running == 1
    code, why, _, wait = await refused(daemon.create("s2", ready=False))
    assert (code, why, wait) == (grpc.StatusCode.UNAVAILABLE, "DRAINING", 5.0)
    assert (await daemon.start("exit", "0")).exec_id == "e1"


# --- files ------------------------------------------------------------------------------------------------------------


async def test_files_go_up_in_chunks_and_down_with_a_digest(daemon: Daemon) -> None:
    await daemon.create()

    async def parts() -> AsyncIterator[pb.UploadRequest]:
        yield pb.UploadRequest(header=pb.UploadRequest.Header(sandbox_id="s1", owner_token=TOKEN))
        for _ in range(4):
            yield pb.UploadRequest(chunk=bytes(100_000))

    assert (await daemon.sandboxes.Upload(parts())).bytes == 400_000
    asked = pb.DownloadRequest(sandbox_id="s1", owner_token=TOKEN)
    *chunks, last = [part async for part in daemon.sandboxes.Download(asked)]
    whole = b"".join(part.chunk for part in chunks)
    assert max(len(part.chunk) for part in chunks) <= 65_536
    assert last.trailer.sha256 == hashlib.sha256(whole).digest()
    assert (last.trailer.bytes, list(last.trailer.left_out)) == (100_003, ["link: a symbolic link"])


async def test_a_chunk_before_the_header_belongs_to_nobody(daemon: Daemon) -> None:
    async def parts() -> AsyncIterator[pb.UploadRequest]:
        yield pb.UploadRequest(chunk=b"x")

    assert await reason(daemon.sandboxes.Upload(parts())) == "SANDBOX_UNKNOWN"


# --- events and capacity ----------------------------------------------------------------------------------------------


async def test_events_are_numbered_without_holes_and_resume_after_any_number(daemon: Daemon) -> None:
    await daemon.create()
    log = daemon.registry.get("s1", "local").events
    for number in range(5):
        log.egress(pb.EgressDecision(layer=pb.DNS, verdict=pb.REFUSED, host=f"h{number}.test"))
    told = await events(daemon, 6)
    assert [event.seq for event in told] == [1, 2, 3, 4, 5, 6]
    assert [event.egress.host for event in await events(daemon, 2, after=4)] == ["h3.test", "h4.test"]


async def test_the_stream_of_a_sandbox_that_has_ended_ends_after_its_last_event(daemon: Daemon) -> None:
    await daemon.create()
    await destroy(daemon)
    asked = pb.StreamRequest(sandbox_id="s1")
    states = [event.lifecycle.state async for event in daemon.events.Stream(asked)]
    assert states == [pb.READY, pb.DESTROYED]


async def test_capacity_is_told_when_it_changes(daemon: Daemon) -> None:
    watch = aiter(daemon.runner.WatchCapacity(pb.WatchCapacityRequest()))
    assert (await anext(watch)).slots_used == 0
    await daemon.create()
    assert (await anext(watch)).slots_used == 1
    await daemon.runner.Drain(pb.DrainRequest())
    assert (await anext(watch)).state == pb.Capacity.DRAINING


async def test_info_tells_backends_and_what_auto_means(daemon: Daemon) -> None:
    info = await daemon.runner.GetInfo(pb.GetInfoRequest())
    assert (info.api_min, info.api_max, info.auto_backend) == (1, 1, pb.BUBBLEWRAP)
    assert [(each.kind, each.enforced) for each in info.backends] == [(pb.BUBBLEWRAP, True), (pb.LOCAL, False)]
    assert list(info.allow_private) == ["10.0.0.0/8"]
    assert info.limits.max_lifetime.seconds == 24 * 3600


# --- bugs -------------------------------------------------------------------------------------------------------------


async def test_a_bug_is_internal_with_an_id_and_nothing_of_it_reaches_the_client(daemon: Daemon) -> None:
    await daemon.create()

    async def broken(*_: object) -> None:
        raise LookupError("a secret of the daemon")

    daemon.made().upload = broken  # type: ignore[assignment, method-assign] # a bug in a backend

    async def parts() -> AsyncIterator[pb.UploadRequest]:
        yield pb.UploadRequest(header=pb.UploadRequest.Header(sandbox_id="s1", owner_token=TOKEN))

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await daemon.sandboxes.Upload(parts())
    assert caught.value.code() == grpc.StatusCode.INTERNAL
    assert "secret" not in str(caught.value.details())
