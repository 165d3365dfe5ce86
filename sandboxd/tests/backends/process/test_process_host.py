"""Trees, control groups and user rights on this host, as the daemon's end of a sandbox handles them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from sandboxd.backends.base import Limits
from sandboxd.backends.process import tree
from sandboxd.backends.process.files import acting_as
from sandboxd.backends.process.group import Group, Parents

DEPTH = 1500  # deeper than Python recurses, longer than any path


def deep(top: Path) -> None:
    back = os.open(".", os.O_RDONLY)
    os.chdir(top)
    for _ in range(DEPTH):
        os.mkdir("d" * 9)  # noqa: PTH102 a path would be too long
        os.chdir("d" * 9)
    os.fchdir(back)
    os.close(back)


def test_a_tree_deeper_than_a_path_is_measured_and_removed(tmp_path: Path) -> None:
    top = tmp_path / "t"
    top.mkdir()
    deep(top)
    assert tree.usage([str(top)]) >= DEPTH * tree.ENTRY_BYTES
    tree.remove(str(top))
    assert not top.exists()


def test_what_is_removed_is_only_what_is_beneath(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("stays")
    top = tmp_path / "t"
    (top / "a/b").mkdir(parents=True)
    (top / "a/link").symlink_to(tmp_path / "outside")
    (top / "a/b/up").symlink_to("../..")
    os.mkfifo(top / "a/pipe")
    os.link(tmp_path / "outside/file", top / "a/hard")
    tree.remove(str(top))
    assert not top.exists()
    assert (tmp_path / "outside/file").read_text() == "stays"


def test_directories_that_nobody_may_open_are_removed_by_their_owner(tmp_path: Path) -> None:
    top = tmp_path / "t"
    (top / "shut/inner").mkdir(parents=True)
    (top / "shut/inner/file").write_text("x")
    (top / "shut/inner").chmod(0)
    (top / "shut").chmod(0o500)
    tmp_path.chmod(0o777)
    for path in (top, top / "shut", top / "shut/inner", top / "shut/inner/file"):
        os.chown(path, 54321, 54321)
    for directory in (*tmp_path.parents,):
        if "pytest" in directory.name:
            directory.chmod(0o755)
    with acting_as(54321):
        tree.remove(str(top))
    assert not top.exists()


def test_removing_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    tree.remove(str(tmp_path / "nowhere"))


def test_a_link_in_place_of_the_directory_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/file").write_text("stays")
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(NotADirectoryError):
        tree.remove(str(tmp_path / "link"))
    assert (tmp_path / "real/file").exists()
    assert tree.usage([str(tmp_path / "nowhere")]) == 0


def test_nothing_hides_from_measuring_in_a_directory_that_is_shut(tmp_path: Path) -> None:
    top = tmp_path / "t"
    (top / "shut/inner").mkdir(parents=True)
    (top / "shut/inner/file").write_bytes(bytes(1 << 20))
    for path in (top, top / "shut", top / "shut/inner"):
        os.chown(path, 54321, 54321)
    (top / "shut/inner").chmod(0)
    (top / "shut").chmod(0o300)
    for directory in tmp_path.parents:
        if "pytest" in directory.name:
            directory.chmod(0o755)
    tmp_path.chmod(0o755)
    with acting_as(54321):
        assert tree.usage([str(top)]) >= 1 << 20
    assert [(top / name).stat().st_mode & 0o777 for name in ("shut", "shut/inner")] == [0o300, 0]


def test_moving_directories_about_hides_nothing(tmp_path: Path) -> None:
    top = tmp_path / "t"
    (top / "a/b/c").mkdir(parents=True)
    (top / "big").write_bytes(bytes(1 << 20))
    (top / "z").mkdir()
    (top / "z/big").write_bytes(bytes(1 << 20))
    moving = threading.Event()

    def move() -> None:
        while not moving.is_set():
            (top / "a/b").rename(top / "b")
            (top / "b").rename(top / "a/b")

    mover = threading.Thread(target=move)
    mover.start()
    try:
        assert all(tree.usage([str(top)]) >= 2 << 20 for _ in range(200))
    finally:
        moving.set()
        mover.join()


def test_a_file_with_many_names_is_counted_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(1 << 20))
    for name in "bcd":
        os.link(tmp_path / "a", tmp_path / name)
    assert 1 << 20 <= tree.usage([str(tmp_path)]) < 2 << 20


def test_a_file_without_a_name_is_counted_while_it_is_open(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        file.write(bytes(1 << 20))
        file.flush()
        (tmp_path / "f").unlink()
        assert tree.held_bytes([os.getpid()], tmp_path.stat().st_dev) >= 1 << 20
    assert tree.held_bytes([os.getpid(), 2**22 + 1], tmp_path.stat().st_dev) < 1 << 20


def test_acting_as_another_user_is_over_after_an_error(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("x")
    (tmp_path / "root").chmod(0o600)
    with pytest.raises(PermissionError), acting_as(54321):
        (tmp_path / "root").read_text()
    assert (tmp_path / "root").read_text() == "x"


def mountinfo(*mounts: tuple[str, Path, str]) -> str:
    return "".join(f"30 23 0:26 / {point} rw - {kind} {kind} rw,{options}\n" for kind, point, options in mounts)


def parents(tmp_path: Path, own: str, *mounts: tuple[str, Path, str]) -> dict[str, Path]:
    (tmp_path / "own").write_text(own)
    (tmp_path / "mounts").write_text(mountinfo(*mounts))
    return Parents(tmp_path / "own", tmp_path / "mounts").directories


def second(tmp_path: Path, **handed_on: str) -> Path:
    """A tree of the second version: which controllers each group hands on."""
    root = tmp_path / "cg2"
    for name, controllers in {"": "cpu memory pids", **handed_on}.items():
        group = root / name.replace("__", "/")
        group.mkdir(parents=True, exist_ok=True)
        (group / "cgroup.subtree_control").write_text(controllers)
        (group / "cgroup.procs").write_text("")
    return root


def test_in_the_second_version_the_parent_is_the_nearest_group_that_hands_controllers_on(tmp_path: Path) -> None:
    root = second(tmp_path, system="cpu memory pids", system__daemon="")
    assert parents(tmp_path, "0::/system/daemon\n", ("cgroup2", root, "nsdelegate")) == {"": root / "system"}
    second(tmp_path, system="", system__daemon="")
    assert parents(tmp_path, "0::/system/daemon\n", ("cgroup2", root, "nsdelegate")) == {"": root}
    second(tmp_path, system="", system__daemon="")
    (root / "cgroup.subtree_control").write_text("pids")
    assert parents(tmp_path, "0::/system/daemon\n", ("cgroup2", root, "nsdelegate")) == {}


def test_in_the_first_version_each_controller_has_its_own_tree(tmp_path: Path) -> None:
    mounts = []
    for name in ("memory", "pids", "cpu"):
        (tmp_path / name / "own").mkdir(parents=True)
        (tmp_path / name / "own/cgroup.procs").write_text("")
        mounts.append(("cgroup", tmp_path / name, name))
    own = "3:pids:/own\n2:memory:/own\n1:cpu:/own\n0::/\n"
    assert parents(tmp_path, own, *mounts) == {name: tmp_path / name / "own" for name in ("cpu", "memory", "pids")}
    assert parents(tmp_path, "2:memory:/own\n", *mounts) == {}


def test_no_control_groups_at_all_is_no_error(tmp_path: Path) -> None:
    assert not Parents(tmp_path / "nowhere", tmp_path / "nowhere")
    assert Parents(tmp_path / "nowhere", tmp_path / "nowhere").group("x") is None


def test_a_group_of_this_host_holds_what_it_says() -> None:
    found = Parents()
    assert found, "these tests need root and control groups"
    group = found.group(f"sandboxd-test-{os.getpid()}")
    assert group is not None
    assert group.make(Limits(memory_bytes=64 << 20, pids=10))
    try:
        assert all(directory.is_dir() for directory in group.directories.values())
        assert group.pids() == []
        assert (group.counters().memory, group.counters().pids) == (0, 0)
    finally:
        assert group.remove()
    assert not any(directory.exists() for directory in group.directories.values())
    assert group.remove()


def test_a_group_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    group = Group({"memory": tmp_path / "memory", "pids": tmp_path / "nowhere/pids"})
    assert not group.make(Limits())
    assert list(tmp_path.iterdir()) == []
