"""Backup, restore and rollback in Compose, as docs/deployment.md tells to type them.

The tests of this directory that come after it train on what was restored.
"""

import tarfile
from pathlib import Path

import pytest

from tests.compose.conftest import NUM_SYSTEMS
from tests.support.containers import Compose
from tests.support.pages import block_of, commands_of, follow
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

BACKUP = block_of("docs/deployment.md", "$ docker compose exec -T management appliance user create")
BEFORE = block_of("docs/deployment.md", "$ docker compose exec -T management appliance backup")
BACK = block_of("docs/deployment.md", "$ docker compose stop")


def users(project: Compose) -> set[str]:
    table = project.execute("management", "appliance", "user", "list")
    return {line.split()[0] for line in table.splitlines()[1:]}


def nodes(project: Compose) -> str:
    return project.execute("user-node", "csctl", "get", "cluster")


@pytest.fixture
def typed(project: Compose, tmp_path: Path) -> Path:
    """A home in which `docker compose` is the project's."""
    programs = tmp_path / "programs"
    programs.mkdir()
    project.stand_in(programs)
    (tmp_path / "home").mkdir()
    return tmp_path


def test_a_project_that_lost_its_volumes_goes_on_from_a_backup(
    project: Compose, typed: Path
) -> None:
    home, programs = typed / "home", typed / "programs"
    follow(commands_of(BACKUP), home, first_on_path=programs, seconds=600)
    with tarfile.open(home / "wsc.tar") as archive:
        assert "keys/nodes.key" in archive.getnames()
    # The nodes have joined with a token of the restored key.
    wait_until(
        lambda: nodes(project).count(" ok") >= NUM_SYSTEMS + 6,
        seconds=120,
        what="all nodes and systems",
        seen=lambda: nodes(project),
    )


def test_a_rollback_leaves_what_there_was_before_the_upgrade(project: Compose, typed: Path) -> None:
    home, programs = typed / "home", typed / "programs"
    follow(commands_of(BEFORE), home, first_on_path=programs, seconds=600)
    create = ("appliance", "user", "create", "eve", "--uid", "1009")
    project.execute("management", *create)
    assert "eve" in users(project)
    (home / "bin").rename(home / "bin of the first block")
    follow(commands_of(BACK), home, first_on_path=programs, seconds=600)
    assert "eve" not in users(project)
    assert nodes(project).count("Idle") == NUM_SYSTEMS
