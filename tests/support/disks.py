"""Small file systems of a test's own."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.waiting import wait_until


@contextmanager
def small_disk(path: Path, *, mib: int) -> Iterator[Path]:
    """Mount a file system of so many MiB; skips where this user may not."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=0700", "tmpfs", str(path)]
    if os.getuid() != 0:
        pytest.skip("only root may mount a file system")
    answer = subprocess.run(mount, capture_output=True, text=True, check=False)
    if answer.returncode:
        pytest.skip(f"no file system can be mounted here: {answer.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def remount(path: Path, options: str) -> None:
    """Change how a small disk is mounted, as in `ro`, once nobody writes there."""
    command = ["mount", "-o", f"remount,{options}", str(path)]
    answers: list[str] = []

    def is_done() -> bool:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        answers.append(answer.stderr.strip())
        assert answer.returncode == 0 or "busy" in answer.stderr, answer.stderr
        return answer.returncode == 0

    wait_until(is_done, seconds=60, what=f"{path} to be remounted", seen=lambda: answers[-1])


def fill(path: Path, *, leave_bytes: int = 0) -> Path:
    """Fill a disk with one file, which is returned, but for so many bytes."""
    filler = path / "filler"
    status = os.statvfs(path)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, status.f_bavail * status.f_frsize - leave_bytes)
    return filler
