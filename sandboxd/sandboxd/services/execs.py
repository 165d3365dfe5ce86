"""ExecService: commands and their output."""

from __future__ import annotations

from collections.abc import AsyncIterator

from quickstarted_api.v1 import sandbox_pb2 as pb
from quickstarted_api.v1 import sandbox_pb2_grpc as rpc

from sandboxd.backends.base import Stream
from sandboxd.commands import Command
from sandboxd.execlog import Data, End, Gap, OffsetError
from sandboxd.refused import RefusedError
from sandboxd.registry import Registry
from sandboxd.services import rules
from sandboxd.services.calls import Context, caller, streaming, unary

HEARTBEAT_SECONDS = 10.0

_STREAMS = {Stream.STDOUT: pb.STDOUT, Stream.STDERR: pb.STDERR}


class ExecService(rpc.ExecServiceServicer):
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    @unary
    async def Start(self, asked: pb.StartRequest, context: Context) -> pb.Exec:  # noqa: N802
        spec = rules.check_start(asked)
        sandbox = self._registry.owned(asked.sandbox_id, caller(context), asked.owner_token)
        commands = sandbox.known_commands()
        if asked.exec_id not in commands.ids():
            commands = sandbox.ready()
        return (await commands.start(asked.exec_id, spec)).to_pb(asked.sandbox_id)

    @streaming
    async def ReadLog(self, asked: pb.ReadLogRequest, context: Context) -> AsyncIterator[pb.LogRecord]:  # noqa: N802
        command = self._command(asked.sandbox_id, asked.exec_id, context)
        offset = asked.offset
        while True:
            record = self._record(command, offset)
            if record is None:
                if not asked.follow:
                    return
                if not await command.log.changed(offset, HEARTBEAT_SECONDS):
                    yield pb.LogRecord(heartbeat=pb.Heartbeat(offset=offset))
                continue
            yield record
            if record.HasField("exit"):
                return
            offset = record.gap.to if record.HasField("gap") else offset + len(record.data.data)

    @staticmethod
    def _record(command: Command, offset: int) -> pb.LogRecord | None:
        try:
            match command.log.read(offset):
                case Data(start, stream, data):
                    return pb.LogRecord(data=pb.Data(offset=start, stream=_STREAMS[stream], data=data))
                case Gap(start, end):
                    gap = pb.Gap(to=end)
                    setattr(gap, "from", start)
                    return pb.LogRecord(gap=gap)
                case End(exited):
                    return pb.LogRecord(exit=exited)
                case _:
                    return None
        except OffsetError as error:
            raise RefusedError("OFFSET_BEYOND_END", f"{error}, offset {offset} is beyond", end=str(error.end)) from None

    @unary
    async def Get(self, asked: pb.GetExecRequest, context: Context) -> pb.Exec:  # noqa: N802
        return self._command(asked.sandbox_id, asked.exec_id, context).to_pb(asked.sandbox_id)

    @unary
    async def Signal(self, asked: pb.SignalRequest, context: Context) -> pb.Exec:  # noqa: N802
        rules.check_signal(asked.signal)
        sandbox = self._registry.owned(asked.sandbox_id, caller(context), asked.owner_token)
        command = await sandbox.known_commands().signal(asked.exec_id, asked.signal, asked.everything)
        return command.to_pb(asked.sandbox_id)

    def _command(self, sandbox_id: str, exec_id: str, context: Context) -> Command:
        return self._registry.get(sandbox_id, caller(context)).known_commands().get(exec_id)
