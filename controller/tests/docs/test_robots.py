"""robots.txt by RFC 9309."""

from __future__ import annotations

import asyncio

import pytest
from quickstarted.docs.fetch import Response
from quickstarted.docs.problems import Problem, ReadError
from quickstarted.docs.robots import MAX_BYTES, Robots, parse

SITE = "https://docs.test"

RULES = [
    ("no rules", "", "/a", True),
    ("everybody is kept out", "User-agent: *\nDisallow: /", "/a", False),
    ("nobody is", "User-agent: *\nDisallow:", "/a", True),
    ("a path", "User-agent: *\nDisallow: /a", "/ab", False),
    ("another path", "User-agent: *\nDisallow: /a", "/b", True),
    ("the longest match wins", "User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
    ("of equal length, allow wins", "User-agent: *\nDisallow: /a\nAllow: /a", "/a", True),
    ("a star", "User-agent: *\nDisallow: /*/private", "/x/private/y", False),
    ("an end", "User-agent: *\nDisallow: /*.php$", "/a.php", False),
    ("not at the end", "User-agent: *\nDisallow: /*.php$", "/a.php?x", True),
    ("our group beats everybody's", "User-agent: *\nDisallow: /\n\nUser-agent: quickstarted\nDisallow: /x", "/a", True),
    ("our group in any case", "User-Agent: QuickStarted\nDisallow: /", "/a", False),
    ("our group with a version", "User-agent: quickstarted/1.0\nDisallow: /", "/a", False),
    (
        "our groups are one",
        "User-agent: quickstarted\nDisallow: /a\n\nUser-agent: quickstarted\nDisallow: /b",
        "/b",
        False,
    ),
    ("a group of several", "User-agent: x\nUser-agent: quickstarted\nDisallow: /a", "/a", False),
    ("a name that begins like ours", "User-agent: quickstarted-pro\nDisallow: /", "/a", True),
    ("a name that ours begins with", "User-agent: quick\nDisallow: /", "/a", True),
    ("rules before any group", "Disallow: /\nUser-agent: x\nDisallow: /", "/a", True),
    ("comments and unknown lines", "User-agent: * # all\nSitemap: x\nFoo: y\nDisallow: /a # b", "/a", False),
    ("a byte order mark", "\ufeffUser-agent: *\nDisallow: /", "/a", False),
    ("old line ends", "User-agent: *\rDisallow: /a\r", "/a", False),
    ("letters beyond ASCII", "User-agent: *\nDisallow: /é", "/%C3%A9", False),
    ("escapes in another case", "User-agent: *\nDisallow: /%c3%a9", "/%C3%A9", False),
]


@pytest.mark.parametrize(("text", "path", "allowed"), [row[1:] for row in RULES], ids=[row[0] for row in RULES])
def test_rules(text: str, path: str, allowed: bool) -> None:
    assert parse(text.encode()).can_fetch(SITE + path, "quickstarted") is allowed


def test_only_the_first_500_kib_count() -> None:
    text = b"User-agent: *\n" + b"# x\n" * (MAX_BYTES // 4) + b"Disallow: /\n"
    assert parse(text).can_fetch(SITE, "quickstarted")


def answer(status: int, body: bytes = b"", location: str | None = None) -> Response:
    headers = (("location", location),) if location else ()
    return Response("", status, headers, body, body)


KEEP_OUT = b"User-agent: *\nDisallow: /"
FETCHED = [
    ("rules", {"/robots.txt": answer(200, KEEP_OUT)}, "https://docs.test/robots.txt disallows it"),
    ("not there", {"/robots.txt": answer(404)}, None),
    ("forbidden", {"/robots.txt": answer(403)}, None),
    ("too many requests", {"/robots.txt": answer(429)}, None),
    ("broken", {"/robots.txt": answer(503)}, "can't be had (status 503)"),
    ("moved", {"/robots.txt": answer(301, location="/r"), "/r": answer(200, KEEP_OUT)}, "disallows it"),
    ("moved for ever", {"/robots.txt": answer(301, location="/robots.txt")}, None),
    ("moved to nonsense", {"/robots.txt": answer(301, location="ftp://x")}, None),
]


@pytest.mark.parametrize(("pages", "refusal"), [row[1:] for row in FETCHED], ids=[row[0] for row in FETCHED])
async def test_what_fetching_it_means(pages: dict[str, Response], refusal: str | None) -> None:
    async def get(url: str) -> Response:
        return pages[url.removeprefix(SITE)]

    robots = Robots()
    said = await robots.refusal(f"{SITE}/guide", get)
    await robots.close()
    assert said is None if refusal is None else said is not None and refusal in said


async def test_a_host_that_can_not_be_reached_is_told_as_that_and_tried_again() -> None:
    reachable = False

    async def get(url: str) -> Response:
        if not reachable:
            raise ReadError(Problem.CONNECT, "no connection")
        return answer(404)

    robots = Robots()
    with pytest.raises(ReadError, match="no connection"):
        await robots.refusal(SITE, get)
    reachable = True
    assert await robots.refusal(SITE, get) is None
    await robots.close()


async def test_it_is_fetched_once_for_a_host_however_many_ask() -> None:
    asked = []

    async def get(url: str) -> Response:
        asked.append(url)
        await asyncio.sleep(0)
        return answer(200, b"User-agent: *\nDisallow: /x")

    robots = Robots()
    await asyncio.gather(*(robots.refusal(f"{SITE}/{n}", get) for n in range(5)))
    assert await robots.refusal(f"{SITE}/x", get)
    await robots.refusal("https://docs.test:8443/a", get)
    assert asked == [f"{SITE}/robots.txt", "https://docs.test:8443/robots.txt"]
    await robots.close()


async def test_one_that_could_not_be_had_is_asked_for_again() -> None:
    answers = [answer(500), answer(404)]

    async def get(url: str) -> Response:
        return answers.pop(0)

    robots = Robots()
    assert await robots.refusal(SITE, get)
    assert await robots.refusal(SITE, get) is None
    await robots.close()


async def test_a_reader_that_gives_up_does_not_stop_the_others() -> None:
    go = asyncio.Event()

    async def get(url: str) -> Response:
        await go.wait()
        return answer(404)

    robots = Robots()
    first = asyncio.create_task(robots.refusal(SITE, get))
    second = asyncio.create_task(robots.refusal(SITE, get))
    await asyncio.sleep(0)
    first.cancel()
    go.set()
    assert await second is None
    await robots.close()
