"""What the gateway says to a client that it doesn't let through.

The reader is a coding agent or a package manager's log, so an answer says what to do instead. Many tools show the
reason phrase alone (pip, Go, apt and git do): it holds the message in short, and the body the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd.egress.http1 import METHODS
from sandboxd.egress.refusal import Reason

SERVER = "sandboxd"


@dataclass(frozen=True, slots=True)
class _Answer:
    """Status, reason phrase, and advice. `{host}` is canonical, or "the host"."""

    status: int
    phrase: str
    advice: str


# What these details hold, addresses among it, is for the events: it would tell a sandbox about the daemon's network.
_KEPT_BACK = frozenset(
    {pb.PRIVATE_ADDRESS, pb.DNS_FAILURE, pb.CONNECT_FAILURE, pb.UPSTREAM_TIMEOUT, pb.UPSTREAM_CLOSED}
)

_ANSWERS: dict[Reason, _Answer] = {
    pb.NOT_ALLOWLISTED: _Answer(
        403,
        "Host {host} is not on the allowlist",
        "This sandbox reaches package registries only. Do without {host}, or get the same thing from a registry. The"
        " author of the task could open it by naming it under network.allow.",
    ),
    pb.DOCS_HOST_REQUIRES_READ_DOCS: _Answer(
        403,
        "Documentation host {host}: use the read_docs tool",
        "Documentation is read with the read_docs tool, not from the shell, so that each page read is on record.",
    ),
    pb.IP_LITERAL: _Answer(403, "Addresses are not allowed: use a name", "Ask for the host by its name."),
    pb.PORT_NOT_ALLOWED: _Answer(
        403,
        "Port not allowed: https on 443 and http on 80 only",
        "Use https on port 443 or plain http on port 80. Git and package managers can: use https addresses.",
    ),
    pb.PRIVATE_ADDRESS: _Answer(
        403,
        "Host {host} has an address that is not public",
        "The daemon does not connect to private addresses. An operator can open named networks: --allow-private.",
    ),
    pb.SELF_CONNECTION: _Answer(
        403,
        "Connect to this sandbox's own servers directly",
        "A server inside this sandbox is reached without the proxy: NO_PROXY names localhost and 127.0.0.1.",
    ),
    pb.MALFORMED_TARGET: _Answer(400, "Malformed target", "The host or URL is not one that this proxy takes."),
    pb.MALFORMED_REQUEST: _Answer(400, "Malformed request", "The request breaks the HTTP/1.1 grammar."),
    pb.AUTHORITY_MISMATCH: _Answer(
        421,
        "Host does not match the target",
        "The Host field has to name the host that the connection or the URL leads to.",
    ),
    pb.METHOD_NOT_ALLOWED: _Answer(405, "Method not allowed", f"Allowed are {', '.join(METHODS)}."),
    pb.SCHEME_NOT_ALLOWED: _Answer(
        400,
        "Scheme not allowed: http, or CONNECT for https",
        "An https URL is asked for through CONNECT: set HTTPS_PROXY (or https_proxy) to this proxy's http:// address.",
    ),
    pb.HEADERS_TOO_LARGE: _Answer(431, "Request head too large", "Send fewer and shorter fields."),
    pb.UPGRADE_NOT_ALLOWED: _Answer(
        400, "Upgrade not allowed", "Only HTTP/1.1 requests are carried in plain text. Use wss or https."
    ),
    pb.TOO_MANY_CONNECTIONS: _Answer(
        503, "Too many connections from this sandbox", "Close some, or open fewer at the same time."
    ),
    pb.TOO_MANY_NAMES: _Answer(
        429, "Too many different hosts", "Wait a minute before asking for further new names below an allowed host."
    ),
    pb.CLIENT_TIMEOUT: _Answer(408, "Request timeout", "The request did not arrive in time."),
    pb.DNS_FAILURE: _Answer(502, "Host {host} could not be resolved", "The name has no address now. Try again later."),
    pb.CONNECT_FAILURE: _Answer(502, "No connection to {host}", "The host does not answer. Try again later."),
    pb.UPSTREAM_TIMEOUT: _Answer(504, "Timeout of {host}", "The host did not answer in time. Try again later."),
    pb.UPSTREAM_CLOSED: _Answer(502, "{host} closed the connection", "The host hung up. Try again."),
    pb.UPSTREAM_MALFORMED: _Answer(502, "Malformed answer of {host}", "The host's answer breaks the HTTP/1.1 grammar."),
}


def status_of(reason: Reason) -> int:
    """The HTTP status that stands for a reason; 0 for those that are never told over HTTP."""
    answer = _ANSWERS.get(reason)
    return answer.status if answer is not None else 0


def refusal(reason: Reason, detail: str, host: str = "", *, with_body: bool = True) -> bytes:
    """A whole response that tells why, and ends the connection. `host` is canonical or empty."""
    answer = _ANSWERS[reason]
    name = pb.EgressReason.Name(reason).lower()
    phrase, advice = (text.format(host=host or "the host") for text in (answer.phrase, answer.advice))
    body = f"sandboxd: {name}: {phrase if reason in _KEPT_BACK else detail}.\n{advice}\n"
    fields = [f"X-Sandboxd-Reason: {name}"]
    if answer.status == 405:
        fields.append(f"Allow: {', '.join(METHODS)}")  # RFC 9110, section 15.5.6
    return _response(answer.status, phrase, fields, body, with_body=with_body)


def banner() -> bytes:
    """The answer to a request for the gateway itself; the self-test of a sandbox looks for its Server field."""
    body = "sandboxd: this is the proxy of this sandbox. Set HTTP_PROXY and HTTPS_PROXY to its address.\n"
    return _response(400, "This is a proxy", [], body, with_body=True)


def established() -> bytes:
    """The answer to CONNECT that opens a tunnel (RFC 9110, section 9.3.6: neither length nor coding)."""
    return b"HTTP/1.1 200 Connection established\r\n\r\n"


def tls_alert(reason: Reason) -> bytes:
    """A fatal alert for a TLS client, so that its error names a cause (RFC 8446, sections 6.2 and B.2)."""
    return b"\x15\x03\x03\x00\x02\x02" + bytes([_ALERTS.get(reason, _INTERNAL_ERROR)])


_INTERNAL_ERROR = 80
_ACCESS_DENIED = 49
_UNRECOGNIZED_NAME = 112
_ALERTS: dict[Reason, int] = {
    pb.NOT_ALLOWLISTED: _ACCESS_DENIED,
    pb.DOCS_HOST_REQUIRES_READ_DOCS: _ACCESS_DENIED,
    pb.PRIVATE_ADDRESS: _ACCESS_DENIED,
    pb.TOO_MANY_NAMES: _ACCESS_DENIED,
    pb.TLS_NAME_MISSING: _UNRECOGNIZED_NAME,
    pb.TLS_NAME_MISMATCH: _UNRECOGNIZED_NAME,
    pb.TLS_NAME_HIDDEN: _UNRECOGNIZED_NAME,
}


def _response(status: int, phrase: str, fields: list[str], body: str, *, with_body: bool) -> bytes:
    content = body.encode("ascii")
    head = [
        f"HTTP/1.1 {status} {phrase}",
        f"Server: {SERVER}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(content)}",
        *fields,
        "Connection: close",
    ]
    return "\r\n".join(head).encode("ascii") + b"\r\n\r\n" + (content if with_body else b"")
