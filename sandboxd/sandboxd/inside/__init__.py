"""What runs inside a sandbox on the daemon's behalf. Only the standard library: the sandbox has no site-packages.

`sockets` makes the listening sockets in the network namespace of the calling thread, through `netlink`. The docker
backend calls it from a thread that entered a container's namespace; elsewhere the sandbox's first process does.
"""
