"""The seatbelt backend: sandboxes of this Mac's own system."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sandboxd.backends.base import (
    Availability,
    BackendError,
    BackendKind,
    ExecRequest,
    Limits,
    OutputSink,
    Planted,
    SandboxRequest,
    Stream,
)
from sandboxd.backends.local import shell
from sandboxd.backends.process.files import Directories
from sandboxd.backends.process.instances import Place, discard
from sandboxd.backends.process.sandbox import Facts, ProcessRunning, ProcessSandbox, not_isolated
from sandboxd.backends.process.spawn import Spawner
from sandboxd.backends.process.supervisor import PACKAGE, Supervisor, interpreter, program
from sandboxd.backends.process.tools import homes, is_beneath, outermost, tools_of
from sandboxd.backends.process.tree import is_directory
from sandboxd.backends.seatbelt.front import Front, unreachable_sockets
from sandboxd.backends.seatbelt.profile import SYSTEM, Places, PlacesError, profile
from sandboxd.environment import build

SANDBOX_EXEC = "/usr/bin/sandbox-exec"
UNVERIFIED = "it has not been verified on a Mac yet: run `pytest -m macos` here, and tell us"
PROBE_SECONDS = 9.0
TEST_SECONDS = 15.0
# Names get no addresses here; the gateway wants a network for them all the same.
NO_POOL = "127.1.0.0/16"

# Run inside: each line is what an attempt to get out ended with. Prints JSON.
PROBE = """
import errno, json, os, socket, sys
outside, port = sys.argv[1], int(sys.argv[2])
def attempt(work):
    try:
        work()
        return "done"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
def dial(address):
    with socket.socket() as dialled:
        dialled.settimeout(5)
        dialled.connect(address)
print(json.dumps({
    "a write outside": attempt(lambda: open(outside + "/escaped", "w").close()),
    "a dial abroad": attempt(lambda: dial(("192.0.2.1", 443))),
    "a dial to another port": attempt(lambda: dial(("127.0.0.1", 1 if port != 1 else 2))),
    "the proxy": attempt(lambda: dial(("127.0.0.1", port))),
}))
"""
EXPECTED: Mapping[str, tuple[str, ...]] = {
    "a write outside": ("EPERM", "EACCES"),
    "a dial abroad": ("EPERM", "EACCES"),
    "a dial to another port": ("EPERM", "EACCES"),
    "the proxy": ("done",),
}


class SeatbeltBackend:
    """Sandboxes by `sandbox-exec`. `state` and `instance_id` are the daemon's."""

    kind = BackendKind.SEATBELT
    enforced = True
    uses_image = False

    def __init__(self, *, state: Path, instance_id: str, sandbox_exec: str = SANDBOX_EXEC) -> None:
        self._place = Place(state, instance_id, self.kind)
        self._spawner = Spawner("seatbelt-spawner")
        self._sandbox_exec = sandbox_exec

    async def probe(self) -> Availability:
        """Make a sandbox, and see whether it is closed."""
        if sys.platform != "darwin":
            return Availability(False, "seatbelt is a part of macOS", "use docker or bubblewrap")
        if not os.access(self._sandbox_exec, os.X_OK):
            return Availability(False, f"{self._sandbox_exec} is missing", "use the docker backend")
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self._try()
        except TimeoutError:
            return Availability(False, f"a sandbox did not come up in {PROBE_SECONDS:g} s")
        except BackendError as error:
            return Availability(False, error.message, "use the docker backend")
        return Availability(True, why=UNVERIFIED)

    async def _try(self) -> None:
        request = SandboxRequest(f"probe-{os.urandom(6).hex()}", "", Limits(), build(path=os.environ.get("PATH", "")))
        sandbox = await self.create(request)
        try:
            planted = await sandbox.plant()
            await sandbox.self_test()
            if planted is not None:
                for each in (planted.proxy, planted.dns_udp, planted.dns_tcp):
                    each.close()
        finally:
            await asyncio.shield(sandbox.destroy())

    async def create(self, request: SandboxRequest) -> SeatbeltSandbox:
        """Make its directories and its port, write its profile, and start its supervisor, which is outside of it."""
        directories = Directories(self._place.directory_of(request.sandbox_id), None)
        await self._place.make(directories)
        front: Front | None = None
        try:
            front = Front()
            path, places = await asyncio.to_thread(_places, request, directories, front.port)
            text = profile(places)
            supervisor = await Supervisor.launch(self._spawner, lambda number: program(str(PACKAGE), number))
        except BaseException as error:
            if front is not None:
                await asyncio.shield(front.close())
            await asyncio.shield(discard(directories, None))
            if isinstance(error, PlacesError):
                raise BackendError("BACKEND_UNSUPPORTED", f"no profile can be written: {error}") from error
            raise
        facts = Facts(
            environment_of(request.environment, places, path, front.url), str(directories.workspace), shell(path)
        )
        return SeatbeltSandbox(supervisor, directories, facts, request.limits, [self._sandbox_exec, "-p", text], front)

    async def reap(self) -> Sequence[str]:
        """Remove what dead instances left: their supervisors have ended with them, so these are directories."""
        return await asyncio.to_thread(self._place.reap)

    async def close(self) -> None:
        """Release the thread that starts supervisors."""
        self._spawner.close()


class SeatbeltSandbox(ProcessSandbox):
    """A sandbox each of whose commands runs under its profile. The supervisor itself does not."""

    def __init__(
        self,
        supervisor: Supervisor,
        directories: Directories,
        facts: Facts,
        limits: Limits,
        wrapper: Sequence[str],
        front: Front,
    ) -> None:
        super().__init__(supervisor, directories, facts, limits, None, None, wrapper)
        self._front = front
        self._outside = str(directories.root)

    async def plant(self) -> Planted | None:
        """The explicit proxy alone: nothing is captured here, and no name server can be asked."""
        await self._front.start()
        dns_udp, dns_tcp = unreachable_sockets()
        return Planted(self._front.gateway, dns_udp, dns_tcp, {}, redirected=False, pool=NO_POOL)

    async def self_test(self) -> None:
        """Try to get out from inside, as a command would."""
        said = _Said()
        request = ExecRequest(
            "self-test", [interpreter(), "-I", "-S", "-c", PROBE, self._outside, str(self._front.port)]
        )
        running = await self.start(request, said)
        try:
            async with asyncio.timeout(TEST_SECONDS):
                exited = await running.wait()
        except TimeoutError:
            await running.kill()
            raise not_isolated("its self-test did not end") from None
        problems = findings(bytes(said.data)) if exited.code == 0 else [f"its self-test failed: {bytes(said.data)!r}"]
        if problems:
            raise not_isolated("; ".join(problems))

    async def start(self, request: ExecRequest, sink: OutputSink) -> ProcessRunning:
        """Start a command under the profile."""
        return await super().start(replace(request, environment=without_loader(request.environment)), sink)

    async def _destroy(self) -> None:
        await self._front.close()
        await super()._destroy()


class _Said:
    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, stream: Stream, data: bytes | memoryview) -> None:
        del stream
        self.data += data[: max(0, 4096 - len(self.data))]


def findings(said: bytes) -> list[str]:
    """What the self-test's answers show to be open or missing, a sentence each."""
    try:
        answers = json.loads(said)
        wrong = [attempt for attempt, allowed in EXPECTED.items() if answers[attempt] not in allowed]
        return [f"{attempt} ended with {answers[attempt]}" for attempt in wrong]
    except (ValueError, KeyError, TypeError):
        return [f"its self-test said something else than its answers: {said!r}"]


def environment_of(given: Mapping[str, str], places: Places, path: str, proxy: str) -> dict[str, str]:
    """What was given, with this sandbox's own places and its own way to the proxy."""
    own = build(path=path, home=places.home, tmp=places.tmp, proxy=proxy)
    return without_loader({**given, **own})


def without_loader(environment: Mapping[str, str]) -> dict[str, str]:
    """Without the variables that make the loader put other code into a program (dyld(1))."""
    return {name: value for name, value in environment.items() if not name.startswith("DYLD_")}


def _places(request: SandboxRequest, directories: Directories, port: int) -> tuple[str, Places]:
    """PATH and the paths of the profile. Blocking."""
    entries = request.environment.get("PATH", os.defpath).split(os.pathsep)
    found = [os.path.realpath(each) for each in tools_of(entries, homes())]
    found += [os.path.realpath(sys.base_prefix), str(Path(interpreter()).parent)]
    visible = outermost([*SYSTEM, *found])

    def is_seen(path: str) -> bool:
        return any(is_beneath(path, directory) for directory in visible)

    usable = [each for each in entries if is_directory(each) and is_seen(os.path.realpath(each))]
    bundle = [os.path.realpath(request.ca_bundle)] if request.ca_bundle else []
    own = [str(each.resolve()) for each in (directories.workspace, directories.home, directories.tmp)]
    return os.pathsep.join(usable), Places(own[0], own[1], own[2], outermost(found), port, bundle)
