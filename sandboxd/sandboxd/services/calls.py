"""What every call goes through: who asks, one log line, refusals with their codes, and no traceback to anybody."""

from __future__ import annotations

import functools
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import grpc
import structlog

from sandboxd.backends.base import BackendError
from sandboxd.refused import RefusedError
from sandboxd.services.errors import status_of

log = structlog.get_logger()

Context = grpc.aio.ServicerContext[Any, Any]
Self = TypeVar("Self")
Asked = TypeVar("Asked")
Told = TypeVar("Told")

# On a unix socket the file system decides who may call, and whoever may is one owner.
LOCAL_CALLER = "local"


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
        started = time.monotonic()
        try:
            told = await method(self, asked, context)
        except Exception as error:
            refusal = refusal_of(error)
            _log_call(method.__name__, asked, started, refusal, error)
            await context.abort_with_status(status_of(refusal))
            raise AssertionError("unreachable") from error
        _log_call(method.__name__, asked, started, None, None)
        return told

    return call


def streaming(
    method: Callable[[Self, Asked, Context], AsyncIterator[Told]],
) -> Callable[[Self, Asked, Context], AsyncIterator[Told]]:
    """A method that answers with a stream."""

    @functools.wraps(method)
    async def call(self: Self, asked: Asked, context: Context) -> AsyncIterator[Told]:
        started = time.monotonic()
        try:
            async for told in method(self, asked, context):
                yield told
        except Exception as error:  # noqa: BLE001 - as above
            refusal = refusal_of(error)
            _log_call(method.__name__, asked, started, refusal, error)
            await context.abort_with_status(status_of(refusal))
        else:
            _log_call(method.__name__, asked, started, None, None)

    return call


def refusal_of(error: Exception) -> RefusedError:
    """What the client is told of an exception. A bug gets an id that the log has with its traceback."""
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, BackendError):
        refusal = RefusedError(error.reason, error.message)
        refusal.metadata.update(error.metadata)
        return refusal
    return RefusedError("BUG", "an unexpected error of the daemon; its log has it", id=uuid.uuid4().hex[:8])


def _log_call(
    method: str, asked: object, started: float, refusal: RefusedError | None, error: Exception | None
) -> None:
    fields: dict[str, object] = {"method": method, "ms": round(1000 * (time.monotonic() - started), 1)}
    for name in ("sandbox_id", "exec_id", "run_id"):
        value = getattr(asked, name, "")
        if value:
            fields[name] = value
    if refusal is None:
        log.debug("call", **fields)
    elif refusal.reason == "BUG":
        log.error("call", reason=refusal.reason, id=refusal.metadata.get("id"), exc_info=error, **fields)
    else:
        log.info("call", reason=refusal.reason, message=refusal.message, **fields)
