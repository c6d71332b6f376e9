"""How much of a disk must be free for jobs to be started, and what is said of what it refuses."""

import errno
import re
from pathlib import Path

import pytest

from appliance.core.errors import UserError
from appliance.management.store.disk import DiskReserve, DiskSpace, disk_error

GIB = 1 << 30
PATH = Path("/data")


def space(free_gib, *, total_gib=1000, free_files=None):
    return DiskSpace(
        total_bytes=int(total_gib * GIB), free_bytes=int(free_gib * GIB), free_files=free_files
    )


@pytest.mark.parametrize(
    ("free", "was_short", "is_short"),
    [
        pytest.param(space(1.01), False, False, id="enough"),
        pytest.param(space(0.99), False, True, id="too-little"),
        pytest.param(space(1.2), True, True, id="not-yet-enough-again"),
        pytest.param(space(1.26), True, False, id="enough-again"),
        pytest.param(space(0.4, total_gib=8), False, False, id="a-small-disk-keeps-a-twentieth"),
        pytest.param(space(0.39, total_gib=8), False, True, id="less-than-a-twentieth"),
        pytest.param(space(100, free_files=999), False, True, id="too-few-files"),
        pytest.param(space(100, free_files=1200), True, True, id="not-yet-files-enough"),
        pytest.param(space(100, free_files=1300), True, False, id="files-enough-again"),
    ],
)
def test_a_disk_is_short_below_its_reserve_until_it_has_a_quarter_more(free, was_short, is_short):
    found = DiskReserve(num_bytes=GIB).shortage(free, PATH, was_short=was_short)
    assert bool(found) == is_short
    assert not found or found.startswith("the disk of /data ")


def test_the_sentence_has_both_numbers():
    found = DiskReserve(num_bytes=GIB).shortage(space(0.5), PATH, was_short=False)
    assert found == "the disk of /data has 512 MiB free, and 1,024 MiB must be"


def test_without_a_reserve_no_disk_is_short():
    assert DiskReserve(num_bytes=0).shortage(space(0), PATH, was_short=True) == ""
    with pytest.raises(UserError, match="cannot have -1 bytes kept free"):
        DiskReserve(num_bytes=-1)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "token.key cannot be written: .* the disk has [0-9,]+ bytes free"),
        (errno.EROFS, "token.key cannot be used: Read-only"),
        (errno.EACCES, "token.key cannot be used: denied"),
    ],
)
def test_what_the_disk_refuses_is_said_with_the_next_step(tmp_path, number, message):
    words = {errno.ENOSPC: "full", errno.EROFS: "Read-only", errno.EACCES: "denied"}[number]
    found = disk_error(OSError(number, words, str(tmp_path / "token.key")), tmp_path)
    assert found is not None
    assert found.hint
    assert re.search(message, found.message)


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EEXIST])
def test_a_data_directory_that_cannot_be_made_is_named(tmp_path, number):
    wanted = tmp_path / "a" / "b"
    error = OSError(number, "words", str(tmp_path / "a"))
    found = disk_error(error, wanted)
    assert isinstance(found, UserError)
    assert found.message.startswith(f"The data directory {wanted} cannot be made: words (")
    assert disk_error(OSError(number, "words", str(wanted / "file")), wanted) is None


def test_what_is_not_of_the_disk_is_left_alone(tmp_path):
    assert disk_error(OSError(errno.EADDRINUSE, "taken"), tmp_path) is None
    assert disk_error(ValueError(), tmp_path) is None
