"""What a failed call means: gRPC's errors become `SandboxError`, and each reason has one outcome class.

The daemon says why in `google.rpc.ErrorInfo`. A call that failed without it failed on the way: nobody answered, or
what answered does not speak the contract.
"""

from __future__ import annotations

from enum import StrEnum

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from grpc import aio
from quickstarted_api.v1 import sandbox_pb2 as pb

from quickstarted.sandbox.base import SandboxError
from quickstarted.sandbox.names import name_of

DOMAIN = "sandboxd"
_DETAILS = "grpc-status-details-bin"


class Outcome(StrEnum):
    """What the controller does about a reason."""

    CONFIGURATION = "configuration"  # stop and tell
    WAIT = "wait"  # ask again later
    ELSEWHERE = "elsewhere"  # another runner might; with one runner, ask again later
    INFRA = "infra"  # recorded as infra_error


_OUTCOMES = {
    "SPEC_INVALID": Outcome.CONFIGURATION,
    "CERT_REQUIRED": Outcome.CONFIGURATION,
    "ROLE": Outcome.CONFIGURATION,
    "NOT_OWNER": Outcome.CONFIGURATION,
    "ID_REUSED": Outcome.CONFIGURATION,
    "BACKEND_UNSUPPORTED": Outcome.CONFIGURATION,
    "ISOLATION_UNAVAILABLE": Outcome.CONFIGURATION,
    "API_RANGE": Outcome.CONFIGURATION,
    "IMAGE_UNAVAILABLE": Outcome.CONFIGURATION,
    "OFFSET_BEYOND_END": Outcome.CONFIGURATION,
    "FEATURE_UNKNOWN": Outcome.CONFIGURATION,
    "NO_SLOT": Outcome.WAIT,
    "DISK_LOW": Outcome.WAIT,
    "MEMORY": Outcome.WAIT,
    "LIMIT_PER_OWNER": Outcome.WAIT,
    "STARTING": Outcome.WAIT,
    "BACKEND_DOWN": Outcome.ELSEWHERE,
    "DRAINING": Outcome.ELSEWHERE,
}  # every other reason is INFRA


def outcome(reason: str) -> Outcome:
    """The outcome class of a reason. A reason that this version does not know is the runner's own matter."""
    return _OUTCOMES.get(reason, Outcome.INFRA)


class CallError(SandboxError):
    """A call that failed. `transient`: asking again at once can help. `retry_after` is the daemon's wish in seconds."""

    def __init__(
        self,
        reason: str,
        message: str,
        metadata: dict[str, str] | None = None,
        *,
        transient: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(reason, message, metadata)
        self.transient = transient
        self.retry_after = retry_after


def read(error: aio.AioRpcError, runner: str) -> CallError:
    """What a failed call means. `runner` is its name for people."""
    info, retry_after = _details(error)
    said = error.details() or error.code().name
    if info is not None:
        return CallError(
            info.reason, said, dict(info.metadata), transient=info.reason == "STARTING", retry_after=retry_after
        )
    match error.code():
        case grpc.StatusCode.UNAVAILABLE:
            message = f"the runner {runner} does not answer"
            return CallError("SANDBOX_LOST", message, {"cause": "unreachable"}, transient=True)
        case grpc.StatusCode.DEADLINE_EXCEEDED | grpc.StatusCode.CANCELLED:
            message = f"the runner {runner} did not answer in time"
            return CallError("SANDBOX_LOST", message, {"cause": "deadline"}, transient=True)
        case grpc.StatusCode.UNIMPLEMENTED:
            return CallError("API_RANGE", f"no sandboxd that this version can talk to answers at {runner}: {said}")
        case code:
            return CallError("BUG", f"the runner {runner} failed: {code.name}: {said}")


def from_failure(failure: pb.Failure) -> SandboxError:
    """The error that a sandbox or a renewal carries."""
    return SandboxError(name_of(pb.Reason.DESCRIPTOR, failure.reason), failure.message, dict(failure.metadata))


def _details(error: aio.AioRpcError) -> tuple[error_details_pb2.ErrorInfo | None, float | None]:
    info, retry_after = None, None
    for key, value in error.trailing_metadata() or ():
        if key != _DETAILS or not isinstance(value, bytes):
            continue
        try:
            status = status_pb2.Status.FromString(value)
        except DecodeError:
            continue  # not ours to read; the code and its text remain
        for detail in status.details:
            if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
                candidate = error_details_pb2.ErrorInfo.FromString(detail.value)
                info = candidate if candidate.domain == DOMAIN else info
            elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
                retry_after = (
                    error_details_pb2.RetryInfo.FromString(detail.value).retry_delay.ToTimedelta().total_seconds()
                )
    return info, retry_after
