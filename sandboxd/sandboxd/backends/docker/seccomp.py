"""The system calls that a sandbox's processes may make, as the profile that the engine takes with a container.

An allowlist: what is not named fails with EPERM. It covers what compilers, package managers, interpreters, servers and
debuggers use. Left out on purpose, and why:
  * io_uring: it performs calls that this filter would refuse, out of its sight;
  * socketcall and the 32-bit and x32 entries: a second door to the same calls, which argument filters can't see into;
  * socket families other than unix, IPv4, IPv6 and netlink: AF_VSOCK reaches the hypervisor from any network
    namespace, and the others (packet, alg, tipc, rds, bluetooth, can, xdp …) are only attack surface here;
  * namespaces, mounts, chroot, file handles, keyrings, bpf, perf, userfaultfd, kexec, modules, clocks, swap, quotas.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

EPERM = 1
ENOSYS = 38

# include/linux/socket.h
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
FAMILIES = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)

# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET of linux/sched.h, and CLONE_NEWTIME where clone
# would take it for an exit signal.
NAMESPACE_FLAGS = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000

# personality(2): plain Linux, PER_LINUX32, their UNAME26 forms, and the query.
PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)

FILES = """
    access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2 fadvise64
    fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr flistxattr flock fremovexattr
    fsetxattr fstat fstatfs fsync ftruncate futimesat getcwd getdents getdents64 getxattr inotify_add_watch
    inotify_init inotify_init1 inotify_rm_watch ioctl lchown lgetxattr link linkat listxattr llistxattr lremovexattr
    lseek lsetxattr lstat memfd_create mkdir mkdirat mknod mknodat newfstatat open openat openat2 pipe pipe2 pread64
    preadv preadv2 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv removexattr rename renameat
    renameat2 rmdir sendfile setxattr splice stat statfs statx symlink symlinkat sync sync_file_range syncfs tee
    truncate umask unlink unlinkat utime utimensat utimes vmsplice write writev cachestat
"""
EVENTS = """
    epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 poll ppoll pselect6
    select signalfd signalfd4 timerfd_create timerfd_gettime timerfd_settime
    io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit
"""
MEMORY = """
    brk madvise map_shadow_stack membarrier memfd_secret mincore mlock mlock2 mlockall mmap mprotect mremap mseal
    msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect process_madvise remap_file_pages
"""
PROCESSES = """
    arch_prctl capget capset execve execveat exit exit_group fork futex futex_requeue futex_wait futex_waitv
    futex_wake get_robust_list get_thread_area getcpu getegid geteuid getgid getgroups getpgid getpgrp getpid getppid
    getpriority getresgid getresuid getrlimit getrusage getsid gettid getuid ioprio_get ioprio_set kill
    landlock_add_rule landlock_create_ruleset landlock_restrict_self pause pidfd_open pidfd_send_signal prctl prlimit64
    process_mrelease process_vm_readv process_vm_writev ptrace restart_syscall rseq rt_sigaction rt_sigpending
    rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max
    sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval
    sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp set_robust_list
    set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setpgid setpriority setregid setresgid
    setresuid setreuid setrlimit setsid setuid sigaltstack sysinfo tgkill times tkill uname vfork wait4 waitid
"""
TIME = """
    alarm clock_getres clock_gettime clock_nanosleep getitimer gettimeofday nanosleep setitimer time timer_create
    timer_delete timer_getoverrun timer_gettime timer_settime adjtimex clock_adjtime
"""
NETWORK = """
    accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg recvmsg sendmmsg sendmsg
    sendto setsockopt shutdown getrandom
"""
SYSV = """
    mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd semctl semget
    semop semtimedop shmat shmctl shmdt shmget
"""

# The engine's architecture names and the one seccomp architecture that each is allowed: its own.
ARCHITECTURES = {
    "x86_64": "SCMP_ARCH_X86_64",
    "amd64": "SCMP_ARCH_X86_64",
    "aarch64": "SCMP_ARCH_AARCH64",
    "arm64": "SCMP_ARCH_AARCH64",
}


def profile(architecture: str) -> str:
    """The profile, as JSON, for an engine of this architecture. Raises KeyError for one that is not in the table."""
    return json.dumps(
        {
            "defaultAction": "SCMP_ACT_ERRNO",
            "defaultErrnoRet": EPERM,
            "architectures": [ARCHITECTURES[architecture]],
            "syscalls": _rules(),
        },
        separators=(",", ":"),
    )


def _rules() -> list[dict[str, Any]]:
    plain = sorted(
        {name for group in (FILES, EVENTS, MEMORY, PROCESSES, TIME, NETWORK, SYSV) for name in group.split()}
    )
    return [
        _allow(plain),
        *(_allow(["socket", "socketpair"], _equal(0, family)) for family in FAMILIES),
        *(_allow(["personality"], _equal(0, value)) for value in PERSONALITIES),
        _allow(["clone"], {"index": 0, "value": NAMESPACE_FLAGS, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}),
        # Its flags lie in memory, which a filter can't read. The C libraries fall back to clone when it is missing.
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS},
    ]


def _allow(names: Sequence[str], *conditions: dict[str, Any]) -> dict[str, Any]:
    return {"names": list(names), "action": "SCMP_ACT_ALLOW", "args": list(conditions)}


def _equal(index: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": value, "op": "SCMP_CMP_EQ"}
