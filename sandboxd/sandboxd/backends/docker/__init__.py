"""Sandboxes as containers of a docker engine.

`spec` and `seccomp` say what the engine is asked for, `making` asks, `sandbox` is a container in use, `command` one of
its commands, `cgroup` and `watch` its limits. Only `client` and `pump` talk to the engine: calls in threads of
the one, the bytes of attached streams in a thread of the other.
"""

from sandboxd.backends.docker.backend import DockerBackend

__all__ = ["DockerBackend"]
