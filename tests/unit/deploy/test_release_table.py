"""The table of what the releases of the client have passed."""

import os
from pathlib import Path

import pytest

from tests.support.release_table import END, kept, merged, read, table, write

CASE = '<testcase classname="tests.conformance.{file}" name="{name}">{inside}</testcase>'


def report(
    folder: Path, release: str, name: str, *cases: tuple[str, str], seconds: int = 0
) -> None:
    """Write a run's results: a file of tests each, and what pytest says of the test."""
    path = folder / release / name
    path.parent.mkdir(exist_ok=True)
    inside = "".join(
        CASE.format(file=file, name=number, inside=said)
        for number, (file, said) in enumerate(cases)
    )
    path.write_text(f"<testsuites><testsuite>{inside}</testsuite></testsuites>")
    os.utime(path, (seconds, seconds))


def test_a_table_says_what_passed_what_did_not_and_what_has_not_run(tmp_path: Path) -> None:
    passed, failed = ("test_real_client_tls", ""), ("test_real_client_tls", "<failure/>")
    broken = ("test_real_client_two_users", "<error/>")
    skipped = ("test_real_client_labs", "<skipped/>")
    report(tmp_path, "2.10.0", "all.xml", passed, passed, failed, broken, skipped)
    report(tmp_path, "2.6.0", "all.xml", passed, ("test_plans", ""))
    assert table(read(tmp_path)).splitlines() == [
        "| tests of | 2.6.0 | 2.10.0 |",
        "|---|---|---|",
        "| client tls | 1 pass | 2 pass, 1 fail |",
        "| client two users |  | 0 pass, 1 fail |",
    ]


def test_the_last_run_of_a_file_counts(tmp_path: Path) -> None:
    file = "test_real_client_tls"
    report(tmp_path, "2.9.0", "a.xml", (file, ""), (file, ""), seconds=2)
    report(tmp_path, "2.9.0", "b.xml", (file, "<failure/>"), seconds=1)
    assert table(read(tmp_path)).endswith("| client tls | 2 pass |")


def test_what_has_not_run_again_stays_as_the_page_has_it(tmp_path: Path) -> None:
    file, other = "test_real_client_tls", "test_real_sdk_client"
    report(tmp_path, "2.9.0", "a.xml", (file, ""), (other, ""), (other, "<failure/>"))
    page = tmp_path / "page.md"
    page.write_text(f"<!-- releases: begin -->\n{END}\n")
    assert kept(page) == {}
    write(page, table(read(tmp_path)))
    assert kept(page) == read(tmp_path)
    later = {"2.9.0": {"client tls": (3, 0)}, "2.8.0": {"client tls": (1, 0)}}
    assert table(merged(kept(page), later)).splitlines()[2:] == [
        "| client tls | 1 pass | 3 pass |",
        "| sdk client |  | 1 pass, 1 fail |",
    ]


def test_a_table_goes_between_the_marks_of_a_document(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- releases: begin -->\nold\n<!-- releases: end -->\nb\n")
    write(page, "new")
    assert page.read_text() == "a\n<!-- releases: begin -->\nnew\n<!-- releases: end -->\nb\n"
    page.write_text("a\n<!-- releases: end -->\n")
    with pytest.raises(ValueError, match="to write between"):
        write(page, "new")
