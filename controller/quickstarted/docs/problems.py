"""Why a page can't be read: a closed list, shared by events, answers and documentation."""

from __future__ import annotations

from enum import StrEnum


class Problem(StrEnum):
    """`reason` of the events `docs_read_blocked` (the first group) and `docs_read_error` (the rest)."""

    # refused before a byte was sent
    MALFORMED_URL = "malformed_url"
    SCHEME = "scheme_not_allowed"
    USERINFO = "userinfo_in_url"
    PORT = "port_not_allowed"
    NOT_ALLOWLISTED = "not_allowlisted"
    DOWNGRADE = "https_to_http"
    PRIVATE_ADDRESS = "private_address"
    ROBOTS = "robots_disallowed"
    # the server, or what it sent
    HTTP_STATUS = "http_status"
    TOO_MANY_REDIRECTS = "too_many_redirects"
    BAD_REDIRECT = "bad_redirect"
    UNREADABLE_TYPE = "unreadable_type"
    TOO_LARGE = "too_large"
    BAD_ENCODING = "bad_encoding"
    PDF = "unreadable_pdf"
    CONVERSION = "conversion_failed"
    # the way to it
    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    PROTOCOL = "protocol"
    TIMEOUT = "timeout"
    TRY_LATER = "try_later"
    # the reading
    BAD_OFFSET = "bad_offset"
    CANCELLED = "cancelled"
    # the snapshot
    OFFLINE = "not_in_snapshot"
    SNAPSHOT = "snapshot_corrupt"
    SNAPSHOT_WRITE = "snapshot_not_written"


_BLOCKED = frozenset(
    (
        Problem.MALFORMED_URL,
        Problem.SCHEME,
        Problem.USERINFO,
        Problem.PORT,
        Problem.NOT_ALLOWLISTED,
        Problem.DOWNGRADE,
        Problem.PRIVATE_ADDRESS,
        Problem.ROBOTS,
    )
)
# Another try may go well, and it says nothing about the documentation.
_TRANSIENT = frozenset((Problem.DNS, Problem.CONNECT, Problem.PROTOCOL, Problem.TIMEOUT, Problem.TRY_LATER))


class ReadError(Exception):
    """A page can't be read. The message is one sentence for the model; `fields` go into the event."""

    def __init__(self, problem: Problem, message: str, **fields: object) -> None:
        super().__init__(message)
        self.problem = problem
        self.message = message
        self.fields = fields

    @property
    def blocked(self) -> bool:
        """Whether a rule of ours refused it, as opposed to something that went wrong."""
        return self.problem in _BLOCKED

    @property
    def transient(self) -> bool:
        return self.problem in _TRANSIENT
