"""What a call to a daemon was refused with, and what happened in a sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from quickstarted_api.v1 import sandbox_pb2 as pb

from tests.support.daemon import Daemon


async def refused(call: Awaitable[object]) -> tuple[grpc.StatusCode, str, dict[str, str], float | None]:
    """The code, the reason, the metadata, and the time to wait that a call is refused with."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    status = rpc_status.from_call(caught.value)  # type: ignore[arg-type] # AioRpcError has what is needed
    assert status is not None
    info, wait = error_details_pb2.ErrorInfo(), None
    for detail in status.details:
        if detail.Is(info.DESCRIPTOR):
            detail.Unpack(info)
        else:
            retry = error_details_pb2.RetryInfo()
            detail.Unpack(retry)
            wait = retry.retry_delay.ToNanoseconds() / 1e9
    assert info.domain == "sandboxd"
    return caught.value.code(), info.reason, dict(info.metadata), wait


async def reason(call: Awaitable[object]) -> str:
    return (await refused(call))[1]


async def events(daemon: Daemon, count: int, after: int = 0) -> list[pb.Event]:
    told: list[pb.Event] = []
    async with asyncio.timeout(10):
        async for event in daemon.events.Stream(pb.StreamRequest(sandbox_id="s1", after_seq=after)):
            told.append(event)
            if len(told) == count:
                break
    return told
