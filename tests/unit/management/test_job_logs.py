"""Logs, read: their ends, their holes, and files that are none."""

import asyncio
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.errors import UserError
from appliance.management.logs.job_logs import LogService
from appliance.management.logs.log_files import (
    MAX_TAIL_BYTES,
    kept_bytes,
    kept_from,
    pieces,
    read_log,
    size_of,
    tail_offset,
)


@given(st.binary(max_size=200), st.integers(0, 10))
def test_the_tail_of_a_log_is_its_last_lines(tmp_path_factory, text: bytes, count: int) -> None:
    path: Path = tmp_path_factory.mktemp("logs") / "log"
    path.write_bytes(text)
    lines = text.split(b"\n")
    whole = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])

    first = max(len(whole) - count, 0)

    assert text[tail_offset(path, count) :] == b"".join(whole[first:])


def test_a_tail_longer_than_one_block_is_found(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"%07d\n" % number for number in range(100_000)))

    assert path.read_bytes()[tail_offset(path, 50_000) :].startswith(b"0050000\n")


HOLE = 1 << 42


@pytest.fixture
def num_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return how much of files was read since the test began."""
    counts: list[int] = []
    pread = os.pread

    def count(file: int, num_bytes: int, offset: int) -> bytes:
        data = pread(file, num_bytes, offset)
        counts.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", count)
    return lambda: sum(counts)


def make(path: Path, *parts: bytes | int) -> None:
    """Write bytes, and holes of so many bytes."""
    with path.open("wb") as file:
        for part in parts:
            if isinstance(part, int):
                file.seek(part, os.SEEK_CUR)
            else:
                file.write(part)
        file.truncate()


FILES: dict[str, tuple[bytes | int, ...]] = {
    "a hole of terabytes at the end": (b"a\nb\n", HOLE),
    "nothing but a hole": (HOLE,),
    "a hole in the middle": (b"a\nb\n", HOLE, b"c\nd\n"),
    "a hole in front": (HOLE, b"half\nc\nd\n"),
    "a line of 60 MB": (b"a\n", b"x" * 60_000_000),
    "a million empty lines": (b"\n" * 1_000_000,),
    "NUL bytes": (b"a\n", bytes(40_000_000), b"\nc\n"),
    "empty": (),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("count", [0, 1, 100, 1_000_000])
def test_no_file_makes_us_read_more_of_its_end_than_is_allowed(
    tmp_path: Path, num_read: Callable[[], int], name: str, count: int
) -> None:
    path = tmp_path / "log"
    make(path, *FILES[name])

    start = tail_offset(path, count)

    assert num_read() <= MAX_TAIL_BYTES + (1 << 17)
    assert max(0, path.stat().st_size - MAX_TAIL_BYTES) <= start <= path.stat().st_size


@pytest.mark.parametrize("name", FILES)
def test_what_is_stored_of_a_log_is_read_and_its_holes_are_not(
    tmp_path: Path, num_read: Callable[[], int], name: str
) -> None:
    path = tmp_path / "log"
    make(path, *FILES[name])

    found = b"".join(pieces(path, kept_from(path), max_bytes=1 << 16))

    stored = path.stat().st_blocks * 512
    assert num_read() <= 2 * stored + (1 << 18)
    assert len(found) <= stored + (1 << 16)
    if name == "a hole in the middle":
        assert found.replace(b"\0", b"") == b"a\nb\nc\nd\n"
    if name == "a hole in front":
        assert found == b"c\nd\n"


@pytest.mark.parametrize("kind", ["link", "pipe", "directory", "device"])
def test_what_is_no_ordinary_file_is_no_log(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "logs" / "log"
    path.parent.mkdir()
    if kind == "link":
        path.symlink_to("/etc/passwd")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        if os.geteuid():
            pytest.skip("only root makes devices")
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))
    readers = (kept_from, kept_bytes, size_of)
    for read in (*readers, lambda path: read_log(path, 0, 9), lambda path: tail_offset(path, 1)):
        with pytest.raises(UserError, match=r"no ordinary file|link"):
            read(path)


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert (kept_from(path), kept_bytes(path), size_of(path), tail_offset(path, 9)) == (0, 0, 0, 0)
    assert read_log(path, 5, 9) == (5, b"")
    assert list(pieces(path, 0, max_bytes=9)) == []


def test_reading_logs_holds_up_no_other_thread_and_not_the_end() -> None:
    service = LogService(state=None)  # type: ignore[arg-type]  # no job is looked for
    release, others = threading.Event(), []

    async def ask() -> None:
        stuck = [asyncio.create_task(service.read(release.wait)) for _ in range(100)]
        await asyncio.sleep(0)
        others.append(await asyncio.to_thread(lambda: "answered"))
        service.close()
        for each in stuck:
            each.cancel()
        await asyncio.wait(stuck)
        release.set()

    asyncio.run(ask())
    assert others == ["answered"]
