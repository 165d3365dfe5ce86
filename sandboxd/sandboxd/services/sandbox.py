"""SandboxService: sandboxes, the leases that keep them, and their files."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator

from quickstarted_api.v1 import sandbox_pb2 as pb
from quickstarted_api.v1 import sandbox_pb2_grpc as rpc

from sandboxd.commands import seconds, to_duration
from sandboxd.refused import RefusedError, invalid
from sandboxd.registry import Registry
from sandboxd.services import rules
from sandboxd.services.calls import Call, Context, answer, caller, refusal_of, streaming, unary

MAX_CHUNK = 256 * 1024
# What is sent on; the same size as the output's records.
CHUNK = 64 * 1024


class SandboxService(rpc.SandboxServiceServicer):
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    @unary
    async def Create(self, asked: pb.CreateRequest, context: Context) -> pb.Sandbox:  # noqa: N802
        rules.check_create(asked)
        return (await self._registry.create(asked, caller(context))).to_pb()

    @unary
    async def Get(self, asked: pb.GetRequest, context: Context) -> pb.Sandbox:  # noqa: N802
        sandbox = self._registry.get(asked.sandbox_id, caller(context))
        sandbox.events.flush()
        return sandbox.to_pb()

    @unary
    async def List(self, asked: pb.ListRequest, context: Context) -> pb.ListResponse:  # noqa: N802
        found = self._registry.all(caller(context), asked.run_id, ended=asked.ended)
        return pb.ListResponse(sandboxes=[sandbox.to_pb() for sandbox in found])

    @streaming
    async def Watch(self, asked: pb.WatchRequest, context: Context) -> AsyncGenerator[pb.Sandbox, None]:  # noqa: N802
        async with contextlib.aclosing(self._registry.get(asked.sandbox_id, caller(context)).watch()) as states:
            async for sandbox in states:
                yield sandbox

    @unary
    async def RenewLeases(  # noqa: N802
        self, asked: pb.RenewLeasesRequest, context: Context
    ) -> pb.RenewLeasesResponse:
        if len(asked.sandbox_ids) > rules.MAX_BATCH:
            raise invalid("sandbox_ids", f"{len(asked.sandbox_ids)} ids", f"{rules.MAX_BATCH} at most")
        who = caller(context)
        return pb.RenewLeasesResponse(results=[self._renew(name, asked, who) for name in asked.sandbox_ids])

    def _renew(self, sandbox_id: str, asked: pb.RenewLeasesRequest, who: str) -> pb.RenewLeasesResponse.Result:
        try:
            sandbox = self._registry.get(sandbox_id, who)
            self._check_generation(sandbox_id, asked.owner_token, who)
            self._registry.renew(sandbox, seconds(asked.lease_ttl))
        except RefusedError as error:
            refusal = refusal_of(error)
            failure = pb.Failure(
                reason=pb.Reason.Value(refusal.reason), message=refusal.message, metadata=refusal.metadata
            )
            return pb.RenewLeasesResponse.Result(sandbox_id=sandbox_id, error=failure)
        left = to_duration(sandbox.lease.ttl)
        return pb.RenewLeasesResponse.Result(sandbox_id=sandbox_id, lease_left=left)

    def _check_generation(self, sandbox_id: str, token: bytes, who: str) -> None:
        """A token that does not match a sandbox which was adopted is a fenced owner's."""
        sandbox = self._registry.get(sandbox_id, who)
        try:
            sandbox.lease.check_owner(token)
        except RefusedError:
            if sandbox.lease.generation == 1:
                raise
            generation = str(sandbox.lease.generation)
            raise RefusedError(
                "STALE_OWNER", "another controller has adopted this sandbox", generation=generation
            ) from None

    @unary
    async def Adopt(self, asked: pb.AdoptRequest, context: Context) -> pb.AdoptResponse:  # noqa: N802
        rules.check_id("run_id", asked.run_id)
        adopted = await self._registry.adopt(asked.run_id, caller(context), asked.owner_token, asked.new_owner_token)
        return pb.AdoptResponse(sandboxes=[sandbox.to_pb() for sandbox in adopted])

    @unary
    async def Destroy(self, asked: pb.DestroyRequest, context: Context) -> pb.Sandbox:  # noqa: N802
        rules.check_id("sandbox_id", asked.sandbox_id)
        sandbox = await self._registry.destroy(asked.sandbox_id, caller(context), asked.owner_token, wait=asked.wait)
        if sandbox is None:
            return pb.Sandbox(sandbox_id=asked.sandbox_id, state=pb.DESTROYED)
        return sandbox.to_pb()

    async def Upload(  # noqa: N802
        self, stream: AsyncIterator[pb.UploadRequest], context: Context
    ) -> pb.UploadResponse:
        first = await anext(aiter(stream), None)
        header = first.header if first is not None and first.HasField("header") else pb.UploadRequest.Header()
        return await answer(Call("Upload", header), self._upload(header, stream, context), context)

    async def _upload(
        self, header: pb.UploadRequest.Header, stream: AsyncIterator[pb.UploadRequest], context: Context
    ) -> pb.UploadResponse:
        sandbox = self._registry.owned(header.sandbox_id, caller(context), header.owner_token)
        size, entries = await sandbox.made().upload(header.path, _chunks(stream))
        return pb.UploadResponse(bytes=size, entries=entries)

    @streaming
    async def Download(  # noqa: N802
        self, asked: pb.DownloadRequest, context: Context
    ) -> AsyncGenerator[pb.DownloadResponse, None]:
        sandbox = self._registry.owned(asked.sandbox_id, caller(context), asked.owner_token)
        digest, size, left_out = hashlib.sha256(), 0, list[str]()
        async with contextlib.aclosing(_generator(sandbox.made().download(asked.path, left_out))) as chunks:
            async for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                for start in range(0, len(chunk), CHUNK):
                    yield pb.DownloadResponse(chunk=chunk[start : start + CHUNK])
        trailer = pb.DownloadResponse.Trailer(sha256=digest.digest(), bytes=size, left_out=left_out)
        yield pb.DownloadResponse(trailer=trailer)


async def _chunks(stream: AsyncIterator[pb.UploadRequest]) -> AsyncIterator[bytes]:
    """An upload's archive. Raises RefusedError."""
    async for part in stream:
        if part.WhichOneof("part") != "chunk" or len(part.chunk) > MAX_CHUNK:
            raise invalid("chunk", f"{len(part.chunk)} bytes", f"1 to {MAX_CHUNK} bytes, after one header")
        yield part.chunk


async def _generator(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """An iterator that is closed with what it iterates over, where that can be closed."""
    try:
        async for chunk in chunks:
            yield chunk
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()
