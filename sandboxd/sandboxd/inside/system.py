"""The system calls of the supervisor that Python has no function for, and giving up privilege, on Linux.

Numbers are those of linux/prctl.h, linux/sched.h, linux/mount.h, linux/capability.h and linux/seccomp.h. On other
systems the calls that only harden are left out, and those that isolate raise OSError.
"""

from __future__ import annotations

import ctypes
import os
import sys

LINUX = sys.platform == "linux"

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP = 1, 4, 22
PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 24, 36, 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
SECCOMP_MODE_FILTER = 2
CLONE_NEWUSER = 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 0x1, 0x2, 0x4, 0x8, 0x20, 0x1000
LINUX_CAPABILITY_VERSION_3 = 0x20080522
LAST_CAPABILITY = 63

NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "uts")

_libc = ctypes.CDLL(None, use_errno=True)


class SealError(Exception):
    """A privilege could not be given up; nothing may run in this sandbox."""


def set_dumpable(dumpable: bool) -> None:
    """Whether processes of the same user may read and trace this one (PR_SET_DUMPABLE). Children inherit it."""
    if LINUX:
        _call(_libc.prctl, PR_SET_DUMPABLE, int(dumpable), 0, 0, 0)


def adopt_orphans() -> bool:
    """Become the parent of descendants that lose theirs; False where a system has no such thing."""
    if not LINUX:
        return False
    _call(_libc.prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return True


def signal_at_parents_end(number: int) -> None:
    """Ask the kernel to signal this process when its parent ends."""
    if LINUX:
        _call(_libc.prctl, PR_SET_PDEATHSIG, number, 0, 0, 0)


def open_low_ports() -> None:
    """Let everybody in this network namespace bind ports below 1024. Needs CAP_NET_ADMIN over it."""
    _write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")


def limit_inodes(path: str, size: int, inodes: int) -> None:
    """Bound how many files a tmpfs holds. Needs CAP_SYS_ADMIN."""
    _mount(None, path, MS_REMOUNT | MS_NOSUID | MS_NODEV, f"size={size},nr_inodes={inodes},mode=1777")


def seal(uid: int, gid: int, seccomp_filter: bytes, *, empty: str) -> None:
    """Become an ordinary user without any privilege over the sandbox's namespaces, for good.

    The sandbox's namespaces belong to the user namespace that this process has been in so far, where no further
    namespace can be made from now on; it moves on to a nested one, maps itself to `uid` and `gid`, and drops every
    capability there too. What `/proc` tells of it is covered by the directory `empty`: some of its files are open to
    whoever has its user's number. Then system calls are filtered. Raises SealError.
    """
    try:
        status = os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)
        _forbid_namespaces()
        _enter_user_namespace(uid, gid, empty)
        _drop_capabilities()
        _call(_libc.prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        _filter_system_calls(seccomp_filter)
        _check_sealed(os.pread(status, 1 << 16, 0).decode(), uid)
        os.close(status)
    except OSError as error:
        raise SealError(str(error)) from error


def _forbid_namespaces() -> None:
    for kind in NAMESPACES:
        if os.path.exists(f"/proc/sys/user/max_{kind}_namespaces"):  # noqa: PTH110 pathlib costs a third of the start
            _write(f"/proc/sys/user/max_{kind}_namespaces", "0")
    _write("/proc/sys/user/max_user_namespaces", "1")  # the one below


def _enter_user_namespace(uid: int, gid: int, empty: str) -> None:
    # Opened before: in the new namespace there is no privilege to pass the cover.
    own = os.open("/proc/self", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    _mount(empty, f"/proc/{os.getpid()}", MS_BIND)
    _mount(None, f"/proc/{os.getpid()}", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    outer_uid, outer_gid = os.getuid(), os.getgid()
    _call(_libc.unshare, CLONE_NEWUSER)
    _write("setgroups", "deny", own)
    _write("uid_map", f"{uid} {outer_uid} 1", own)
    _write("gid_map", f"{gid} {outer_gid} 1", own)
    os.close(own)


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def _drop_capabilities() -> None:
    _call(_libc.prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in range(LAST_CAPABILITY + 1):
        # The kernel has fewer: it answers EINVAL for the rest.
        _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = _CapabilityHeader(LINUX_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _call(_libc.capset, ctypes.byref(header), nothing)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _filter_system_calls(program: bytes) -> None:
    instruction = 8  # bytes of a struct sock_filter
    described = _Program(len(program) // instruction, program)
    _call(_libc.prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(described), 0, 0)


def _check_sealed(status: str, uid: int) -> None:
    """What the kernel says about this process must be what was asked of it."""
    found = {name: value.split() for name, _, value in (line.partition(":") for line in status.splitlines())}
    wanted = {name: ["0" * 16] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    wanted |= {"NoNewPrivs": ["1"], "Seccomp": ["2"]}
    for name, value in wanted.items():
        if found.get(name) != value:
            raise SealError(f"{name} is {' '.join(found.get(name, ['absent']))}, and should be {value[0]}")
    if (os.getuid(), os.geteuid()) != (uid, uid):
        raise SealError(f"the user is {os.getuid()}, and should be {uid}")


def _mount(source: str | None, target: str, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, data)]
    _call(_libc.mount, encoded[0], encoded[1], None, ctypes.c_ulong(flags), encoded[2])


def _write(path: str, text: str, directory: int | None = None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _call(function: object, *arguments: object) -> None:
    if function(*arguments) != 0:  # type: ignore[operator]  # ctypes' functions have no public type
        number = ctypes.get_errno()
        raise OSError(number, f"{getattr(function, '__name__', 'call')}: {os.strerror(number)}")
