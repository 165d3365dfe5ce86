"""Agent mode over real documentation: a scripted model reads the pages of Debian's documentation packages, follows the
links in them, and installs from the real registry in an enforced sandbox. With a step removed from a page, the same
reader must fail as a documentation gap, at that page.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.desk import QUICKSTARTED, Desk
from tests.support.model_api import ModelServer
from tests.support.scripted_reader import Follow, Read, Run, Save, ScriptedReader, Step, Type

DOC = Path("/usr/share/doc")
KEY = "canary-key-of-the-tests"


@dataclass(frozen=True)
class Case:
    """A quickstart: where its pages are, how a reader goes through them, what must come out, and a step to remove."""

    name: str
    host: str
    pages: Path
    entrypoint: str
    recipe: tuple[Step, ...]
    check: str
    removed: tuple[str, str]  # the page, and the text of the step that is taken out of it
    setup: tuple[str, ...] = ()
    image: str | None = None
    read: tuple[str, ...] = field(default=())

    def url(self, page: str) -> str:
        return f"https://{self.host}/{page}"


VENV = "python3 -m venv .venv"
ACTIVATE = "PATH=$PWD/.venv/bin:$PATH; export PATH"
ASK = """
python - <<'PYTHON'
import time, urllib.request
for _ in range(100):
    try:
        print(urllib.request.urlopen("http://127.0.0.1:{port}{path}").read().decode())
        break
    except OSError:
        time.sleep(0.1)
PYTHON
"""


def served(start: str, port: int, path: str, text: str, log: str = "server.log") -> str:
    """A check that starts a server and asks it."""
    ask = ASK.format(port=port, path=path).strip()
    return f"""
{start} >{log} 2>&1 &
said=$({ask}
)
kill $!
case $said in *"{text}"*) exit 0 ;; esac
echo "the server said: $said"; cat {log}; exit 1
"""


CASES = [
    Case(
        "flask",
        "flask.palletsprojects.com",
        DOC / "python-flask-doc/html",
        "quickstart.html",
        (
            Read("https://flask.palletsprojects.com/quickstart.html"),
            Follow(r"installation\.html"),
            Run(r"^python3 -m venv venv$"),
            Run(r"^\. venv/bin/activate$"),
            Run(r"^pip install Flask$"),
            Read("quickstart.html"),
            Save(r"^from flask import Flask\n\napp = ", r"Save it as `(\w+\.py)`"),
        ),
        served(". venv/bin/activate; python3 -m flask --app hello run -p 5001", 5001, "/", "Hello, World!"),
        ("installation.html", "pip install Flask"),
        read=("quickstart.html", "installation.html", "quickstart.html"),
    ),
    Case(
        "click",
        "click.palletsprojects.com",
        DOC / "python-click-doc/html",
        "quickstart.html",
        (
            Read("https://click.palletsprojects.com/quickstart.html"),
            Run(r"^pip install click$"),
            Save(r"^import click\n\n@click\.command\(\)\ndef hello", r"python (\w+\.py)"),
            Save(r"^if __name__ == '__main__':\n    hello\(\)", r"python (\w+\.py)", append=True),
            Run(r"^python hello\.py$"),
        ),
        f'{ACTIVATE}; said=$(python hello.py); [ "$said" = "Hello World!" ] || {{ echo "it said: $said"; exit 1; }}',
        ("quickstart.html", "if __name__ =="),
        setup=(VENV, ACTIVATE),
        read=("quickstart.html",),
    ),
    Case(
        "requests",
        "requests.readthedocs.io",
        DOC / "python-requests-doc/html",
        "user/quickstart.html",
        (
            Read("https://requests.readthedocs.io/user/quickstart.html"),
            Follow(r"install\.html"),
            Run(r"^python -m pip install requests$"),
            Read("quickstart.html"),
        ),
        f'{ACTIVATE}; python -c "import requests; print(requests.__version__)"',
        ("user/install.html", "python -m pip install requests"),
        setup=(VENV, ACTIVATE),
        read=("user/quickstart.html", "user/install.html", "user/quickstart.html"),
    ),
    Case(
        "tornado",
        "www.tornadoweb.org",
        DOC / "python-tornado-doc/html",
        "index.html",
        (
            Read("https://www.tornadoweb.org/index.html"),
            Run(r"^pip install tornado$"),
            Save(r"^import asyncio\n\nimport tornado\.web", "app.py"),
        ),
        served(f"{ACTIVATE}; python app.py", 8888, "/", "Hello, world"),
        ("index.html", "pip install tornado"),
        setup=(VENV, ACTIVATE),
        read=("index.html",),
    ),
    Case(
        "django",
        "docs.djangoproject.com",
        DOC / "python-django-doc/html",
        "intro/tutorial01.html",
        (
            Read("https://docs.djangoproject.com/intro/tutorial01.html"),
            Follow(r"intro/install\.html"),
            Follow(r"topics/install\.html#installing-official-release"),
            Run(r"^python -m pip install Django$"),
            Read("https://docs.djangoproject.com/intro/tutorial01.html"),
            Run(r"^django-admin startproject mysite$"),
            Type("cd mysite"),  # "make sure you're in the same directory as manage.py"
            Run(r"^python manage\.py startapp polls$"),
            Save(r"Hello, world\. You're at the polls index", r"Open the file `(polls/views\.py)`"),
            Save(r"^from django\.urls import path\n\nfrom \. import views", r"In the `(polls/urls\.py)` file"),
            Save(r"^from django\.contrib import admin\nfrom django\.urls import include", r"In `(mysite/urls\.py)`"),
        ),
        served(
            f"{ACTIVATE}; cd mysite; python manage.py runserver --noreload 8001",
            8001,
            "/polls/",
            "Hello, world. You're at the polls index.",
        ),
        ("intro/tutorial01.html", "python manage.py startapp polls"),
        setup=(VENV, ACTIVATE),
    ),
]
BACKENDS = ["docker", "bubblewrap"]


def task_of(case: Case, desk: Desk) -> str:
    return desk.task(
        case.name,
        goal=f"Complete the quickstart of {case.name}.",
        docs={"entrypoint": case.url(case.entrypoint)},
        setup=list(case.setup),
        check=case.check,
    )


async def attempt(
    case: Case, desk: Desk, pages: Path, backend: str
) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    """Run the case; its result, its trace, and all that the command printed."""
    reader = ScriptedReader(case.recipe)
    async with ModelServer(reader).serve() as server:
        process = await asyncio.create_subprocess_exec(
            *QUICKSTARTED,
            "run",
            task_of(case, desk),
            *("--agent", "claude", "--model", "scripted", "--base-url", server.url),
            *("--docs-map", f"{case.host}={pages}", "--rate-limit", "0", "--backend", backend, "--verbose"),
            cwd=desk.directory,
            env=desk.environment() | {"QUICKSTARTED_ANTHROPIC_API_KEY": KEY},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
    text = said.decode()
    (run,) = desk.results()["tasks"][0]["runs"]
    return run, desk.trace(case.name), text


@pytest.mark.timeout(300)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_reader_who_finds_every_step_passes(case: Case, desk: Desk, backend: str) -> None:
    run, trace, said = await attempt(case, desk, case.pages, backend)
    assert run["classification"] == "passed", said
    assert (run["enforced"], run["model_reported"]) == (True, "claude-test-20260101")
    reads = [line["url"] for line in trace if line["event"] == "docs_read"]
    assert reads[0] == case.url(case.entrypoint)
    if case.read:
        assert reads == [case.url(page) for page in case.read]
    assert any(line["event"] == "egress_allowed" for line in trace)
    assert KEY not in said + json.dumps(trace)


def without(pages: Path, page: str, step: str, into: Path) -> Path:
    """A copy of the pages in which the code blocks with this step are gone."""
    shutil.copytree(pages, into, symlinks=False, ignore=shutil.ignore_patterns("*.js", "*.png", "_sources", "*.inv"))
    path = into / page
    kept = path.read_text("utf-8").split("<pre>")
    out = kept[0]
    for part in kept[1:]:
        code, _, rest = part.partition("</pre>")
        plain = "".join(piece.partition(">")[2] for piece in ("<>" + code).split("<"))
        out += rest if step in plain.replace("&gt;", ">") else f"<pre>{part}"
    assert len(out) < path.stat().st_size
    path.write_text(out, "utf-8")
    return into


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_step_that_is_missing_from_a_page_is_a_gap_at_that_page(case: Case, desk: Desk, tmp_path: Path) -> None:
    page, step = case.removed
    pages = without(case.pages, page, step, tmp_path / "pages")
    run, trace, said = await attempt(case, desk, pages, "bubblewrap")
    assert run["classification"] == "docs_gap", said
    assert run["suspect_page"] == case.url(page)
    assert case.url(page) in said
    final = next(line for line in trace if line["event"] == "agent_final")
    assert "does not say what I looked for" in final["text"]
