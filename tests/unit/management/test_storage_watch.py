"""Admissions stop while the disk is short or the database damaged, and go on by themselves."""

import sqlite3
from contextlib import closing

import pytest

from appliance.management.background import storage_watch
from appliance.management.background.storage_watch import StorageWatch
from appliance.management.store.disk import DiskReserve, DiskSpace

MIB = 1 << 20


class Disk:
    """A disk that has what a test says."""

    def __init__(self):
        self.free_mib, self.answers = 1000, True

    def __call__(self, path):
        if not self.answers:
            raise OSError(5, "Input/output error")
        return DiskSpace(total_bytes=100_000 * MIB, free_bytes=self.free_mib * MIB)


@pytest.fixture
def told():
    return []


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
def watch(tmp_path, disk, told):
    reserve = DiskReserve(num_bytes=100 * MIB)
    return StorageWatch(tmp_path, reserve, tmp_path / "state.db", told.append, space_of=disk)


def test_each_change_is_told_once(watch, disk, told):
    for free_mib in (1000, 99, 98, 110, 200, 300, 50):
        disk.free_mib = free_mib
        watch.look()
    assert [bool(reason) for reason in told] == [True, False, True]
    assert "has 99 MiB free, and 100 MiB must be" in told[0]


def test_a_disk_that_does_not_answer_stops_admissions(watch, disk, told):
    disk.answers = False
    watch.look()
    assert told[-1].endswith("does not answer: Input/output error")
    disk.answers = True
    watch.look()
    assert told[-1] == ""


def test_damage_of_a_large_database_stops_admissions_for_good(
    watch, disk, told, tmp_path, monkeypatch
):
    monkeypatch.setattr(storage_watch, "CHECKED_BYTES", 0)
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, text TEXT)")
        rows = ((number, "x" * 3000) for number in range(100))
        connection.executemany("INSERT INTO rows VALUES (?, ?)", rows)
    watch.check_database()
    assert told == []
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * 40_960)
    watch.check_database()
    assert f"the database {path} is damaged" in told[-1]
    disk.free_mib = 0
    watch.look()
    disk.free_mib = 1000
    watch.look()
    assert "is damaged" in told[-1]
