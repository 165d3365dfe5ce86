"""Refusals on the wire: a canonical code, and google.rpc.ErrorInfo with a reason from the contract's closed list."""

from __future__ import annotations

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from sandboxd.refused import RefusedError

DOMAIN = "sandboxd"
# A status travels in HTTP/2 trailers, of which a client takes 8 KiB, and the message is in them twice: as it is, and
# with each byte that is not ASCII written as three.
MAX_MESSAGE = 1000
MAX_VALUE = 400

CODES = {
    "SPEC_INVALID": grpc.StatusCode.INVALID_ARGUMENT,
    "CERT_REQUIRED": grpc.StatusCode.UNAUTHENTICATED,
    "ROLE": grpc.StatusCode.PERMISSION_DENIED,
    "NOT_OWNER": grpc.StatusCode.PERMISSION_DENIED,
    "SANDBOX_UNKNOWN": grpc.StatusCode.NOT_FOUND,
    "EXEC_UNKNOWN": grpc.StatusCode.NOT_FOUND,
    "PATH_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "ID_REUSED": grpc.StatusCode.ALREADY_EXISTS,
    "STALE_OWNER": grpc.StatusCode.ABORTED,
    "TOMBSTONED": grpc.StatusCode.ABORTED,
    "LEASE_EXPIRED": grpc.StatusCode.FAILED_PRECONDITION,
    "SANDBOX_LOST": grpc.StatusCode.FAILED_PRECONDITION,
    "NOT_READY": grpc.StatusCode.FAILED_PRECONDITION,
    "BACKEND_UNSUPPORTED": grpc.StatusCode.FAILED_PRECONDITION,
    "ISOLATION_UNAVAILABLE": grpc.StatusCode.FAILED_PRECONDITION,
    "API_RANGE": grpc.StatusCode.FAILED_PRECONDITION,
    "IMAGE_UNAVAILABLE": grpc.StatusCode.FAILED_PRECONDITION,
    "NO_SLOT": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "DISK_LOW": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "MEMORY": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "LIMIT_PER_OWNER": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "BACKEND_DOWN": grpc.StatusCode.UNAVAILABLE,
    "DRAINING": grpc.StatusCode.UNAVAILABLE,
    "STARTING": grpc.StatusCode.UNAVAILABLE,
    "OFFSET_BEYOND_END": grpc.StatusCode.OUT_OF_RANGE,
    "LOG_CORRUPT": grpc.StatusCode.DATA_LOSS,
    "FEATURE_UNKNOWN": grpc.StatusCode.UNIMPLEMENTED,
    "BUG": grpc.StatusCode.INTERNAL,
}


def status_of(refusal: RefusedError) -> grpc.Status:
    """The refusal as a status that grpc's `abort_with_status` takes."""
    metadata = {name: shortened(value, MAX_VALUE) for name, value in refusal.metadata.items()}
    info = error_details_pb2.ErrorInfo(reason=refusal.reason, domain=DOMAIN, metadata=metadata)
    details = [_packed(info)]
    if refusal.retry_after is not None:
        wait = duration_pb2.Duration()
        wait.FromNanoseconds(int(refusal.retry_after * 1e9))
        details.append(_packed(error_details_pb2.RetryInfo(retry_delay=wait)))
    code: int = CODES[refusal.reason].value[0]
    status: grpc.Status = rpc_status.to_status(
        status_pb2.Status(code=code, message=shortened(refusal.message, MAX_MESSAGE), details=details)
    )
    return status


def _packed(message: error_details_pb2.ErrorInfo | error_details_pb2.RetryInfo) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed


def shortened(text: str, size: int) -> str:
    """At most so many bytes of a text, in UTF-8."""
    encoded = text.encode(errors="replace")
    return text if len(encoded) <= size else encoded[: size - 3].decode(errors="ignore") + "..."
