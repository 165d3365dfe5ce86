"""What a sandbox of an enforced backend can't do: rows of the catalogue about the kernel, the host and the network.

A row is a program and the words that it may print, each a result that keeps the boundary. All rows leave the sandbox as
it was, so one serves them all; its gateway decides by `conftest.POLICY`.
"""

from __future__ import annotations

import asyncio
import os
import platform
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from quickstarted_api.v1 import sandbox_pb2 as pb
from sandboxd.backends.base import BackendError, BackendKind, Exited
from sandboxd.environment import build

from .conftest import Box, Make, enforced
from .test_contract_ends import marker

pytestmark = [pytest.mark.asyncio(loop_scope="session"), enforced]

# For rows in Python: `attempt` prints what an operation ended with, by its error's name; `call` does a system call.
PRELUDE = """
import ctypes, errno, fcntl, os, resource, signal, socket, struct, sys, termios
libc = ctypes.CDLL(None, use_errno=True)
def attempt(work, *arguments):
    try:
        work(*arguments)
        print("done")
    except OSError as error:
        print(errno.errorcode[error.errno])
def call(number, *arguments):
    ctypes.set_errno(0)
    answer = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(each) for each in arguments))
    print(errno.errorcode[ctypes.get_errno()] if answer == -1 else "done")
def write(path, text="1"):
    with open(path, "w") as file:
        file.write(text)
"""

# Numbers of system calls on x86_64 and on aarch64.
COLUMN = {"x86_64": 0, "aarch64": 1}[platform.machine()]
CALLS = {
    "K04 add_key": ((248, 217), {"EPERM"}),
    "K04 keyctl": ((250, 219), {"EPERM"}),
    "K04 request_key": ((249, 218), {"EPERM"}),
    "K21 mount": ((165, 40), {"EPERM"}),
    "K21 umount2": ((166, 39), {"EPERM"}),
    "K21 pivot_root": ((155, 41), {"EPERM"}),
    "K21 open_by_handle_at": ((304, 265), {"EPERM"}),
    "K21 open_tree": ((428, 428), {"EPERM"}),
    "K21 move_mount": ((429, 429), {"EPERM"}),
    "K21 fsopen": ((430, 430), {"EPERM"}),
    "K21 bpf": ((321, 280), {"EPERM"}),
    "K21 perf_event_open": ((298, 241), {"EPERM"}),
    "K21 userfaultfd": ((323, 282), {"EPERM"}),
    "K21 kexec_load": ((246, 104), {"EPERM"}),
    "K21 init_module": ((175, 105), {"EPERM"}),
    "K21 io_uring_setup": ((425, 425), {"EPERM", "ENOSYS"}),
    "K21 setns": ((308, 268), {"EPERM"}),
    "K22 chroot": ((161, 51), {"EPERM"}),
    "G08 clone3, which could make namespaces": ((435, 435), {"ENOSYS", "EPERM"}),
}

UNSHARE = "print(libc.unshare({}), errno.errorcode[ctypes.get_errno()])"
NAMESPACES = {
    "mount": 0x00020000,
    "cgroup": 0x02000000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "network": 0x40000000,
    "time": 0x80,
}
# PF_PACKET, ALG, XDP, KEY, TIPC, RDS, BLUETOOTH, CAN, VSOCK.
FAMILIES = {"PACKET": 17, "ALG": 38, "XDP": 44, "KEY": 15, "TIPC": 30, "RDS": 21, "BLUETOOTH": 31, "CAN": 29}
# RTM_NEWLINK with an empty ifinfomsg, and RTM_NEWROUTE with a default route (linux/rtnetlink.h).
NETLINK = """
s = socket.socket(16, 3, 0)
s.send({})
print(errno.errorcode[-struct.unpack_from("i", s.recv(4096), 16)[0]])
"""
NEW_LINK = NETLINK.format('struct.pack("IHHII", 32, 16, 0x605, 1, 0) + bytes(16)')
NEW_ROUTE = NETLINK.format(
    'struct.pack("IHHII", 36, 24, 0x605, 1, 0) + bytes((2, 0, 0, 0, 254, 3, 0, 1)) + bytes(4)'
    ' + struct.pack("HHI", 8, 4, 1)'
)
OWN_SERVER = """
s = socket.create_server(("0.0.0.0", 8000))
for host in ("127.0.0.1", "127.0.0.9"):
    socket.create_connection((host, 8000)).close()
    print("reached")
"""
LOW_PORTS = """
for port in (80, 443):
    attempt(socket.create_server, ("0.0.0.0", port))
"""
OVER_OURS = """
for kind, port in ((socket.SOCK_DGRAM, 53), (socket.SOCK_STREAM, 53), (socket.SOCK_STREAM, 3128)):
    for option in (0, socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        s = socket.socket(socket.AF_INET, kind)
        if option:
            s.setsockopt(socket.SOL_SOCKET, option, 1)
        try:
            s.bind(("127.0.0.1", port))
            if kind == socket.SOCK_STREAM:
                s.listen()
            print("done")
        except OSError as error:
            print(errno.errorcode[error.errno])
"""
SETUID = """
import shutil, subprocess
shutil.copy("/usr/bin/id", "id"); os.chmod("id", 0o4755)
before = os.geteuid()
print(subprocess.run([os.path.abspath("id"), "-u"], capture_output=True, text=True).stdout.strip() == str(before))
os.unlink("id")
"""
TERMINAL = """
import pty
a, b = pty.openpty()
if os.fork(): os.wait(); sys.exit()
os.setsid(); fcntl.ioctl(b, termios.TIOCSCTTY, 0)
attempt(fcntl.ioctl, b, termios.TIOCSTI, b"x")
"""
FIRST = """
for name in ("environ", "mem", "maps", "root/etc/hostname", "cwd/x", "fd/0", "exe"):
    try:
        with open(f"/proc/1/{name}", "rb") as file:
            print(f"{name} has {len(file.read(1))}")
    except OSError as error:
        print(errno.errorcode[error.errno])
"""
SPARSE = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
attempt(os.truncate, os.open("f", os.O_CREAT | os.O_RDWR), 10 << 30)
attempt(os.posix_fallocate, os.open("f", os.O_CREAT | os.O_RDWR), 0, 1 << 40)
os.unlink("f")
"""
FILLS = """
def fill():
    with open("/dev/shm/f", "wb") as file:
        for _ in range(3000):
            file.write(bytes(1 << 20))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
attempt(fill)
os.unlink("/dev/shm/f")
"""
FILLS_INODES = """
def fill():
    for name in range(70000):
        open(f"/run/f{name}", "w").close()
attempt(fill)
[os.unlink(f"/run/{name}") for name in os.listdir("/run") if name.startswith("f")]
"""

DIALS = """
s = socket.socket(); s.settimeout(5); attempt(s.connect, ({0!r}, 80))
attempt(socket.socket(2, 2).sendto, b"x", ({0!r}, 53))
"""
SYMBOLS = """
try: print(set(line.split()[0] for line in open("/proc/kallsyms")) <= {"0" * 16})
except OSError: print(True)
"""
REFUSED = {"EROFS", "EACCES", "EPERM", "ENOENT", "ENXIO"}
DEVICES = ("/dev/mem", "/dev/kmsg", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/vsock", "/dev/vda", "/dev/sda")
KERNEL_FILES = (
    "/proc/sysrq-trigger",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/vm/drop_caches",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/net/ipv4/ip_forward",
    "/sys/kernel/uevent_helper",
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/memory/release_agent",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    "/sys/fs/cgroup/pids/pids.max",
)
ELSEWHERE = ("172.17.0.1", "10.0.0.1", "8.8.8.8", "169.254.169.254", "192.0.2.1")

ROWS: dict[str, tuple[str, set[str]]] = {
    **{name: (f"call({numbers[COLUMN]}, 0, 0, 0, 0, 0)", allowed) for name, (numbers, allowed) in CALLS.items()},
    **{f"G08 a {name} namespace": (UNSHARE.format(flag), {"-1", "EPERM"}) for name, flag in NAMESPACES.items()},
    **{f"G07 AF_{name}": (f"attempt(socket.socket, {number}, 3)", {"EPERM"}) for name, number in FAMILIES.items()},
    **{f"K19 {path}": (f"attempt(open, {path!r}, 'rb')", REFUSED) for path in DEVICES},
    **{f"K20 a write to {path}": (f"attempt(write, {path!r})", REFUSED) for path in KERNEL_FILES},
    **{f"G01 {host}": (DIALS.format(host), {"ENETUNREACH"}) for host in ELSEWHERE},
    "G01 IPv6": (
        "s = socket.socket(socket.AF_INET6); s.settimeout(5); attempt(s.connect, ('2001:4860:4860::8888', 443))",
        {"ENETUNREACH", "EADDRNOTAVAIL"},
    ),
    "G03 a ping": (
        "attempt(lambda: socket.socket(2, 2, 1).sendto(bytes((8, 0, 0, 0, 0, 0, 0, 1)), ('192.0.2.1', 0)))",
        {"ENETUNREACH", "EACCES", "EPERM"},
    ),
    "G03 raw ICMP": ("attempt(socket.socket, 2, 3, 1)", {"EPERM"}),
    "G03 QUIC to a real address": ("attempt(socket.socket(2, 2).sendto, b'x', ('192.0.2.1', 443))", {"ENETUNREACH"}),
    "G06 a socket to the hypervisor": ("attempt(socket.socket, 40, 1)", {"EPERM"}),
    "G08 a new network device": (NEW_LINK, {"EPERM"}),
    "G08 a new route": (NEW_ROUTE, {"EPERM"}),
    "G08 rules of the packet filter": ("attempt(socket.socket, 16, 3, 12)", {"EPERM", "done"}),
    "G10 a server of its own": (OWN_SERVER, {"reached"}),
    "G10 a server of its own at 80 and 443": (LOW_PORTS, {"done"}),
    "G11 a socket over the gateway's": (OVER_OURS, {"EADDRINUSE"}),
    "K05 another's memory": (f"call({(310, 270)[COLUMN]}, 1, 0, 0, 0, 0, 0)", {"EPERM", "ESRCH", "EACCES"}),
    "K05 another's descriptors": (
        "fd = os.pidfd_open(1); call(438, fd, 0, 0)",
        {"EPERM", "EACCES"},
    ),
    "K05 tracing the first process": (f"call({(101, 117)[COLUMN]}, 16, 1, 0, 0)", {"EPERM", "EACCES"}),
    "K13 files larger than any disk": (SPARSE, {"EFBIG"}),
    "K13 a full shared memory": (FILLS, {"ENOSPC", "EFBIG"}),
    "K14 more files in memory than there may be": (FILLS_INODES, {"ENOSPC"}),
    "K18 a program with the setuid bit": (SETUID, {"True"}),
    "K19 a block device": ("attempt(os.mknod, '/tmp/d', 0o60600, os.makedev(8, 0))", {"EPERM"}),
    "K19 a character device": ("attempt(os.mknod, '/tmp/d', 0o20600, os.makedev(1, 1))", {"EPERM"}),
    "K20 less likely to be ended for memory": ("attempt(write, '/proc/self/oom_score_adj', '-900')", {"EACCES"}),
    "K20 characters put into a terminal": (TERMINAL, {"EPERM", "EIO"}),
    "K22 a higher priority": ("attempt(os.setpriority, os.PRIO_PROCESS, 0, -20)", {"EACCES", "EPERM"}),
    "K22 a real-time scheduler": ("attempt(os.sched_setscheduler, 0, 1, os.sched_param(10))", {"EPERM"}),
    "K22 addresses that are not random": ("print(libc.personality(0x40000))", {"-1"}),
    "K25 addresses of the kernel": (SYMBOLS, {"True"}),
    "K25 the log of the kernel": ("print(libc.klogctl(3, ctypes.create_string_buffer(100), 100))", {"-1"}),
    "K25 the name of the host": ("print(socket.gethostname())", {"sandbox"}),
    "D13 no other name server and no search list": (
        "print(*[w for l in open('/etc/resolv.conf') for w in l.split('#')[0].split() if l[0] not in '#o'])",
        {"nameserver", "127.0.0.1", "search", "."},
    ),
}


# A container's processes may trace each other, and have no terminal but those that they make: nobody else's is reached.
DOCKER_MAY = {"K05 another's memory", "K05 tracing the first process", "K20 characters put into a terminal"}


@pytest.mark.parametrize("row", ROWS)
async def test_a_row_keeps_the_boundary(shared: Box, kind: BackendKind, row: str) -> None:
    program, allowed = ROWS[row]
    exited, said = await shared.python(PRELUDE + program)
    assert exited == Exited(0), said
    assert said.split()
    more = {"done"} if kind is BackendKind.DOCKER and row in DOCKER_MAY else set()
    assert set(said.split()) <= allowed | more


async def test_k01_no_process_shows_more_than_what_was_built(shared: Box) -> None:
    text = "cat /proc/1/environ /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | cut -d= -f1 | sort -u"
    _, said = await shared.sh(text)
    shells = {"PWD", "OLDPWD", "SHLVL", "_"}
    assert set(said.split()) <= {*build(path="", ca_bundle="x"), *shells}


async def test_k05_the_first_process_is_closed_or_a_shell_of_the_sandboxs_own(shared: Box, kind: BackendKind) -> None:
    _, said = await shared.python(PRELUDE + FIRST)
    if kind is BackendKind.BUBBLEWRAP:
        assert set(said.split()) <= {"ENOENT", "EACCES"}
    else:
        assert "ANTHROPIC" not in said


async def test_nobody_in_a_sandbox_has_a_capability_or_can_gain_one(shared: Box, kind: BackendKind) -> None:
    _, said = await shared.sh("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")
    found = {line.split(":")[0]: int(line.split()[1], 16) for line in said.splitlines()}
    assert (found["NoNewPrivs"], found["Seccomp"]) == (1, 2)
    # What apt and dpkg need, in an image of the sandbox's own: CHOWN, DAC_OVERRIDE, FOWNER, SETGID, SETUID.
    most = 0b1100_1011 if kind is BackendKind.DOCKER else 0
    for name in ("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb"):
        assert found[name] & ~most == 0


async def test_only_what_is_in_a_container_of_docker_may_be_the_hosts_root(shared: Box, kind: BackendKind) -> None:
    mark = marker()
    running, sink = await shared.start("sh", "-c", f"sleep {mark} & echo up; wait")
    await sink.printed(b"up")
    async with asyncio.timeout(20):
        while not (found := list(_pids_of(mark))):  # noqa: ASYNC110 what is in a sandbox has no event
            await asyncio.sleep(0.02)
    for pid in found:
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        assert kind is BackendKind.DOCKER or "0" not in status["Uid"].split()
    await running.kill()


def _pids_of(argument: str) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and argument.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                yield int(entry.name)
        except OSError:
            continue


async def test_killing_every_process_from_inside_ends_no_sandbox(box: Box) -> None:
    await box.sh("kill -9 -1; kill -TERM 1; kill -KILL 1; kill -HUP 1; kill -INT 1; kill -STOP 1")
    assert await box.run("echo", "alive") == (Exited(0), "alive\n")


async def test_g02_a_server_of_the_host_is_not_reached(shared: Box) -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        names = ["127.0.0.1", "host.docker.internal", socket.gethostname(), "172.17.0.1"]
        dial = (
            "for n in {}:\n  try: socket.create_connection((n, {}), 3); print('reached')\n  except OSError: print('no')"
        )
        _, said = await shared.python(PRELUDE + dial.format(names, port))
        assert set(said.split()) == {"no"}


async def test_g02_no_unix_socket_of_the_host_is_reached(shared: Box, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as nameless:
        server.bind(str(tmp_path / "s"))
        server.listen()
        name = f"\0sandboxd-test-{os.getpid()}"
        nameless.bind(name)
        nameless.listen()
        paths = [str(tmp_path / "s"), "/var/run/docker.sock", "/run/docker.sock", "/run/dbus/system_bus_socket", name]
        dial = "for p in {}:\n  s = socket.socket(socket.AF_UNIX)\n  attempt(s.connect, p)"
        _, said = await shared.python(PRELUDE + dial.format(paths))
        assert set(said.split()) <= {"ENOENT", "ECONNREFUSED", "EACCES", "ENOTDIR"}


async def test_g09_g10_neighbours_do_not_meet(shared: Box, make: Make) -> None:
    neighbour = await make()
    running, sink = await shared.start("python3", "-u", "-m", "http.server", "8123")
    await sink.printed(b"Serving HTTP")
    asking = "import urllib.request as u\nprint(u.urlopen('http://127.0.0.1:8123/').status)"
    assert (await shared.python(asking))[1] == "200\n"
    assert (await neighbour.python(asking))[0].code == 1
    seen = "import os\nprint(*(os.readlink(f'/proc/self/ns/{n}') for n in ('net', 'pid', 'mnt', 'ipc', 'uts')))"
    own, others = [(await each.python(seen))[1].split() for each in (shared, neighbour)]
    ours = [os.readlink(f"/proc/self/ns/{name}") for name in ("net", "pid", "mnt", "ipc", "uts")]  # noqa: PTH115 a list
    assert all(len(set(three)) == 3 for three in zip(own, others, ours, strict=True))
    await running.kill()


ASKED = "for n in {}:\n  try: print(socket.gethostbyname(n))\n  except OSError: print('none')"


async def test_d01_d03_names_are_answered_by_the_gateway_alone(shared: Box) -> None:
    names = ["registry.test", "a.registry.test", "docs.test", "evil.test", "host.docker.internal", "localhost"]
    _, said = await shared.python(PRELUDE + ASKED.format(names))
    allowed, below, docs, evil, host, local = said.split()
    assert allowed.startswith(("198.18.", "198.19.", "127.1."))
    assert below != allowed
    assert (docs, evil, host, local) == ("none", "none", "none", "127.0.0.1")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://docs.test/", pb.DOCS_HOST_REQUIRES_READ_DOCS),
        ("http://docs.test/", pb.DOCS_HOST_REQUIRES_READ_DOCS),
        ("https://evil.test/", pb.NOT_ALLOWLISTED),
        ("https://8.8.8.8/", pb.IP_LITERAL),
        ("https://registry.test:8443/", pb.PORT_NOT_ALLOWED),
    ],
)
async def test_n01_g13_the_proxy_refuses_and_says_why(shared: Box, url: str, reason: pb.EgressReason.ValueType) -> None:
    before = len(shared.decisions)
    text = "import urllib.request as u\ntry: u.urlopen({!r}, timeout=10)\nexcept OSError as e: print(e)"
    exited, said = await shared.python(text.format(url))
    assert exited == Exited(0)
    assert said
    assert reason in [decision.reason for decision in shared.decisions[before:]]


@pytest.mark.parametrize("port", [80, 443])
async def test_g13_g14_without_the_proxy_the_same_gateway_answers(shared: Box, port: int) -> None:
    before = len(shared.decisions)
    speak = {
        80: "s.sendall(b'GET / HTTP/1.1\\r\\nHost: docs.test\\r\\n\\r\\n')",
        443: "import ssl; ssl._create_unverified_context().wrap_socket(s, server_hostname='docs.test')",
    }[port]
    text = f"s = socket.create_connection(('registry.test', {port}), 10)\ntry: {speak}\nexcept OSError: pass\ns.close()"
    exited, said = await shared.python(PRELUDE + text)
    assert exited == Exited(0), said
    async with asyncio.timeout(10):
        while not [d for d in shared.decisions[before:] if d.verdict == pb.REFUSED]:  # noqa: ASYNC110 a plain list
            await asyncio.sleep(0.02)


async def test_c07_a_sandbox_without_a_gateway_is_not_handed_over(make: Make) -> None:
    box = await make()
    with pytest.raises(BackendError) as caught:
        await box.sandbox.self_test()
    assert caught.value.reason == "ISOLATION_UNAVAILABLE"


async def test_c07_a_gateway_that_does_not_answer_is_no_gateway(make: Make) -> None:
    box = await make()
    planted = await box.sandbox.plant()
    assert planted is not None
    for each in (planted.proxy, planted.dns_udp, planted.dns_tcp, *planted.transparent.values()):
        each.close()
    with pytest.raises(BackendError) as caught:
        await box.sandbox.self_test()
    assert caught.value.reason == "ISOLATION_UNAVAILABLE"


async def test_s19_without_its_gateway_a_sandbox_has_nothing(make: Make) -> None:
    box = await make()
    planted = await box.sandbox.plant()
    assert planted is not None
    for each in (planted.proxy, planted.dns_udp, planted.dns_tcp, *planted.transparent.values()):
        each.close()
    dial = "for p in (3128, 53): attempt(socket.create_connection, ('127.0.0.1', p), 3)"
    assert (await box.python(PRELUDE + dial))[1].split() == ["ECONNREFUSED"] * 2
