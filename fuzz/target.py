"""Targets: a canonical host and a port, or a refusal; never a name that the system would read as an address."""

from __future__ import annotations

import re
import socket

from quickstarted_api.hosts import parse_host
from sandboxd.egress.http1 import split_absolute
from sandboxd.egress.policy import parse_authority, parse_name
from sandboxd.egress.refusal import Refusal

SEEDS = (
    b"registry.test:443",
    b"REGISTRY.Test.:80",
    b"0x7f.1:443",
    b"[::ffff:127.0.0.1]:443",
    b"http://registry.test:80/a?b=c",
    b"http://user@registry.test/",
    "１２７。０.０.１:443".encode(),  # noqa: RUF001
)

_STRICT = re.compile(r"(?=.{1,253}\Z)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def one(data: bytes) -> None:
    for text in (data.decode("latin-1"), data.decode("utf-8", "replace")):
        _host(text)
        try:
            authority, path = split_absolute(text)
        except Refusal:
            continue
        assert path.startswith("/")
        assert text.endswith((path, path[1:]))
        _host(authority)


def _host(text: str) -> None:
    for read in (parse_name, lambda found: parse_authority(found, 443).host):
        try:
            host = read(text)
        except Refusal as refusal:
            assert refusal.detail.isascii()
            assert refusal.detail.isprintable()
            continue
        assert host == parse_host(host)
        assert _STRICT.fullmatch(host)
        assert text.lower().startswith(host)
        try:
            socket.inet_aton(host)
        except OSError:
            continue
        raise AssertionError(f"the C library reads {host} as an address")
