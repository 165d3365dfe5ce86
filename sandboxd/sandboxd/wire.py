"""The contract's names for the daemon's values, in both directions."""

from __future__ import annotations

from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd.backends.base import BackendKind

KINDS = {
    BackendKind.DOCKER: pb.DOCKER,
    BackendKind.BUBBLEWRAP: pb.BUBBLEWRAP,
    BackendKind.SEATBELT: pb.SEATBELT,
    BackendKind.LOCAL: pb.LOCAL,
}
FROM_KINDS = {value: kind for kind, value in KINDS.items()}
