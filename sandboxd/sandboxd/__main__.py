"""The `sandboxd` command."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import sys

import structlog

from sandboxd.config import USAGE_ERROR, Config, parse

PR_SET_DUMPABLE = 4


def main() -> int:
    """Run the daemon; 0 at a regular end, 3 for wrong usage, 1 when it can't serve."""
    # Before grpc is imported: its fork handlers hang processes that start others. Nothing here ever forks.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    config = parse(sys.argv[1:], os.environ)
    _hide()
    _log_to_stderr(config)
    from sandboxd.daemon import ServeError, serve
    from sandboxd.instances import StateError, instance
    from sandboxd.transport import ListenError

    try:
        with instance(config.state) as own:
            asyncio.run(serve(config, own))
    except (StateError, ListenError, ServeError) as error:
        print(f"sandboxd: {error}", file=sys.stderr)  # noqa: T201 - the command's own output
        return USAGE_ERROR
    except Exception as error:  # noqa: BLE001 - a bug: its traceback is for the log, as one line of it
        structlog.get_logger().exception("failed", error=str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _hide() -> None:
    """Keep the daemon's environment and memory from processes of the same user (the local backend's commands)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def _log_to_stderr(config: Config) -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, config.log_level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(message)s")


if __name__ == "__main__":
    sys.exit(main())
