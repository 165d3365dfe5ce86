"""Planting, in a network namespace that the test makes: what is bound, what is captured, and what can't be taken."""

from __future__ import annotations

import subprocess
import sys

import pytest

PRELUDE = """
import ctypes, os, socket, struct, subprocess, sys
assert ctypes.CDLL(None).unshare(0x40000000) == 0
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
from sandboxd.inside.sockets import plant_here
"""
CAPTURED = """
planted = plant_here(may_redirect={redirect})
print(planted.redirected, planted.pool)
pool = {{"198.18.0.0/15": "198.18.7.9", "127.1.0.0/16": "127.1.7.9"}}[planted.pool]
for port in (80, 443):
    client = socket.create_connection((pool, port))
    planted.transparent[port].setblocking(True)
    connection, _ = planted.transparent[port].accept()
    if planted.redirected:
        original = connection.getsockopt(0, 80, 16)  # SOL_IP, SO_ORIGINAL_DST
        print(socket.inet_ntoa(original[4:8]), *struct.unpack_from("!H", original, 2))
    else:
        print(*connection.getsockname())
"""
TAKEN = """
holder = socket.create_server(("0.0.0.0", {port}))
before = len(os.listdir("/proc/self/fd"))
try:
    plant_here(may_redirect=True)
except OSError as error:
    print(error.errno, len(os.listdir("/proc/self/fd")) == before)
"""
WITHOUT_RIGHT = """
open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w").write("0")
os.setresgid(54321, 54321, 54321); os.setresuid(54321, 54321, 54321)
planted = plant_here(may_redirect=True)
print(planted.redirected, planted.pool)
"""


def in_namespace(text: str) -> list[str]:
    command = [sys.executable, "-c", PRELUDE + text]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.splitlines()


def test_with_a_redirect_the_kernel_knows_what_was_dialled() -> None:
    assert in_namespace(CAPTURED.format(redirect=True)) == ["True 198.18.0.0/15", "198.18.7.9 80", "198.18.7.9 443"]


def test_without_a_redirect_the_socket_knows_what_was_dialled() -> None:
    assert in_namespace(CAPTURED.format(redirect=False)) == ["False 127.1.0.0/16", "127.1.7.9 80", "127.1.7.9 443"]


def test_with_a_redirect_the_sandbox_has_80_and_443_itself() -> None:
    text = "plant_here(may_redirect=True)\nfor p in (80, 443): socket.create_server(('0.0.0.0', p)); print(p)"
    assert in_namespace(text) == ["80", "443"]


def test_other_ports_of_the_pool_are_closed_and_there_is_no_other_way() -> None:
    text = """
kept = plant_here(may_redirect=True)
for target in (("198.18.7.9", 22), ("192.0.2.1", 80)):
    try: socket.create_connection(target, 5)
    except OSError as error: print(error.errno)
"""
    assert in_namespace(text) == ["111", "101"]  # ECONNREFUSED, ENETUNREACH


@pytest.mark.parametrize("port", [53, 3128, 3180, 3443])
def test_a_port_that_is_taken_is_an_error_that_leaves_nothing(port: int) -> None:
    assert in_namespace(TAKEN.format(port=port)) == ["98 True"]  # EADDRINUSE


def test_who_may_not_redirect_captures_without() -> None:
    assert in_namespace(WITHOUT_RIGHT) == ["False 127.1.0.0/16"]


def test_the_sockets_wait_for_nobody() -> None:
    text = """
kept = plant_here(may_redirect=True)
print(*{s.getblocking() for s in (kept.proxy, kept.dns_udp, kept.dns_tcp, *kept.transparent.values())})
"""
    assert in_namespace(text) == ["False"]
