import pytest

from appliance.core.errors import UserError
from csctl.commands.jobs.submit import (
    parse_array,
    parse_indices,
    parse_restart_policy,
    search_path,
    working_directory,
)


def test_a_restart_policy_names_categories_and_a_limit() -> None:
    policy = parse_restart_policy("limit=3,on=pod+node")

    assert (list(policy.on), policy.limit) == (["pod", "node"], 3)


def test_no_policy_is_no_restart() -> None:
    assert parse_restart_policy("").limit == 0


@pytest.mark.parametrize("text", ["on=pod", "limit=3", "on=,limit=3", "on=pod,limit=x", "pod"])
def test_a_policy_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="not understood"):
        parse_restart_policy(text)


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("1-3", [1, 2, 3]),
        ("0-30:10", [0, 10, 20, 30]),
        ("7", [7]),
        ("3,1,5-6", [3, 1, 5, 6]),
    ],
)
def test_an_array_is_numbers_and_ranges(text: str, indices: list[int]) -> None:
    assert parse_indices(text) == indices


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-", "1-9:0", "1,1", "1-3,2", "0-1000000", "-1"])
def test_an_array_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="Array"):
        parse_indices(text)


@pytest.mark.parametrize(
    ("text", "array"),
    [("0-3%2", ([0, 1, 2, 3], 2)), ("1,5%1", ([1, 5], 1)), ("7", ([7], 0)), ("1-2%9", ([1, 2], 9))],
)
def test_an_array_says_how_many_of_it_run_at_once(text: str, array: tuple[list[int], int]) -> None:
    assert parse_array(text) == array


@pytest.mark.parametrize("text", ["1-3%", "1-3%0", "1-3%-1", "1-3%x", "1-3%2%2", "%2", "1%2,3"])
def test_a_limit_of_an_array_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="Array"):
        parse_array(text)


@pytest.mark.parametrize(
    ("program", "path"),
    [
        ("/opt/client/bin/python", "/opt/client/bin:/usr/bin:/bin"),
        ("venv/bin/python3.11", "/home/ada/venv/bin:/usr/bin:/bin"),
        ("../bin/python", "/home/bin:/usr/bin:/bin"),
        ("/bin/python3", "/bin:/usr/bin"),
        ("python", "/usr/bin:/bin"),
        ("./train.sh", "/usr/bin:/bin"),
    ],
)
def test_a_python_that_is_called_by_its_path_brings_its_programs(program: str, path: str) -> None:
    assert search_path(program, "/usr/bin:/bin", "/home/ada") == path


def test_a_directory_that_has_been_removed_is_named_as_what_is_wrong(tmp_path, monkeypatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(UserError, match="has been removed"):
        working_directory()
