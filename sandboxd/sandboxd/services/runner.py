"""RunnerService: what this daemon is, and how much it can take."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence

from quickstarted_api.v1 import sandbox_pb2 as pb
from quickstarted_api.v1 import sandbox_pb2_grpc as rpc

import sandboxd
from sandboxd import lease
from sandboxd.commands import to_duration
from sandboxd.registry import FEATURES, Registry
from sandboxd.services import rules
from sandboxd.services.calls import Context, streaming, unary
from sandboxd.wire import KINDS

API_MIN, API_MAX = 1, 1
CAPACITY_SECONDS = 1.0
HEARTBEAT_SECONDS = 10.0


class RunnerService(rpc.RunnerServiceServicer):
    """Answers for the whole daemon; nothing here belongs to one owner."""

    def __init__(self, registry: Registry, allow_private: Sequence[str]) -> None:
        self._registry = registry
        self._allow_private = tuple(allow_private)

    @unary
    async def GetInfo(self, asked: pb.GetInfoRequest, context: Context) -> pb.GetInfoResponse:  # noqa: N802
        backends = self._registry.backends
        probes = await backends.probe_all()
        auto = await backends.auto()
        infos = [
            pb.BackendInfo(
                kind=KINDS[backend.kind],
                available=probes[backend.kind].available,
                enforced=backend.enforced,
                uses_image=backend.uses_image,
                why=probes[backend.kind].why,
                remedy=probes[backend.kind].remedy,
                version=probes[backend.kind].version,
            )
            for backend in backends.all()
        ]
        return pb.GetInfoResponse(
            api_min=API_MIN,
            api_max=API_MAX,
            features=FEATURES,
            software_version=sandboxd.__version__,
            node_id=self._registry.instance.node_id,
            instance_id=self._registry.instance.instance_id,
            backends=infos,
            auto_backend=KINDS[auto] if auto is not None else pb.BACKEND_KIND_UNSPECIFIED,
            limits=pb.RunnerLimits(
                max_lease_ttl=to_duration(lease.MAX_TTL),
                max_lifetime=to_duration(lease.MAX_LIFETIME),
                max_exec_timeout=to_duration(rules.MAX_EXEC_TIMEOUT),
                max_output_bytes=rules.MAX_OUTPUT,
            ),
            capacity=self._registry.capacity(),
            allow_private=self._allow_private,
        )

    @streaming
    async def WatchCapacity(  # noqa: N802
        self,
        asked: pb.WatchCapacityRequest,
        context: Context,
    ) -> AsyncGenerator[pb.Capacity, None]:
        told = None
        while True:
            change = self._registry.change
            now = self._registry.capacity()
            if told is None or (now.state, now.slots_used) != (told.state, told.slots_used):
                told = now
                yield now
                await asyncio.sleep(CAPACITY_SECONDS)
            with contextlib.suppress(TimeoutError):  # the disk fills up without a change of ours
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await change.wait()

    @unary
    async def Drain(self, asked: pb.DrainRequest, context: Context) -> pb.DrainResponse:  # noqa: N802
        return pb.DrainResponse(running=self._registry.drain())
