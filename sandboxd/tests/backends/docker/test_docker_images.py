"""Which images can be a sandbox, and what is said about the others."""

from __future__ import annotations

import docker
import pytest
from sandboxd.backends.base import BackendError

from tests.support.images import NO_SHELL_IMAGE, NODE_IMAGE, PYTHON_IMAGE, SH_ONLY_IMAGE

from .conftest import Make


@pytest.mark.parametrize(
    ("image", "shell"), [(PYTHON_IMAGE, "/bin/bash"), (NODE_IMAGE, "/bin/bash"), (SH_ONLY_IMAGE, "/bin/sh")]
)
async def test_the_shell_is_bash_where_there_is_one(make: Make, image: str, shell: str) -> None:
    box = await make(image)
    assert box.sandbox.shell.removeprefix("/usr") == shell
    exited, said = await box.run(box.sandbox.shell, "-c", "echo from $0")
    assert (exited.code, said) == (0, f"from {box.sandbox.shell}\n")


async def test_the_digest_is_the_images_own_id_when_no_registry_has_named_it(make: Make, api: docker.APIClient) -> None:
    box = await make()
    assert box.sandbox.image_digest == api.inspect_image(PYTHON_IMAGE)["Id"]


@pytest.mark.parametrize(
    ("image", "reason", "words"),
    [
        ("registry.invalid/nothing:1", "IMAGE_UNAVAILABLE", "registry.invalid"),
        ("Not A Name", "IMAGE_UNAVAILABLE", "invalid reference"),
        (NO_SHELL_IMAGE, "SPEC_INVALID", "/bin/sh"),
    ],
)
async def test_an_image_that_can_not_be_a_sandbox_is_refused(make: Make, image: str, reason: str, words: str) -> None:
    with pytest.raises(BackendError) as caught:
        await make(image)
    assert caught.value.reason == reason
    assert image in caught.value.message
    assert words in caught.value.message


async def test_a_refused_image_leaves_nothing(make: Make, api: docker.APIClient, own: object) -> None:
    with pytest.raises(BackendError):
        await make(NO_SHELL_IMAGE)
    label = f"sandboxd.instance={own.instance_id}"  # type: ignore[attr-defined]  # an Instance
    assert api.containers(all=True, filters={"label": label}) == []


async def test_an_images_variables_reach_commands_and_ours_win(make: Make, api: docker.APIClient) -> None:
    container = api.create_container(PYTHON_IMAGE, ["true"])["Id"]
    try:
        api.commit(
            container, "sandboxd-test/env", "1", changes=["ENV TOOL_HOME=/opt/tool", "ENV HOME=/wrong", "USER 1000"]
        )
        box = await make("sandboxd-test/env:1")
        _, said = await box.sh('echo "$TOOL_HOME $HOME $(id -u)"; tr "\\0" "\\n" </proc/1/environ | grep TOOL')
        assert said == "/opt/tool /home/sandbox 0\n"
    finally:
        api.remove_container(container, force=True)
        api.remove_image("sandboxd-test/env:1", force=True)


async def test_an_image_with_files_in_the_workspace_is_refused(make: Make, api: docker.APIClient) -> None:
    alone = api.create_host_config(network_mode="none")
    command = ["mkdir", "-p", "/workspace/left"]
    container = api.create_container(PYTHON_IMAGE, command, host_config=alone)["Id"]
    try:
        api.start(container)
        api.wait(container)
        api.commit(container, "sandboxd-test/used", "1")
        with pytest.raises(BackendError, match="/workspace"):
            await make("sandboxd-test/used:1")
    finally:
        api.remove_container(container, force=True)
        api.remove_image("sandboxd-test/used:1", force=True)
