"""The daemon's life: make everything, serve until told to stop, end everything."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from quickstarted_api.addresses import parse_networks
from quickstarted_api.v1 import sandbox_pb2 as pb
from quickstarted_api.v1 import sandbox_pb2_grpc as rpc

from sandboxd import transport
from sandboxd.backends.base import Backend, BackendKind, Planted
from sandboxd.backends.registry import Backends
from sandboxd.config import Config
from sandboxd.egress.context import Inspect
from sandboxd.egress.gateway import Gateway
from sandboxd.egress.policy import Policy
from sandboxd.instances import Instance
from sandboxd.registry import Registry, RegistryConfig
from sandboxd.sandbox import MakeWay, Way
from sandboxd.services.events import EventService
from sandboxd.services.execs import ExecService
from sandboxd.services.runner import RunnerService
from sandboxd.services.sandbox import SandboxService

if TYPE_CHECKING:
    from sandboxd.egress.authority import Authority

STOP_GRACE_SECONDS = 2.0
HEALTH_SECONDS = 5.0
CLOSE_SECONDS = 90.0

_log = structlog.get_logger()


class ServeError(Exception):
    """The daemon can't be run as it was asked to; the message says why."""


async def serve(config: Config, instance: Instance) -> None:
    """Serve until a signal, or the end of standard input, says to stop. Raises ServeError and transport.ListenError."""
    stop = _Stop(exit_with_stdin=config.exit_with_stdin)
    # On the disk that is watched for room, and gone with the instance.
    tempfile.tempdir = str(instance.directory)
    async with _registry(config, instance) as registry, _server(config, registry) as server:
        with transport.listening(server, config.unix):
            await server.start()
            _log.info("serving", unix=str(config.unix), instance=instance.instance_id, node=instance.node_id)
            await stop.wait()
            _log.info("stopping", running=registry.drain())
            await _emptied(registry, stop, config.drain_seconds)
            # Before the server: who follows a command or its events gets their ends.
            await registry.end_all()
            await server.stop(STOP_GRACE_SECONDS)


@contextlib.asynccontextmanager
async def _server(config: Config, registry: Registry) -> AsyncIterator[grpc.aio.Server]:
    server = grpc.aio.server(options=transport.OPTIONS)
    rpc.add_RunnerServiceServicer_to_server(RunnerService(registry, config.allow_private), server)
    rpc.add_SandboxServiceServicer_to_server(SandboxService(registry), server)
    ExecService(registry).add_to(server)
    rpc.add_EventServiceServicer_to_server(EventService(registry), server)
    healthy = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    await _tell_health(healthy, registry)
    telling = asyncio.create_task(_keep_health(healthy, registry), name="health")
    try:
        yield server
    finally:
        telling.cancel()
        await asyncio.wait([telling])
        await server.stop(None)


async def _keep_health(healthy: health.aio.HealthServicer, registry: Registry) -> None:
    while True:
        change = registry.change
        await _tell_health(healthy, registry)
        with contextlib.suppress(TimeoutError):  # the disk fills up without a change of ours
            async with asyncio.timeout(HEALTH_SECONDS):
                await change.wait()


async def _tell_health(healthy: health.aio.HealthServicer, registry: Registry) -> None:
    """NOT_SERVING says that no sandbox can be had here now; what runs can be used all the same."""
    takes_more = registry.capacity().state == pb.Capacity.SERVING
    status = health_pb2.HealthCheckResponse.SERVING if takes_more else health_pb2.HealthCheckResponse.NOT_SERVING
    for service in ("", *(each.full_name for each in pb.DESCRIPTOR.services_by_name.values())):
        await healthy.set(service, status)


@contextlib.asynccontextmanager
async def _registry(config: Config, instance: Instance) -> AsyncIterator[Registry]:
    registry = Registry(
        instance,
        Backends(_backends(config, instance)),
        _ways(config),
        RegistryConfig(slots=config.slots, defaults=config.limits, ca_bundle=config.ca_bundle, inspect=config.inspect),
    )
    await registry.start()
    try:
        yield registry
    finally:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await registry.close()
        except TimeoutError:
            _log.error("close_timeout", seconds=CLOSE_SECONDS)


def _backends(config: Config, instance: Instance) -> dict[BackendKind, Backend]:
    # Imported here: each platform has backends that the other can't import, and docker's SDK takes its time.
    from sandboxd.backends.docker.backend import DockerBackend
    from sandboxd.backends.local import LocalBackend

    state, instance_id = instance.state, instance.instance_id
    own: Backend
    if sys.platform == "darwin":
        from sandboxd.backends.seatbelt import SeatbeltBackend

        own = SeatbeltBackend(state=state, instance_id=instance_id)
    else:
        from sandboxd.backends.bubblewrap.backend import BubblewrapBackend

        own = BubblewrapBackend(state=state, instance_id=instance_id)
    docker = DockerBackend(
        node_id=instance.node_id,
        instance_id=instance_id,
        state=state,
        plant=config.plant,
        helper_image=config.helper_image,
    )
    local = LocalBackend(state=state, instance_id=instance_id)
    return {backend.kind: backend for backend in (docker, own, local)}


def _ways(config: Config) -> MakeWay:
    private = parse_networks(list(config.allow_private))
    inspect = _inspect(config)

    def make(
        network: pb.NetworkPolicy,
        planted: Planted,
        emit: Callable[[pb.EgressDecision], None],
        authority: Authority | None,
    ) -> Way:
        policy = Policy(
            explicit=tuple(network.explicit_hosts),
            docs=tuple(network.docs_hosts),
            registry=tuple(network.registry_hosts),
        )
        return Gateway(
            policy,
            planted,
            emit=emit,
            allow_private=private,
            inspect=inspect(authority) if authority is not None else None,
            inspected_methods=config.inspect_methods,
        )

    return make


def _inspect(config: Config) -> Callable[[Authority], Inspect]:
    """Imported where it is wanted: its library takes its time."""

    def inspect(authority: Authority) -> Inspect:
        from sandboxd.egress.inspection import client_context, inspector

        return inspector(authority, client_context(config.ca_bundle))

    return inspect


async def _emptied(registry: Registry, stop: _Stop, seconds: float) -> None:
    """Let what runs end, for so long; a second signal is the end of patience."""
    deadline = asyncio.get_running_loop().time() + seconds
    while stop.patient:
        change = registry.change
        if not registry.used():
            return
        waiting = asyncio.ensure_future(change.wait())
        either: list[asyncio.Future[Any]] = [waiting, stop.hurried]
        left = max(0.0, deadline - asyncio.get_running_loop().time())
        done, _ = await asyncio.wait(either, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not done:
            return


class _Stop:
    """When to stop, and how: a first SIGTERM lets what runs end, everything else ends it."""

    def __init__(self, *, exit_with_stdin: bool) -> None:
        loop = asyncio.get_running_loop()
        self._asked: asyncio.Future[None] = loop.create_future()
        self.hurried: asyncio.Future[None] = loop.create_future()
        loop.add_signal_handler(signal.SIGTERM, self._terminate)
        loop.add_signal_handler(signal.SIGINT, self._hurry)
        if exit_with_stdin:
            try:
                loop.add_reader(sys.stdin.fileno(), self._read_stdin)
            except (AttributeError, ValueError, OSError):
                # A closed one, or a file: nothing that somebody holds open for as long as they want us.
                raise ServeError("--exit-with-stdin: standard input has to be a pipe or a terminal") from None

    @property
    def patient(self) -> bool:
        return not self.hurried.done()

    async def wait(self) -> None:
        await self._asked

    def _terminate(self) -> None:
        if self._asked.done():
            self._hurry()
        else:
            self._asked.set_result(None)

    def _hurry(self) -> None:
        for future in (self._asked, self.hurried):
            if not future.done():
                future.set_result(None)

    def _read_stdin(self) -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self._hurry()
