"""The catalogue's rows about processes, the kernel and the network, in a docker sandbox; each by its id.

One sandbox serves all rows that leave it as it was. A row is what a command does and what it may see: words of its
output, each a result that keeps the boundary.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio
from sandboxd.backends.base import Exited, SandboxRequest
from sandboxd.environment import build
from sandboxd.instances import instance

from tests.support.engine import Engine
from tests.support.images import PYTHON_IMAGE

from .conftest import LIMITS, Answering, Box, backend_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

# For rows in Python: `attempt` prints what an operation ended with, by the name of its error.
PRELUDE = """
import ctypes, errno, os, signal, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(work, *arguments):
    try:
        work(*arguments)
        print("done")
    except OSError as error:
        print(errno.errorcode[error.errno])
def write(path, text="1"):
    with open(path, "w") as file:
        file.write(text)
"""

FILLS_TMP = """
def fill():
    for name in range(9):
        with open(f"/tmp/{name}", "wb") as file:
            for _ in range(60):
                file.write(bytes(1 << 20))
attempt(fill)
[os.unlink(f"/tmp/{name}") for name in os.listdir("/tmp") if name.isdigit()]
"""
FILLS_INODES = """
def fill():
    for name in range(5000):
        open(f"/run/f{name}", "w").close()
attempt(fill)
[os.unlink(f"/run/{name}") for name in os.listdir("/run") if name.startswith("f")]
"""
SPARSE = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
attempt(os.truncate, os.open("f", os.O_CREAT | os.O_RDWR), 10 << 30)
"""
ALLOCATED = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
attempt(os.posix_fallocate, os.open("f", os.O_CREAT | os.O_RDWR), 0, 1 << 40)
"""
SETUID = """
import shutil, subprocess
shutil.copy("/usr/bin/id", "/workspace/id")
os.chmod("/workspace/id", 0o4755)
print(subprocess.run(["/workspace/id", "-u"], user=1000, capture_output=True, text=True).stdout.strip())
"""
# RTM_NEWLINK with an empty ifinfomsg (linux/rtnetlink.h).
NEW_LINK = """
s = socket.socket(16, 3, 0)
s.send(struct.pack("IHHII", 32, 16, 0x605, 1, 0) + bytes(16))
print(errno.errorcode[-struct.unpack_from("i", s.recv(4096), 16)[0]])
"""
OWN_SERVER = """
s = socket.create_server(("0.0.0.0", 8000))
for host in ("127.0.0.1", "127.1.0.9"):
    socket.create_connection((host, 8000)).close()
    print("reached")
"""
UNSHARE = "print(libc.unshare({}), errno.errorcode[ctypes.get_errno()])"
REFUSED = {"EROFS", "EACCES", "EPERM", "ENOENT"}
DEVICES = ("/dev/mem", "/dev/kmsg", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/vsock")
KERNEL_FILES = (
    "/proc/sysrq-trigger",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/vm/drop_caches",
    "/sys/kernel/uevent_helper",
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/memory/release_agent",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    "/sys/fs/cgroup/pids/pids.max",
)

ROWS: dict[str, tuple[str, set[str]]] = {
    "K13 a file of a terabyte": (ALLOCATED, {"EFBIG"}),
    "K13 a sparse file of 10 GB": (SPARSE, {"EFBIG"}),
    "K13 a full tmp": (FILLS_TMP, {"ENOSPC"}),
    "K14 more files in a tmpfs than it may have": (FILLS_INODES, {"ENOSPC"}),
    "K18 a program with the setuid bit": (SETUID, {"1000"}),
    "K19 a block device": ("attempt(os.mknod, '/tmp/d', 0o60600, os.makedev(8, 0))", {"EPERM"}),
    "K19 a character device": ("attempt(os.mknod, '/tmp/d', 0o20600, os.makedev(1, 1))", {"EPERM"}),
    **{f"K19 {path}": (f"attempt(open, {path!r}, 'rb')", REFUSED) for path in DEVICES},
    **{f"K20 a write to {path}": (f"attempt(write, {path!r})", REFUSED) for path in KERNEL_FILES},
    "K20 less likely to be ended for memory": ("attempt(write, '/proc/self/oom_score_adj', '-900')", {"EACCES"}),
    "K22 a higher priority": ("attempt(os.setpriority, os.PRIO_PROCESS, 0, -20)", {"EACCES", "EPERM"}),
    "K22 a real-time scheduler": ("attempt(os.sched_setscheduler, 0, 1, os.sched_param(10))", {"EPERM"}),
    "K25 addresses of the kernel": ("print(len(open('/proc/kallsyms').read()))", {"0"}),
    "K25 the log of the kernel": ("print(libc.klogctl(3, ctypes.create_string_buffer(100), 100))", {"-1"}),
    "K25 the name of the host": ("print(socket.gethostname())", {"sandbox"}),
    "G03 a ping": (
        "attempt(socket.socket(2, 2, 1).sendto, bytes((8, 0, 0, 0, 0, 0, 0, 1)), ('192.0.2.1', 0))",
        {"ENETUNREACH", "EACCES"},
    ),
    "G03 raw ICMP": ("attempt(socket.socket, 2, 3, 1)", {"EPERM"}),
    "G03 QUIC": ("attempt(socket.socket(2, 2).sendto, b'x', ('192.0.2.1', 443))", {"ENETUNREACH"}),
    "G08 a new network device, by netlink": (NEW_LINK, {"EPERM"}),
    "G08 a network namespace": (UNSHARE.format(0x40000000), {"-1", "EPERM"}),
    "G08 a user namespace": (UNSHARE.format(0x10000000), {"-1", "EPERM"}),
    "G10 a server of its own at any loopback address": (OWN_SERVER, {"reached"}),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Box]:
    with instance(tmp_path_factory.mktemp("cases")) as own:
        backend = backend_of(own, engine.host)
        sandbox = await backend.create(SandboxRequest("cases", PYTHON_IMAGE, LIMITS, build(path="")))
        gateway = Answering()
        planted = await sandbox.plant()
        assert planted is not None
        await gateway.serve(planted)
        await sandbox.self_test()
        yield Box(sandbox, count(1))
        gateway.close()
        await sandbox.destroy()
        await backend.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def neighbour(shared: Box, engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Box]:
    with instance(tmp_path_factory.mktemp("neighbour")) as own:
        backend = backend_of(own, engine.host)
        sandbox = await backend.create(SandboxRequest("neighbour", PYTHON_IMAGE, LIMITS, build(path="")))
        yield Box(sandbox, count(1))
        await sandbox.destroy()
        await backend.close()


@pytest.mark.parametrize(("program", "allowed"), ROWS.values(), ids=ROWS.keys())
async def test_a_row_keeps_the_boundary(shared: Box, program: str, allowed: set[str]) -> None:
    exited, said = await shared.python(PRELUDE + program)
    assert exited == Exited(0), said
    assert said.split()
    assert set(said.split()) <= allowed


async def test_k16_a_workspace_that_is_gone_is_a_start_error(neighbour: Box) -> None:
    await neighbour.sh("rmdir /workspace && ln -s /etc /workspace")
    exited, said = await neighbour.run("pwd")
    assert (exited, said) == (Exited(0), "/etc\n")
    await neighbour.sh("rm /workspace; true")
    exited, _ = await neighbour.run("pwd")
    assert exited.code == 126
    assert "no such directory" in exited.start_error


async def test_g09_neighbours_have_networks_and_processes_of_their_own(shared: Box, neighbour: Box) -> None:
    for kind in ("net", "pid", "mnt", "ipc", "uts"):
        own, other = (Path(f"/proc/{box.sandbox.pid}/ns/{kind}").readlink() for box in (shared, neighbour))
        assert len({own, other, Path(f"/proc/{os.getpid()}/ns/{kind}").readlink()}) == 3


async def test_g10_a_server_in_a_sandbox_is_reached_from_nowhere_else(shared: Box, neighbour: Box) -> None:
    running, _ = await shared.start("python3", "-m", "http.server", "8123")
    asking = "import urllib.request as u\nprint(u.urlopen('http://127.0.0.1:8123/').status)"
    retrying = (
        f"import time\nfor _ in range(100):\n  try:\n    exec({asking!r}); break\n  except OSError: time.sleep(0.1)"
    )
    assert (await shared.python(retrying))[1] == "200\n"
    exited, _ = await neighbour.sh(f'cd /; python3 -c "{asking}"')
    assert exited.code != 0
    await running.kill()
