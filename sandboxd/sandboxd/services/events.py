"""EventService: what happened in a sandbox, in order, while it happens."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

from quickstarted_api.v1 import sandbox_pb2 as pb
from quickstarted_api.v1 import sandbox_pb2_grpc as rpc

from sandboxd.registry import Registry
from sandboxd.services.calls import Context, caller, streaming


class EventService(rpc.EventServiceServicer):
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    @streaming
    async def Stream(self, asked: pb.StreamRequest, context: Context) -> AsyncGenerator[pb.Event, None]:  # noqa: N802
        sandbox = self._registry.get(asked.sandbox_id, caller(context))
        async with contextlib.aclosing(sandbox.events.stream(asked.after_seq)) as events:
            async for event in events:
                yield event
