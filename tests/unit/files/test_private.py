"""What we keep is closed to others, however it was found."""

import os
import stat
from pathlib import Path

import pytest

from appliance.core.errors import UserError
from appliance.files.private import check_own, make_own, make_private, open_log


@pytest.mark.parametrize(
    ("found", "left"), [(0o755, 0o700), (0o777, 0o700), (0o700, 0o700), (0o2775, 0o2770)]
)
def test_a_directory_that_was_open_is_closed(tmp_path: Path, found: int, left: int) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    directory.chmod(found)
    make_private(directory)
    assert stat.S_IMODE(directory.stat().st_mode) == left


def test_a_new_directory_is_ours_alone(tmp_path: Path) -> None:
    make_private(tmp_path / "a" / "b")
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another's files")
NOBODY = 65534


@needs_root
def test_a_directory_for_sockets_that_a_stranger_has_made_is_not_taken(tmp_path: Path) -> None:
    theirs = tmp_path / "wsc-12345678"
    theirs.mkdir(mode=0o777)
    os.chown(theirs, NOBODY, NOBODY)
    for take in (make_own, check_own):
        with pytest.raises(UserError, match=f"user {NOBODY} has made it") as refusal:
            take(theirs)
        assert "XDG_RUNTIME_DIR" in refusal.value.hint


def test_a_directory_for_sockets_is_no_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "wsc-12345678").symlink_to(elsewhere)
    with pytest.raises(UserError, match="no directory"):
        make_own(tmp_path / "wsc-12345678")


def test_a_directory_for_sockets_of_ours_stays_and_nobody_else_writes_to_it(tmp_path: Path) -> None:
    ours = tmp_path / "a" / "wsc-12345678"
    make_own(ours)
    assert stat.S_IMODE(ours.stat().st_mode) == 0o700
    (ours / "launcher.sock").touch()
    ours.chmod(0o733)
    make_own(ours)
    assert stat.S_IMODE(ours.stat().st_mode) == 0o711
    assert (ours / "launcher.sock").exists()


def test_a_log_in_a_place_for_everybody_is_no_link_and_no_other_file(tmp_path: Path) -> None:
    secret = tmp_path / "authorized_keys"
    secret.write_text("ours")
    (tmp_path / "link.log").symlink_to(secret)
    (tmp_path / "hard.log").hardlink_to(secret)
    os.mkfifo(tmp_path / "pipe.log")
    for name in ("link.log", "hard.log", "pipe.log"):
        with pytest.raises(UserError):
            open_log(tmp_path / name)
    for _ in range(2):
        with open_log(tmp_path / "new.log") as log:
            log.write(b"a line\n")
    assert (tmp_path / "new.log").read_text() == "a line\na line\n"
    assert stat.S_IMODE((tmp_path / "new.log").stat().st_mode) == 0o600
    assert secret.read_text() == "ours"
