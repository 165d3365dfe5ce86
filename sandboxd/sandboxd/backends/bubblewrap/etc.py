"""The few files of /etc that a sandbox has of its own, and the operator's certificates.

They are written once beside the sandboxes and mounted over the host's, where the host has them: a place to mount must
exist. The host's may be links, so it is the real path that is covered.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from sandboxd.backends.base import BackendError
from sandboxd.backends.bubblewrap.arguments import HOST_NAME
from sandboxd.backends.process.tree import is_file
from sandboxd.environment import CA_BUNDLE_PATH

# The user that commands see themselves as.
UID = GID = 1000

ETC = {
    "passwd": (
        "root:x:0:0:root:/root:/usr/sbin/nologin\n"
        f"sandbox:x:{UID}:{GID}:sandbox:/home/sandbox:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    ),
    "group": f"root:x:0:\nsandbox:x:{GID}:\nnogroup:x:65534:\n",
    "hosts": f"127.0.0.1 localhost {HOST_NAME}\n::1 localhost\n",
    # The gateway's; without a search list, so that a name is asked for as it is.
    "resolv.conf": "nameserver 127.0.0.1\n",
    "hostname": f"{HOST_NAME}\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
    # The host's own is an identity.
    "machine-id": f"{1:032x}\n",
}
BUNDLE = "ca.pem"
# A directory that a sandbox has of its own: places in it are made as they are needed.
FRESH = "/run/"


class Files:
    """The files, in a directory of the backend's."""

    def __init__(self, directory: Path, etc: Path = Path("/etc")) -> None:
        self._directory = directory
        self._etc = etc
        self._bundle = ""

    def write(self) -> None:
        """Write them. Raises OSError."""
        self._directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        for name, text in ETC.items():
            (self._directory / name).write_text(text)
            (self._directory / name).chmod(0o644)

    def for_sandbox(self, bundle: str | None) -> dict[str, Path]:
        """What to mount where, with the operator's certificates if there are any. Raises BackendError."""
        found = {}
        for name in ETC:
            place = os.path.realpath(self._etc / name)
            if is_file(place) or place.startswith(FRESH):
                found[place] = self._directory / name
        if bundle is not None:
            found[CA_BUNDLE_PATH] = self._copied(bundle)
        return found

    def _copied(self, bundle: str) -> Path:
        """A copy that every user may read, made once: the operator's may be where only the daemon can reach it."""
        copy = self._directory / BUNDLE
        if self._bundle != bundle:
            try:
                shutil.copyfile(bundle, copy)
                copy.chmod(0o644)
            except OSError as error:
                raise BackendError("BACKEND_UNSUPPORTED", f"{bundle} can't be read: {error}") from error
            self._bundle = bundle
        return copy
