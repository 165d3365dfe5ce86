"""What package managers need of a sandbox, for real: through each way to plant, and the gateway."""

from __future__ import annotations

import asyncio

import pytest
from sandboxd.backends.base import Exited
from sandboxd.egress.gateway import Gateway
from sandboxd.egress.policy import Policy
from sandboxd.instances import Instance

from tests.support.engine import Engine

from .conftest import Make, backend_of

# Without the proxy's variables: what does not know of a proxy is captured.
UNPROXIED = "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY; "


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("way", "unproxied"), [("direct", True), ("relay", False)], ids=["captured", "by proxy"])
async def test_apt_get_installs_a_package(make: Make, own: Instance, engine: Engine, way: str, unproxied: bool) -> None:
    box = await make(of=backend_of(own, engine.host, way))
    # The image says where its packages are; that is all that this sandbox may reach.
    _, sources = await box.sh("cat /etc/apt/sources.list")
    hosts = {word.split("/")[2] for word in sources.split() if "://" in word}
    planted = await box.sandbox.plant()
    assert planted is not None
    gateway = Gateway(Policy(registry=tuple(sorted(hosts))), planted, emit=lambda _: None)
    await gateway.start()
    try:
        await box.sandbox.self_test()
        async with asyncio.timeout(240):
            prefix = UNPROXIED if unproxied else ""
            exited, said = await box.sh(
                f"{prefix}apt-get update && apt-get install -y hello && hello --greeting=installed"
            )
        assert exited == Exited(0), said[-2000:]
        assert said.splitlines()[-1] == "installed"
    finally:
        await gateway.close()
