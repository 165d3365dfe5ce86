"""Images: what is present is used, what is not is pulled, else it is an error with the engine's reason."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import docker
import docker.errors
import docker.utils

from sandboxd.backends.base import BackendError
from sandboxd.backends.docker import spec
from sandboxd.backends.docker.client import EngineClient, EngineDownError, Lane, reason_of


@dataclass(frozen=True, slots=True)
class Image:
    """An image that the engine has. `digest` names its content: the registry's digest, else the engine's own id."""

    digest: str
    env: Mapping[str, str]
    seconds: float = 0.0


class Images:
    """The engine's images. Two sandboxes that want one image share its pull."""

    def __init__(self, client: EngineClient, pull_seconds: float) -> None:
        self._client = client
        self._pull_seconds = pull_seconds
        self._pulls: dict[str, asyncio.Task[None]] = {}

    async def get(self, name: str) -> Image:
        """The image, pulled when it is missing. Raises BackendError (IMAGE_UNAVAILABLE, BACKEND_DOWN)."""
        try:
            return await self._present(name)
        except docker.errors.ImageNotFound:
            pass
        except docker.errors.APIError as error:
            raise _unavailable(name, reason_of(error)) from error
        began = asyncio.get_running_loop().time()
        await self._pull(name)
        try:
            image = await self._present(name)
        except docker.errors.APIError as error:
            raise _unavailable(name, reason_of(error)) from error
        return Image(image.digest, image.env, asyncio.get_running_loop().time() - began)

    async def _present(self, name: str) -> Image:
        found = await self._client.call(lambda api: api.inspect_image(name))
        repository = docker.utils.parse_repository_tag(name)[0]
        digests = [entry for entry in found.get("RepoDigests") or [] if entry.startswith(f"{repository}@")]
        return Image(
            digests[0].partition("@")[2] if digests else found["Id"], spec.parse_env(found["Config"].get("Env"))
        )

    async def _pull(self, name: str) -> None:
        task = self._pulls.get(name)
        if task is None:
            task = self._pulls[name] = asyncio.create_task(self._pull_once(name))
            task.add_done_callback(lambda _: self._pulls.pop(name, None))
        await asyncio.shield(task)

    async def _pull_once(self, name: str) -> None:
        repository, tag = docker.utils.parse_repository_tag(name)

        def work(api: docker.APIClient) -> str:
            for line in api.pull(repository, tag or "latest", stream=True, decode=True):
                if "error" in line:
                    return str(line["error"])
            return ""

        try:
            said = await self._client.call(work, deadline=self._pull_seconds, lane=Lane.PULL)
        except docker.errors.APIError as error:
            raise _unavailable(name, reason_of(error)) from error
        except EngineDownError as error:
            raise _unavailable(name, f"the pull was given up: {error.message}") from error
        if said:
            raise _unavailable(name, said)


def _unavailable(name: str, why: str) -> BackendError:
    return BackendError(
        "IMAGE_UNAVAILABLE",
        f"the image {name} is not on the engine and could not be pulled: {why}",
        image=name,
        why=why,
    )
