"""The filter on system calls, run instruction by instruction as the kernel would."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sandboxd.backends.bubblewrap import seccomp
from sandboxd.backends.bubblewrap.seccomp import ALLOW, AUDIT_ARCH, ERRNO, KILL_PROCESS, MACHINES

REFUSED, UNKNOWN = ERRNO | seccomp.EPERM, ERRNO | seccomp.ENOSYS
Arguments = tuple[int, ...]


def run(machine: str, number: int, arguments: Arguments = (), architecture: int | None = None) -> int:
    """What the filter says of a call: classic BPF over struct seccomp_data (linux/filter.h, linux/seccomp.h)."""
    code = list(struct.iter_unpack("=HBBI", seccomp.program(machine)))
    padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("=iIQ6Q", number, AUDIT_ARCH[machine] if architecture is None else architecture, 0, *padded)
    at = accumulator = 0
    while True:
        kind, then, otherwise, value = code[at]
        at += 1
        if kind == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif kind == 0x06:
            return int(value)
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[kind]
            at += then if holds else otherwise


def number(machine: str, name: str) -> int:
    pair = {**seccomp.REFUSED, **seccomp.CHECKED}[name]
    found = pair[MACHINES.index(machine)]
    assert found is not None
    return found


HIGH = 1 << 32  # bits of an argument that the kernel does not look at for an int
CALLS: dict[str, tuple[str, Arguments, int]] = {
    "a socket of unix": ("socket", (1, 1, 0), ALLOW),
    "a socket of IPv4": ("socket", (2, 1, 0), ALLOW),
    "a socket of IPv6": ("socket", (10, 2, 0), ALLOW),
    "a socket of netlink's routes": ("socket", (16, 3, 0), ALLOW),
    "a socket of netlink's packet filter": ("socket", (16, 3, 12), REFUSED),
    "a socket to the hypervisor": ("socket", (40, 1, 0), REFUSED),
    "a socket to the hypervisor with high bits": ("socket", (HIGH | 40, 1, 0), REFUSED),
    "a socket of packets": ("socket", (17, 3, 0), REFUSED),
    "a pair of unix sockets": ("socketpair", (1, 1, 0), ALLOW),
    "a pair of other sockets": ("socketpair", (30, 1, 0), REFUSED),
    "a fork": ("clone", (0x01200011,), ALLOW),
    "a thread": ("clone", (0x003D0F00,), ALLOW),
    "a user namespace": ("clone", (0x10000011,), REFUSED),
    "a network namespace with high bits": ("clone", (HIGH | 0x40000011,), REFUSED),
    "a time namespace": ("unshare", (0x80,), REFUSED),
    "a mount namespace": ("unshare", (0x00020000,), REFUSED),
    "file tables of its own": ("unshare", (0x400,), ALLOW),
    "clone3": ("clone3", (0, 88), UNKNOWN),
    "a terminal's size": ("ioctl", (0, 0x5413), ALLOW),
    "a terminal's input": ("ioctl", (0, 0x5412), REFUSED),
    "a terminal's input with high bits": ("ioctl", (0, HIGH | 0x5412), REFUSED),
    "a console's input": ("ioctl", (0, 0x541C), REFUSED),
    "a line discipline": ("ioctl", (0, 0x5423), REFUSED),
    "asking for the personality": ("personality", (0xFFFFFFFF,), ALLOW),
    "addresses that are not random": ("personality", (0x40000,), REFUSED),
    "own limits": ("prlimit64", (0, 7, 0x7FFF00000000, 0), ALLOW),
    "another's limits, to read": ("prlimit64", (1, 7, 0, 0x7FFF00000000), ALLOW),
    "another's limits, to set": ("prlimit64", (1, 7, 0x7FFF00000000, 0), REFUSED),
    "another's limits, to set from low memory": ("prlimit64", (1, 7, 0x1000, 0), REFUSED),
    "io_uring": ("io_uring_setup", (1,), REFUSED),
    "tracing": ("ptrace", (16, 1), REFUSED),
    "keys": ("keyctl", (0,), REFUSED),
    "a mount": ("mount", (), REFUSED),
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("name", "arguments", "expected"), CALLS.values(), ids=CALLS.keys())
def test_a_call_is_judged(machine: str, name: str, arguments: Arguments, expected: int) -> None:
    assert run(machine, number(machine, name), arguments) == expected


@pytest.mark.parametrize("machine", MACHINES)
def test_all_that_is_listed_is_refused_and_all_else_is_allowed(machine: str) -> None:
    column = MACHINES.index(machine)
    refused = {pair[column] for pair in seccomp.REFUSED.values()}
    checked = {pair[column] for pair in seccomp.CHECKED.values()}
    for each in set(range(seccomp.LAST_KNOWN + 1)) - checked:
        assert run(machine, each) == (REFUSED if each in refused else ALLOW), each


@pytest.mark.parametrize("machine", MACHINES)
@given(each=st.integers(seccomp.LAST_KNOWN + 1, seccomp.X32_BIT - 1), first=st.integers(0, 2**64 - 1))
def test_a_call_that_is_newer_than_the_list_is_not_there(machine: str, each: int, first: int) -> None:
    assert run(machine, each, (first,)) == UNKNOWN


@given(each=st.integers(0, 0x3FFFFFFF), first=st.integers(0, 2**64 - 1))
def test_the_x32_table_ends_a_process(each: int, first: int) -> None:
    number_of_x32 = struct.unpack("=i", struct.pack("=I", seccomp.X32_BIT | each))[0]
    assert run("x86_64", number_of_x32, (first,)) == KILL_PROCESS


# AUDIT_ARCH_I386, ARM, and each machine's on the other.
@pytest.mark.parametrize(
    ("machine", "other"), [("x86_64", 0x40000003), ("aarch64", 0x40000028), ("x86_64", 0xC00000B7)]
)
@given(each=st.integers(0, 500))
def test_another_machines_table_ends_a_process(machine: str, other: int, each: int) -> None:
    assert run(machine, each, architecture=other) == KILL_PROCESS


def test_a_machine_that_is_not_known_has_no_filter() -> None:
    with pytest.raises(KeyError):
        seccomp.program("riscv64")
