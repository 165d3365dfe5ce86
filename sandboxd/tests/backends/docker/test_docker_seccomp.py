"""The filter on system calls: as a list, and as a process in a sandbox meets it."""

from __future__ import annotations

import json

import pytest
from sandboxd.backends.docker import seccomp

from .conftest import Box

EPERM, ENOSYS = 1, 38

# Numbers of x86_64 (arch/x86/entry/syscalls/syscall_64.tbl) and of aarch64 (asm-generic/unistd.h).
REFUSED = {
    "io_uring_setup": (425, 425),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "fsopen": (430, 430),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "open_by_handle_at": (304, 265),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "chroot": (161, 51),
    "settimeofday": (164, 170),
    "swapon": (167, 224),
    "pidfd_getfd": (438, 438),
    "quotactl": (179, 60),
    "syslog": (103, 116),
    "reboot": (169, 142),
}
FAMILIES = {
    "AF_VSOCK": 40,
    "AF_PACKET": 17,
    "AF_ALG": 38,
    "AF_XDP": 44,
    "AF_KEY": 15,
    "AF_TIPC": 30,
    "AF_RDS": 21,
    "AF_BLUETOOTH": 31,
    "AF_CAN": 29,
    "AF_AX25": 3,
    "AF_APPLETALK": 5,
    "AF_UNSPEC": 0,
    "a family with high bits set": 1 << 32 | 1,
}

PROBE = """
import ctypes, json, platform
libc = ctypes.CDLL(None, use_errno=True)
at = 0 if platform.machine() == "x86_64" else 1
def errno(*arguments):
    ctypes.set_errno(0)
    libc.syscall(*(ctypes.c_ulong(a) for a in arguments))
    return ctypes.get_errno()
socket, clone3, personality, clone = ((41, 435, 135, 56), (198, 435, 92, 220))[at]
print(json.dumps({
    **{name: errno(numbers[at], 0, 0, 0, 0, 0) for name, numbers in %(refused)r.items()},
    **{name: errno(socket, family, 1, 0) for name, family in %(families)r.items()},
    "clone3": errno(clone3, 0, 0),
    "personality": errno(personality, 0x0040000),
    "clone into a user namespace": errno(clone, 0x10000000, 0, 0, 0, 0),
}))
"""


def test_the_profile_is_an_allowlist_of_one_architecture() -> None:
    profile = json.loads(seccomp.profile("x86_64"))
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert profile["architectures"] == ["SCMP_ARCH_X86_64"]
    assert {rule["action"] for rule in profile["syscalls"] if rule["names"] != ["clone3"]} == {"SCMP_ACT_ALLOW"}


@pytest.mark.parametrize("name", [*REFUSED, "io_uring_enter", "socketcall", "mknod_device", "kexec_file_load", "acct"])
def test_a_call_that_could_get_out_is_in_no_rule(name: str) -> None:
    profile = json.loads(seccomp.profile("aarch64"))
    assert name not in {one for rule in profile["syscalls"] for one in rule["names"]}


def test_sockets_are_of_four_families() -> None:
    rules = [rule for rule in json.loads(seccomp.profile("x86_64"))["syscalls"] if "socket" in rule["names"]]
    assert [[condition["value"] for condition in rule["args"]] for rule in rules] == [[1], [2], [10], [16]]


async def test_a_process_in_a_sandbox_is_refused(box: Box) -> None:
    _, said = await box.python(PROBE % {"refused": REFUSED, "families": FAMILIES})
    found = json.loads(said)
    assert found.pop("clone3") == ENOSYS
    assert {name: number for name, number in found.items() if number != EPERM} == {}


async def test_a_32_bit_system_call_ends_the_process(box: Box) -> None:
    # mov eax, 20; int 0x80; ret: getpid of the 32-bit table.
    exited, said = await box.python(
        "import ctypes, mmap\n"
        "page = mmap.mmap(-1, 4096, prot=7)\n"
        "page.write(bytes([0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3]))\n"
        "address = ctypes.addressof(ctypes.c_char.from_buffer(page))\n"
        "print(ctypes.CFUNCTYPE(ctypes.c_int)(address)())\n"
    )
    assert exited.signal in (31, 11)  # SIGSYS by the filter, or SIGSEGV where the kernel has no 32-bit entry
    assert said == ""


async def test_what_tools_need_works(box: Box) -> None:
    exited, said = await box.python(
        "import socket, threading, subprocess, os, signal, multiprocessing.shared_memory as m\n"
        "[socket.socket(f, t).close() for f, t in ((1, 1), (2, 1), (2, 2), (10, 1), (16, 3))]\n"
        "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
        "print(subprocess.run(['true']).returncode, os.memfd_create('x') > 0, len(os.getrandom(8)))\n"
        "s = m.SharedMemory(create=True, size=10); s.close(); s.unlink(); print('shared')\n"
    )
    assert (exited.code, said.split()) == (0, ["thread", "0", "True", "8", "shared"])
