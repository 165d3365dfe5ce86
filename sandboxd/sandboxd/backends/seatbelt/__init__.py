"""Sandboxes by seatbelt, macOS's own: a profile says what a process and all that it starts may do.

`profile` writes it, `front` is the sandbox's way to its gateway, and `backend` puts them together over
`sandboxd.backends.process`. There are no namespaces: commands see the host's processes and share its loopback ports.

No Mac has run this yet. The profile is held to snapshots and properties, the rest to tests on Linux; the suite that a
Mac has to pass is `pytest -m macos`. Until it has, `probe` says so.
"""

from sandboxd.backends.seatbelt.backend import SeatbeltBackend

__all__ = ["SeatbeltBackend"]
