"""What runs inside a sandbox on the daemon's behalf. Only the standard library: the sandbox has no site-packages.

`supervisor` is the first process of a sandbox: it starts commands (`command`), ends them with all that they started
(`processes`), and gives up every privilege before the first (`system`). It talks with the daemon in `frames`.
`sockets` makes the listening sockets in the network namespace of the calling thread, through `netlink`; the docker
backend calls it from a thread that entered a container's namespace. `selftest` looks for a way out.

A supervisor's start is part of every sandbox's, so modules that are slow to import (pathlib, dataclasses, typing,
json) stay out.
"""
