"""The three ways to plant: each gives sockets that serve the sandbox, and refuses what it can't close."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest
from sandboxd.backends.base import BackendError
from sandboxd.egress.plant import closed, helper
from sandboxd.egress.plant.direct import EntryError, within
from sandboxd.egress.plant.program import program
from sandboxd.instances import Instance

from tests.support.engine import Engine
from tests.support.images import PYTHON_IMAGE, SH_ONLY_IMAGE

from .conftest import Answering, Box, Make, backend_of

WAYS = ("direct", "helper", "relay")

# Sends a megabyte through the proxy's port and back, with a half-close between, and asks the name server.
ROUND_TRIP = """
import hashlib, os, socket, threading
data = os.urandom(1 << 20)
with socket.create_connection(("127.0.0.1", 3128)) as c:
    def send():
        c.sendall(data); c.shutdown(socket.SHUT_WR)
    t = threading.Thread(target=send); t.start()
    got = b"".join(iter(lambda: c.recv(65536), b""))
    t.join()
with socket.socket(type=socket.SOCK_DGRAM) as d:
    d.settimeout(10); d.connect(("127.0.0.1", 53)); d.send(b"question"); answer = d.recv(100)
print(got == data, answer.decode())
"""


async def planted_box(make: Make, own: Instance, engine: Engine, way: str, gateway: Answering) -> Box:
    box = await make(of=backend_of(own, engine.host, way))
    planted = await box.sandbox.plant()
    assert planted is not None
    await gateway.serve(planted)
    return box


@pytest.mark.parametrize("way", WAYS)
async def test_what_was_planted_serves_the_sandbox(
    make: Make, own: Instance, engine: Engine, gateway: Answering, way: str
) -> None:
    box = await planted_box(make, own, engine, way, gateway)
    await box.sandbox.self_test()
    exited, said = await box.python(ROUND_TRIP)
    assert (exited.code, said) == (0, "True question\n")


async def test_the_self_test_refuses_a_sandbox_whose_gateway_does_not_answer(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closed, "SECONDS", 0.5)
    box = await make()
    await box.sandbox.plant()
    with pytest.raises(BackendError, match="does not answer") as caught:
        await box.sandbox.self_test()
    assert caught.value.reason == "ISOLATION_UNAVAILABLE"


@pytest.mark.parametrize("way", WAYS)
async def test_no_command_can_bind_over_what_was_planted(
    make: Make, own: Instance, engine: Engine, gateway: Answering, way: str
) -> None:
    box = await planted_box(make, own, engine, way, gateway)
    _, said = await box.python(
        "import socket\n"
        "for kind, host, port in ((1, '127.0.0.1', 3128), (2, '127.0.0.1', 53), (2, '', 53), (1, '', 3128)):\n"
        "    s = socket.socket(2, kind)\n"
        "    s.setsockopt(1, 2, 1); s.setsockopt(1, 15, 1)\n"
        "    try: s.bind((host, port)); kind == 1 and s.listen(); print('bound', host, port)\n"
        "    except OSError as e: print(e.errno)\n"
    )
    assert said.split() == ["98"] * 4


async def test_nothing_leaves_the_namespace(make: Make, own: Instance, engine: Engine, gateway: Answering) -> None:
    box = await planted_box(make, own, engine, "direct", gateway)
    _, said = await box.python(
        "import socket\n"
        "for address in '192.0.2.1', '172.17.0.1', '10.0.0.1', '169.254.169.254', '2001:db8::1':\n"
        "    for kind in 1, 2:\n"
        "        print(socket.socket(10 if ':' in address else 2, kind).connect_ex((address, 443)))\n"
    )
    assert set(said.split()) <= {"101", "99"}


async def test_a_relay_says_what_was_dialled(make: Make, own: Instance, engine: Engine, gateway: Answering) -> None:
    box = await planted_box(make, own, engine, "relay", gateway)
    exited, _ = await box.python("import socket; c = socket.create_connection(('127.1.2.3', 443)); c.close()")
    assert exited.code == 0
    async with asyncio.timeout(10):
        while not gateway.announced:  # noqa: ASYNC110 the other side runs in a sandbox
            await asyncio.sleep(0.02)
    assert gateway.announced == ["127.1.2.3"]


async def test_a_reader_that_stands_still_holds_up_no_other(
    make: Make, own: Instance, engine: Engine, gateway: Answering
) -> None:
    box = await planted_box(make, own, engine, "relay", gateway)
    _, said = await box.python(
        "import socket, threading\n"
        "stalled = [socket.create_connection(('127.0.0.1', 3128)) for _ in range(8)]\n"
        "def pour(c):\n"
        "    try:\n"
        "        while True: c.sendall(bytes(65536))\n"
        "    except OSError: pass\n"
        "for c in stalled: threading.Thread(target=pour, args=(c,), daemon=True).start()\n"
        "for _ in range(20):\n"
        "    with socket.create_connection(('127.0.0.1', 3128)) as c:\n"
        "        c.settimeout(20); c.sendall(b'still here'); assert c.recv(100) == b'still here'\n"
        "print('served')\n"
    )
    assert said == "served\n"


async def test_a_relays_end_closes_the_way_out(make: Make, own: Instance, engine: Engine, gateway: Answering) -> None:
    box = await planted_box(make, own, engine, "relay", gateway)
    await box.sandbox.unplant()
    exited, said = await box.python("import socket; print(socket.socket().connect_ex(('127.0.0.1', 3128)))")
    assert (exited.code, said) == (0, "111\n")


@pytest.mark.parametrize("way", ["helper", "relay"])
async def test_an_image_without_python_needs_a_helper_image(
    make: Make, own: Instance, engine: Engine, way: str
) -> None:
    box = await make(SH_ONLY_IMAGE, of=backend_of(own, engine.host, way))
    with pytest.raises(BackendError, match="needs Python") as caught:
        await box.sandbox.plant()
    assert caught.value.reason == "ISOLATION_UNAVAILABLE"
    assert "helper_image" in caught.value.metadata["remedy"]


@pytest.mark.parametrize("way", ["helper", "relay"])
async def test_a_helper_image_serves_an_image_without_python(
    make: Make, own: Instance, engine: Engine, gateway: Answering, way: str
) -> None:
    box = await make(SH_ONLY_IMAGE, of=backend_of(own, engine.host, way, PYTHON_IMAGE))
    planted = await box.sandbox.plant()
    assert planted is not None
    await gateway.serve(planted)
    await box.sandbox.self_test()


def test_the_programs_for_containers_hold_all_that_they_need() -> None:
    for name in ("helper_inside", "relay_inside"):
        text = program(f"sandboxd.egress.plant.{name}")
        assert len(text.encode()) < 128 << 10  # MAX_ARG_STRLEN
        compile(text, name, "exec")


def test_a_socket_of_our_own_network_is_not_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours, pytest.raises(ValueError, match="own network"):
        helper._check(ours, socket.SOCK_STREAM, ours.getsockname())


async def test_our_own_namespace_is_not_entered() -> None:
    with pytest.raises(EntryError, match="shares"):
        await within(os.getpid(), lambda: True, lambda: None)


async def test_a_process_that_is_not_the_sandboxs_any_more_is_not_entered(box: Box) -> None:
    with pytest.raises(EntryError, match="any more"):
        await within(box.sandbox.pid, lambda: False, lambda: None)


async def test_the_daemon_itself_stays_where_it_is(box: Box) -> None:
    def here(process: str = "self") -> Path:
        return Path(f"/proc/{process}/ns/net").readlink()

    before = here()
    assert await within(box.sandbox.pid, lambda: True, lambda: here("thread-self")) != before
    assert here() == before
