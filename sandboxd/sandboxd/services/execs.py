"""ExecService: commands and their output."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Any

import grpc
from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd import wire
from sandboxd.commands import Command
from sandboxd.execlog import CHUNK, CorruptError, Data, End, Gap, LogReader, OffsetError
from sandboxd.refused import RefusedError
from sandboxd.registry import Registry
from sandboxd.services import rules
from sandboxd.services.calls import Context, caller, streaming, unary

HEARTBEAT_SECONDS = 10.0
# A message costs about the same whatever is in it: of output that trickles, the pieces of so long go in one.
COALESCE_SECONDS = 0.02


class ExecService:
    """Not of the generated class: a log's records come serialized, so it registers its methods itself."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add the service to a server."""
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Start": grpc.unary_unary_rpc_method_handler(
                self.Start, pb.StartRequest.FromString, pb.Exec.SerializeToString
            ),
            "ReadLog": grpc.unary_stream_rpc_method_handler(self.ReadLog, pb.ReadLogRequest.FromString),
            "Get": grpc.unary_unary_rpc_method_handler(
                self.Get, pb.GetExecRequest.FromString, pb.Exec.SerializeToString
            ),
            "Signal": grpc.unary_unary_rpc_method_handler(
                self.Signal, pb.SignalRequest.FromString, pb.Exec.SerializeToString
            ),
        }
        name = pb.DESCRIPTOR.services_by_name["ExecService"].full_name
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))

    @unary
    async def Start(self, asked: pb.StartRequest, context: Context) -> pb.Exec:  # noqa: N802
        spec = rules.check_start(asked)
        sandbox = self._registry.owned(asked.sandbox_id, caller(context), asked.owner_token)
        commands = sandbox.known_commands()
        if asked.exec_id not in commands:
            commands = sandbox.ready()
        return (await commands.start(asked.exec_id, spec)).to_pb(asked.sandbox_id)

    @streaming
    async def ReadLog(self, asked: pb.ReadLogRequest, context: Context) -> AsyncGenerator[bytes, None]:  # noqa: N802
        log, offset = self._command(asked.sandbox_id, asked.exec_id, context).log, asked.offset
        with log.reader(follow=asked.follow) as reader:
            while True:
                match _look(reader, offset):
                    case None:
                        if not asked.follow:
                            return
                        if not await log.reach(offset + 1, HEARTBEAT_SECONDS):
                            yield pb.LogRecord(heartbeat=pb.Heartbeat(offset=offset)).SerializeToString()
                        continue
                    case Data(_, stream, data):
                        sent = time.monotonic()
                        yield wire.data_record(offset, stream, data)
                        offset += len(data)
                        if asked.follow and log.end - offset < CHUNK:
                            await log.reach(offset + CHUNK, sent + COALESCE_SECONDS - time.monotonic())
                    case Gap(start, end):
                        gap = pb.Gap(to=end)
                        setattr(gap, "from", start)
                        yield pb.LogRecord(gap=gap).SerializeToString()
                        offset = end
                    case End(exited):
                        yield pb.LogRecord(exit=exited).SerializeToString()
                        return

    @unary
    async def Get(self, asked: pb.GetExecRequest, context: Context) -> pb.Exec:  # noqa: N802
        return self._command(asked.sandbox_id, asked.exec_id, context).to_pb(asked.sandbox_id)

    @unary
    async def Signal(self, asked: pb.SignalRequest, context: Context) -> pb.Exec:  # noqa: N802
        rules.check_signal(asked.signal)
        sandbox = self._registry.owned(asked.sandbox_id, caller(context), asked.owner_token)
        command = await sandbox.known_commands().signal(asked.exec_id, asked.signal, everything=asked.everything)
        return command.to_pb(asked.sandbox_id)

    def _command(self, sandbox_id: str, exec_id: str, context: Context) -> Command:
        return self._registry.get(sandbox_id, caller(context)).known_commands().get(exec_id)


def _look(reader: LogReader[pb.Exit], offset: int) -> Data | Gap | End[pb.Exit] | None:
    """What is in a log at an offset. Raises RefusedError."""
    try:
        return reader.read(offset)
    except OffsetError as error:
        raise RefusedError("OFFSET_BEYOND_END", f"{error}, offset {offset} is beyond", end=str(error.end)) from None
    except CorruptError as error:
        raise RefusedError("LOG_CORRUPT", str(error)) from None
