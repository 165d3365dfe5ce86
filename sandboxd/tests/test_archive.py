"""Archives: what is hostile is refused or left out, by case; what is good arrives whole or not at all."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sandboxd.archive import Caps
from sandboxd.backends.base import BackendError

from sandboxd import archive, beneath


def tar(*members: tuple[str, bytes | None] | tarfile.TarInfo, mode: int = 0o644) -> io.BytesIO:
    """A tar of files (name, contents), directories (name, None), and members as they are given."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as made:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                made.addfile(member)
                continue
            name, contents = member
            info = tarfile.TarInfo(name)
            info.mode = mode
            info.type = tarfile.DIRTYPE if contents is None else tarfile.REGTYPE
            info.size = len(contents or b"")
            made.addfile(info, io.BytesIO(contents or b""))
    out.seek(0)
    return out


def member(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.fixture
def root(tmp_path: Path) -> tuple[Path, int]:
    home = tmp_path / "root"
    home.mkdir()
    return home, os.open(home, os.O_RDONLY | os.O_DIRECTORY)


def test_files_and_directories_arrive_with_masked_modes(root: tuple[Path, int]) -> None:
    home, fd = root
    source = tar(("a/b.txt", b"hello"), ("c", None), ("a/run", b"#!"), mode=0o6755)
    assert archive.unpack(source, fd, b"") == (7, 3)
    assert (home / "a/b.txt").read_bytes() == b"hello"
    assert (home / "a/b.txt").stat().st_mode & 0o7777 == 0o755
    assert sorted(path.name for path in home.iterdir()) == ["a", "c"]


HOSTILE = [
    pytest.param(lambda: tar(("../x", b"")), "'..'", id="F03 a name that climbs"),
    pytest.param(lambda: tar(("a/../../x", b"")), "'..'", id="F06 a name that climbs in the middle"),
    pytest.param(lambda: tar(member("/abs", tarfile.REGTYPE)), "relative", id="F03 an absolute name"),
    pytest.param(lambda: tar(member("l", tarfile.SYMTYPE, "/etc")), "a symbolic link", id="F01 a symbolic link"),
    pytest.param(lambda: tar(member("h", tarfile.LNKTYPE, "/etc/passwd")), "a hard link", id="F03 a hard link"),
    pytest.param(lambda: tar(member("d", tarfile.CHRTYPE)), "a device", id="F03 a device"),
    pytest.param(lambda: tar(member("p", tarfile.FIFOTYPE)), "a pipe", id="F03 a fifo"),
    pytest.param(lambda: tar(member("s", tarfile.GNUTYPE_SPARSE)), "sparse", id="F03 a sparse file"),
    pytest.param(lambda: tar(("x" * 300, b"")), "255 bytes", id="F03 a long component"),
    pytest.param(lambda: tar(("x/" * 100 + "y", b"")), "64 components", id="F03 a deep path"),
    pytest.param(lambda: tar(("/".join(["y" * 200] * 30), b"")), "4096 bytes", id="F03 a long path"),
    pytest.param(lambda: tar(("a", b"1"), ("a/b", b"2")), "a file and a directory", id="a file that is a directory"),
    pytest.param(lambda: io.BytesIO(tar(("a", b"x" * 5000)).getvalue()[:2000]), "no tar stream", id="F08 truncated"),
]


@pytest.mark.parametrize(("make", "says"), HOSTILE)
def test_a_hostile_upload_is_refused_and_leaves_nothing(
    root: tuple[Path, int], make: Callable[[], io.BytesIO], says: str
) -> None:
    home, fd = root
    source = io.BytesIO(tar(("good", b"first")).getvalue()[:1024] + make().getvalue())
    with pytest.raises(BackendError, match=says) as caught:
        archive.unpack(source, fd, b"")
    assert caught.value.reason == "SPEC_INVALID"
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(("make", "says"), HOSTILE[:8])
def test_the_same_is_refused_on_its_way_to_an_engine(make: Callable[[], io.BytesIO], says: str) -> None:
    with pytest.raises(BackendError, match=says):
        archive.cleaned(make())


def test_what_is_no_archive_is_refused(root: tuple[Path, int]) -> None:
    with pytest.raises(BackendError, match="no tar stream"):
        archive.unpack(io.BytesIO(b"no tar at all" * 100), root[1], b"")


def test_an_archive_over_its_caps_is_refused(root: tuple[Path, int]) -> None:
    _, fd = root
    with pytest.raises(BackendError, match="more than 2 entries"):
        archive.unpack(tar(("a", b""), ("b", b""), ("c", b"")), fd, b"", Caps(entries=2))
    with pytest.raises(BackendError, match="more than 10 bytes"):
        archive.unpack(tar(("a", b"x" * 11)), fd, b"", Caps(bytes=10))


def test_an_upload_never_goes_through_a_link_that_is_there(root: tuple[Path, int], tmp_path: Path) -> None:
    home, fd = root
    outside = tmp_path / "outside"
    outside.mkdir()
    (home / "out").symlink_to(outside)
    for source, path in ((tar(("out/x", b"")), b""), (tar(("x", b"")), b"out")):
        with pytest.raises(BackendError, match="links are not followed"):
            archive.unpack(source, fd, path)
    assert list(outside.iterdir()) == []


def test_a_file_takes_the_place_of_a_file_and_of_a_link_but_not_of_a_directory(
    root: tuple[Path, int], tmp_path: Path
) -> None:
    home, fd = root
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (home / "old").write_text("old")
    (home / "link").symlink_to(secret)
    (home / "dir").mkdir()
    archive.unpack(tar(("old", b"new"), ("link", b"mine")), fd, b"")
    assert ((home / "old").read_text(), (home / "link").read_text(), secret.read_text()) == ("new", "mine", "secret")
    with pytest.raises(BackendError, match="is a directory"):
        archive.unpack(tar(("dir", b"")), fd, b"")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (b"..", "'..'"),
        (b"/etc", "relative"),
        (b"a/../../b", "'..'"),
        (b"a//b", "'//'"),
        (b"a\0b", "NUL"),
        (b"x" * 5000, "4096"),
        (b"/proc/self/root/etc", "relative"),
    ],
)
def test_paths_of_requests(path: bytes, says: str) -> None:
    with pytest.raises(BackendError, match=says) as caught:
        beneath.parts(path)
    assert caught.value.reason == "SPEC_INVALID"


def unpacked(stream: bytes) -> dict[str, bytes | None]:
    with tarfile.open(fileobj=io.BytesIO(stream)) as made:
        return {info.name: None if info.isdir() else (made.extractfile(info) or io.BytesIO()).read() for info in made}


def test_a_download_leaves_links_pipes_and_sockets_out_and_says_so(root: tuple[Path, int]) -> None:
    home, fd = root
    (home / "sub").mkdir()
    (home / "sub/file").write_bytes(b"x" * 70_000)
    (home / "link").symlink_to("/etc/passwd")
    (home / "dirlink").symlink_to("/etc")
    os.mkfifo(home / "pipe")
    left_out: list[str] = []
    stream = b"".join(archive.pack(fd, b"", left_out))
    assert unpacked(stream) == {"sub": None, "sub/file": b"x" * 70_000}
    assert left_out == ["dirlink: a symbolic link", "link: a symbolic link", "pipe: a pipe"]


def test_one_file_can_be_downloaded_and_a_link_can_not(root: tuple[Path, int]) -> None:
    home, fd = root
    (home / "file").write_bytes(b"data")
    (home / "link").symlink_to("/etc/passwd")
    assert unpacked(b"".join(archive.pack(fd, b"file", []))) == {"file": b"data"}
    left_out: list[str] = []
    assert unpacked(b"".join(archive.pack(fd, b"link", left_out))) == {}
    assert len(left_out) == 1
    with pytest.raises(BackendError) as caught:
        b"".join(archive.pack(fd, b"nothing", []))
    assert caught.value.reason == "PATH_NOT_FOUND"


def test_a_file_that_shrinks_while_it_is_packed_does_not_break_the_stream(root: tuple[Path, int]) -> None:
    home, fd = root
    (home / "f").write_bytes(b"x" * 200_000)
    chunks = archive.pack(fd, b"", [])
    first = [next(chunks), next(chunks)]
    (home / "f").write_bytes(b"")
    assert len(unpacked(b"".join([*first, *chunks]))["f"] or b"") == 200_000


def test_directories_made_to_hurt_are_left_out_with_a_reason(root: tuple[Path, int]) -> None:
    home, fd = root
    wide, deep = home / "wide", home / "deep"
    wide.mkdir()
    for number in range(20):
        (wide / f"{number:02}").touch()
    deep.mkdir()
    (deep / "/".join("d" * 80)).mkdir(parents=True)
    left_out: list[str] = []
    names = unpacked(b"".join(archive.pack(fd, b"", left_out, Caps(entries=10))))
    assert len(names) == 10
    assert "wide: more than 10 entries" in left_out
    left_out.clear()
    assert unpacked(b"".join(archive.pack(fd, b"deep", left_out)))
    assert [text.rpartition(": ")[2] for text in left_out] == ["deeper than 64 directories"]


def test_the_downloads_cap_is_told(root: tuple[Path, int]) -> None:
    home, fd = root
    for name in "abc":
        (home / name).write_bytes(b"12345")
    left_out: list[str] = []
    assert len(unpacked(b"".join(archive.pack(fd, b"", left_out, Caps(bytes=10))))) == 2
    assert left_out == ["c: the download's limit was reached"]


def test_an_engines_archive_is_filtered_and_made_anew() -> None:
    source = tar(
        ("ok", b"1"), member("l", tarfile.SYMTYPE, "/etc/passwd"), ("d", None), member("h", tarfile.LNKTYPE, "x")
    )
    left_out: list[str] = []
    stream = b"".join(archive.filtered(source, left_out))
    assert unpacked(stream) == {"ok": b"1", "d": None}
    assert len(left_out) == 2


def test_names_that_are_no_utf8_survive(root: tuple[Path, int], tmp_path: Path) -> None:
    home, fd = root
    name = b"caf\xe9\nx"
    (home / os.fsdecode(name)).write_bytes(b"1")
    stream = io.BytesIO(b"".join(archive.pack(fd, b"", [])))
    other = tmp_path / "other"
    other.mkdir()
    archive.unpack(stream, os.open(other, os.O_RDONLY), b"")
    assert [os.fsencode(path.name) for path in other.iterdir()] == [name]


@given(data=st.binary(max_size=3000))
def test_any_bytes_are_taken_or_refused_and_nothing_else(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    home = tmp_path_factory.mktemp("any")
    fd = os.open(home, os.O_RDONLY)
    refused = None
    try:
        archive.unpack(io.BytesIO(data), fd, b"")
    except BackendError as error:
        refused = error
    finally:
        os.close(fd)
    assert refused is None or (refused.reason, list(home.iterdir())) == ("SPEC_INVALID", [])


def test_messages_never_carry_raw_names() -> None:
    assert beneath.printable(b"a\x1b[31m\n\xff") == "a\\x1b[31m\\n\\\\xff"


def test_a_workspace_that_goes_away_meanwhile_is_a_refusal(root: tuple[Path, int]) -> None:
    home, fd = root
    home.rmdir()
    for path in (b"", b"t"):
        with pytest.raises(BackendError) as caught:
            archive.unpack(tar(("a", b"1")), fd, path)
        assert caught.value.reason == "PATH_NOT_FOUND"
