"""The one error of the gateway's parsers and rules: something is not let through, for a reason from the closed list."""

from __future__ import annotations

from typing import TypeAlias

from quickstarted_api.v1 import sandbox_pb2 as pb

Layer: TypeAlias = pb.EgressLayer.ValueType
Reason: TypeAlias = pb.EgressReason.ValueType

TARGET_LENGTH = 300  # characters of a raw target that an event keeps, as the contract says


class Refusal(Exception):  # noqa: N818 - a decision, and nothing has gone wrong
    """What was sent, or where it should go, is not let through.

    `reason` is the wire's reason. `detail` is a phrase for people, in printable ASCII: what was found and which rule it
    breaks. Text of the sandbox gets into it through `printable` only.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{pb.EgressReason.Name(reason)}: {detail}")
        self.reason = reason
        self.detail = detail


def printable(raw: bytes | bytearray | str, limit: int = TARGET_LENGTH) -> str:
    r"""Raw text as one line of printable ASCII: everything else, and the backslash, as \xNN. Cut at `limit`."""
    head = raw[: limit + 1]
    data = head.encode("utf-8", "backslashreplace") if isinstance(head, str) else head
    safe = "".join(chr(byte) if 0x20 <= byte < 0x7F and byte != 0x5C else f"\\x{byte:02x}" for byte in data)
    return safe if len(safe) <= limit else safe[: limit - 3] + "..."
