"""What the engine is asked to create for a sandbox: pure, from the request to the API's JSON.

Every flag is here and nowhere else. `sandboxd/tests/backends/docker` asserts them on a real container; an engine that
takes a flag and does not honour it is found there and, for the network, by every sandbox's self-test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from sandboxd.backends.base import SandboxRequest
from sandboxd.environment import CA_BUNDLE_PATH, HOME, WORKSPACE

# What a sandbox needs from its host: the pipes for its commands' output, and the certificate bundle. A read-only mount
# of a directory of ours, so that no command can remove, replace or add one.
SHARED = "/run/sandboxd"
BUNDLE = "ca.pem"
# Where the bundle is put for an engine that sees none of our directories; PID 1 copies it to its place.
BUNDLE_STAGE = "/.sandboxd-ca.pem"
HOSTNAME = "sandbox"

NODE_LABEL = "sandboxd.node"
INSTANCE_LABEL = "sandboxd.instance"
SANDBOX_LABEL = "sandboxd.sandbox"
STATE_LABEL = "sandboxd.state"

# What apt and dpkg need as root, each found necessary by leaving it out; nothing else does anything for a command.
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID")

# The engine's own defaults plus kernel addresses, given in full because naming any replaces the defaults.
MASKED_PATHS = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
)
# The last is a tmpfs that some engines leave writable; the groups mounted in it are read-only of themselves.
READONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", "/sys/fs/cgroup")

RUN_BYTES = 16 << 20
SHM_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose container it is: the machine, the daemon's state directory and the daemon's life."""

    node: str
    instance: str
    state: str


def owner_labels(owner: Owner) -> dict[str, str]:
    """The labels of everything that this daemon instance makes."""
    return {NODE_LABEL: owner.node, INSTANCE_LABEL: owner.instance, STATE_LABEL: owner.state}


def container_name(owner: Owner, sandbox_id: str) -> str:
    """Known before the container exists, so that one whose creation was cut short can be removed."""
    return f"sandboxd-{owner.instance[:12]}-{sandbox_id}"


def container(
    request: SandboxRequest,
    owner: Owner,
    *,
    image_env: Mapping[str, str],
    seccomp: str,
    shared: Path | None,
    nofile: bool = True,
) -> dict[str, Any]:
    """The container's configuration. `shared` is the directory that it sees at SHARED; `nofile` sets that limit."""
    return {
        "Image": request.image,
        "Hostname": HOSTNAME,
        "User": "0:0",
        # The shell is PID 1 and the script its argument; the image's own entry point and health check never run.
        "Entrypoint": ["/bin/sh", "-c", init_script(), "init", HOME, WORKSPACE, BUNDLE_STAGE, CA_BUNDLE_PATH],
        "Cmd": [],
        "Healthcheck": {"Test": ["NONE"]},
        "WorkingDir": WORKSPACE,
        "Env": init_environment(request.environment, image_env),
        "Labels": {**owner_labels(owner), SANDBOX_LABEL: request.sandbox_id},
        "NetworkDisabled": False,
        # The daemon holds the only writing end of PID 1's input: when it dies, PID 1 reads the end and the container
        # is removed.
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": False,
        "Tty": False,
        "HostConfig": _host_config(request, seccomp, shared, nofile=nofile),
    }


def _host_config(request: SandboxRequest, seccomp: str, shared: Path | None, *, nofile: bool) -> dict[str, Any]:
    limits = request.limits
    # Files in a tmpfs count as the sandbox's memory, so its own bound only keeps a part of that for programs.
    tmp = max(limits.memory_bytes // 2, 16 << 20)
    return {
        "AutoRemove": True,
        "RestartPolicy": {"Name": "no"},
        "LogConfig": {"Type": "none"},
        "NetworkMode": "none",
        # Without these the engine copies the host's resolver and search domains in.
        "Dns": ["127.0.0.1"],
        "DnsSearch": ["."],
        # A server in the sandbox may bind 80 and 443 without a capability.
        "Sysctls": {"net.ipv4.ip_unprivileged_port_start": "0"},
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "CapDrop": ["ALL"],
        "CapAdd": list(CAPABILITIES),
        "SecurityOpt": ["no-new-privileges", f"seccomp={seccomp}"],
        "MaskedPaths": list(MASKED_PATHS),
        "ReadonlyPaths": list(READONLY_PATHS),
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,
        "NanoCpus": int(limits.cpus * 1e9),
        "PidsLimit": limits.pids,
        # When the host runs out of memory, sandboxes go first.
        "OomScoreAdj": 500,
        "Ulimits": [
            *([{"Name": "nofile", "Soft": limits.nofile, "Hard": limits.nofile}] if nofile else []),
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "fsize", "Soft": limits.disk_bytes, "Hard": limits.disk_bytes},
        ],
        "Tmpfs": {
            "/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={tmp},nr_inodes=262144",  # noqa: S108 the sandbox's own
            "/run": f"rw,noexec,nosuid,nodev,mode=755,size={RUN_BYTES},nr_inodes=4096",
            "/dev/shm": f"rw,noexec,nosuid,nodev,mode=1777,size={min(SHM_BYTES, tmp)},nr_inodes=16384",  # noqa: S108
        },
        "Mounts": [] if shared is None else [bind(shared, SHARED)],
    }


def bind(source: Path, target: str) -> dict[str, Any]:
    """A read-only mount of a directory of the host."""
    return {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": True}


def init_environment(environment: Mapping[str, str], image_env: Mapping[str, str]) -> list[str]:
    """PID 1's environment: the request's with the image's PATH, and nothing else of the image.

    A name without a value takes a variable of the image, or of the engine, away.
    """
    own = {**environment, **_path(image_env)}
    return [f"{name}={value}" for name, value in own.items()] + [
        name for name in (*image_env, "HOSTNAME") if name not in own
    ]


def command_environment(environment: Mapping[str, str], image_env: Mapping[str, str]) -> dict[str, str]:
    """A command's environment: the request's, and beneath it what the image says in ENV.

    Only the image knows where its tools are: its PATH, and the homes without which a toolchain does not start.
    """
    return {**image_env, **environment, **_path(image_env)}


def _path(image_env: Mapping[str, str]) -> dict[str, str]:
    return {"PATH": image_env["PATH"]} if image_env.get("PATH") else {}


def parse_env(lines: list[str] | None) -> dict[str, str]:
    """An image's `Env` as a mapping."""
    return {name: value for name, _, value in (line.partition("=") for line in lines or [])}


def init_script() -> str:
    """PID 1's script."""
    return resources.files("sandboxd.backends.docker").joinpath("init.sh").read_text(encoding="utf-8")
