"""What we keep is closed to others, however it was found."""

import stat
from pathlib import Path

import pytest

from appliance.files.private import make_private


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
