"""The helper's end of planting: runs in a container in the sandbox's network namespace, with no capability at all.

Makes the listening sockets, hands them over through a unix socket, and looks around when it is asked to. It ends when
the other end does.
"""

from __future__ import annotations

import json
import socket

from sandboxd.egress.plant.closed import findings
from sandboxd.inside.sockets import plant_here

# The name of the directory's mount, and of the socket in it.
DIRECTORY = "/run/sandboxd-plant"
SOCKET = "helper"
LOOK = b"look\n"


def main() -> None:
    """Plant, hand over, look around."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as daemon:
        daemon.connect(f"{DIRECTORY}/{SOCKET}")
        here = plant_here(may_redirect=False)
        ports = sorted(here.transparent)
        made = [here.proxy, here.dns_udp, here.dns_tcp, *(here.transparent[port] for port in ports)]
        said = json.dumps({"ports": ports, "pool": here.pool}).encode() + b"\n"
        socket.send_fds(daemon, [said], [one.fileno() for one in made])
        for one in made:
            one.close()
        while daemon.recv(64) == LOOK:
            daemon.sendall(json.dumps(findings()).encode() + b"\n")
