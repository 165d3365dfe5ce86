"""The converter's process: bodies in, pages out. Parsers of strangers' bytes run here, within limits of the system.

A message is four bytes of length, a JSON head of that length, and for a request the body, whose length the head says.
The process ends at the end of its input, so it never outlives the controller.
"""

from __future__ import annotations

import gc
import json
import resource
import signal
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from quickstarted.docs.media import UnreadableTypeError
from quickstarted.docs.page import make_page
from quickstarted.docs.pdf import PdfError

MAX_MEMORY = 2 * 1024**3
MAX_SECONDS = 60  # of processor time for one page; the other end gives up earlier
_RETIRE_AT = 700 * 1024  # KiB of resident memory, after which a fresh process takes over
_LENGTH = struct.Struct(">I")


def main() -> None:
    # Ctrl-C reaches the whole group; it is the controller that decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(ValueError, OSError):  # macOS has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    gc.disable()  # one page makes hundreds of thousands of objects, all of which are gone when it is done
    while (request := _read(sys.stdin.buffer)) is not None:
        _limit_processor()
        answer = _answer(*request)
        answer["retire"] = _resident() > _RETIRE_AT
        _write(sys.stdout.buffer, answer)
        del request, answer
        gc.collect()


def _resident() -> int:
    """The resident memory in KiB. Linux counts the parent's at the time of the start into `ru_maxrss`, so not that."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:  # macOS, whose `ru_maxrss` is in bytes
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return pages * resource.getpagesize() // 1024


def _answer(head: dict[str, Any], body: bytes) -> dict[str, Any]:
    try:
        return {"page": make_page(body, head["type"], head["url"], how=head["how"]).as_json()}
    except UnreadableTypeError as error:
        return {"unreadable_type": error.type}
    except PdfError as error:
        return {"pdf": str(error)}
    except MemoryError:
        return {"failed": "it needs too much memory"}
    except RecursionError:
        return {"failed": "it is nested too deeply"}


def _limit_processor() -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + MAX_SECONDS
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _read(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    size = stream.read(_LENGTH.size)
    if len(size) < _LENGTH.size:
        return None
    head = json.loads(stream.read(_LENGTH.unpack(size)[0]))
    return head, stream.read(head["body"])


def _write(stream: BinaryIO, answer: dict[str, Any]) -> None:
    data = json.dumps(answer).encode()
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


if __name__ == "__main__":
    main()
