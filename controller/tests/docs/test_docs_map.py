"""A host served from a directory of built HTML or from a preview: all of it, and nothing beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from quickstarted.docs.docs_map import Directory, DocsMap, DocsMapError, Preview, serve

SITE = "https://docs.test"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    root = tmp_path / "built"
    for name, text in {
        "index.html": "home",
        "start.html": "start",
        "guide/index.html": "guide",
        "guide/a b é.html": "spaces",
        "guide/page.md": "# md",
        "data.json": "{}",
        "both.html": "file",
        "both/index.html": "directory",
        "empty/readme.txt": "x",
        "..name.html": "dots",
        "bin": "\0",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (tmp_path / "secret.html").write_text("secret")
    (root / "link.html").symlink_to(tmp_path / "secret.html")
    (root / "outside").symlink_to(tmp_path)
    (root / "inside.html").symlink_to(root / "start.html")
    (root / "loop").symlink_to(root / "loop")
    return root


SERVED = [
    ("the root", "/", 200, "home"),
    ("a file", "/start.html", 200, "start"),
    ("a page without its suffix", "/start", 200, "start"),
    ("a directory", "/guide/", 200, "guide"),
    ("a file in it", "/guide/page.md", 200, "# md"),
    ("escapes", "/guide/a%20b%20%C3%A9", 200, "spaces"),
    ("a query is not part of the path", "/start?x=/../y", 200, "start"),
    ("a directory without its slash", "/guide", 301, "/guide/"),
    ("a page with a slash that is a file", "/start/", 301, "/start.html"),
    ("a file beside a directory of its name", "/both", 301, "/both/"),
    ("a name that begins with dots", "/..name", 200, "dots"),
    ("two slashes", "//guide///", 200, "guide"),
    ("a link inside", "/inside", 200, "start"),
    ("nothing", "/nowhere", 404, ""),
    ("a directory without an index", "/empty/", 404, ""),
    ("upwards", "/../secret.html", 404, ""),
    ("upwards from below", "/guide/../../secret.html", 404, ""),
    ("upwards in escapes", "/%2e%2e/secret.html", 404, ""),
    ("upwards with an escaped slash", "/guide/..%2f..%2fsecret.html", 404, ""),
    ("an absolute path in escapes", "/%2fetc%2fpasswd", 404, ""),
    ("a NUL", "/start.html%00", 404, ""),
    ("bytes that are no text", "/%ff", 404, ""),
    ("a link to outside", "/link.html", 404, ""),
    ("below a link to outside", "/outside/secret.html", 404, ""),
    ("a loop of links", "/loop", 404, ""),
    ("a name that is too long", f"/{'x' * 5000}", 404, ""),
]


@pytest.mark.parametrize(("path", "status", "text"), [row[1:] for row in SERVED], ids=[row[0] for row in SERVED])
def test_a_directory_is_served_as_a_site(built: Path, path: str, status: int, text: str) -> None:
    response = serve(Directory(built), SITE + path)
    assert response.status == status
    assert response.url == SITE + path
    if status == 301:
        assert response.header("location") == text
    elif status == 200:
        assert response.body.decode() == text
    else:
        assert b"secret" not in response.body


TYPES = [
    ("/start", "text/html"),
    ("/guide/page.md", "text/markdown; charset=utf-8"),
    ("/data.json", "application/json"),
]


@pytest.mark.parametrize(("path", "media_type"), [*TYPES, ("/bin", "application/octet-stream")])
def test_types_by_suffix(built: Path, path: str, media_type: str) -> None:
    assert serve(Directory(built), SITE + path).header("content-type") == media_type


def test_the_directory_itself_may_be_a_link(built: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(built)
    target = DocsMap.parse([f"docs.test={tmp_path / 'alias'}"]).target(f"{SITE}/")
    assert target == Directory(built)


WRONG = [
    ("no equals sign", "docs.test", "give HOST=URL or HOST=DIR"),
    ("no target", "docs.test=", "give HOST=URL or HOST=DIR"),
    ("a host that is none", "https://docs.test=/tmp", "URL"),
    ("a directory that isn't there", "docs.test=/nowhere/at/all", "not a directory"),
    ("a preview with a user", "docs.test=https://me@preview.test/", "user"),
    ("a preview with a bad port", "docs.test=https://preview.test:x/", "not a URL"),
]


@pytest.mark.parametrize(("text", "words"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_what_can_not_be_mapped_is_refused_in_a_line(text: str, words: str) -> None:
    with pytest.raises(DocsMapError, match=words) as caught:
        DocsMap.parse([text])
    assert "\n" not in str(caught.value)


def test_a_host_is_mapped_once(tmp_path: Path) -> None:
    with pytest.raises(DocsMapError, match="twice"):
        DocsMap.parse([f"docs.test={tmp_path}", f"DOCS.test.={tmp_path}"])


def test_a_map_says_itself_for_the_record(tmp_path: Path) -> None:
    texts = [f"docs.test={tmp_path}", "other.test=http://127.0.0.1:8000/pr-7/"]
    docs_map = DocsMap.parse(texts)
    assert docs_map.as_record() == {"docs.test": str(tmp_path), "other.test": "http://127.0.0.1:8000/pr-7"}
    assert docs_map.exempt == {("127.0.0.1", 8000)}
    assert docs_map.target("https://sub.docs.test/") is None


PREVIEWS = [
    ("a page", "https://docs.test/a/b?c=d", "https://preview.test/pr-7/a/b?c=d"),
    ("the root", "https://docs.test/", "https://preview.test/pr-7/"),
    ("a link that names the preview's own path", "https://docs.test/pr-7/a", "https://preview.test/pr-7/a"),
    ("a path that only begins alike", "https://docs.test/pr-77/a", "https://preview.test/pr-7/pr-77/a"),
]


@pytest.mark.parametrize(("url", "target"), [row[1:] for row in PREVIEWS], ids=[row[0] for row in PREVIEWS])
def test_where_a_page_is_in_a_preview(url: str, target: str) -> None:
    assert Preview("https://preview.test/pr-7").target(url) == target


PUBLIC = [
    ("https://preview.test/pr-7/a#b", "https://docs.test/a#b"),
    ("https://preview.test/pr-7", "https://docs.test/"),
    ("https://preview.test/pr-7?x", "https://docs.test/?x"),
    ("https://preview.test/pr-77/a", "https://preview.test/pr-77/a"),
    ("https://preview.test/other", "https://preview.test/other"),
    ("https://evil.test/pr-7/a", "https://evil.test/pr-7/a"),
]


@pytest.mark.parametrize(("url", "public"), PUBLIC)
def test_a_previews_own_urls_are_those_of_its_host(url: str, public: str) -> None:
    assert DocsMap.parse(["docs.test=https://preview.test/pr-7/"]).public(url) == public
