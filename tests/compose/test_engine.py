"""Where no container engine can run the tests of this directory are skipped, and say why."""

import os
import shutil
from subprocess import run

import pytest

from tests.support.containers import (
    NoEngineError,
    denied_by_machine,
    forget_what_no_test_uses,
    private_engine,
    reason_to_skip,
    refusal_in,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path):
    """A directory for the images of an engine of our own."""
    if (reason := reason_to_skip()) or os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip(reason or "starting an engine of our own needs root and dockerd")
    return str(tmp_path)


def without(capability):
    return "setpriv", f"--bounding-set=-{capability}", f"--inh-caps=-{capability}"


@pytest.mark.parametrize("capability", ["sys_admin", "net_admin"])
def test_a_machine_without_namespaces_or_bridges_runs_no_containers(root, capability):
    said = denied_by_machine(prefix=without(capability))
    assert said.startswith("no container can run here: ")
    assert "Operation not permitted" in said


def test_an_engine_that_may_not_mount_is_of_no_use(root):
    said = "the container engine has no overlays below "
    with (
        pytest.raises(NoEngineError, match=said),
        private_engine(root, prefix=without("sys_admin")),
    ):
        pass


def test_an_engine_of_our_own_keeps_only_the_images_that_have_a_name(root):
    with private_engine(root) as engine:
        for content in ("1", "2"):
            run(
                ["docker", "import", "--change", f"LABEL made={content}", "-", "wsc-test/empty"],
                env=engine.environment,
                input=bytes(1024),
                check=True,
            )
        engine.docker("volume", "create", "left")
        assert len(engine.docker("image", "ls", "-q").split()) == 2
        forget_what_no_test_uses(engine)
        kept = engine.docker("image", "ls", "--format", "{{.Repository}}").split()
        assert kept == ["wsc-test/empty"]
        assert engine.docker("volume", "ls", "-q") == ""


def test_an_engine_that_ends_for_another_reason_is_a_fault(root):
    with (
        pytest.raises(AssertionError, match="unknown flag: --no-such-flag"),
        private_engine(root, "--no-such-flag"),
    ):
        pass


@pytest.mark.parametrize(
    ("last", "is_refusal"),
    [
        ("failed to start daemon: Devices cgroup isn't mounted", True),
        ("failed to start daemon: error initializing: operation not permitted", True),
        ("mkdir /sys/fs/cgroup/x: read-only file system", True),
        ("pid file found, ensure docker is not running or delete /run/docker.pid", False),
        ("unable to configure the Docker daemon with file: invalid character", False),
    ],
)
def test_only_what_the_machine_denies_is_no_fault(last, is_refusal):
    log = f'level=warning msg="operation not permitted"\n{last}\n'
    assert refusal_in(log) == (last if is_refusal else "")
