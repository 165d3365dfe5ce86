"""Files in and out of the workspace, with a hostile tree in it."""

from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import AsyncIterator

import pytest
from sandboxd.backends.base import BackendError, Exited

from .conftest import Box

pytestmark = pytest.mark.asyncio(loop_scope="session")


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
                info.size, info.mode = len(content), 0o4755
            tar.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return out.getvalue()


async def sent(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), 1000):
        yield data[at : at + 1000]


async def fetched(box: Box, path: bytes = b"") -> tuple[dict[str, bytes | None], list[str]]:
    """What a download gives: contents by name, None for a directory; and what was left out."""
    left_out: list[str] = []
    data = b"".join([chunk async for chunk in box.sandbox.download(path, left_out)])
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        found = {one.name: file.read() if (file := tar.extractfile(one)) else None for one in tar}
    return found, left_out


async def test_what_is_uploaded_is_there_and_comes_back(box: Box) -> None:
    data = archive(("dir", None), ("dir/file", b"x" * 70000), ("top", b""))
    assert await box.sandbox.upload(b"in/here", sent(data)) == (70000, 3)
    _, said = await box.sh("cd in/here/dir && wc -c <file && stat -c %a file")
    assert said.split() == ["70000", "755"]
    assert await fetched(box, b"in/here") == ({"dir": None, "dir/file": b"x" * 70000, "top": b""}, [])
    assert await fetched(box, b"in/here/dir/file") == ({"file": b"x" * 70000}, [])


async def test_what_is_uploaded_belongs_to_the_sandbox(box: Box) -> None:
    await box.sandbox.upload(b"", sent(archive(("d/f", b"x"))))
    exited, said = await box.sh("echo more >>d/f && rm d/f && rmdir d && echo gone")
    assert (exited, said) == (Exited(0), "gone\n")


async def test_f01_links_pipes_and_sockets_are_left_out_and_named(box: Box) -> None:
    await box.sh("mkdir out && cd out && echo hi >file && ln -s /etc/passwd l && ln -s ../../../../etc d && mkfifo p")
    found, left_out = await fetched(box, b"out")
    assert found == {"file": b"hi\n"}
    assert sorted(text.partition(":")[0] for text in left_out) == ["d", "l", "p"]


async def test_the_whole_workspace_can_be_fetched(box: Box) -> None:
    await box.sh("echo a >a; mkdir b; echo c >b/c; mkdir shut; echo s >shut/s; chmod 0 shut")
    found, _ = await fetched(box)
    assert {name: content for name, content in found.items() if not name.startswith("shut/")} == {
        "a": b"a\n",
        "b": None,
        "b/c": b"c\n",
        "shut": None,
    }


@pytest.mark.parametrize("path", [b"link", b"link/passwd", b"up/x"])
async def test_f01_no_link_of_a_path_is_followed(box: Box, path: bytes) -> None:
    await box.sh("ln -s /etc link; ln -s .. up")
    with contextlib.suppress(BackendError):
        assert (await fetched(box, path))[0] == {}
    with pytest.raises(BackendError):
        await box.sandbox.upload(path, sent(archive(("evil", b"x"))))
    assert (await box.sh("ls /etc/evil /evil ../evil /etc/passwd/evil 2>/dev/null"))[1] == ""


async def test_f01_a_link_that_comes_and_goes_is_never_followed(box: Box) -> None:
    swap = "while :; do ln -sfn /etc t 2>/dev/null; rm -f t; mkdir -p t; echo in >t/passwd; rm -rf t; done"
    running, _ = await box.start("sh", "-c", swap)
    for _ in range(30):
        found, _ = await fetched(box)
        assert found.get("t/passwd", b"in\n") in (b"in\n", b"", None), found
        with contextlib.suppress(BackendError):
            await box.sandbox.upload(b"t", sent(archive(("evil", b"x"))))
    await running.kill()
    assert (await box.sh("ls /etc/evil 2>/dev/null"))[1] == ""


@pytest.mark.parametrize(
    "path",
    [b"..", b"/etc", b"a/../../b", b"a\0b", b"nothing-there", b"x" * 5000, b"a//b", b"~", b"/proc/self/root/etc"],
)
async def test_f06_a_path_that_leads_nowhere_or_out_is_refused(shared: Box, path: bytes) -> None:
    with pytest.raises(BackendError) as caught:
        await fetched(shared, path)
    assert caught.value.reason in ("SPEC_INVALID", "PATH_NOT_FOUND")


@pytest.mark.parametrize(
    "bad",
    [("../x", b"x"), ("/abs", b"x"), ("link", "/etc/passwd"), ("a\nb/../../c", b"x"), ("d/" * 200 + "f", b"x")],
    ids=["a parent", "an absolute name", "a link", "a parent behind a line break", "two hundred levels"],
)
async def test_f03_an_archive_with_one_bad_entry_leaves_nothing(box: Box, bad: tuple[str, bytes | str]) -> None:
    with pytest.raises(BackendError) as caught:
        await box.sandbox.upload(b"", sent(archive(("good", b"x"), bad)))
    assert caught.value.reason == "SPEC_INVALID"
    assert (await box.sh("ls -A"))[1] == ""


async def test_f03_an_archive_that_ends_early_leaves_nothing(box: Box) -> None:
    with pytest.raises(BackendError):
        await box.sandbox.upload(b"", sent(archive(("f", b"x" * 9000))[:4000]))
    assert (await box.sh("ls -A"))[1] == ""


async def test_f08_files_that_change_meanwhile_are_fetched_as_some_bytes(box: Box) -> None:
    running, _ = await box.start("sh", "-c", "while :; do echo more >>log; : >cut; head -c 50000 /dev/zero >cut; done")
    for _ in range(20):
        found, _ = await fetched(box)
        assert set(found) <= {"log", "cut"}
    await running.kill()


async def test_f08_a_file_without_an_end_is_bounded(box: Box) -> None:
    await box.sh("truncate -s 60M sparse")
    found, _ = await fetched(box)
    assert len(found["sparse"] or b"") == 60 << 20
