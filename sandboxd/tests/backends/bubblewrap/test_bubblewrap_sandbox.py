"""bubblewrap where the contract's suite can't go: as an ordinary user, without control groups, and its self-test."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog
from sandboxd.backends.base import BackendError, ExecRequest, Exited, LimitHit, Limits, SandboxRequest, Stream
from sandboxd.backends.bubblewrap import BubblewrapBackend
from sandboxd.backends.process.group import Parents
from sandboxd.backends.process.sandbox import ProcessSandbox
from sandboxd.environment import CA_BUNDLE_PATH, build
from sandboxd.instances import instance

import sandboxd

AS_USER = Path(__file__).with_name("as_user.py")
LIMITS = Limits(memory_bytes=256 << 20, pids=100, disk_bytes=64 << 20)
# A user that has no name, as in a container; and Debian's own interpreter, which everybody may read.
NOBODY_IN_PARTICULAR = 54321


class Sink:
    def __init__(self) -> None:
        self.data = b""

    def write(self, stream: Stream, data: bytes | memoryview) -> None:
        self.data += bytes(data)


class Box:
    def __init__(self, sandbox: ProcessSandbox) -> None:
        self.sandbox = sandbox
        self._numbers = itertools.count()

    async def sh(self, text: str) -> tuple[Exited, str]:
        sink = Sink()
        running = await self.sandbox.start(ExecRequest(f"e{next(self._numbers)}", ["sh", "-c", text]), sink)
        async with asyncio.timeout(60):
            return await running.wait(), sink.data.decode()


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A directory that every user may pass, unlike pytest's own; with the packages that the program imports."""
    made = Path("/tmp", f"sandboxd-test-{os.getpid()}-{os.urandom(4).hex()}")
    made.mkdir(mode=0o755)
    for package in (sandboxd, structlog):
        assert package.__file__ is not None
        source = Path(package.__file__).parent
        shutil.copytree(source, made / "lib" / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(AS_USER, made)
    (made / "state").mkdir()
    os.chown(made / "state", NOBODY_IN_PARTICULAR, NOBODY_IN_PARTICULAR)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def private() -> Iterator[Path]:
    """A file of /etc that our user may read and others may not."""
    made = Path("/etc/private-of-this-test")
    made.write_text("secret")
    os.chown(made, NOBODY_IN_PARTICULAR, NOBODY_IN_PARTICULAR)
    made.chmod(0o600)
    yield made
    made.unlink()


def test_an_ordinary_user_has_all_of_it(reachable: Path, private: Path) -> None:
    answer = subprocess.run(
        ["/usr/bin/python3", str(reachable / "as_user.py"), str(reachable / "state")],
        user=NOBODY_IN_PARTICULAR,
        group=NOBODY_IN_PARTICULAR,
        extra_groups=(),
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "PYTHONPATH": str(reachable / "lib")},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout) == {
        "available": True,
        "why": "",
        "uid": NOBODY_IN_PARTICULAR,
        "redirected": True,
        "exited": 0,
        "said": "1000 1000\nPermissionError\n",
        "first limit": "pids",
        "memory": [137, True],
        "left": [],
    }


class NoGroups(Parents):
    """A host where the daemon may make no control group."""

    def __init__(self) -> None:
        self.directories = {}


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[BubblewrapBackend]:
    with instance(tmp_path) as own:
        made = BubblewrapBackend(state=own.state, instance_id=own.instance_id, groups=NoGroups())
        yield made
        await made.close()


@pytest.fixture
async def box(backend: BubblewrapBackend) -> AsyncIterator[Box]:
    made = await backend.create(SandboxRequest("s", "", LIMITS, build(path="")))
    yield Box(made)
    await made.destroy()


async def test_without_control_groups_the_supervisor_sees_to_memory(box: Box) -> None:
    exited, _ = await box.sh("python3 -c 'x = bytearray(400 << 20); import time; time.sleep(60)'")
    assert exited == Exited(137, signal=9, oom=True)
    async with asyncio.timeout(10):
        assert await anext(box.sandbox.limits_hit()) == LimitHit("memory", LIMITS.memory_bytes)
    assert await box.sh("echo alive") == (Exited(0), "alive\n")


SHARES = """
import mmap, os, time
m = mmap.mmap(-1, 100 << 20)
def touch():
    m.seek(0)
    for _ in range(100):
        m.write(b"x" * (1 << 20))
touch()
for _ in range(5):
    if not os.fork():
        touch(); time.sleep(1.5); os._exit(0)
for _ in range(5):
    os.wait()
print("shared")
"""


async def test_memory_that_is_shared_is_counted_once(box: Box) -> None:
    assert await box.sh(f"cat >p.py <<'E'\n{SHARES}\nE\npython3 p.py") == (Exited(0), "shared\n")


async def test_without_control_groups_processes_are_bounded_for_each_sandbox(
    box: Box, backend: BubblewrapBackend
) -> None:
    other = await backend.create(SandboxRequest("other", "", LIMITS, build(path="")))
    try:
        bomb = await box.sandbox.start(ExecRequest("b", ["bash", "-c", "f() { f | f & }; f; sleep 100"]), Sink())
        async with asyncio.timeout(30):
            assert await anext(box.sandbox.limits_hit()) == LimitHit("pids", LIMITS.pids)
        assert await Box(other).sh("for i in 1 2 3; do sleep 0.1 & done; wait; echo fine") == (Exited(0), "fine\n")
        await bomb.kill()
        assert await box.sh("echo alive") == (Exited(0), "alive\n")
    finally:
        await other.destroy()


async def test_a_certificate_bundle_is_there_for_reading(backend: BubblewrapBackend, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("certificates")
    bundle.chmod(0o600)
    made = await backend.create(SandboxRequest("s", "", LIMITS, build(path=""), ca_bundle=str(bundle)))
    try:
        _, said = await Box(made).sh(f"cat {CA_BUNDLE_PATH}; echo x 2>/dev/null >{CA_BUNDLE_PATH} || echo refused")
        assert said.split() == ["certificatesrefused"]
    finally:
        await made.destroy()


async def test_the_hosts_home_is_empty_but_for_tools_and_the_system_cannot_be_written(box: Box) -> None:
    _, said = await box.sh(
        'id -un; ls -A "$HOME"; for d in / /usr /etc /opt /dev; do touch $d/x 2>/dev/null && echo $d; done'
    )
    assert set(said.split()) <= {"sandbox", ".rustup"}
    _, said = await box.sh("cat /root/.ssh/* /root/.bash_history /root/.profile /etc/shadow 2>/dev/null | wc -c")
    assert said.strip() == "0"


async def test_the_first_process_can_be_reached_in_no_way(box: Box) -> None:
    _, said = await box.sh(
        "ls -A /proc/1; cat /proc/1/cmdline /proc/1/task/1/oom_score_adj; kill -INT 1; echo 5 >/proc/1/oom_adj"
    )
    assert "python" not in said
    assert await box.sh("echo alive") == (Exited(0), "alive\n")


async def test_its_supervisor_killed_from_outside_is_a_sandbox_that_ended(box: Box) -> None:
    running = await box.sandbox.start(ExecRequest("x", ["sleep", "1000"]), Sink())
    ended = asyncio.ensure_future(box.sandbox.ended())
    os.kill(box.sandbox._supervisor.pid, 9)
    async with asyncio.timeout(10):
        assert "supervisor has ended" in await ended
        assert await running.wait() == Exited(137, signal=9)
    with pytest.raises(BackendError) as caught:
        await box.sh("true")
    assert caught.value.reason == "SANDBOX_LOST"


async def test_a_sandbox_that_cannot_be_made_says_why_and_leaves_nothing(
    backend: BubblewrapBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await backend.probe()
    monkeypatch.setattr("sandboxd.backends.bubblewrap.arguments.CAPABILITIES", ("NO_SUCH_CAPABILITY",))
    with pytest.raises(BackendError) as caught:
        await backend.create(SandboxRequest("s", "", LIMITS, build(path="")))
    assert "NO_SUCH_CAPABILITY" in caught.value.message
    assert not list(tmp_path.glob("instances/*/bubblewrap/s"))


# In a namespace that the test makes, with or without another interface, and with or without a gateway.
CHECK = """
import ctypes, os, socket, subprocess, sys, threading
assert ctypes.CDLL(None).unshare(0x40000000) == 0
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
subprocess.run(sys.argv[1], shell=True, check=True)
def answer(text):
    server = socket.create_server(("127.0.0.1", 3128))
    c, _ = server.accept(); c.recv(4096); c.sendall(text); c.close()
def name():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", 53))
    q, a = s.recvfrom(512); s.sendto(q[:2] + bytes(10) + socket.inet_aton(sys.argv[3]), a)
threading.Thread(target=answer, args=(sys.argv[2].encode().decode("unicode_escape").encode(),), daemon=True).start()
threading.Thread(target=name, daemon=True).start()
import time; time.sleep(0.2)
from sandboxd.inside.selftest import check_here
print("; ".join(check_here(filtered=False)))
"""
OURS = "HTTP/1.1 400 Bad\\r\\nServer: sandboxd\\r\\n\\r\\n"
FINDINGS = {
    "nothing is found in a closed namespace": ("true", OURS, "127.0.0.1", ""),
    "another interface": ("ip link add v type veth peer name w", OURS, "127.0.0.1", "interface v"),
    "a route": (
        "ip link add v type veth peer name w; ip link set v up; ip route add default dev v",
        OURS,
        "127.0.0.1",
        "do not end at loopback",
    ),
    "another proxy": ("true", "HTTP/1.1 200 OK\\r\\nServer: squid\\r\\n\\r\\n", "127.0.0.1", "something else"),
    "another name server": ("true", OURS, "10.0.0.1", "DNS"),
}


@pytest.mark.parametrize(("setup", "proxy", "address", "found"), FINDINGS.values(), ids=FINDINGS.keys())
def test_c07_the_self_test_finds(setup: str, proxy: str, address: str, found: str) -> None:
    command = [sys.executable, "-c", CHECK, setup, proxy, address]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert answer.returncode == 0, answer.stderr
    assert (answer.stdout == "\n") if not found else (found in answer.stdout)
