"""The list of bars."""

from __future__ import annotations

from bench import agents, bubblewrap_backend, calls, cold, docker_backend, docs, proxied, validate
from bench.measure import Bar

BARS = [
    Bar("validate-1000", "validate of 1,000 files, over CSafeLoader and the compiled schema", 1.35, validate.many, 7),
    Bar("help-cold", "--help, over importing yaml, voluptuous and structlog", 1.6, cold.help_page, 21),
    Bar("validate-cold", "validate of one file, over the same imports", 1.6, cold.validate_one, 21),
    Bar("docker-ready", "a docker sandbox ready, over a bare container without a network", 1.3, docker_backend.ready),
    Bar("docker-true", "`true` in a docker sandbox, over the SDK's exec_run", 1.15, docker_backend.command, 31),
    Bar("bubblewrap-true", "`true` on bubblewrap, over bwrap itself", 1.5, bubblewrap_backend.command, 31),
    Bar("unary", "a call through sandboxd, over a bare gRPC echo", 1.5, calls.unary),
    Bar("output", "1 GB of output to the controller, over a bare stream", 0.5, calls.output, 5, rate=True),
    Bar(
        "download",
        "1 GB over TLS through the proxy, over the same download direct",
        0.6,
        proxied.download,
        7,
        rate=True,
    ),
    Bar("docs-convert", "documentation to Markdown, over markdownify on the same pages", 1.0, docs.convert_pages, 7),
    Bar("loop-turn", "the loop's own cost of 200 turns, over 5 ms a turn", 1.0, agents.turn),
    Bar("attempts-late", "the latest deadline of 200 attempts in flight, over 100 ms", 1.0, agents.lateness, 2),
    Bar("attempts-memory", "the memory of 200 attempts in flight, over 500 MB", 1.0, agents.memory, 2, unit="MB"),
]
