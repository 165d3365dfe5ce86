"""One attempt at one task: a sandbox, setup, the agent, the success script, a classification, and nothing left behind.

Whatever happens, the trace ends with `run_end` and the sandbox is destroyed. Being cancelled is a normal way to end:
the command in flight is ended in the sandbox first. The success script exists in the controller only until the agent
has stopped; then it is the argument of one command.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from quickstarted_api.hosts import first_match
from quickstarted_api.v1 import sandbox_pb2 as pb

from quickstarted import __version__
from quickstarted.agents.base import Agent, AgentOutcome, BudgetExhaustedError, StopReason, Tokens
from quickstarted.classify import Phase, classify, runs_check
from quickstarted.results.model import AttemptResult, Check
from quickstarted.sandbox.base import CommandResult, Sandbox, SandboxError, SandboxFacts
from quickstarted.sandbox.client import Wanted
from quickstarted.sandbox.errors import Outcome, outcome
from quickstarted.sandbox.placement import Placer
from quickstarted.task.model import Task
from quickstarted.toolbox import AttemptToolbox, OpenDocs, Shell
from quickstarted.trace import VERSION, Listener, RecordsError, Trace, append_error, command_fields
from quickstarted.watcher import Watcher

# For what is not a command: making the sandbox, waiting for room, ending it.
MARGIN_SECONDS = 1800.0
# After this an agent that does not look at the clock is cancelled.
OVERRUN_SECONDS = 10.0
# How long the last events of a sandbox that is gone may take.
EVENTS_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done. `image_asked` is None when nobody named an image and `image` is the default."""

    task: Task
    attempt: int
    agent: Agent
    run_id: str
    image: str
    image_asked: str | None = None
    backend: pb.BackendKind.ValueType = pb.BACKEND_KIND_UNSPECIFIED
    allow_unenforced: bool = False
    registry_hosts: tuple[str, ...] = ()
    prompt_hash: str | None = None
    docs_map: dict[str, str] = field(default_factory=dict)
    probe_affordances: bool = False

    @property
    def label(self) -> str:
        return f"{self.task.name}#{self.attempt}"

    @property
    def network(self) -> pb.NetworkPolicy:
        """The policy's three lists. `network.only` replaces the default registries."""
        return pb.NetworkPolicy(
            explicit_hosts=self.task.network.explicit,
            docs_hosts=self.task.docs.hosts,
            registry_hosts=() if self.task.network.only is not None else self.registry_hosts,
        )

    @property
    def wanted(self) -> Wanted:
        budgets = self.task.budgets
        commands = (len(self.task.setup) + 1) * budgets.max_command_seconds
        return Wanted(
            sandbox_id=f"{self.run_id}-{secrets.token_hex(6)}",
            spec=pb.SandboxSpec(
                backend=self.backend,
                image=self.image,
                allow_unenforced=self.allow_unenforced,
                network=self.network,
                labels={"run": self.run_id, "task": self.task.name, "attempt": str(self.attempt)},
            ),
            lifetime=commands + budgets.max_seconds + MARGIN_SECONDS,
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Where an attempt's records go. `trace` is relative to the results' directory, `errors` takes tracebacks."""

    results: Path
    trace: str
    errors: Path


@dataclass
class Attempt:
    """Runs a plan, once."""

    plan: Plan
    placer: Placer
    open_docs: OpenDocs
    place: Place
    listeners: Sequence[Listener] = ()
    clock: Callable[[], float] = time.monotonic

    _outcome: AgentOutcome = field(init=False, default_factory=lambda: AgentOutcome(StopReason.INTERRUPTED))
    _check: Check | None = field(init=False, default=None)
    _facts: SandboxFacts | None = field(init=False, default=None)
    _shell: Shell | None = field(init=False, default=None)
    _tools: AttemptToolbox | None = field(init=False, default=None)

    async def run(self) -> AttemptResult:
        """The result. Raises CancelledError when it was cancelled, RecordsError when its trace can't be written."""
        self._began, self._started = self.clock(), datetime.now(UTC)
        self._trace = Trace(self.place.results / self.place.trace, self.listeners)
        self._watcher = Watcher(self._trace)
        try:
            self._write_start()
            await self._work()
            result = self._result()
            self._write_end(result)
            return result
        except asyncio.CancelledError:
            self._fail(StopReason.INTERRUPTED, "the run was interrupted")
            self._write_end(None)
            raise
        finally:
            self._trace.close()

    async def _work(self) -> None:
        if not self.plan.agent.can_run(self.plan.task):
            self._outcome = AgentOutcome(StopReason.NOTHING_TO_RUN, f"nothing to run with {self.plan.agent.name}")
            return
        try:
            await self._with_sandbox()
        except SandboxError as error:
            self._fail(_stop_of(error), describe(error))
        except RecordsError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is recorded and the other attempts go on
            self._bug(error)

    async def _with_sandbox(self) -> None:
        began = self.clock()
        sandbox = await self.placer.create(self.plan.wanted, lambda why: self._trace.write("sandbox_wait", message=why))
        following = asyncio.create_task(self._watcher.follow(sandbox), name="events")
        try:
            self._facts = sandbox.facts
            self._write_ready(sandbox.facts, self.clock() - began)
            await self._phases(sandbox)
            await sandbox.settle_events()
        finally:
            await self._end(sandbox, following)
        if following.done() and not following.cancelled():
            following.result()

    async def _end(self, sandbox: Sandbox, following: asyncio.Task[None]) -> None:
        try:
            await sandbox.close()
            # The events end after the last one of a sandbox that is gone.
            await asyncio.wait([following], timeout=EVENTS_SECONDS)
        except SandboxError as error:
            # Its lease ends it. What the attempt found is not less true for that.
            self._trace.write("sandbox_close_failed", message=describe(error))
        finally:
            following.cancel()
            await asyncio.wait([following])

    async def _phases(self, sandbox: Sandbox) -> None:
        self._shell = Shell(sandbox, self.plan.task.budgets)
        if not await self._setup(self._shell):
            return
        self._outcome = await self._agent_phase(self._shell)
        if runs_check(self._outcome.stop, self._turns):
            await self._success_check(self._shell)
        if self.plan.probe_affordances and self._tools:
            await self._tools.probe_affordances()

    async def _setup(self, shell: Shell) -> bool:
        for command in self.plan.task.setup:
            result = await shell.run(Phase.SETUP, command)
            self._trace.write("setup", command=command, **command_fields(result))
            if not result.ok:
                self._outcome = AgentOutcome(StopReason.SETUP_FAILED, _how(result))
                return False
        return True

    async def _agent_phase(self, shell: Shell) -> AgentOutcome:
        budgets = self.plan.task.budgets
        self._tools = AttemptToolbox(shell, self.open_docs, self.plan.task.docs, self._trace, budgets, self.clock)
        try:
            async with asyncio.timeout(budgets.max_seconds + OVERRUN_SECONDS) as guard:
                return await self.plan.agent.run(self.plan.task, self._tools)
        except BudgetExhaustedError as error:
            return AgentOutcome(error.stop, error.detail)
        except SandboxError as error:
            return AgentOutcome(_stop_of(error), describe(error))
        except RecordsError:
            raise
        except Exception as error:  # noqa: BLE001 - an agent's bug is recorded; what it did can still be checked
            if isinstance(error, TimeoutError) and guard.expired():
                return AgentOutcome(StopReason.MAX_SECONDS, f"{budgets.max_seconds} s were used up")
            return self._bug(error)

    async def _success_check(self, shell: Shell) -> None:
        result = await shell.run(Phase.CHECK, self.plan.task.success.script, session=False)
        self._trace.write("success_check", **command_fields(result))
        self._check = Check(result.exit_code, result.cause.lower(), result.output, round(result.seconds, 3))

    @property
    def _turns(self) -> int:
        return max(self._tools.turns if self._tools else 0, self._outcome.turns)

    def _fail(self, stop: StopReason, detail: str) -> AgentOutcome:
        """The attempt ended here, after whatever its agent did."""
        self._outcome = AgentOutcome(stop, detail, self._turns)
        return self._outcome

    def _bug(self, error: Exception) -> AgentOutcome:
        error_id = append_error(self.place.errors, self.plan.label, error)
        detail = f"unexpected {type(error).__name__}; its traceback is {error_id} in {self.place.errors}"
        return self._fail(StopReason.BUG, detail)

    def _write_start(self) -> None:
        plan, task = self.plan, self.plan.task
        self._trace.write(
            "run_start",
            trace_version=VERSION,
            quickstarted=__version__,
            run_id=plan.run_id,
            task=task.name,
            attempt=plan.attempt,
            agent=plan.agent.name,
            prompt_hash=plan.prompt_hash,
            goal=task.goal,
            docs={"path": list(task.docs.path), "hosts": list(task.docs.hosts)},
            network={"explicit": list(plan.network.explicit_hosts), "registry": list(plan.network.registry_hosts)},
            budgets={name: getattr(task.budgets, name) for name in task.budgets.__slots__},
            backend=pb.BackendKind.Name(plan.backend).lower() if plan.backend else "auto",
            image=plan.image,
        )

    def _write_ready(self, facts: SandboxFacts, seconds: float) -> None:
        self._trace.write(
            "sandbox_ready",
            sandbox_id=facts.sandbox_id,
            backend=facts.backend,
            enforced=facts.enforced,
            image=facts.image,
            image_digest=facts.image_digest,
            image_ignored=self._image_ignored,
            workspace=facts.workspace,
            shell=facts.shell,
            runner=facts.runner,
            node_id=facts.node_id,
            instance_id=facts.instance_id,
            allow_private=list(facts.allow_private),
            timings={step: round(took, 3) for step, took in facts.timings.items()},
            seconds=round(seconds, 3),
        )

    def _write_end(self, result: AttemptResult | None) -> None:
        """The last event; without a result the attempt was interrupted and nothing follows from it."""
        self._trace.write(
            "run_end",
            classification=result.classification.value if result else None,
            why=result.why if result else "",
            stop_reason=self._outcome.stop.value,
            stop_detail=self._outcome.detail,
            turns=self._turns,
            seconds=round(self.clock() - self._began, 3),
        )

    def _result(self) -> AttemptResult:
        plan, tools, stopped, watcher = self.plan, self._tools, self._outcome, self._watcher
        ended = self._shell.ended if self._shell else {}
        verdict = classify(stopped.stop, self._check.exit_code if self._check else None, watcher.incidents(ended))
        return AttemptResult(
            task=plan.task.name,
            attempt=plan.attempt,
            agent=plan.agent.name,
            classification=verdict.classification,
            why=verdict.why,
            stop=stopped.stop,
            stop_detail=stopped.detail,
            started=self._started.isoformat(timespec="seconds").replace("+00:00", "Z"),
            seconds=round(self.clock() - self._began, 3),
            turns=self._turns,
            tokens=tools.tokens if tools else Tokens(),
            model=stopped.model or (tools.model if tools else None),
            prompt_hash=plan.prompt_hash,
            failed_command=self._failed_command(),
            facts=self._facts,
            image_ignored=self._image_ignored,
            check=self._check,
            docs_pages=tuple(tools.pages) if tools else (),
            docs_map=plan.docs_map,
            refused=watcher.refused(ended),
            upstream_errors=watcher.upstream_errors(ended),
            docs_bypass_attempts=watcher.docs_bypass_attempts,
            attribution_gaps=self._attribution_gaps(),
            trace=self.place.trace,
        )

    def _failed_command(self) -> str | None:
        """The command that stopped the attempt, where one did."""
        phase = _STOPPED_BY_COMMAND.get(self._outcome.stop)
        last = self._shell.last(phase) if self._shell and phase else None
        return last.command if last else None

    @property
    def _image_ignored(self) -> str | None:
        return self.plan.image_asked if self._facts and not self._facts.image else None

    def _attribution_gaps(self) -> tuple[str, ...]:
        """Ways in which documentation could have reached the agent without being on record."""
        if self._facts is None:
            return ()
        docs = self.plan.task.docs.hosts
        gaps = [
            f"the task opens {host}, which serves documentation, to the shell"
            for host in self.plan.task.network.explicit
            if first_match(host, docs) or any(first_match(one, [host]) for one in docs)
        ]
        if self._facts.allow_private:
            gaps.append(f"the runner's operator allows private addresses: {', '.join(self._facts.allow_private)}")
        if not self._facts.enforced:
            gaps.append(f"the {self._facts.backend} backend enforces nothing: commands can reach any host")
        return tuple(gaps)


_STOPPED_BY_COMMAND = {
    StopReason.SETUP_FAILED: Phase.SETUP,
    StopReason.COMMAND_FAILED: Phase.AGENT,
    StopReason.MAX_COMMAND_SECONDS: Phase.AGENT,
}


def describe(error: SandboxError) -> str:
    """An error of a runner for people: what happened, why, and what to do about it."""
    text = error.message.rstrip(".")
    for part in (error.metadata.get("why", ""), error.metadata.get("remedy", "")):
        if part and part.rstrip(".") not in text:
            text += f"; {part.rstrip('.')}"
    return text


def _stop_of(error: SandboxError) -> StopReason:
    configuration = outcome(error.reason) is Outcome.CONFIGURATION
    return StopReason.CONFIGURATION if configuration else StopReason.SANDBOX_ERROR


def _how(result: CommandResult) -> str:
    if result.cause == "TIMED_OUT":
        return f"it was stopped after {result.seconds:.0f} s"
    return result.message or f"exit code {result.exit_code}"
