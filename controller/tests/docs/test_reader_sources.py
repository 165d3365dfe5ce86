"""`read_docs` from elsewhere than the network: snapshots, and hosts that the operator maps."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from quickstarted.docs.docs_map import DocsMap
from quickstarted.docs.reader import DocsReader
from quickstarted.docs.source import DocsOptions, DocsSource
from quickstarted.task.model import Docs

from tests.support.docs_reading import ENTRY, START, Run
from tests.support.docs_site import Reply, Request, Site, html, redirect

# --- snapshots


async def test_a_snapshot_is_shared_by_attempts_and_runs_and_read_offline(site: Site, tmp_path: Path) -> None:
    site.pages |= {"/old": redirect("/start"), "/gone": html("<p>Gone", 404)}
    run = Run(site, DocsOptions(snapshot=tmp_path))
    await asyncio.gather(*(run.attempt().read("/old") for _ in range(3)))
    await run.attempt().read("/gone")
    await run.close()
    assert sorted(site.paths()) == ["/gone", "/old", "/start"]
    offline = Run(site, DocsOptions(snapshot=tmp_path, offline=True))
    attempt = offline.attempt()
    assert "# Start" in await attempt.read("/old")
    assert (attempt.last["cache"], attempt.last["from_cache"]) == ("snapshot", True)
    assert "HTTP 404" in await attempt.read("/gone")
    assert "not in the snapshot" in await attempt.read("/next")
    assert attempt.last["reason"] == "not_in_snapshot"
    assert offline.dialler.dialled == []
    await offline.close()


async def test_offline_redirects_are_judged_as_well(site: Site, tmp_path: Path) -> None:
    site.pages["/old"] = redirect("http://more.test/x")
    site.pages["more.test/x"] = html("<p>More")
    run = Run(site, DocsOptions(snapshot=tmp_path))
    await run.attempt().read("/old")
    await run.close()
    narrower = Run(site, DocsOptions(snapshot=tmp_path, offline=True), docs=Docs((ENTRY,)))
    attempt = narrower.attempt()
    await attempt.read("/old")
    assert attempt.last["reason"] == "not_allowlisted"
    await narrower.close()


async def test_failures_that_may_pass_are_not_kept(site: Site, tmp_path: Path) -> None:
    site.pages["/x"] = html("broken", 500)
    run = Run(site, DocsOptions(snapshot=tmp_path))
    await run.attempt().read("/x")
    site.pages["/x"] = html("<p>Fine")
    assert "Fine" in await run.attempt().read("/x")
    await run.close()


async def test_refresh_asks_once_a_run_with_validators_and_tells_what_changed(site: Site, tmp_path: Path) -> None:
    def etagged(request: Request) -> Reply:
        if request.headers.get("if-none-match") == '"v1"':
            return Reply(status=304, headers=[("etag", '"v1"')])
        return Reply(START.encode(), headers=[("content-type", "text/html"), ("etag", '"v1"')])

    site.pages |= {"/start": etagged, "/next": html("<p>Old")}
    run = Run(site, DocsOptions(snapshot=tmp_path))
    attempt = run.attempt()
    await attempt.read("/start")
    await attempt.read("/next")
    before = attempt.last["content_hash"]
    await run.close()

    site.pages["/next"] = html("<p>New")
    site.requests.clear()
    run = Run(site, DocsOptions(snapshot=tmp_path, refresh=True))
    attempt, second = run.attempt(), run.attempt()
    assert "# Start" in await attempt.read("/start")
    assert attempt.last["cache"] == "snapshot"
    assert "New" in await attempt.read("/next")
    assert attempt.kinds() == ["docs_read", "docs_changed", "docs_read"]
    changed = attempt.events[1]
    assert (changed["url"], changed["before"], changed["after"]) == (
        "http://docs.test/next", before, attempt.last["content_hash"],
    )  # fmt: skip
    await second.read("/start")
    await second.read("/next")
    assert second.kinds() == ["docs_read", "docs_read"]
    assert site.paths() == ["/start", "/next"]
    await run.close()


async def test_a_page_that_can_not_be_kept_is_not_given(site: Site, tmp_path: Path) -> None:
    (tmp_path / "objects").write_text("in the way")
    run = Run(site, DocsOptions(snapshot=tmp_path))
    attempt = run.attempt()
    assert "can't be kept in the snapshot" in await attempt.read(ENTRY)
    assert attempt.last["reason"] == "snapshot_not_written"
    await run.close()


async def test_a_copy_that_was_damaged_is_fetched_again_or_told_offline(site: Site, tmp_path: Path) -> None:
    run = Run(site, DocsOptions(snapshot=tmp_path))
    await run.attempt().read(ENTRY)
    await run.close()
    for path in (tmp_path / "objects").rglob("*"):
        if path.is_file():
            path.write_bytes(b"tampered")
    offline = Run(site, DocsOptions(snapshot=tmp_path, offline=True))
    attempt = offline.attempt()
    assert "can't be used: its body is not what was stored" in await attempt.read(ENTRY)
    assert attempt.last["reason"] == "snapshot_corrupt"
    await offline.close()


WRONG = [
    ("offline and refresh", {"snapshot": Path("x"), "offline": True, "refresh": True}),
    ("offline without a snapshot", {"offline": True}),
    ("refresh without a snapshot", {"refresh": True}),
    ("negative time between", {"seconds_between": -1.0}),
    ("time between that is no number", {"seconds_between": float("nan")}),
]


@pytest.mark.parametrize("options", [row[1] for row in WRONG], ids=[row[0] for row in WRONG])
def test_options_that_contradict_each_other_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"--|seconds"):
        DocsOptions(**options)  # type: ignore[arg-type]  # the table holds what an operator may give


# --- mapped hosts


async def test_a_mapped_directory_is_read_under_the_hosts_name_and_nothing_is_sent(site: Site, tmp_path: Path) -> None:
    (tmp_path / "guide").mkdir()
    (tmp_path / "guide" / "index.html").write_text("<h1>Guide</h1><a href='../start.html'>x</a>")
    (tmp_path / "start.html").write_text("<h1>Built</h1>")
    run = Run(site, DocsOptions(docs_map=DocsMap.parse([f"docs.test={tmp_path}"])))
    attempt = run.attempt()
    assert "# Built" in await attempt.read(ENTRY)
    assert attempt.last["mapped_to"] == str(tmp_path)
    assert "[x](http://docs.test/start.html)" in await attempt.read("/guide")
    assert attempt.last["resolved_to"] == "http://docs.test/guide/"
    assert "HTTP 404" in await attempt.read("/../../etc/passwd")
    await attempt.read("http://evil.test/")
    assert attempt.last["reason"] == "not_allowlisted"
    assert run.dialler.dialled == []
    await run.close()


async def test_a_preview_is_read_under_the_hosts_name(site: Site) -> None:
    site.pages |= {
        "/pr-7/start": html(
            "<h1>Preview</h1><a href='/pr-7/next'>n</a> <a href='http://127.0.0.1:8080/pr-7/next'>m</a>"
        ),
        "/pr-7/next": html("<h1>Next of preview</h1>"),
        "/pr-7/old": redirect("/pr-7/next"),
        "/pr-7/out": redirect("/other"),
    }
    docs_map = DocsMap.parse(["docs.test=http://127.0.0.1:8080/pr-7"])
    run = Run(site, DocsOptions(docs_map=docs_map))
    run.addresses["127.0.0.1"] = ["127.0.0.1"]
    attempt = run.attempt()
    text = await attempt.read(ENTRY)
    assert "# Preview" in text
    assert f"URL: {ENTRY}\n" in text
    assert attempt.last["mapped_to"] == "http://127.0.0.1:8080/pr-7"
    for url in ("http://docs.test/pr-7/next", "/old"):
        assert "# Next of preview" in await attempt.read(url)
    await attempt.read("/out")
    assert attempt.last["reason"] in ("malformed_url", "not_allowlisted")
    assert site.paths() == ["/pr-7/start", "/pr-7/next", "/pr-7/old", "/pr-7/next", "/pr-7/out"]
    assert all(request.path != "/robots.txt" for request in site.requests)
    await run.close()


# --- the real parts together


async def test_real_documentation_mapped_through_the_converters_process() -> None:
    docs_map = DocsMap.parse(["flask.test=/usr/share/doc/python-flask-doc/html"])
    events: list[str] = []
    async with DocsSource(DocsOptions(docs_map=docs_map)) as source:
        reader = DocsReader(Docs(("https://flask.test/quickstart/",)), source, lambda event, **_: events.append(event))
        text = (await reader.read("https://flask.test/quickstart/", seconds=60)).text
        assert "$ flask --app hello run" in text
        assert "[Installation](https://flask.test/installation.html)" in text
        assert "# Installation" in (await reader.read("installation.html", seconds=60)).text
    assert events == ["docs_redirect_followed", "docs_read", "docs_read"]
