"""`read_docs` over real HTTP: what the model is told, what is recorded, what goes over the wire."""

from __future__ import annotations

import asyncio

import pytest
from quickstarted.docs.source import DocsOptions, retry_after
from quickstarted.task.model import Docs

from tests.support.docs_reading import ENTRY, START, Run
from tests.support.docs_site import Reply, Request, Site, html, redirect


async def test_a_page_is_answered_and_recorded(site: Site) -> None:
    run = Run(site)
    attempt = run.attempt()
    answer = await attempt.reader.read(f"<{ENTRY}>.", seconds=60)
    assert answer.ok
    assert answer.text == (
        f"Title: Start\nURL: {ENTRY}\n\n---\n\n# Start\n\nRead [on](http://docs.test/next).\n\n## Use\n\nIt."
    )
    (event,) = attempt.events
    assert event["content_hash"].startswith("sha256:")
    assert {key: event[key] for key in event if key not in ("content_hash", "seconds")} == {
        "event": "docs_read",
        "url": ENTRY,
        "asked": f"<{ENTRY}>.",
        "resolved_to": ENTRY,
        "redirects": [],
        "status": 200,
        "bytes": len(START),
        "kind": "html",
        "title": "Start",
        "flags": [],
        "charset": "utf-8",
        "charset_from": "header",
        "canonical": "",
        "from_cache": False,
        "cache": None,
        "mapped_to": None,
        "offset": 0,
        "chars": 55,
        "original_chars": 55,
        "part": 1,
        "parts": 1,
        "truncated": False,
    }
    await run.close()


async def test_a_relative_url_is_relative_to_the_page_read_last(site: Site) -> None:
    site.pages |= {"/guide/a": html("<p>A"), "/guide/b": html("<p>B")}
    run = Run(site)
    attempt = run.attempt()
    assert "URL: http://docs.test/next\n" in await attempt.read("next")
    await attempt.read("/guide/a")
    assert "URL: http://docs.test/guide/b\n" in await attempt.read("b")
    assert attempt.last["asked"] == "b"
    await run.close()


async def test_the_same_url_goes_over_the_wire_once_in_an_attempt(site: Site) -> None:
    site.pages |= {"/old": redirect("/start"), "/gone": html("<p>Gone", 410)}
    run = Run(site)
    attempt = run.attempt()
    for url in (ENTRY, f"{ENTRY}#use", "/old", "/old", "/gone", "/gone", ENTRY):
        await attempt.read(url)
    assert site.paths() == ["/start", "/old", "/gone"]
    assert [event["cache"] for event in attempt.events if event["event"] == "docs_read"] == [
        None, "attempt", None, "attempt", "attempt",
    ]  # fmt: skip
    second = run.attempt()
    await second.read(ENTRY)
    assert site.paths().count("/start") == 2
    assert run.converter.converted == 2, "attempts share a page that is the same"
    await run.close()


# --- parts and sections


async def test_a_long_page_comes_in_parts(site: Site) -> None:
    sections = "".join(f"<h2 id=s{n}>Section {n}</h2><p>{'word ' * 2000}</p>" for n in range(10))
    site.pages["/long"] = html(f"<title>Long</title>{sections}")
    run = Run(site)
    attempt = run.attempt()
    text = await attempt.read("/long")
    assert "Part 1 of 4: characters 0 to " in text
    assert "- Section 0 (offset 0)\n- Section 1 (offset " in text
    event = attempt.last
    assert (event["part"], event["parts"], event["truncated"]) == (1, 4, True)
    assert f'Next part: read_docs with url "http://docs.test/long" and offset {event["chars"]}.' in text
    whole = text.split("\n---\n\n", 1)[1]
    while event["offset"] + event["chars"] < event["original_chars"]:
        text = await attempt.read("/long", event["offset"] + event["chars"])
        whole += text.split("\n---\n\n", 1)[1]
        event = attempt.last
    assert whole.count("## Section") == 10
    assert len(whole) == event["original_chars"]
    assert site.paths() == ["/long"]
    await run.close()


async def test_a_fragment_leads_to_its_section(site: Site) -> None:
    run = Run(site)
    attempt = run.attempt()
    text = await attempt.read("/start#use")
    assert text.endswith("\n---\n\n## Use\n\nIt.")
    assert f"Shown from #use on, which is at offset {attempt.last['offset']}." in text
    assert f'The page from its start: read_docs with url "{ENTRY}".' in text
    text = await attempt.read("/start#nowhere")
    assert "Note: the page has no place named #nowhere." in text
    assert "# Start" in text
    assert [request.path for request in site.requests if "#" in request.path] == []
    await run.close()


@pytest.mark.parametrize("offset", [-1, 56, 10_000])
async def test_an_offset_outside_the_page_is_told(site: Site, offset: int) -> None:
    run = Run(site)
    attempt = run.attempt()
    assert f"Offset {offset} is outside the page, which has 55 characters." in await attempt.read(ENTRY, offset)
    assert attempt.last["reason"] == "bad_offset"
    await run.close()


# --- redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_followed_and_recorded(site: Site, status: int) -> None:
    site.pages["/old"] = redirect("/start#use", status)
    run = Run(site)
    attempt = run.attempt()
    text = await attempt.read("/old")
    assert f"URL: {ENTRY} (redirected from http://docs.test/old)" in text
    assert text.endswith("\n---\n\n## Use\n\nIt.")
    assert attempt.kinds() == ["docs_redirect_followed", "docs_read"]
    assert attempt.events[0] == {
        "event": "docs_redirect_followed", "url": "http://docs.test/old", "to": f"{ENTRY}#use", "how": str(status),
    }  # fmt: skip
    assert (attempt.last["url"], attempt.last["resolved_to"]) == ("http://docs.test/old", ENTRY)
    assert attempt.last["redirects"] == [f"{ENTRY}#use"]
    await run.close()


async def test_a_redirect_may_name_letters_beyond_ascii(site: Site) -> None:
    site.pages |= {
        "/old": Reply(status=302, headers=[("location", "/caf\u00e9".encode().decode("latin-1"))]),
        "/caf%C3%A9": html("<p>Coffee"),
    }
    run = Run(site)
    assert "Coffee" in await run.attempt().read("/old")
    await run.close()


async def test_a_fragment_is_inherited_by_a_redirect(site: Site) -> None:
    site.pages["/old"] = redirect("/start")
    run = Run(site)
    assert (await run.attempt().read("/old#use")).endswith("\n---\n\n## Use\n\nIt.")
    await run.close()


async def test_a_meta_refresh_is_followed_by_the_same_rules(site: Site) -> None:
    site.pages["/old"] = html('<meta http-equiv=refresh content="0;url=start">')
    site.pages["/out"] = html('<meta http-equiv=refresh content="0;url=http://evil.test/">')
    run = Run(site)
    attempt = run.attempt()
    assert f"URL: {ENTRY} (redirected" in await attempt.read("/old")
    assert attempt.events[0]["how"] == "meta refresh"
    assert "http://docs.test/out leads to http://evil.test/; the host evil.test is not" in await attempt.read("/out")
    await run.close()


REFUSED = [
    ("to another host", "http://evil.test/x", "not_allowlisted", "leads to http://evil.test/x; the host evil.test is"),
    ("to an address", "http://10.0.0.1/", "malformed_url", "'http://10.0.0.1/', which can't be followed"),
    ("to the cloud's metadata", "http://169.254.169.254/latest", "malformed_url", "which is an IP address"),
    ("to a file", "file:///etc/passwd", "scheme_not_allowed", "is not an http or https URL"),
    ("with a user", "http://a@docs.test/", "userinfo_in_url", "has a user or password"),
    ("to an odd port", "http://docs.test:22/", "port_not_allowed", "port 22 of docs.test"),
    ("to where robots may not go", "/private/x", "robots_disallowed", "/robots.txt disallows it"),
    ("to a name that leads inside", "http://api.docs.test/", "private_address", "10.0.0.1, which is not a public"),
]


@pytest.mark.parametrize(("to", "reason", "words"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
async def test_a_refused_hop_is_not_asked_for_and_is_named(site: Site, to: str, reason: str, words: str) -> None:
    site.pages |= {"/old": redirect(to), "/robots.txt": Reply(b"User-agent: *\nDisallow: /private")}
    run = Run(site)
    run.addresses["api.docs.test"] = ["10.0.0.1"]
    attempt = run.attempt()
    text = await attempt.read("/old")
    assert words in text
    assert "Pages of these hosts can be read: docs.test, more.test." in text
    assert attempt.last["event"] == "docs_read_blocked"
    assert attempt.last["reason"] == reason
    assert site.paths() == ["/old"]
    await run.close()


async def test_a_redirect_to_another_listed_host_is_followed(site: Site) -> None:
    site.pages |= {"/old": redirect("http://more.test/x"), "more.test/x": html("<p>More")}
    run = Run(site)
    assert "More" in await run.attempt().read("/old")
    await run.close()


async def test_redirects_end(site: Site) -> None:
    site.pages |= {f"/r{n}": redirect(f"/r{n + 1}") for n in range(20)} | {"/a": redirect("/b"), "/b": redirect("/a")}
    run = Run(site)
    attempt = run.attempt()
    assert "redirects over 10 times: http://docs.test/r0 → http://docs.test/r1 →" in await attempt.read("/r0")
    assert len(site.paths()) == 11
    assert attempt.last["reason"] == "too_many_redirects"
    assert "leads back to itself" in await attempt.read("/a")
    assert site.paths()[11:] == ["/a", "/b"]
    await run.close()


async def test_a_redirect_that_leads_nowhere_is_an_error(site: Site) -> None:
    site.pages["/old"] = Reply(status=302)
    run = Run(site)
    attempt = run.attempt()
    assert "It leads nowhere" in await attempt.read("/old")
    assert attempt.last["reason"] == "bad_redirect"
    await run.close()


# --- what is no page

STATUS = [(401, "Unauthorized"), (403, "Forbidden"), (404, "Not Found"), (410, "Gone"), (500, "Internal Server Error")]


@pytest.mark.parametrize(("status", "phrase"), [*STATUS, (599, "")])
async def test_a_status_is_an_error_with_the_servers_words_and_no_page(site: Site, status: int, phrase: str) -> None:
    site.pages["/x"] = html("<h1>Sorry</h1><p>We moved.", status)
    run = Run(site)
    attempt = run.attempt()
    text = await attempt.read("/x")
    assert text == (
        f"read_docs failed: {f'HTTP {status} {phrase}'.strip()} for http://docs.test/x. "
        'The server said: "# Sorry We moved."'
    )
    assert attempt.kinds() == ["docs_read_error"]
    assert attempt.last["status"] == status
    await run.close()


FLAGGED = [
    ("a soft 404", "<title>Page not found</title><h1>Oops</h1>", "looks_like_not_found", "page for what was not found"),
    ("a wall to sign in", "<title>Sign in</title><input type=password>Go", "looks_like_login", "a page to sign in"),
    ("a page of consent", "<title>Before you continue</title>We use cookies", "looks_like_consent", "consent"),
    ("an empty page", "", "empty", "no text"),
]


@pytest.mark.parametrize(("page", "flag", "words"), [row[1:] for row in FLAGGED], ids=[row[0] for row in FLAGGED])
async def test_a_page_that_is_not_what_was_asked_for_is_given_and_flagged(
    site: Site, page: str, flag: str, words: str
) -> None:
    site.pages["/x"] = html(page)
    run = Run(site)
    attempt = run.attempt()
    assert words in await attempt.read("/x")
    assert (attempt.last["event"], attempt.last["flags"]) == ("docs_read", [flag])
    await run.close()


async def test_another_type_is_refused_by_its_name(site: Site) -> None:
    site.pages["/logo"] = Reply(b"\x89PNG", headers=[("content-type", "image/png")])
    run = Run(site)
    attempt = run.attempt()
    assert "image/png" in await attempt.read("/logo")
    assert (attempt.last["reason"], attempt.last["type"]) == ("unreadable_type", "image/png")
    await run.close()


BAD = [
    ("nothing", "", "malformed_url"),
    ("another host", "https://evil.test/", "not_allowlisted"),
    ("a registry", "https://registry.test/pkg", "not_allowlisted"),
    ("a file", "file:///etc/passwd", "scheme_not_allowed"),
    ("an address", "http://169.254.169.254/", "malformed_url"),
    ("an odd port", "http://docs.test:8081/", "port_not_allowed"),
]


@pytest.mark.parametrize(("url", "reason"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
async def test_what_may_not_be_read_is_answered_and_recorded_and_nothing_is_sent(
    site: Site, url: str, reason: str
) -> None:
    run = Run(site)
    attempt = run.attempt()
    answer = await attempt.reader.read(url, seconds=60)
    assert not answer.ok
    assert answer.text.startswith("read_docs failed: ")
    assert attempt.kinds() == ["docs_read_blocked"]
    assert attempt.last["reason"] == reason
    assert run.dialler.dialled == []
    await run.close()


# --- politeness


async def test_there_is_a_second_between_requests_of_all_attempts(site: Site) -> None:
    run = Run(site)
    await asyncio.gather(*(run.attempt().read(ENTRY) for _ in range(4)))
    assert site.most_at_once == 1
    assert [round(seconds, 3) for seconds in run.clock.slept] == [1.0] * 4  # robots.txt comes first
    await run.close()


async def test_robots_txt_is_obeyed_unless_the_operator_says_otherwise(site: Site) -> None:
    site.pages["/robots.txt"] = Reply(b"User-agent: *\nDisallow: /start")
    run = Run(site)
    attempt = run.attempt()
    assert f"{ENTRY} may not be read by a program: http://docs.test/robots.txt disallows it." in await attempt.read(
        ENTRY
    )
    assert attempt.last["reason"] == "robots_disallowed"
    await run.close()
    ignoring = Run(site, DocsOptions(ignore_robots=True))
    assert "# Start" in await ignoring.attempt().read(ENTRY)
    assert [request.path for request in site.requests].count("/robots.txt") == 1
    await ignoring.close()


def later(*waits: str | None) -> object:
    """A page that says "later" as often as there are waits."""
    left = list(waits)

    def answer(request: Request) -> Reply:
        if not left:
            return html("<p>Here.")
        wait = left.pop(0)
        return Reply(b"later", 429, [("retry-after", wait)] if wait is not None else [])

    return answer


async def test_a_server_that_says_when_to_come_back_is_waited_for(site: Site) -> None:
    site.pages["/x"] = later("7", "3")  # type: ignore[assignment]  # a function is one of the answers
    run = Run(site)
    attempt = run.attempt()
    assert "Here." in await attempt.read("/x")
    assert attempt.kinds() == ["docs_wait", "docs_wait", "docs_read"]
    assert attempt.events[0] == {"event": "docs_wait", "url": "http://docs.test/x", "status": 429, "seconds": 7.0}
    assert [seconds for seconds in run.clock.slept if seconds > 1] == [7.0, 3.0]
    await run.close()


LATER = [
    ("without saying when", (None,), "without saying when"),
    ("when time is over", ("500",), "in 500 s, which is more than is left"),
    ("again and again", ("1",) * 9, "answered 429 5 times"),
]


@pytest.mark.parametrize(("waits", "words"), [row[1:] for row in LATER], ids=[row[0] for row in LATER])
async def test_a_server_that_only_puts_off_is_an_error_that_may_pass(
    site: Site, waits: tuple[str | None, ...], words: str
) -> None:
    site.pages["/x"] = later(*waits)  # type: ignore[assignment]  # a function is one of the answers
    run = Run(site)
    attempt = run.attempt()
    assert words in await attempt.read("/x")
    assert (attempt.last["reason"], attempt.last["transient"]) == ("try_later", True)
    asked = len(site.paths())
    await attempt.read("/x")
    assert len(site.paths()) > asked, "it is asked for again"
    await run.close()


RETRY = [("5", 5.0), (" 0 ", 0.0), ("99999999999", 86_400.0), ("soon", None), ("-1", None), ("", None), (None, None)]


@pytest.mark.parametrize(("header", "seconds"), [*RETRY, ("Mon, 01 Jan 2024 00:00:00 GMT", 0.0)])
def test_retry_after(header: str | None, seconds: float | None) -> None:
    assert retry_after(header) == seconds


async def test_a_read_ends_at_its_deadline_and_is_recorded(site: Site) -> None:
    site.pages["/x"] = Reply(b"", length=5, hold=True)
    run = Run(site, DocsOptions(ignore_robots=True))
    attempt = run.attempt()
    assert "not " in await attempt.read("/x", seconds=0.2)
    assert (attempt.last["event"], attempt.last["reason"]) == ("docs_read_error", "timeout")
    await run.close()


async def test_a_cancelled_read_is_recorded(site: Site) -> None:
    asked = asyncio.Event()

    def hold(request: Request) -> Reply:
        asked.set()
        return Reply(b"", length=5, hold=True)

    site.pages["/x"] = hold
    run = Run(site, DocsOptions(ignore_robots=True))
    attempt = run.attempt()
    task = asyncio.create_task(attempt.read("/x"))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (attempt.last["event"], attempt.last["reason"]) == ("docs_read_error", "cancelled")
    await run.close()


# --- affordances

SITE = {
    "/start.md": Reply(b"# Start", headers=[("content-type", "text/markdown")]),
    "/llms.txt": Reply(b"# Widget", headers=[("content-type", "text/plain")]),
    "/old": redirect("/start.md"),
}
WITHHELD = ["/start.md", "/llms.txt", "/llms-full.txt", "/start?format=md", "/old"]


@pytest.mark.parametrize("path", WITHHELD)
async def test_without_affordances_they_look_like_what_is_not_there(site: Site, path: str) -> None:
    site.pages |= SITE
    run = Run(site, DocsOptions(affordances="none"))
    attempt = run.attempt()
    asked = f"http://docs.test{path}"
    assert await attempt.read(path) == f"read_docs failed: HTTP 404 Not Found for {asked}."
    assert attempt.last["event"] == "affordance_withheld"
    assert attempt.last["url"] == asked
    assert [seen for seen in site.paths() if seen != "/old"] == []
    await run.close()


async def test_with_affordances_they_are_read_like_any_page(site: Site) -> None:
    site.pages |= SITE
    run = Run(site)
    attempt = run.attempt()
    assert (await attempt.read("/old")).endswith("# Start")
    assert "# Widget" in await attempt.read("/llms.txt")
    await run.close()


async def test_a_page_of_the_task_is_never_withheld(site: Site) -> None:
    site.pages |= SITE
    run = Run(site, DocsOptions(affordances="none"), docs=Docs(("http://docs.test/start.md",)))
    assert "# Start" in await run.attempt().read("http://docs.test/start.md")
    await run.close()


async def test_what_a_site_offers_is_probed(site: Site) -> None:
    def start(request: Request) -> Reply:
        if "text/markdown" in request.headers["accept"]:
            return Reply(b"# Start", headers=[("content-type", "text/markdown")])
        return html(START)

    site.pages |= {**SITE, "/start": start, "/llms-full.txt": html("<p>Not found, but status 200")}
    run = Run(site)
    attempt = run.attempt()
    found = await attempt.reader.probe_affordances(seconds=60)
    assert found == {
        "llms.txt": "http://docs.test/llms.txt",
        "llms-full.txt": None,
        "markdown_variant": "http://docs.test/start.md",
        "markdown_negotiation": True,
    }
    assert attempt.events == [{"event": "affordances", "page": ENTRY, **found}]
    await run.close()


SHELL = "<title>App</title><script src=/app.js></script><div id=root></div>"


async def test_a_page_that_needs_javascript_says_so_and_where_its_text_is(site: Site) -> None:
    site.pages |= {"/app": html(SHELL), "/app.md": Reply(b"# App", headers=[("content-type", "text/markdown")])}
    run = Run(site)
    attempt = run.attempt()
    text = await attempt.read("/app")
    assert "Note: This page needs JavaScript" in text
    assert "Note: Its site offers this text to programs: http://docs.test/app.md" in text
    assert attempt.last["flags"] == ["needs_javascript"]
    await run.close()


async def test_without_affordances_it_only_says_so(site: Site) -> None:
    site.pages |= {"/app": html(SHELL), "/app.md": Reply(b"# App", headers=[("content-type", "text/markdown")])}
    run = Run(site, DocsOptions(affordances="none"))
    text = await run.attempt().read("/app")
    assert "needs JavaScript" in text
    assert "app.md" not in text
    assert site.paths() == ["/app"]
    await run.close()
