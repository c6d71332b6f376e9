"""An artifact appears whole, once, inside its root."""

from pathlib import Path

import pytest

from appliance.coordinator.compile.artifacts import KERNEL_TABLES, ArtifactStore, CompileCache
from appliance.core.errors import NotFoundError, UserError


def test_what_is_stored_is_read_back(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    directory = store.directory("models/one", "cs_1")
    assert not store.has(directory)
    store.store(directory, plan_text="plan", program="text")
    assert store.has(directory)
    assert store.plan_text(str(directory)) == "plan"
    assert (directory.path / "program.mlir").read_text() == "text"


def test_a_second_writer_changes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    directory = store.directory("models", "cs_1")
    store.store(directory, plan_text="first", program="text")
    store.store(directory, plan_text="second", program="text")
    assert store.plan_text(str(directory)) == "first"
    assert [path.name for path in directory.path.parent.iterdir()] == ["cs_1"]


@pytest.mark.parametrize("escape", ["..", "/etc", "models/../../x"])
def test_a_directory_outside_the_root_is_refused(tmp_path: Path, escape: str) -> None:
    store = ArtifactStore(tmp_path / "root")
    with pytest.raises(UserError, match="lies outside"):
        store.directory(escape)


@pytest.mark.parametrize(
    "named",
    [KERNEL_TABLES, f"{KERNEL_TABLES}/x.json", f"./{KERNEL_TABLES}", ".users", ".users/user-1002"],
)
def test_directories_of_the_appliance_are_no_compile_directories(
    tmp_path: Path, named: str
) -> None:
    store = ArtifactStore(tmp_path)
    for text in (named, str(tmp_path.resolve() / named)):
        with pytest.raises(UserError, match="is the appliance's own"):
            store.directory(text, "cs_1")
    assert store.directory(f"models/{KERNEL_TABLES}").path.name == KERNEL_TABLES


def test_a_user_whose_cache_is_their_own_cannot_name_another_s(tmp_path: Path) -> None:
    cache = CompileCache(root=tmp_path, is_split=True)
    mine, theirs = cache.root_of(1001), cache.root_of(1002)
    ours = ArtifactStore(mine, 1001)
    assert ours.directory("models").path == mine / "models"
    assert ours.directory(str(mine / "models")).path == mine / "models"
    for escape in (theirs, theirs / "models", tmp_path, mine / ".." / theirs.name):
        with pytest.raises(UserError, match="lies outside"):
            ours.directory(str(escape))
    assert CompileCache(root=tmp_path).root_of(1001) == tmp_path


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no compiled program of yours in 'models/cs_9'"):
        ArtifactStore(tmp_path).plan_text("models/cs_9")


def test_an_artifact_is_of_those_alone_who_have_brought_its_program(tmp_path: Path) -> None:
    ada, bob = ArtifactStore(tmp_path, 1001), ArtifactStore(tmp_path, 1002)
    directory = ada.directory("models", "cs_1")
    ada.store(directory, plan_text="plan", program="text")
    for look in (bob.plan_text, bob.of_user, lambda path: list(bob.files(path))):
        with pytest.raises(NotFoundError, match="no compiled program of yours"):
            look(str(directory))

    assert bob.has(directory)
    bob.take(directory)
    assert bob.plan_text(str(directory)) == ada.plan_text(str(directory)) == "plan"
    assert [each.parts[-1] for each in bob.files(str(directory))] == ["plan.txt", "program.mlir"]


def test_a_directory_above_artifacts_or_a_link_to_one_is_none(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, 1001)
    directory = store.directory("models", "cs_1")
    store.store(directory, plan_text="plan", program="text")
    (tmp_path / "link").symlink_to(directory.path)
    for path in ("", "models", "link", str(tmp_path)):
        with pytest.raises(NotFoundError):
            store.of_user(path)
