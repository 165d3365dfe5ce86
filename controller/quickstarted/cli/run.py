"""`quickstarted run`: make attempts at tasks and say what they found.

Progress goes to stderr, the summary to stdout, everything to the results' directory. Imports that cost time are made
when the command runs, not when its arguments are read.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from quickstarted.cli import docs, term

if TYPE_CHECKING:
    from quickstarted.agents.base import Agent
    from quickstarted.cli.execute import Execution, Request
    from quickstarted.results.model import RunResult
    from quickstarted.sandbox.connect import Address
    from quickstarted.task.model import Task

HELP = "run tasks and tell what they say about the documentation"
EPILOG = """\
exit codes:
  0  every task passed
  1  a documentation gap: an agent finished, or a documented command failed, and the success script failed
  2  no evidence about a task: infrastructure, configuration, a budget, a refusal; or nothing ran
  3  wrong usage or an invalid task
  130  interrupted
"""

BACKENDS = ("auto", "docker", "bubblewrap", "seatbelt", "local")
DEFAULT_OUT = "results"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("tasks", nargs="*", metavar="TASKS", help="task files, directories or globs (default: tasks/)")
    agent = parser.add_argument_group("the agent")
    agent.add_argument(
        "--agent",
        default="replay",
        metavar="NAME",
        help="replay (the documented commands), claude, openai, gemini, or command",
    )
    agent.add_argument("--model", metavar="NAME", help="the model; each agent has a default")
    agent.add_argument("--base-url", metavar="URL", help="where the model's API is, when it is not at its vendor")
    agent.add_argument(
        "--agent-command",
        metavar="COMMAND",
        help="with --agent command: what starts a coding agent, with {goal} and {mcp_config} where it takes them",
    )
    agent.add_argument(
        "--agent-env",
        metavar="NAME",
        action="append",
        default=[],
        help="a variable that the coding agent gets, its key for instance; repeatable",
    )
    docs.add_arguments(parser)
    place = parser.add_argument_group("the sandbox")
    place.add_argument("--backend", choices=BACKENDS, default="auto", help="what makes the sandboxes (default: auto)")
    place.add_argument("--image", metavar="IMAGE", help="the image of tasks that name none (docker only)")
    place.add_argument(
        "--allow-unenforced",
        action="store_true",
        help="accept a backend that enforces nothing: commands of a stranger can do all that you can",
    )
    place.add_argument(
        "--sandboxd",
        metavar="ADDRESS",
        default=os.environ.get("SANDBOXD") or None,
        help="use a running sandboxd, unix:/path (default: $SANDBOXD, else one of its own for this run)",
    )
    suite = parser.add_argument_group("how often")
    suite.add_argument("--repeat", type=_positive, default=1, metavar="N", help="attempts at each task (default: 1)")
    suite.add_argument("--workers", type=_positive, default=1, metavar="N", help="attempts at a time (default: 1)")
    output = parser.add_argument_group("what comes out")
    output.add_argument(
        "--out",
        type=Path,
        default=Path(DEFAULT_OUT),
        metavar="DIR",
        help=f"where results go; earlier results of the same tasks are replaced (default: {DEFAULT_OUT}/)",
    )
    output.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML too")
    output.add_argument("--strict-inconclusive", action="store_true", help="exit 1 where it would be 2")
    talk = output.add_mutually_exclusive_group()
    talk.add_argument("-v", "--verbose", action="store_true", help="show each command as it runs")
    talk.add_argument("-q", "--quiet", action="store_true", help="show no progress, and of what passed only its name")


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return number


class UsageError(Exception):
    """What was asked for can't be; the message is for the person who asked."""


def run(args: argparse.Namespace) -> int:
    """Run the command; its exit code."""
    from quickstarted.classify import RunExit

    try:
        request = _request(args)
    except UsageError as error:
        _complain(str(error))
        return RunExit.USAGE
    return _perform(request, args)


def _request(args: argparse.Namespace) -> Request:
    from quickstarted.cli.execute import OUR_FILES, Request
    from quickstarted.task.defaults import registry_hosts

    if args.backend == "local" and not args.allow_unenforced:
        raise UsageError(
            "the local backend enforces nothing: commands of a stranger can do all that you can; "
            "add --allow-unenforced if that is accepted, or choose another --backend"
        )
    if args.image is not None and not args.image.strip():
        raise UsageError("--image is empty")
    tasks = _tasks(args.tasks, args.quiet)
    for task in tasks:
        if task.name.lower() in OUR_FILES:
            raise UsageError(f"{task.source}: a task can't be named {task.name}: results have a file of that name")
    agent, prompt_hash = _agent(args)
    return Request(
        tasks=tasks,
        agent=agent,
        docs=_docs(args),
        out=args.out,
        registry_hosts=registry_hosts(),
        backend=args.backend,
        image=args.image,
        allow_unenforced=args.allow_unenforced,
        address=_address(args.sandboxd),
        repeat=args.repeat,
        workers=args.workers,
        prompt_hash=prompt_hash,
    )


def _tasks(paths: list[str], quiet: bool) -> tuple[Task, ...]:
    from quickstarted.task.files import NothingFoundError
    from quickstarted.task.load import load_suite
    from quickstarted.task.problems import Severity

    try:
        suite = load_suite(paths)
    except NothingFoundError as error:
        raise UsageError(str(error)) from None
    for problem in suite.problems:
        if problem.severity is Severity.ERROR or not quiet:
            colour = term.use_colour(sys.stderr)
            _print(term.labelled(problem.severity, str(problem), colour=colour), sys.stderr)
    if suite.errors:
        raise UsageError("nothing was run, because not all task files are valid")
    return suite.tasks


def _agent(args: argparse.Namespace) -> tuple[Agent, str | None]:
    from quickstarted.agents import registry
    from quickstarted.agents.prompt import prompt_hash

    if args.agent not in (*registry.NAMES, registry.STDIO):
        raise UsageError(f"there is no agent {args.agent!r}; the agents are {', '.join(registry.NAMES)}")
    try:
        options = registry.AgentOptions(args.model, args.base_url, args.agent_command, tuple(args.agent_env))
        agent = registry.make(args.agent, options, os.environ)
    except registry.AgentUnavailableError as error:
        raise UsageError(str(error)) from None
    return agent, None if args.agent == "replay" else prompt_hash()


def _docs(args: argparse.Namespace) -> docs.Docs:
    try:
        return docs.docs_of(args)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _address(text: str | None) -> Address | None:
    from quickstarted.sandbox.connect import AddressError, parse

    try:
        return parse(text) if text is not None else None
    except AddressError as error:
        raise UsageError(f"--sandboxd: {error}") from None


def _perform(request: Request, args: argparse.Namespace) -> int:
    import asyncio

    from quickstarted.attempt import describe
    from quickstarted.classify import RunExit
    from quickstarted.cli.execute import ERRORS, BusyError, Execution, results_directory
    from quickstarted.cli.progress import Progress, Verbosity
    from quickstarted.results import junit
    from quickstarted.sandbox.base import SandboxError
    from quickstarted.trace import RecordsError, append_error

    verbosity = Verbosity.VERBOSE if args.verbose else Verbosity.QUIET if args.quiet else Verbosity.NORMAL
    progress = Progress(lambda line: _print(line, sys.stderr), time.monotonic, verbosity)
    try:
        with results_directory(request.out):
            result = asyncio.run(_interruptible(Execution(request, progress.listener)))
        if args.junit:
            junit.write(result, args.junit)
    except BusyError as error:
        _complain(str(error))
        return RunExit.USAGE
    except SandboxError as error:
        _complain(describe(error))
        return RunExit.NO_EVIDENCE
    except RecordsError as error:
        _complain(str(error))
        return RunExit.NO_EVIDENCE
    except Exception as error:  # noqa: BLE001 - no traceback reaches a user; it is kept where it can be sent from
        with contextlib.suppress(RecordsError):
            error_id = append_error(request.out / ERRORS, "run", error)
            _complain(f"unexpected {type(error).__name__}; its traceback is {error_id} in {request.out / ERRORS}")
            return RunExit.NO_EVIDENCE
        _complain(f"unexpected {type(error).__name__}: {error}")
        return RunExit.NO_EVIDENCE
    return _tell(result, request, args)


def _tell(result: RunResult, request: Request, args: argparse.Namespace) -> int:
    from quickstarted.classify import RunExit, exit_code
    from quickstarted.cli.summary import Summary

    summary = Summary(painter(sys.stdout), request.out, brief=args.quiet)
    _print(summary.render(result), sys.stdout, end="")
    if result.interrupted:
        return RunExit.INTERRUPTED
    code = exit_code([one.classification for one in task.attempts] for task in result.tasks)
    if code is RunExit.NO_EVIDENCE and args.strict_inconclusive:
        return RunExit.DOCS_GAP
    return code


async def _interruptible(execution: Execution) -> RunResult:
    """Run it; the first signal ends it in good order, the second at once."""
    import asyncio

    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(execution.run())
    asked = False

    def stop() -> None:
        nonlocal asked
        if asked:
            # Our daemon sees the end of its stdin, destroys its sandboxes and leaves; a lease ends those elsewhere.
            os._exit(130)
        asked = True
        _complain("interrupted: ending what runs; once more to stop at once")
        task.cancel()

    # Who started us may have said that a signal is not for us, as nohup does.
    signals = [
        one for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN
    ]
    for one in signals:
        loop.add_signal_handler(one, stop)
    try:
        return await task
    finally:
        for one in signals:
            loop.remove_signal_handler(one)


def _complain(text: str) -> None:
    _print(f"quickstarted: {text}", sys.stderr)


def _print(text: str, stream: TextIO, end: str = "\n") -> None:
    """Print, also to what takes nothing any more: the run goes on, its results are on disk."""
    try:
        print(text, file=stream, end=end, flush=True)
    except OSError as error:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            _complain(f"can't write to stdout: {error.strerror}")


_CODES = {"green": "32", "red": "31", "yellow": "33", "dim": "2"}


def painter(stream: TextIO) -> Callable[[str, str], str]:
    """Colours on a terminal that has them, nothing elsewhere."""
    colour = term.use_colour(stream)
    return lambda name, text: f"\x1b[{_CODES[name]}m{text}\x1b[0m" if colour else text
