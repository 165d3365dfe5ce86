"""The filter on system calls of a bubblewrap sandbox: the name of a machine in, the program that its kernel takes out.

What is refused, and why:
  * io_uring performs calls that a filter would refuse, out of its sight;
  * socket families other than unix, IPv4, IPv6 and netlink's routes: AF_VSOCK reaches the hypervisor from any network
    namespace, and the rest is only a larger kernel to attack;
  * namespaces, mounts, file handles, keyrings, tracing, other processes' memory and descriptors and limits, bpf, perf,
    userfaultfd, modules, kexec, clocks, swap, quotas, host names, the kernel's log;
  * characters put into a terminal's input (TIOCSTI, TIOCLINUX), and line disciplines;
  * other tables of system calls (32-bit, x32), whose arguments mean something else, and calls newer than this list.

A refused call fails with EPERM, as it does for a user without the right to it. clone3, whose flags a filter can't see,
and calls that are not known fail with ENOSYS, so that programs fall back. The instructions are those of linux/filter.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

EPERM, ENOSYS = 1, 38
ALLOW = 0x7FFF0000
ERRNO = 0x00050000
KILL_PROCESS = 0x80000000

# Offsets in struct seccomp_data; of a 64-bit argument, its lower half comes first on both machines.
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16

# linux/audit.h
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32_BIT = 0x40000000
# file_setattr, the last that Linux 6.18 has.
LAST_KNOWN = 469

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
NETLINK_ROUTE = 0
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET of linux/sched.h; NEWTIME is in unshare alone.
NAMESPACE_FLAGS = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
CLONE_NEWTIME = 0x80
TIOCSTI, TIOCLINUX, TIOCSETD = 0x5412, 0x541C, 0x5423
# Plain Linux, PER_LINUX32, their UNAME26 forms, and the question (personality(2)).
PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)

# Numbers on x86_64 and on aarch64; None where a machine has no such call.
REFUSED: dict[str, tuple[int | None, int | None]] = {
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "statmount": (457, 457),
    "listmount": (458, 458),
    "open_tree_attr": (467, 467),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "memfd_secret": (447, 447),
    "lsm_get_self_attr": (459, 459),
    "lsm_set_self_attr": (460, 460),
    "lsm_list_modules": (461, 461),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "create_module": (174, None),
    "get_kernel_syms": (177, None),
    "query_module": (178, None),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "_sysctl": (156, None),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "vhangup": (153, 58),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "fanotify_init": (300, 262),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
}
CHECKED: dict[str, tuple[int, int]] = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "unshare": (272, 97),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "ioctl": (16, 29),
    "personality": (135, 92),
    "prlimit64": (302, 261),
}
MACHINES = tuple(AUDIT_ARCH)


def program(machine: str) -> bytes:
    """The filter for a machine as `os.uname` names it. Raises KeyError for one that it isn't known for."""
    column = MACHINES.index(machine) if machine in MACHINES else -1
    if column < 0:
        raise KeyError(machine)
    code = _Code()
    code.load(ARCHITECTURE)
    code.unless_equal(AUDIT_ARCH[machine], "kill")
    code.load(NUMBER)
    if machine == "x86_64":
        code.if_at_least(X32_BIT, "kill")
    code.if_at_least(LAST_KNOWN + 1, "unknown")
    code.if_equal(CHECKED["clone3"][column], "unknown")
    for first, last in _ranges(number for pair in REFUSED.values() if (number := pair[column]) is not None):
        code.if_between(first, last, "refuse")
    for name, numbers in CHECKED.items():
        if name != "clone3":
            code.if_equal(numbers[column], name)
    code.end(ALLOW)
    _check_arguments(code)
    code.label("refuse").end(ERRNO | EPERM)
    code.label("unknown").end(ERRNO | ENOSYS)
    code.label("kill").end(KILL_PROCESS)
    code.label("allow").end(ALLOW)
    return code.assemble()


def _check_arguments(code: _Code) -> None:
    code.label("clone").load_argument(0)
    code.if_any_bit(NAMESPACE_FLAGS, "refuse")
    code.end(ALLOW)
    code.label("unshare").load_argument(0)
    code.if_any_bit(NAMESPACE_FLAGS | CLONE_NEWTIME, "refuse")
    code.end(ALLOW)
    code.label("socket").load_argument(0)
    for family in (AF_UNIX, AF_INET, AF_INET6):
        code.if_equal(family, "allow")
    code.unless_equal(AF_NETLINK, "refuse")
    code.load_argument(2)
    code.unless_equal(NETLINK_ROUTE, "refuse")
    code.end(ALLOW)
    code.label("socketpair").load_argument(0)
    code.unless_equal(AF_UNIX, "refuse")
    code.end(ALLOW)
    code.label("ioctl").load_argument(1)
    for request in (TIOCSTI, TIOCLINUX, TIOCSETD):
        code.if_equal(request, "refuse")
    code.end(ALLOW)
    code.label("personality").load_argument(0)
    for allowed in PERSONALITIES:
        code.if_equal(allowed, "allow")
    code.end(ERRNO | EPERM)
    # Another process's limits may be read and not set: the supervisor has the same user.
    code.label("prlimit64").load_argument(0)
    code.if_equal(0, "allow")
    for half in (0, 4):
        code.load_argument(2, half)
        code.unless_equal(0, "refuse")
    code.end(ALLOW)


def _ranges(numbers: Iterator[int]) -> list[tuple[int, int]]:
    """Numbers that follow each other are one range, so that the program is shorter."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


@dataclass
class _Instruction:
    code: int
    value: int
    then: str = ""  # a label; empty is the next instruction
    otherwise: str = ""


@dataclass
class _Code:
    """An assembler for the few instructions that are needed."""

    instructions: list[_Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
    RETURN = 0x06  # BPF_RET | BPF_K
    EQUAL, AT_LEAST, ANY_BIT = 0x15, 0x35, 0x45  # BPF_JMP | BPF_K with BPF_JEQ, BPF_JGE, BPF_JSET

    def label(self, name: str) -> _Code:
        self.labels[name] = len(self.instructions)
        return self

    def load(self, offset: int) -> None:
        self.instructions.append(_Instruction(self.LOAD, offset))

    def load_argument(self, index: int, half: int = 0) -> None:
        self.load(ARGUMENTS + 8 * index + half)

    def end(self, action: int) -> None:
        self.instructions.append(_Instruction(self.RETURN, action))

    def if_equal(self, value: int, label: str) -> None:
        self.instructions.append(_Instruction(self.EQUAL, value, then=label))

    def unless_equal(self, value: int, label: str) -> None:
        self.instructions.append(_Instruction(self.EQUAL, value, otherwise=label))

    def if_at_least(self, value: int, label: str) -> None:
        self.instructions.append(_Instruction(self.AT_LEAST, value, then=label))

    def if_any_bit(self, mask: int, label: str) -> None:
        self.instructions.append(_Instruction(self.ANY_BIT, mask, then=label))

    def if_between(self, first: int, last: int, label: str) -> None:
        if first == last:
            self.if_equal(first, label)
            return
        passed = f"after {last}"
        self.instructions.append(_Instruction(self.AT_LEAST, first, otherwise=passed))
        self.instructions.append(_Instruction(self.AT_LEAST, last + 1, otherwise=label))
        self.label(passed)

    def assemble(self) -> bytes:
        program = b""
        for at, each in enumerate(self.instructions):
            jumps = [self.labels[name] - at - 1 if name else 0 for name in (each.then, each.otherwise)]
            # struct packs a byte: a jump of more than 255, or backwards, is an error here and not a wrong filter.
            program += struct.pack("=HBBI", each.code, *jumps, each.value)
        return program
