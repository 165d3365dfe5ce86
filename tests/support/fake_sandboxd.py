"""A sandboxd that runs nothing: it speaks the contract from a script, and breaks where a test wants it to.

What it is asked is recorded in `calls`; what it answers is set by the test. Real daemons are tested elsewhere: this one
is for what a real one does rarely, such as losing a stream between two bytes.
"""

# ruff: noqa: N802 - the names of the contract's methods

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from quickstarted.sandbox.connect import Address, from_path
from quickstarted_api.v1 import sandbox_pb2 as pb
from quickstarted_api.v1 import sandbox_pb2_grpc as rpc

Context = aio.ServicerContext[Any, Any]


def data(offset: int, text: bytes, stream: pb.OutputStream.ValueType = pb.STDOUT) -> pb.LogRecord:
    return pb.LogRecord(data=pb.Data(offset=offset, stream=stream, data=text))


def gap(start: int, end: int) -> pb.LogRecord:
    return pb.LogRecord(gap=pb.Gap(to=end, **{"from": start}))


def ended(
    code: int = 0, cause: pb.ExitCause.ValueType = pb.EXITED, message: str = "", seconds: float = 0.5
) -> pb.LogRecord:
    wall = Duration(seconds=int(seconds), nanos=int(seconds % 1 * 1e9))
    return pb.LogRecord(exit=pb.Exit(cause=cause, code=code, wall=wall, message=message))


def printing(text: bytes, code: int = 0, chunk: int = 7) -> list[pb.LogRecord]:
    """The log of a command that printed this."""
    parts = [data(at, text[at : at + chunk]) for at in range(0, len(text), chunk)]
    return [*parts, ended(code)]


@dataclass
class Fault:
    """What a call fails with, so many times. Without a reason nobody answered: the failure has no details."""

    code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE
    reason: str = ""
    message: str = "a fault of the test"
    metadata: dict[str, str] = field(default_factory=dict)
    retry_after: float | None = None
    times: int = 1
    after: int = 0  # records that a stream sends before it

    async def abort(self, context: Context) -> None:
        if self.reason:
            info = error_details_pb2.ErrorInfo(reason=self.reason, domain="sandboxd", metadata=self.metadata)
            details: list[Message] = [info]
            if self.retry_after is not None:
                delay = Duration(nanos=int(self.retry_after * 1e9))
                details.append(error_details_pb2.RetryInfo(retry_delay=delay))
            status = status_pb2.Status(code=self.code.value[0], message=self.message)
            for detail in details:
                packed = any_pb2.Any()
                packed.Pack(detail)
                status.details.append(packed)
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        await context.abort(self.code, self.message)


class FakeDaemon(
    rpc.RunnerServiceServicer, rpc.SandboxServiceServicer, rpc.ExecServiceServicer, rpc.EventServiceServicer
):
    """Serves at `address` between `start` and `stop`."""

    def __init__(self) -> None:
        self.calls: dict[str, list[Any]] = defaultdict(list)
        self.faults: dict[str, list[Fault]] = defaultdict(list)
        self.info = pb.GetInfoResponse(api_min=1, api_max=1, software_version="fake", node_id="n", instance_id="i")
        self.states: list[pb.Sandbox] = [ready()]
        self.on_start: Callable[[pb.ExecSpec], Iterable[pb.LogRecord]] = lambda _: [ended()]
        self.renewal: Callable[[str], pb.Failure | None] = lambda _: None
        self.events: list[pb.Event] = []
        self.hanging = asyncio.Event()  # set it to let logs that have no exit record end
        self._logs: dict[str, list[pb.LogRecord]] = {}
        self._changed = asyncio.Condition()
        self._destroyed = False
        self._server: aio.Server | None = None

    @contextlib.asynccontextmanager
    async def serve(self, path: Path) -> AsyncIterator[Address]:
        await self.start(path)
        try:
            yield from_path(path)
        finally:
            await self.stop()

    async def start(self, path: Path) -> None:
        self._server = aio.server(
            options=[
                ("grpc.http2.min_recv_ping_interval_without_data_ms", 5000),
                ("grpc.keepalive_permit_without_calls", 1),
            ]
        )
        rpc.add_RunnerServiceServicer_to_server(self, self._server)
        rpc.add_SandboxServiceServicer_to_server(self, self._server)
        rpc.add_ExecServiceServicer_to_server(self, self._server)
        rpc.add_EventServiceServicer_to_server(self, self._server)
        checks = health.aio.HealthServicer()
        await checks.set("", health_pb2.HealthCheckResponse.SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(checks, self._server)
        self._server.add_insecure_port(f"unix:{path}")
        await self._server.start()

    async def stop(self) -> None:
        assert self._server
        await self._server.stop(grace=0)

    async def emit(self, *events: pb.Event) -> None:
        """Have events happen, numbered in order."""
        async with self._changed:
            for event in events:
                event.seq = len(self.events) + 1
                self.events.append(event)
            self._changed.notify_all()

    async def _enter(self, name: str, request: Message, context: Context) -> None:
        self.calls[name].append(request)
        fault = self._fault(name)
        if fault is not None and fault.after == 0:
            fault.times -= 1
            await fault.abort(context)

    def _fault(self, name: str) -> Fault | None:
        return next((fault for fault in self.faults[name] if fault.times > 0), None)

    async def _stream(self, name: str, records: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
        sent = 0
        async for record in records:
            fault = self._fault(name)
            if fault is not None and sent >= fault.after:
                fault.times -= 1
                await fault.abort(context)
            yield record
            sent += 1

    async def GetInfo(self, request: pb.GetInfoRequest, context: Context) -> pb.GetInfoResponse:
        await self._enter("GetInfo", request, context)
        return self.info

    async def Create(self, request: pb.CreateRequest, context: Context) -> pb.Sandbox:
        await self._enter("Create", request, context)
        return pb.Sandbox(sandbox_id=request.sandbox_id, state=pb.CREATING)

    async def Watch(self, request: pb.WatchRequest, context: Context) -> AsyncIterator[pb.Sandbox]:
        await self._enter("Watch", request, context)

        async def states() -> AsyncIterator[pb.Sandbox]:
            for state in self.states:
                yield state

        async for state in self._stream("Watch", states(), context):
            yield state

    async def Get(self, request: Any, context: Context) -> Any:
        await self._enter("Get", request, context)
        return pb.Sandbox(sandbox_id=request.sandbox_id, state=pb.READY, last_event_seq=len(self.events))

    async def RenewLeases(self, request: pb.RenewLeasesRequest, context: Context) -> pb.RenewLeasesResponse:
        await self._enter("RenewLeases", request, context)
        return pb.RenewLeasesResponse(
            results=[
                pb.RenewLeasesResponse.Result(sandbox_id=one, error=self.renewal(one)) for one in request.sandbox_ids
            ]
        )

    async def Destroy(self, request: pb.DestroyRequest, context: Context) -> pb.Sandbox:
        await self._enter("Destroy", request, context)
        async with self._changed:
            self._destroyed = True
            self._changed.notify_all()
        return pb.Sandbox(sandbox_id=request.sandbox_id, state=pb.DESTROYED)

    async def Start(self, request: pb.StartRequest, context: Context) -> pb.Exec:
        if request.exec_id not in self._logs:
            self._logs[request.exec_id] = list(self.on_start(request.spec))
        await self._enter("Start", request, context)
        return pb.Exec(sandbox_id=request.sandbox_id, exec_id=request.exec_id, running=True)

    async def Signal(self, request: pb.SignalRequest, context: Context) -> pb.Exec:
        await self._enter("Signal", request, context)
        self.hanging.set()
        return pb.Exec(sandbox_id=request.sandbox_id, exec_id=request.exec_id)

    async def ReadLog(self, request: pb.ReadLogRequest, context: Context) -> AsyncIterator[pb.LogRecord]:
        await self._enter("ReadLog", request, context)
        async for record in self._stream("ReadLog", self._log_from(request.exec_id, request.offset), context):
            yield record

    async def _log_from(self, exec_id: str, offset: int) -> AsyncIterator[pb.LogRecord]:
        log = self._logs[exec_id]
        for record in log:
            if record.HasField("data") and record.data.offset + len(record.data.data) <= offset:
                continue
            if record.HasField("gap") and record.gap.to <= offset:
                continue
            yield record
        if not log or not log[-1].HasField("exit"):
            await self.hanging.wait()
            yield ended(137, pb.SIGNALED_BY_CLIENT)

    async def Stream(self, request: pb.StreamRequest, context: Context) -> AsyncIterator[pb.Event]:
        await self._enter("Stream", request, context)
        async for event in self._stream("Stream", self._events_after(request.after_seq), context):
            yield event

    async def _events_after(self, seq: int) -> AsyncIterator[pb.Event]:
        while True:
            async with self._changed:
                while len(self.events) <= seq and not self._destroyed:
                    await self._changed.wait()
                fresh = self.events[seq:]
            for event in fresh:
                yield event
            seq += len(fresh)
            if not fresh:
                return

    def WatchCapacity(self, request: Any, context: Context) -> Any:
        raise NotImplementedError

    async def Drain(self, request: Any, context: Context) -> Any:
        raise NotImplementedError

    async def List(self, request: Any, context: Context) -> Any:
        raise NotImplementedError

    async def Adopt(self, request: Any, context: Context) -> Any:
        raise NotImplementedError

    async def Upload(self, request_iterator: Any, context: Context) -> Any:
        raise NotImplementedError

    def Download(self, request: Any, context: Context) -> Any:
        raise NotImplementedError


def ready(**fields: Any) -> pb.Sandbox:
    """A sandbox that is ready, with facts."""
    facts: dict[str, Any] = {
        "sandbox_id": "s",
        "state": pb.READY,
        "backend": pb.DOCKER,
        "enforced": True,
        "image": "python:3.12-slim",
        "image_digest": "sha256:0123",
        "workspace": "/workspace",
        "shell": "/bin/bash",
        "node_id": "n",
        "instance_id": "i",
    }
    return pb.Sandbox(**{**facts, **fields})


def egress(host: str, verdict: pb.Verdict.ValueType, reason: pb.EgressReason.ValueType, exec_id: str = "") -> pb.Event:
    return pb.Event(
        exec_id=exec_id,
        egress=pb.EgressDecision(layer=pb.CONNECT, verdict=verdict, reason=reason, host=host, port=443, count=1),
    )
