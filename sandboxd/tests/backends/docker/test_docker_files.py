"""Files in and out through the engine's API; `tests/contract` has the same on the engine's own host."""

from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import AsyncIterator

import pytest
from sandboxd.backends.base import BackendError
from sandboxd.instances import Instance

from tests.support.engine import Engine

from .conftest import Box, Make, backend_of


@pytest.fixture
async def box(make: Make, own: Instance, engine: Engine) -> Box:
    return await make(of=backend_of(own, engine.host, "relay"))


def archive(*entries: tuple[str, bytes | str | None]) -> bytes:
    """A tar of files (bytes), links (text) and directories (None)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
            else:
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return out.getvalue()


async def sent(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), 1000):
        yield data[at : at + 1000]


async def fetched(box: Box, path: bytes) -> tuple[dict[str, bytes | None], list[str]]:
    """What a download gives: contents by name, None for a directory; and what was left out."""
    left_out: list[str] = []
    data = b"".join([chunk async for chunk in box.sandbox.download(path, left_out)])
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        found = {one.name: file.read() if (file := tar.extractfile(one)) else None for one in tar}
    return found, left_out


async def test_what_is_uploaded_is_there_and_comes_back(box: Box) -> None:
    data = archive(("dir", None), ("dir/file", b"x" * 70000), ("top", b""))
    assert await box.sandbox.upload(b"in/here", sent(data)) == (70000, 3)
    assert (await box.sh("cd in/here/dir && wc -c <file && stat -c '%u %a' file"))[1].split() == ["70000", "0", "644"]
    assert await fetched(box, b"in/here") == ({"dir": None, "dir/file": b"x" * 70000, "top": b""}, [])
    assert await fetched(box, b"in/here/dir/file") == ({"file": b"x" * 70000}, [])


async def test_links_pipes_and_devices_are_left_out_and_named(box: Box) -> None:
    await box.sh("mkdir out && cd out && echo hi >file && ln -s /etc/passwd l && ln -s ../../etc d && mkfifo p")
    found, left_out = await fetched(box, b"out")
    assert found == {"file": b"hi\n"}
    assert sorted(text.partition(":")[0] for text in left_out) == ["d", "l", "p"]


async def test_the_whole_workspace_can_be_fetched(box: Box) -> None:
    await box.sh("echo a >a; mkdir b; echo c >b/c")
    assert (await fetched(box, b""))[0] == {"a": b"a\n", "b": None, "b/c": b"c\n"}


@pytest.mark.parametrize("path", [b"link", b"link/passwd", b"up/x"])
async def test_no_link_of_a_path_is_followed(box: Box, path: bytes) -> None:
    await box.sh("ln -s /etc link; ln -s .. up")
    with contextlib.suppress(BackendError):
        assert (await fetched(box, path))[0] == {}
    with pytest.raises(BackendError):
        await box.sandbox.upload(path, sent(archive(("evil", b"x"))))
    assert (await box.sh("ls /etc/evil /evil /etc/passwd/evil 2>/dev/null"))[1] == ""


@pytest.mark.parametrize("path", [b"..", b"/etc", b"a/../../b", b"a\0b", b"nothing-there", b"x" * 5000])
async def test_a_path_that_leads_nowhere_or_out_is_refused(box: Box, path: bytes) -> None:
    with pytest.raises(BackendError) as caught:
        await fetched(box, path)
    assert caught.value.reason in ("SPEC_INVALID", "PATH_NOT_FOUND")


@pytest.mark.parametrize(
    "bad",
    [("../x", b"x"), ("/abs", b"x"), ("link", "/etc/passwd")],
    ids=["a parent", "an absolute name", "a link"],
)
async def test_an_archive_with_one_bad_entry_leaves_nothing(box: Box, bad: tuple[str, bytes | str]) -> None:
    with pytest.raises(BackendError) as caught:
        await box.sandbox.upload(b"", sent(archive(("good", b"x"), bad)))
    assert caught.value.reason == "SPEC_INVALID"
    assert (await box.sh("ls -A"))[1] == ""
