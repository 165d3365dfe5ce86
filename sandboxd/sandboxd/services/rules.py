"""The bounds of requests, checked before anything is done. A refusal names the field, what was found, what may be."""

from __future__ import annotations

import re

from quickstarted_api.hosts import HostError, parse_host
from quickstarted_api.v1 import sandbox_pb2 as pb

from sandboxd.commands import seconds
from sandboxd.refused import RefusedError, invalid

MAX_EXEC_TIMEOUT = 24 * 3600.0
MAX_OUTPUT = 1 << 34
MAX_ARGV = 4096
MAX_ARGV_BYTES = 128 * 1024
MAX_ENV = 256
MAX_PATH = 4096  # PATH_MAX
MAX_STDIN = 64 * 1024
MAX_LABELS = 64
MAX_LABEL = 1024
MAX_HOSTS = 1024
MAX_BATCH = 4096

_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_id(field: str, value: str) -> None:
    """An id of the client's. It becomes part of paths and container names."""
    if not _ID.fullmatch(value) or value.startswith("."):
        raise invalid(field, repr(value[:120]), "1 to 100 letters, digits, '.', '_' and '-', not starting with '.'")


def check_create(asked: pb.CreateRequest) -> None:
    check_id("sandbox_id", asked.sandbox_id)
    check_id("run_id", asked.run_id)
    spec = asked.spec
    if spec.backend not in pb.BackendKind.values():
        raise RefusedError("FEATURE_UNKNOWN", f"there is no backend {spec.backend}", feature=f"backend {spec.backend}")
    _check_map("spec.labels", dict(spec.labels), MAX_LABELS)
    if len(spec.image) > MAX_LABEL or any(char <= " " or char == "\x7f" for char in spec.image):
        raise invalid("spec.image", repr(spec.image[:120]), "an image's name, without spaces")
    for name in ("explicit_hosts", "docs_hosts", "registry_hosts"):
        hosts = getattr(spec.network, name)
        if len(hosts) > MAX_HOSTS:
            raise invalid(f"spec.network.{name}", f"{len(hosts)} hosts", f"{MAX_HOSTS} at most")
        for index, host in enumerate(hosts):
            _check_host(f"spec.network.{name}[{index}]", host)


def check_start(asked: pb.StartRequest) -> pb.ExecSpec:
    """The spec as it will be honoured."""
    check_id("exec_id", asked.exec_id)
    spec = asked.spec
    size = sum(len(word.encode()) + 1 for word in spec.argv)
    if not 1 <= len(spec.argv) <= MAX_ARGV or size > MAX_ARGV_BYTES:
        found = f"{len(spec.argv)} words of {size} bytes"
        raise invalid("spec.argv", found, f"1 to {MAX_ARGV} words of {MAX_ARGV_BYTES} bytes together")
    for field, values in (("spec.argv", spec.argv), ("spec.cwd", [spec.cwd]), ("spec.env", spec.env.values())):
        if any("\0" in value for value in values):
            raise invalid(field, "a NUL character", "text without NUL")
    _check_map("spec.env", dict(spec.env), MAX_ENV)
    for name in spec.env:
        if not _ENV_NAME.fullmatch(name):
            raise invalid("spec.env", repr(name[:120]), "names of letters, digits and '_'")
    if len(spec.cwd.encode()) > MAX_PATH:
        raise invalid("spec.cwd", f"{len(spec.cwd.encode())} bytes", f"{MAX_PATH} at most")
    size = sum(len(name) + len(value.encode()) + 2 for name, value in spec.env.items())
    if size > MAX_ARGV_BYTES:
        raise invalid("spec.env", f"{size} bytes", f"{MAX_ARGV_BYTES} together at most")
    if len(spec.stdin) > MAX_STDIN:
        raise invalid("spec.stdin", f"{len(spec.stdin)} bytes", f"{MAX_STDIN} at most")
    timeout = seconds(spec.timeout)
    if not 0 < timeout <= MAX_EXEC_TIMEOUT:
        raise invalid("spec.timeout", f"{timeout:g} s", f"more than 0 and at most {MAX_EXEC_TIMEOUT:g} s")
    if not 0 <= seconds(spec.kill_grace) <= 60:
        raise invalid("spec.kill_grace", f"{seconds(spec.kill_grace):g} s", "0 to 60 s")
    if spec.output_limit > MAX_OUTPUT:
        raise invalid("spec.output_limit", f"{spec.output_limit} bytes", f"{MAX_OUTPUT} at most")
    return spec


def check_signal(number: int) -> None:
    if not 1 <= number <= 31:
        raise invalid("signal", str(number), "1 to 31")


def _check_map(field: str, values: dict[str, str], most: int) -> None:
    if len(values) > most:
        raise invalid(field, f"{len(values)} entries", f"{most} at most")
    if any(len(name) > MAX_LABEL or len(value) > MAX_ARGV_BYTES for name, value in values.items()):
        raise invalid(field, "an entry that is too long", f"names of {MAX_LABEL} and values of {MAX_ARGV_BYTES} bytes")


def _check_host(field: str, host: str) -> None:
    try:
        canonical = parse_host(host)
    except HostError as error:
        raise invalid(field, repr(host[:120]), str(error)) from None
    if canonical != host:
        raise invalid(field, repr(host), f"the canonical form {canonical!r}")
