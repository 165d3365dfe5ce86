"""Sandboxes by bubblewrap: namespaces of an ordinary user's, without a daemon that is root.

`host` decides what of this host a sandbox sees, `arguments` says it to bubblewrap, `seccomp` builds the filter of its
system calls, `user` and `stage` see to it that no sandbox is root when the daemon is. `program` finds bubblewrap and
tells what keeps it from working. `backend` puts them together over `sandboxd.backends.process`.
"""

from sandboxd.backends.bubblewrap.backend import BubblewrapBackend

__all__ = ["BubblewrapBackend"]
