"""What may be asked for, as the first URL and as a redirect's."""

from __future__ import annotations

import pytest
from quickstarted.docs.policy import DocsPolicy
from quickstarted.docs.problems import Problem, ReadError
from quickstarted.task.model import Docs

HTTPS = Docs(("https://docs.test/start", "https://guide.test:8443/x"), allow=("more.test",))
HTTP = Docs(("http://docs.test:8080/start",))

ROWS = [
    ("a page of the task", HTTPS, "https://docs.test/start", None, None),
    ("its host over http", HTTPS, "http://docs.test/a", None, None),
    ("a subdomain", HTTPS, "https://api.docs.test/a", None, None),
    ("another host of the list", HTTPS, "https://more.test/a", None, None),
    ("the port of one of its pages", HTTPS, "https://guide.test:8443/a", None, None),
    ("that port on another host", HTTPS, "https://docs.test:8443/a", None, Problem.PORT),
    ("that port on a subdomain", HTTPS, "https://a.guide.test:8443/a", None, Problem.PORT),
    ("an odd port", HTTPS, "https://docs.test:22/", None, Problem.PORT),
    ("https on http's port", HTTPS, "https://docs.test:80/", None, Problem.PORT),
    ("another host", HTTPS, "https://evil.test/", None, Problem.NOT_ALLOWLISTED),
    ("a host that ends alike", HTTPS, "https://evildocs.test/", None, Problem.NOT_ALLOWLISTED),
    ("a host that begins alike", HTTPS, "https://docs.test.evil.test/", None, Problem.NOT_ALLOWLISTED),
    ("a redirect within", HTTPS, "https://docs.test/b", "https://docs.test/a", None),
    ("a redirect to another listed host", HTTPS, "https://more.test/b", "https://docs.test/a", None),
    ("a redirect out", HTTPS, "https://evil.test/b", "https://docs.test/a", Problem.NOT_ALLOWLISTED),
    ("a redirect from https to http", HTTPS, "http://docs.test/b", "https://docs.test/a", Problem.DOWNGRADE),
    ("a redirect from http to https", HTTPS, "https://docs.test/b", "http://docs.test/a", None),
    ("a redirect from https to http of a task in http", HTTP, "http://docs.test/b", "https://docs.test/a", None),
]


@pytest.mark.parametrize(("docs", "url", "before", "problem"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_policy(docs: Docs, url: str, before: str | None, problem: Problem | None) -> None:
    policy = DocsPolicy.of(docs)
    if problem is None:
        policy.judge(url, before=before)
        return
    with pytest.raises(ReadError) as caught:
        policy.judge(url, before=before)
    assert caught.value.problem is problem
    assert caught.value.blocked
    if before:
        assert caught.value.message.startswith(f"{before} leads to {url}; ")
