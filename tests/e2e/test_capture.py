"""Tools that ignore the proxy variables reach what is allowed, and nothing else, by the same policy."""

from __future__ import annotations

import pytest

from tests.support.desk import Desk

NO_PROXY = "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY"
# Node's fetch has never read them. Where the registry is, npm knows.
FETCH = """node -e '
fetch(process.argv[1] + "is-number").then(
  (answer) => { console.log("status", answer.status); process.exit(answer.ok ? 0 : 1) },
  (error) => { console.log("failed", error.cause); process.exit(1) },
)' "$(npm config get registry)" """
SERVE = """
node -e 'for (const port of [80, 443]) require("http").createServer((_, r) => r.end("mine " + port)).listen(port)' &
for port in 80 443; do
    for try in 1 2 3 4 5 6 7 8 9 10; do
        said=$(node -e 'require("http").get(process.argv[1], (r) => r.pipe(process.stdout))' http://127.0.0.1:$port)
        [ "$said" = "mine $port" ] && break
        sleep 0.3
    done
    [ "$said" = "mine $port" ] || { echo "port $port said: $said"; exit 1; }
done
"""
CASES = {
    "pip": ("python:3.12-slim", f"{NO_PROXY}; python3 -m venv v && v/bin/pip download -q --no-deps six && ls six*"),
    "npm": ("node:22-slim", f"{NO_PROXY}; npm view is-number name"),
    "node's fetch": ("node:22-slim", FETCH),
}


@pytest.mark.timeout(150)
@pytest.mark.parametrize("backend", ["docker", "bubblewrap"])
@pytest.mark.parametrize(("image", "command"), CASES.values(), ids=CASES)
def test_g13_g14_a_tool_that_ignores_the_proxy_is_captured(desk: Desk, backend: str, image: str, command: str) -> None:
    task = desk.task("captured", image=image, replay=[command])
    done = desk.run(task, "--backend", backend)
    (run,) = desk.results()["tasks"][0]["runs"]
    assert (run["stop_reason"], run["classification"]) == ("done", "passed"), done.stdout + done.stderr
    ways = {line["layer"] for line in desk.trace("captured") if line["event"] == "egress_allowed"}
    assert "transparent_tls" in ways
    assert "connect" not in ways


@pytest.mark.timeout(150)
@pytest.mark.parametrize("backend", ["docker", "bubblewrap"])
def test_a_server_in_the_sandbox_has_ports_80_and_443_beside_the_capture(desk: Desk, backend: str) -> None:
    task = desk.task("served", image="node:22-slim", replay=[SERVE, FETCH])
    done = desk.run(task, "--backend", backend)
    (run,) = desk.results()["tasks"][0]["runs"]
    assert run["stop_reason"] == "done", done.stdout + done.stderr


@pytest.mark.timeout(150)
@pytest.mark.parametrize("backend", ["docker", "bubblewrap"])
def test_g13_a_name_that_is_not_allowed_is_not_there_without_the_proxy_either(desk: Desk, backend: str) -> None:
    ask = """node -e 'fetch("https://evil.test/").catch((e) => { console.log(e.cause.code); process.exit(3) })'"""
    task = desk.task("refused", image="node:22-slim", replay=[ask], check="false")
    desk.run(task, "--backend", backend)
    (result,) = [line for line in desk.trace("refused") if line["event"] == "tool_result"]
    assert (result["exit_code"], result["output"]) == (3, "ENOTFOUND\n")
    (event,) = [line for line in desk.trace("refused") if line["event"] == "egress_blocked" and line["layer"] == "dns"][
        :1
    ]
    assert (event["host"], event["reason"]) == ("evil.test", "not_allowlisted")
