"""The daemon's settings: flags first, then `SANDBOXD_*` variables, then defaults. Nothing is read later."""

from __future__ import annotations

import argparse
import ipaddress
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import sandboxd
from sandboxd.backends.base import Limits
from sandboxd.instances import default_state_dir

PLANTS = ("auto", "direct", "helper", "relay")
LEVELS = ("debug", "info", "warning", "error")

USAGE_ERROR = 3
# A task's longest time, unless it says otherwise.
DRAIN_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Config:
    """Bytes and host paths. `unix` is the socket's path; `allow_private` are CIDRs."""

    unix: Path
    state: Path
    exit_with_stdin: bool = False
    slots: int = 256
    ca_bundle: str | None = None
    allow_private: tuple[str, ...] = ()
    plant: str = "auto"
    helper_image: str = ""
    inspect: bool = False
    inspect_methods: frozenset[str] = frozenset({"GET", "HEAD"})
    log_level: str = "info"
    drain_seconds: float = DRAIN_SECONDS
    limits: Limits = field(default_factory=Limits)


class Parser(argparse.ArgumentParser):
    """Usage errors are one line and exit code 3."""

    def error(self, message: str) -> None:  # type: ignore[override] # argparse says NoReturn; exit does not return
        self.exit(USAGE_ERROR, f"sandboxd: {message}\n")


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> Config:
    """The configuration of `sandboxd serve`. Exits with a line for people when something is wrong."""
    parser = _parser(environ)
    given = parser.parse_args(argv)
    bundle = given.ca_bundle or environ.get("SSL_CERT_FILE") or None
    if bundle is not None and not os.access(bundle, os.R_OK):
        parser.error(f"--ca-bundle: {bundle} can't be read (it comes from SSL_CERT_FILE when the flag is not given)")
    if "://" in given.unix or given.unix.startswith("unix:"):
        parser.error(f"--unix: found {given.unix!r}; allowed is a path: nothing else is listened on, plain TCP least")
    for network in given.allow_private:
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            parser.error(f"--allow-private: found {network!r}; allowed is a network such as 10.1.0.0/16 ({error})")
    return Config(
        unix=Path(given.unix),
        state=Path(given.state_dir) if given.state_dir else default_state_dir(environ),
        exit_with_stdin=given.exit_with_stdin,
        slots=given.slots,
        ca_bundle=os.path.realpath(bundle) if bundle else None,
        allow_private=tuple(given.allow_private),
        plant=given.plant,
        helper_image=given.helper_image,
        inspect=given.inspect,
        inspect_methods=frozenset(given.inspect_methods),
        log_level=given.log_level,
        drain_seconds=given.drain_seconds,
        limits=Limits(cpus=given.cpus, memory_bytes=given.memory << 20, pids=given.pids, disk_bytes=given.disk << 20),
    )


def _parser(environ: Mapping[str, str]) -> Parser:
    parser = Parser(prog="sandboxd", description=sandboxd.__doc__.splitlines()[0] if sandboxd.__doc__ else None)
    parser.add_argument("--version", action="version", version=f"sandboxd {sandboxd.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="run the daemon in the foreground")
    defaults = Limits()
    serve.add_argument(
        "--unix",
        metavar="PATH",
        default=environ.get("SANDBOXD_UNIX") or _default_socket(environ),
        help="listen on this unix socket (default: %(default)s)",
    )
    serve.add_argument("--state-dir", metavar="DIR", help="where the journal and the sandboxes' directories are")
    serve.add_argument(
        "--exit-with-stdin", action="store_true", help="end, with everything, when standard input is closed"
    )
    serve.add_argument(
        "--slots", type=_count, metavar="N", default=environ.get("SANDBOXD_SLOTS") or 256, help="sandboxes at once"
    )
    serve.add_argument(
        "--ca-bundle", metavar="FILE", help="certificates that sandboxes trust (default: $SSL_CERT_FILE)"
    )
    serve.add_argument(
        "--allow-private",
        metavar="CIDR",
        action="append",
        default=(environ.get("SANDBOXD_ALLOW_PRIVATE") or "").split(),
        help="a private network that allowed hosts may be in; repeatable; recorded in every result",
    )
    serve.add_argument(
        "--plant",
        type=_one_of(PLANTS),
        metavar="WAY",
        default=environ.get("SANDBOXD_PLANT") or "auto",
        help=f"how docker's gateway is made: {', '.join(PLANTS)} (%(default)s)",
    )
    serve.add_argument("--helper-image", metavar="IMAGE", default="", help="an image with python3, for --plant helper")
    serve.add_argument(
        "--inspect",
        action="store_true",
        help="look into TLS: each request is judged and recorded by its URL; programs that trust only their own fail",
    )
    serve.add_argument(
        "--inspect-methods",
        type=_methods,
        metavar="LIST",
        default=("GET", "HEAD"),
        help="what may be asked for where TLS is inspected (default: GET,HEAD)",
    )
    serve.add_argument(
        "--drain-seconds",
        type=_count,
        metavar="N",
        default=DRAIN_SECONDS,
        help="after SIGTERM, wait so long for what runs to end; a second SIGTERM ends it at once (%(default)s)",
    )
    serve.add_argument("--cpus", type=_cores, metavar="N", default=defaults.cpus, help="of a sandbox (%(default)s)")
    serve.add_argument(
        "--memory", type=_count, metavar="MIB", default=defaults.memory_bytes >> 20, help="of a sandbox (%(default)s)"
    )
    serve.add_argument("--pids", type=_count, metavar="N", default=defaults.pids, help="of a sandbox (%(default)s)")
    serve.add_argument(
        "--disk", type=_count, metavar="MIB", default=defaults.disk_bytes >> 20, help="of a sandbox (%(default)s)"
    )
    serve.add_argument(
        "--log-level",
        type=_one_of(LEVELS),
        metavar="LEVEL",
        default=environ.get("SANDBOXD_LOG_LEVEL") or "info",
        help=f"what is told on stderr: {', '.join(LEVELS)} (%(default)s)",
    )
    return parser


def _count(text: str) -> int:
    if not re.fullmatch("[0-9]{1,15}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}; allowed is 1 or more")
    return int(text)


def _cores(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"found {text!r}; allowed is more than 0")
    return value


def _one_of(names: Sequence[str]) -> Callable[[str], str]:
    # Not `choices`: those are not asked about a default, which may come from a variable.
    def check(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"found {text!r}; allowed is one of {', '.join(names)}")
        return text

    return check


def _methods(text: str) -> tuple[str, ...]:
    methods = tuple(text.split(","))
    if not all(re.fullmatch("[A-Z]{1,20}", method) for method in methods):
        raise argparse.ArgumentTypeError(f"found {text!r}; allowed are methods such as GET,HEAD,POST")
    return methods


def _default_socket(environ: Mapping[str, str]) -> str:
    runtime = environ.get("RUNTIME_DIRECTORY") or environ.get("XDG_RUNTIME_DIR")
    base = Path(runtime) if runtime else default_state_dir(environ)
    return str(base / "sandboxd.sock")
