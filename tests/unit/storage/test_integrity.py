"""A SQLite file that is damaged, empty, locked or read-only is refused in a sentence."""

import os
import sqlite3
import stat
from contextlib import closing

import pytest

from appliance.core.errors import ClusterError
from appliance.storage.engine.database import Database
from appliance.storage.engine.integrity import find_damage, in_sentences

PAGE_BYTES = 4096


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "state.db"
    Database.open_sqlite(path).close()
    return path


def overwrite(path, offset, data):
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def test_a_new_database_is_its_owners_and_nothing_is_left_beside_it(path):
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["state.db"]
    Database.open_sqlite(path).close()


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", r"is empty \(0 bytes\)"), (b"x" * PAGE_BYTES, "does not begin as a SQLite database")],
    ids=["empty", "something-else"],
)
def test_a_file_that_is_no_database_is_refused_and_stays_as_it_is(path, content, message):
    path.write_bytes(content)
    with pytest.raises(ClusterError, match=message) as refusal:
        Database.open_sqlite(path)
    assert "appliance restore FILE" in refusal.value.hint
    assert path.read_bytes() == content


def test_damage_anywhere_is_found_and_told_in_a_sentence(path):
    assert find_damage(path) == ""
    overwrite(path, path.stat().st_size - 2 * PAGE_BYTES, b"\xff" * 2 * PAGE_BYTES)
    assert find_damage(path)


def test_damage_that_opening_meets_is_told_in_a_sentence(path):
    overwrite(path, PAGE_BYTES // 8, b"\xff" * 8 * PAGE_BYTES)
    with pytest.raises(ClusterError, match=f"{path} is damaged: ") as refusal:
        Database.open_sqlite(path)
    assert "appliance restore FILE" in refusal.value.hint


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("max_page_count = 1", "cannot grow: its disk has"),
        ("query_only = ON", "cannot be written to: attempt to write a readonly"),
    ],
    ids=["full", "read-only"],
)
def test_what_sqlite_refuses_becomes_a_sentence(path, limit, message):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA {limit}")
        with pytest.raises(ClusterError, match=message), in_sentences(path):
            connection.execute("CREATE TABLE large AS SELECT zeroblob(1000000) AS data")
