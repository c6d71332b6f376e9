"""Small files that survive a crash, and readers that take nothing else for them."""

import os
from pathlib import Path

import pytest

from appliance.core.errors import ClusterError
from appliance.files.kept_files import (
    MAX_BYTES,
    create_file,
    find_unsealed,
    read_own,
    read_sealed,
    replace_file,
    sealed,
)

DATA = b"\x00 bytes\nof any kind\n"


def read(path: Path) -> bytes:
    return read_sealed(path, what="a file", hint="Remove it.")


def test_what_was_sealed_comes_back_and_its_file_is_ours_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in (DATA, b""):
        replace_file(path, sealed(data))
        assert read(path) == data
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("length", range(len(sealed(DATA))))
def test_no_beginning_of_a_sealed_file_is_one(length: int) -> None:
    assert find_unsealed(sealed(DATA)[:length]) is None


def test_the_first_of_two_writers_decides(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert [create_file(path, data) for data in (b"first", b"second")] == [True, False]
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_the_disk_refuses_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    replace_file(path, b"before")

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"after")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_forced_to_the_disk_before_it_has_its_name_and_its_name_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen, sync = tmp_path / "file", [], os.fsync

    def note(descriptor: int) -> None:
        is_directory = os.readlink(f"/proc/self/fd/{descriptor}") == str(tmp_path)
        seen.append((is_directory, path.exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    replace_file(path, DATA)
    assert seen == [(False, False), (True, True)]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.symlink_to("/etc/passwd"), "symbolic links"),
        (lambda path: os.mkfifo(path, 0o600), "no ordinary file"),
        (lambda path: path.mkdir(), "no ordinary file"),
        (lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), 1 << 40), "has"),
        (lambda path: path.write_bytes(b"x" * (MAX_BYTES + 1)), "at most 1,048,576"),
    ],
    ids=["link", "pipe", "directory", "hole", "long"],
)
def test_what_is_no_small_file_is_refused_by_name(tmp_path: Path, make, reason: str) -> None:
    make(tmp_path / "file")
    with pytest.raises(ClusterError, match=reason) as caught:
        read(tmp_path / "file")
    assert caught.value.message.startswith(f"{tmp_path}/file, a file, cannot be used: ")


@pytest.mark.parametrize("mode", [0o602, 0o620, 0o666])
def test_what_others_may_have_written_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "file"
    replace_file(path, sealed(DATA))
    path.chmod(mode)
    with pytest.raises(ClusterError, match=f"others may write to it .mode {mode:o}"):
        read(path)


def test_a_secret_that_others_could_read_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace_file(path, sealed(DATA))
    path.chmod(0o644)
    read_own(path, what="a file", hint="", is_secret=False)
    assert path.stat().st_mode & 0o777 == 0o644
    assert read(path) == DATA
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_somebody_else_is_refused_unless_its_directory_is_theirs_too(
    tmp_path: Path,
) -> None:
    path = tmp_path / "file"
    replace_file(path, sealed(DATA))
    os.chown(path, 65534, 65534)
    with pytest.raises(ClusterError, match="belongs to user 65534"):
        read(path)
    os.chown(tmp_path, 65534, 65534)
    assert read(path) == DATA


def test_a_volume_that_gives_its_group_everything_is_one_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace_file(path, sealed(DATA))
    tmp_path.chmod(0o2770)
    path.chmod(0o660)
    assert read(path) == DATA
    assert path.stat().st_mode & 0o777 == 0o660
