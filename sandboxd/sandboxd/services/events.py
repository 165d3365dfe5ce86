"""EventService: what happened in a sandbox, in order, while it happens."""

from __future__ import annotations

from collections.abc import AsyncIterator

from quickstarted_api.v1 import sandbox_pb2 as pb
from quickstarted_api.v1 import sandbox_pb2_grpc as rpc

from sandboxd.registry import Registry
from sandboxd.services.calls import Context, caller, streaming


class EventService(rpc.EventServiceServicer):
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    @streaming
    async def Stream(self, asked: pb.StreamRequest, context: Context) -> AsyncIterator[pb.Event]:  # noqa: N802
        sandbox = self._registry.get(asked.sandbox_id, caller(context))
        async for event in sandbox.events.stream(asked.after_seq):
            yield event
