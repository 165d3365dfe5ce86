"""The work of `quickstarted run`: from a request to results on disk, for the command and for programs.

Nothing here prints. Results are written after every attempt; being cancelled keeps what finished.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from quickstarted_api.v1 import sandbox_pb2 as pb

from quickstarted.agents.base import Agent
from quickstarted.attempt import Attempt, Place, Plan, describe
from quickstarted.cli.docs import Docs
from quickstarted.results import record
from quickstarted.results.model import AttemptResult, RunResult
from quickstarted.sandbox.base import SandboxError
from quickstarted.sandbox.client import API_MAX, Runner
from quickstarted.sandbox.connect import Address
from quickstarted.sandbox.names import lower_name
from quickstarted.sandbox.placement import open_runner
from quickstarted.suite import Suite
from quickstarted.task.model import DEFAULT_IMAGE, Task
from quickstarted.toolbox import OpenDocs
from quickstarted.trace import Listener, RecordsError

ERRORS = "errors.log"
DAEMON_LOG = "sandboxd.log"
OUR_FILES = frozenset({record.FILE_NAME, ERRORS, DAEMON_LOG})

# Results' directories have at least so many bytes left, or a run is not begun.
_ROOM = 256 * 1024
_ATTEMPT = re.compile(r"attempt-[0-9]+")


class BusyError(Exception):
    """Another run writes to the same results' directory."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be run, all of it checked."""

    tasks: tuple[Task, ...]
    agent: Agent
    docs: Docs
    out: Path
    registry_hosts: tuple[str, ...]
    backend: str = "auto"
    image: str | None = None
    allow_unenforced: bool = False
    address: Address | None = None
    repeat: int = 1
    workers: int = 1
    prompt_hash: str | None = None

    @property
    def backend_kind(self) -> pb.BackendKind.ValueType:
        return pb.BACKEND_KIND_UNSPECIFIED if self.backend == "auto" else pb.BackendKind.Value(self.backend.upper())

    def plans(self, run_id: str) -> list[Plan]:
        """Every attempt, task by task. An image is the task's, else the request's, else the default."""
        return [
            Plan(
                task=task,
                attempt=number,
                agent=self.agent,
                run_id=run_id,
                image=task.image or self.image or DEFAULT_IMAGE,
                image_asked=task.image or self.image,
                backend=self.backend_kind,
                allow_unenforced=self.allow_unenforced,
                registry_hosts=self.registry_hosts,
                prompt_hash=self.prompt_hash,
                docs_map=self.docs.docs_map,
                probe_affordances=self.docs.probe,
            )
            for task in self.tasks
            for number in range(1, self.repeat + 1)
        ]

    def label(self, plan: Plan) -> str:
        """How lines about an attempt begin."""
        return plan.label if self.repeat > 1 else plan.task.name


@dataclass
class Execution:
    """One run of a request."""

    request: Request
    listen: Callable[[str], Listener]  # by label, what hears an attempt's events
    _began: float = field(init=False, default_factory=time.monotonic)
    _started: datetime = field(init=False, default_factory=lambda: datetime.now(UTC))
    _suite: Suite = field(init=False)
    _runner: Runner | None = field(init=False, default=None)
    _open_docs: OpenDocs | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.run_id = f"{self._started:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        request = self.request
        self._suite = Suite(request.plans(self.run_id), self._attempt, request.workers, self._on_result)

    async def run(self) -> RunResult:
        """The results; on disk too. When it is cancelled, those that finished, with `interrupted`.

        Raises SandboxError when no runner can be had, RecordsError when results can't be written.
        """
        interrupted = False
        out = self.request.out
        try:
            async with (
                open_runner(self.request.address, run_id=self.run_id, log=out / DAEMON_LOG) as runner,
                self.request.docs.open() as open_docs,
            ):
                require_backend(runner.info, self.request.backend_kind, runner.link.runner)
                self._runner, self._open_docs = runner, open_docs
                self._begin_records()
                await self._suite.run()
        except asyncio.CancelledError:
            interrupted = True
        result = self._result(interrupted)
        record.write(result, out)
        return result

    def _begin_records(self) -> None:
        """Only now, when attempts are about to be made, is what an earlier run left of the same tasks replaced."""
        for task in self.request.tasks:
            _remove_attempts(self.request.out / task.name)
        record.write(self._result(interrupted=True), self.request.out)

    async def _attempt(self, plan: Plan) -> AttemptResult:
        assert self._runner is not None
        assert self._open_docs is not None
        request = self.request
        place = Place(request.out, record.trace_path(plan.task.name, plan.attempt), request.out / ERRORS)
        return await Attempt(plan, self._runner, self._open_docs, place, [self.listen(request.label(plan))]).run()

    def _on_result(self, _: AttemptResult) -> None:
        # A run that is killed leaves this: what finished, and that it was not all.
        record.write(self._result(interrupted=True), self.request.out)

    def _result(self, interrupted: bool) -> RunResult:
        runner = self._runner
        return RunResult(
            run_id=self.run_id,
            agent=self.request.agent.name,
            repeat=self.request.repeat,
            backend=self.request.backend,
            runner=runner.link.runner if runner else "",
            runner_version=runner.info.software_version if runner else "",
            api=min(runner.info.api_max, API_MAX) if runner else API_MAX,
            started=self._started.isoformat(timespec="seconds").replace("+00:00", "Z"),
            seconds=time.monotonic() - self._began,
            interrupted=interrupted,
            tasks=self._suite.by_task(),
        )


def require_backend(info: pb.GetInfoResponse, kind: pb.BackendKind.ValueType, runner: str) -> None:
    """Fail before anything runs when no attempt could: SandboxError with what is there and what to do."""
    if kind == pb.BACKEND_KIND_UNSPECIFIED:
        if info.auto_backend == pb.BACKEND_KIND_UNSPECIFIED:
            lines = [f"no backend that enforces the sandbox is available on the runner {runner}:"]
            lines += [f"  {_unavailable(one)}" for one in info.backends if one.enforced]
            raise SandboxError("BACKEND_UNSUPPORTED", "\n".join(lines))
        return
    found = next((one for one in info.backends if one.kind == kind), None)
    if found is None:
        name = lower_name(pb.BackendKind.DESCRIPTOR, kind)
        raise SandboxError("BACKEND_UNSUPPORTED", f"the runner {runner} has no {name} backend")
    if not found.available:
        raise SandboxError("BACKEND_UNSUPPORTED", _unavailable(found))


def _unavailable(backend: pb.BackendInfo) -> str:
    why = SandboxError("", backend.why or "it is not available", {"remedy": backend.remedy})
    return f"{lower_name(pb.BackendKind.DESCRIPTOR, backend.kind)}: {describe(why)}"


@contextlib.contextmanager
def results_directory(out: Path) -> Iterator[None]:
    """The results' directory, for this run alone. Raises BusyError, and RecordsError when nothing can be written there.

    That is found out here and not after an hour.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(out, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise RecordsError(out, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(f"another run writes to {out}; name another directory with --out") from None
        try:
            for old in (DAEMON_LOG, ERRORS):
                (out / old).unlink(missing_ok=True)
            with tempfile.TemporaryFile(dir=out) as trial:
                trial.write(bytes(_ROOM))
        except OSError as error:
            raise RecordsError(out, error) from error
        yield
    finally:
        os.close(descriptor)


def _remove_attempts(directory: Path) -> None:
    try:
        if not directory.is_dir() or directory.is_symlink():
            return
        for old in directory.iterdir():
            if _ATTEMPT.fullmatch(old.name) and old.is_dir() and not old.is_symlink():
                shutil.rmtree(old)
    except OSError as error:
        raise RecordsError(directory, error) from error
