"""A docker engine for tests: the one that answers, else one of our own with its own data, socket and processes.

`python -m tests.support.engine up|images|down|env` is the same for scripts: `up` leaves an engine running and prints
the line that exports its address, `images` builds what tests run in, `down` stops our own engine and removes its data.
An engine of our own holds a lock for as long as one of its processes lives, so that the data of one that was killed
is found and removed by the next start.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import docker
import docker.errors

from tests.support import images

DEFAULT_HOST = "unix:///var/run/docker.sock"
START_SECONDS = 60.0
STOP_SECONDS = 30.0


class EngineError(Exception):
    """There is no engine and none could be started."""


@dataclass(frozen=True)
class Engine:
    """An engine that answers at `host`; `home` is set when it is our own."""

    host: str
    home: Path | None = None


@contextlib.contextmanager
def running(tags: Sequence[str] = images.TAGS) -> Iterator[Engine]:
    """An engine with the test images, `DOCKER_HOST` pointing to it; our own is stopped at the end."""
    engine = find() or start(dies_with_us=True)
    before = os.environ.get("DOCKER_HOST")
    os.environ["DOCKER_HOST"] = engine.host
    try:
        with contextlib.closing(connect(engine.host)) as client:
            images.ensure(client, tags)
        yield engine
    finally:
        if before is None:
            del os.environ["DOCKER_HOST"]
        else:
            os.environ["DOCKER_HOST"] = before
        if engine.home is not None:
            stop(engine.home)


def connect(host: str, timeout: int = 120) -> docker.APIClient:
    """A client of the engine at this address."""
    return docker.APIClient(base_url=host, version="auto", timeout=timeout)


def find() -> Engine | None:
    """The engine that the environment names or that is at the default place, when it answers."""
    named = os.environ.get("DOCKER_HOST")
    host = named or DEFAULT_HOST
    if _answers(host):
        return Engine(host)
    if named:
        raise EngineError(f"DOCKER_HOST={named} does not answer. Start that engine, or unset DOCKER_HOST.")
    return None


def start(*, dies_with_us: bool) -> Engine:
    """Start an engine of our own; with `dies_with_us` it ends when this process does. Raises EngineError."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        raise EngineError(
            "tests need a docker engine: start one (DOCKER_HOST or the default socket), or run them as root with "
            "dockerd installed (apt-get install docker.io), so that they can start their own"
        )
    sweep()
    home = Path(tempfile.mkdtemp(prefix="engine-" if dies_with_us else "engine-up-", dir=images.cache_dir()))
    # A unix socket's path has 107 bytes at most, and the engine makes sockets far below its exec root.
    run = Path(tempfile.mkdtemp(prefix="qs-engine-"))
    (home / "run").symlink_to(run)
    host = f"unix://{run}/docker.sock"
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = _spawn(home, run, host, lock.fileno(), dies_with_us=dies_with_us)
        try:
            _wait(process, host, home)
        except EngineError:
            process.kill()
            process.wait()
            lock.close()
            _remove(home)
            raise
    return Engine(host, home)


def _spawn(home: Path, run: Path, host: str, lock: int, *, dies_with_us: bool) -> subprocess.Popen[bytes]:
    command = [
        *(["setpriv", "--pdeathsig", "TERM"] if dies_with_us else []),
        "dockerd",
        f"--data-root={home}/data",
        f"--exec-root={run}/exec",
        f"--pidfile={run}/pid",
        f"--host={host}",
        # Sandboxes need no bridge, so the machine's addresses and its packet filter are left alone. Told to have no
        # bridge, the engine would remove another engine's.
        *([] if Path("/sys/class/net/docker0").exists() else ["--bridge=none"]),
        "--iptables=false",
    ]
    with (home / "log").open("wb") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, pass_fds=[lock]
        )


def _wait(process: subprocess.Popen[bytes], host: str, home: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _answers(host):
        if process.poll() is not None or time.monotonic() > deadline:
            tail = "\n".join((home / "log").read_text(errors="replace").splitlines()[-15:])
            raise EngineError(f"dockerd did not start:\n{tail}")
        time.sleep(0.1)


def _answers(host: str) -> bool:
    try:
        with contextlib.closing(connect(host, timeout=5)) as client:
            return bool(client.ping())
    except (docker.errors.DockerException, OSError):
        return False


def stop(home: Path) -> None:
    """End an engine of our own, with all that runs in it, and remove its data."""
    run = (home / "run").resolve()
    with contextlib.suppress(docker.errors.DockerException, OSError):
        _remove_containers(f"unix://{run}/docker.sock")
    with contextlib.suppress(OSError, ValueError):
        os.kill(int((run / "pid").read_text()), signal.SIGTERM)
    if not _until(lambda: _free(home), STOP_SECONDS / 2):
        _kill_holders(home)
    if not _until(lambda: _free(home)):
        raise EngineError(f"the engine of {home} did not stop in {STOP_SECONDS:.0f} s")
    _remove(home)


def _until(so: Callable[[], bool], seconds: float = STOP_SECONDS) -> bool:
    """Wait until it is so; whether it became so in time."""
    deadline = time.monotonic() + seconds
    while not so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _kill_holders(home: Path) -> None:
    """Kill what an engine that crashed left running: all that still holds its lock open."""
    lock = str(home / "lock")
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError, ProcessLookupError):
            if str(entry.readlink()) == lock and entry.parts[2] != str(os.getpid()):
                os.kill(int(entry.parts[2]), signal.SIGKILL)


def crash(home: Path) -> None:
    """Kill the engine of `home` as a crash would; what it ran goes on until `resume`."""
    run = (home / "run").resolve()
    pid = int((run / "pid").read_text())
    os.kill(pid, signal.SIGKILL)
    _until(lambda: not Path(f"/proc/{pid}/cwd").exists())
    # Its containerd dies with it, and its number may stay taken for as long as nobody reaps it.
    for left in (run / "pid", run / "exec/containerd/containerd.pid"):
        left.unlink(missing_ok=True)


def resume(engine: Engine) -> None:
    """Start an engine again that crashed."""
    assert engine.home is not None
    run = (engine.home / "run").resolve()
    with (engine.home / "lock").open("r+") as lock:
        process = _spawn(engine.home, run, engine.host, lock.fileno(), dies_with_us=True)
        _wait(process, engine.host, engine.home)


def _remove_containers(host: str) -> None:
    with contextlib.closing(connect(host)) as client:
        for container in client.containers(all=True, quiet=True):
            with contextlib.suppress(docker.errors.APIError):
                client.remove_container(container["Id"], force=True)


def homes(kind: str = "") -> list[Path]:
    """The directories of our engines, those that were killed included; of kind "up-", those that `up` started."""
    return sorted(images.cache_dir().glob(f"engine-{kind}*"))


def sweep() -> None:
    """Remove what engines left that were killed."""
    for home in homes():
        if not _free(home) and not _lives(home):
            _kill_holders(home)
            _until(lambda home=home: _free(home))  # type: ignore[misc]  # bound at once
        if _free(home):
            _remove(home)


def _lives(home: Path) -> bool:
    """Whether the engine itself still runs, or is just being started."""
    pid = (home / "run").resolve() / "pid"
    try:
        return Path(f"/proc/{pid.read_text().strip()}/exe").exists()
    except OSError:
        return home.stat().st_mtime > time.time() - START_SECONDS


def _free(home: Path) -> bool:
    """Whether no process of this engine is left; one that is just being made holds its lock as well."""
    try:
        with (home / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except FileNotFoundError:
        return home.stat().st_mtime < time.time() - START_SECONDS
    return True


def _remove(home: Path) -> None:
    run = (home / "run").resolve()
    for root in (run, home):
        _unmount(root)
        shutil.rmtree(root, ignore_errors=True)


def _unmount(root: Path) -> None:
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for point in reversed(mounted):
        if point.startswith(f"{root}/"):
            subprocess.run(["umount", "--lazy", point], check=False)


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    words = ("up", "images", "down", "env")
    if len(arguments) != 1 or arguments[0] not in words:
        print(f"usage: python -m tests.support.engine {'|'.join(words)}", file=sys.stderr)
        return 3
    try:
        _command(arguments[0])
    except (EngineError, images.ImageError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _command(word: str) -> None:
    if word == "down":
        for home in homes("up-"):
            stop(home)
        return
    engine = find() if word != "up" else find() or _ours() or start(dies_with_us=False)
    engine = engine or _ours()
    if engine is None:
        raise EngineError("no engine answers; `python -m tests.support.engine up` starts one")
    if word == "images":
        with contextlib.closing(connect(engine.host)) as client:
            images.ensure(client)
    else:
        print(f"export DOCKER_HOST={engine.host}")


def _ours() -> Engine | None:
    for home in homes("up-"):
        host = f"unix://{(home / 'run').resolve()}/docker.sock"
        if _answers(host):
            return Engine(host, home)
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
