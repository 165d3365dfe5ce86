"""What the engine was asked for, it was asked for, and it does."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from sandboxd.backends.base import SandboxRequest
from sandboxd.backends.docker import spec
from sandboxd.environment import build
from sandboxd.instances import instance

from tests.support.engine import Engine, connect
from tests.support.images import PYTHON_IMAGE

from .conftest import LIMITS, Box, backend_of

FLAGS: list[tuple[str, Any]] = [
    ("HostConfig.NetworkMode", "none"),
    ("HostConfig.Dns", ["127.0.0.1"]),
    ("HostConfig.DnsSearch", ["."]),
    ("HostConfig.CapDrop", ["ALL"]),
    ("HostConfig.CapAdd", ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"]),
    ("HostConfig.Privileged", False),
    ("HostConfig.Memory", LIMITS.memory_bytes),
    ("HostConfig.MemorySwap", LIMITS.memory_bytes),
    ("HostConfig.PidsLimit", LIMITS.pids),
    ("HostConfig.NanoCpus", 2_000_000_000),
    ("HostConfig.RestartPolicy.Name", "no"),
    ("HostConfig.LogConfig.Type", "none"),
    ("HostConfig.AutoRemove", True),
    ("HostConfig.IpcMode", "private"),
    ("HostConfig.PidMode", ""),
    ("HostConfig.Devices", None),
    ("HostConfig.Binds", None),
    ("HostConfig.PublishAllPorts", False),
    ("Config.Tty", False),
    ("Config.OpenStdin", True),
    ("Config.StdinOnce", True),
    ("Config.Hostname", "sandbox"),
    ("Config.User", "0:0"),
    ("Config.Healthcheck.Test", ["NONE"]),
]


@pytest.fixture(scope="module")
def inspected(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the engine says about one sandbox's container."""

    async def look() -> dict[str, Any]:
        with instance(tmp_path_factory.mktemp("flags")) as own:
            backend = backend_of(own, engine.host)
            request = SandboxRequest("flags", PYTHON_IMAGE, LIMITS, build(path=""))
            sandbox = await backend.create(request)
            try:
                with contextlib.closing(connect(engine.host)) as api:
                    return {**api.inspect_container(sandbox.container_id), "own": own}
            finally:
                await sandbox.destroy()
                await backend.close()

    return asyncio.run(look())


@pytest.mark.parametrize(("path", "expected"), FLAGS, ids=[path for path, _ in FLAGS])
def test_a_container_has_the_flag(inspected: dict[str, Any], path: str, expected: Any) -> None:
    found: Any = inspected
    for part in path.split("."):
        found = found[part]
    assert found == expected


def test_only_our_directory_is_mounted_and_only_for_reading(inspected: dict[str, Any]) -> None:
    mounts = [(m["Destination"], m["RW"]) for m in inspected["Mounts"] if m["Type"] != "tmpfs"]
    assert mounts == [(spec.SHARED, False)]


def test_the_labels_name_machine_instance_state_and_sandbox(inspected: dict[str, Any]) -> None:
    labels = inspected["Config"]["Labels"]
    assert labels[spec.NODE_LABEL] == inspected["own"].node_id
    assert labels[spec.INSTANCE_LABEL] == inspected["own"].instance_id
    assert labels[spec.SANDBOX_LABEL] == "flags"
    assert labels[spec.STATE_LABEL]


async def test_commands_have_five_capabilities_no_new_privileges_and_a_filter(box: Box) -> None:
    _, said = await box.sh("grep -E 'Cap(Prm|Eff|Bnd)|NoNewPrivs|Seccomp:' /proc/self/status")
    lines = dict(line.split(":\t") for line in said.splitlines())
    # CHOWN 0, DAC_OVERRIDE 1, FOWNER 3, SETGID 6, SETUID 7 (linux/capability.h)
    assert {name: int(lines[name], 16) for name in ("CapPrm", "CapEff", "CapBnd")} == dict.fromkeys(
        ("CapPrm", "CapEff", "CapBnd"), 0b11001011
    )
    assert (lines["NoNewPrivs"], lines["Seccomp"]) == ("1", "2")


async def test_the_network_namespace_has_loopback_and_no_route(box: Box) -> None:
    _, said = await box.sh("tail -n +3 /proc/net/dev | cut -d: -f1; tail -n +2 /proc/net/route; cat /etc/resolv.conf")
    assert said.split() == ["lo", "nameserver", "127.0.0.1"]


async def test_the_first_process_has_the_requests_environment_and_the_images_path(box: Box) -> None:
    _, said = await box.sh("tr '\\0' '\\n' </proc/1/environ")
    _, ours = await box.run("env")
    names = {line.partition("=")[0] for line in said.splitlines()}
    assert names == {line.partition("=")[0] for line in ours.splitlines()}
    assert "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" in said.splitlines()
    assert names >= {"HOME", "TMPDIR", "LANG", "TERM", "http_proxy"}
    assert not names & {"HOSTNAME", "DOCKER_HOST", "SSL_CERT_FILE"}


async def test_memory_processes_files_and_cores_are_limited(box: Box) -> None:
    _, said = await box.sh("ulimit -c; ulimit -f; df -k /tmp /run /dev/shm | awk 'NR>1 {print $6, $2}'; df -i /tmp")
    assert said.splitlines()[:2] == ["0", str(LIMITS.disk_bytes // 512)]
    sizes = dict(line.split() for line in said.splitlines()[2:5])
    assert int(sizes["/tmp"]) << 10 == LIMITS.memory_bytes // 2
    assert int(sizes["/run"]) << 10 == spec.RUN_BYTES
    assert " 262144 " in said.splitlines()[-1]


async def test_workspace_and_home_are_there_empty_and_roots(box: Box) -> None:
    _, said = await box.sh('ls -A /workspace "$HOME"; stat -c "%n %u %a" /workspace "$HOME"; pwd')
    assert said.splitlines() == [
        "/home/sandbox:",
        "",
        "/workspace:",
        "/workspace 0 755",
        "/home/sandbox 0 755",
        "/workspace",
    ]


async def test_the_bundle_can_be_read_and_not_changed(make: Any, tmp_path: Any) -> None:
    (tmp_path / "bundle.pem").write_text("a bundle")
    box = await make(ca_bundle=str(tmp_path / "bundle.pem"))
    _, said = await box.sh("cat /run/sandboxd/ca.pem; echo x >>/run/sandboxd/ca.pem; rm -f /run/sandboxd/ca.pem")
    assert said.startswith("a bundle")
    assert said.count("Read-only file system") == 2


async def test_a_server_may_bind_port_80(box: Box) -> None:
    exited, said = await box.python("import socket; s = socket.socket(); s.bind(('127.0.0.1', 80)); print('bound')")
    assert (exited.code, said) == (0, "bound\n")
