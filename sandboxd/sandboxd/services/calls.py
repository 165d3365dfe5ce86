"""What every call goes through: who asks, one log line, refusals with their codes, and no traceback to anybody."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar

import grpc
import structlog
from google.protobuf.message import Message

from sandboxd.backends.base import BackendError
from sandboxd.refused import RefusedError
from sandboxd.services.errors import CODES, status_of

log = structlog.get_logger()

Context = grpc.aio.ServicerContext[Any, Any]
Self = TypeVar("Self")
Asked = TypeVar("Asked")
Told = TypeVar("Told", bound=Message)
Part = TypeVar("Part", bound="Message | bytes")

# On a unix socket the file system decides who may call, and whoever may is one owner.
LOCAL_CALLER = "local"
# Made again and again by every controller: one line each would hide the others.
FREQUENT = ("Get", "RenewLeases")
MAX_LOGGED = 200


def caller(context: Context) -> str:
    """Who asks: the name in the client's certificate, or the one owner of a unix socket."""
    for name in context.auth_context().get("x509_common_name", ()):
        return name.decode("utf-8", "replace")
    return LOCAL_CALLER


def unary(
    method: Callable[[Self, Asked, Context], Awaitable[Told]],
) -> Callable[[Self, Asked, Context], Awaitable[Told]]:
    """A method that answers once."""

    @functools.wraps(method)
    async def call(self: Self, asked: Asked, context: Context) -> Told:
        return await answer(Call(method.__name__, asked), method(self, asked, context), context)

    return call


async def answer(call: Call, work: Awaitable[Told], context: Context) -> Told:
    """The answer of a call, or its refusal as a status."""
    try:
        told = await work
    except asyncio.CancelledError:
        call.log("CANCELLED")
        raise
    except Exception as error:
        await context.abort_with_status(status_of(call.refused(error)))
        raise AssertionError("unreachable") from error
    call.sent += told.ByteSize()
    call.log("OK")
    return told


def streaming(
    method: Callable[[Self, Asked, Context], AsyncGenerator[Part, None]],
) -> Callable[[Self, Asked, Context], AsyncGenerator[Part, None]]:
    """A method that answers with a stream, of messages or of serialized ones."""

    @functools.wraps(method)
    async def stream(self: Self, asked: Asked, context: Context) -> AsyncGenerator[Part, None]:
        call = Call(method.__name__, asked)
        try:
            # Closed at once when the client goes away, not when the garbage is collected.
            async with contextlib.aclosing(method(self, asked, context)) as parts:
                async for part in parts:
                    call.sent += len(part) if isinstance(part, bytes) else part.ByteSize()
                    yield part
        except (asyncio.CancelledError, GeneratorExit):
            call.log("CANCELLED")
            raise
        except Exception as error:  # noqa: BLE001 - as above
            await context.abort_with_status(status_of(call.refused(error)))
        else:
            call.log("OK")

    return stream


class Call:
    """One call, for its line in the log: no bodies, and no tokens."""

    def __init__(self, method: str, asked: object) -> None:
        self.sent = 0
        self._started = time.monotonic()
        self._fields: dict[str, object] = {"method": method}
        for name in ("sandbox_id", "exec_id", "run_id"):
            value = getattr(asked, name, "")
            if value:
                self._fields[name] = value[:MAX_LOGGED]

    def refused(self, error: Exception) -> RefusedError:
        """What the client is told of an exception, logged."""
        refusal = refusal_of(error)
        code = CODES[refusal.reason].name
        if refusal.reason == "BUG":
            self._log(log.error, code, reason="BUG", id=refusal.metadata.get("id"), exc_info=error)
        else:
            self._log(log.info, code, reason=refusal.reason, message=refusal.message)
        return refusal

    def log(self, code: str) -> None:
        """Its line, when nothing was refused."""
        self._log(log.debug if self._fields["method"] in FREQUENT else log.info, code)

    def _log(self, write: Callable[..., object], code: str, **more: object) -> None:
        took = round(1000 * (time.monotonic() - self._started), 1)
        write("call", code=code, ms=took, bytes=self.sent, **self._fields, **more)


def refusal_of(error: Exception) -> RefusedError:
    """What the client is told of an exception. A bug gets an id that the log has with its traceback."""
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, BackendError):
        refusal = RefusedError(error.reason, error.message)
        refusal.metadata.update(error.metadata)
        return refusal
    return RefusedError("BUG", "an unexpected error of the daemon; its log has it", id=uuid.uuid4().hex[:8])
