"""The environment of a sandbox is exactly what is written here, whatever the daemon's own is."""

from __future__ import annotations

import pytest

from sandboxd import environment

ALWAYS = {"PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TERM", "NO_COLOR"}
PROXY = {"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}


@pytest.mark.parametrize(
    ("proxy", "ca", "names"),
    [
        (None, None, ALWAYS),
        (environment.PROXY_URL, None, ALWAYS | PROXY),
        (None, "/ca.pem", ALWAYS | set(environment.CA_VARIABLES)),
        (environment.PROXY_URL, "/ca.pem", ALWAYS | PROXY | set(environment.CA_VARIABLES)),
    ],
    ids=["neither", "a proxy", "a bundle", "both"],
)
def test_it_has_these_names_and_no_others(
    monkeypatch: pytest.MonkeyPatch, proxy: str | None, ca: str | None, names: set[str]
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary")
    built = environment.build(path="/bin", proxy=proxy, ca_bundle=ca)
    assert set(built) == names
    assert "canary" not in built.values()


def test_values() -> None:
    built = environment.build(path="/a:/b", ca_bundle="/ca.pem")
    assert (built["PATH"], built["HOME"], built["TMPDIR"]) == ("/a:/b", "/home/sandbox", "/tmp")
    assert built["http_proxy"] == built["HTTPS_PROXY"] == "http://127.0.0.1:3128"
    assert "127.0.0.1" in built["no_proxy"].split(",")
    assert {built[name] for name in environment.CA_VARIABLES} == {"/ca.pem"}
    assert (built["TERM"], built["NO_COLOR"], built["LANG"]) == ("dumb", "1", "C.UTF-8")
