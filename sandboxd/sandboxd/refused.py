"""What the daemon says no with: a reason from the contract's closed list, a sentence, and facts for programs."""

from __future__ import annotations


class RefusedError(Exception):
    """`reason` is a name of the wire's `Reason`; `retry_after` in seconds, for those that pass with time."""

    def __init__(self, reason: str, message: str, *, retry_after: float | None = None, **metadata: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.metadata = metadata
        self.retry_after = retry_after


def invalid(field: str, found: str, allowed: str) -> RefusedError:
    """A field of a request that can't be taken."""
    return RefusedError(
        "SPEC_INVALID", f"{field}: found {found}; allowed is {allowed}", field=field, found=found, allowed=allowed
    )
